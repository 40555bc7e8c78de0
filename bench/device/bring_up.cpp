#include "bench/device/bring_up.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <vector>

#include "bench/device/probes.hpp"
#include "tests/support/apart.hpp"
#include "tests/support/attention.hpp"
#include "tests/support/problems.hpp"
#include "tlx/device/device.hpp"
#include "tlx/host/session.hpp"
#include "tlx/jit/machines.hpp"
#include "tlx/sim/machine.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::bench {

namespace {

bool is_gpu(const std::string& device) { return device.rfind("gpu", 0) == 0; }

/// The output of one probe as bytes.
std::string run_probe(device::machine& on, const probe& p) {
  device::buffer in(on, std::max<std::size_t>(16, p.input.size() * 4)), out(on, p.output_words * 4);
  if (!p.input.empty()) in.write(p.input.data(), p.input.size() * 4);
  on.fill(out.where(), 0xFF, p.output_words * 4);
  const auto code = on.load({.ptx = p.ptx, .cubin = {}});
  device::launch how;
  how.grid.x = how.cluster.x = p.ctas;
  how.block.x = 128;
  if (p.map) {
    device::tensor_map map = *p.map;
    map.base = in.where();
    how.arguments.emplace_back(map);
  }
  how.arguments.push_back(device::scalar(in.where()));
  how.arguments.push_back(device::scalar(out.where()));
  on.run(*code, "k", how);
  on.wait();
  std::string bytes(p.output_words * 4, 0);
  out.read(bytes.data(), bytes.size());
  return bytes;
}

/// The name of the first reading that the words agree with; -1: none.
int which_reading(const probe& p, const std::vector<std::uint32_t>& words) {
  for (std::size_t r = 0; r < p.readings.size(); ++r) {
    bool same = p.readings[r].words.size() == words.size();
    for (std::size_t i = 0; same && i < words.size(); ++i) same = p.readings[r].words[i] == anything || p.readings[r].words[i] == std::int64_t{words[i]};
    if (same) return static_cast<int>(r);
  }
  return -1;
}

std::string first_difference(const probe& p, const std::vector<std::uint32_t>& words) {
  const std::vector<std::int64_t>& ours = p.readings[0].words;
  int wrong = 0;
  std::string text;
  for (std::size_t i = 0; i < words.size() && i < ours.size(); ++i) {
    if (ours[i] == anything || ours[i] == std::int64_t{words[i]}) continue;
    char line[96];
    std::snprintf(line, sizeof line, "%sword %zu is 0x%08x, our reading says 0x%08x", wrong ? "; " : "", i, words[i], static_cast<std::uint32_t>(ours[i]));
    if (++wrong <= 4) text += line;
  }
  return cat(wrong, " of ", words.size(), " words: ", text);
}

int run_probes(const std::string& device) {
  const std::vector<probe> all = probes();
  const auto results = test::run_apart(all.size(), 20, 1000, [&]() -> test::apart_worker {
    const std::shared_ptr<device::machine> machine = is_gpu(device) ? std::shared_ptr<device::machine>(jit::open_machine(device)) : std::shared_ptr<device::machine>(sim::open(device.substr(4), {.seconds_without_progress = 10}));
    return [&all, machine](std::size_t i) { return test::apart_text{run_probe(*machine, all[i]), false}; };
  });
  int otherwise = 0;
  std::printf("%zu probes of what has not been seen on the hardware\n", all.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const probe& p = all[i];
    if (!results[i].ran) {
      ++otherwise;
      std::printf("FAILED    %-26s %s?\n          %s\n", p.id.c_str(), p.question.c_str(), results[i].failure.c_str());
      continue;
    }
    std::vector<std::uint32_t> words(results[i].text.size() / 4);
    std::memcpy(words.data(), results[i].text.data(), words.size() * 4);
    const int reading = which_reading(p, words);
    if (reading == 0) {
      std::printf("as read   %-26s %s\n", p.id.c_str(), p.readings[0].name.c_str());
      continue;
    }
    ++otherwise;
    std::printf("OTHERWISE %-26s %s?\n          we read: %s\n          seen:    %s\n          %s\n          means:   %s\n", p.id.c_str(), p.question.c_str(), p.readings[0].name.c_str(),
                reading > 0 ? p.readings[static_cast<std::size_t>(reading)].name.c_str() : "none of the readings", first_difference(p, words).c_str(), p.otherwise.c_str());
  }
  for (const unprobed& u : unprobed_rules()) std::printf("not asked  %s: %s\n", u.rule.c_str(), u.why.c_str());
  return otherwise;
}

/// Largest and number of differences between two results of the same problem, in bits of the output type.
struct bits_apart { std::size_t count = 0, of = 0; };
bits_apart apart(const std::vector<std::uint16_t>& a, const std::vector<std::uint16_t>& b) {
  bits_apart d{.of = a.size()};
  for (std::size_t i = 0; i < a.size(); ++i) d.count += a[i] != b[i];
  return d;
}

/// The kernels that gemm() and block_attention() choose from, at sizes that the simulator runs in seconds.
int run_kernels(const std::string& device) {
  const std::shared_ptr<device::machine> machine = jit::open_machine(device);
  const std::string target = machine->about().target;
  const auto simulator = sim::open(target, {.processor_count = 2});
  host::session here(*machine), there(*simulator);
  int wrong = 0;
  const auto report = [&](const std::string& what, const problems::verdict& v, const bits_apart& d) {
    if (!v.ok) ++wrong;
    std::printf("%s %s: %s%s; %zu of %zu elements have other bits than on the simulator\n", v.ok ? "right    " : "WRONG    ", what.c_str(), v.ok ? "agrees with float64" : "", v.ok ? "" : v.why.c_str(), d.count, d.of);
  };
  bool lost = false;
  const auto both = [&](const std::string& what, const auto& run) {
    if (lost) return;
    try {
      problems::verdict v, w;
      const auto x = run(*machine, here, v), y = run(*simulator, there, w);
      report(what, v, apart(x, y));
      if (!w.ok) ++wrong, std::printf("WRONG     the same on the simulator: %s\n", w.why.c_str());
    } catch (const error& e) {
      ++wrong;
      lost = is_gpu(device);  // a fault takes the context with it
      std::printf("FAILED    %s: %s\n", what.c_str(), e.what());
    }
  };
  std::vector<problems::gemm_case> gemms;
  for (const auto type : {tile::element::bf16, tile::element::f16})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) gemms.push_back({.m = 200, .n = 264, .k = 200, .type = type, .a_column_major = ta, .b_column_major = tb});
  gemms.push_back({.m = 130, .n = 120, .k = 72});
  gemms.push_back({.m = 64, .n = 264, .k = 64, .bias = true, .activate = host::activation::gelu});
  gemms.push_back({.m = 129, .n = 264, .k = 64, .bias = true, .residual = true, .activate = host::activation::silu});
  gemms.push_back({.m = 40, .n = 56, .k = 511, .bias = true, .residual = true});
  for (const problems::gemm_case& c : gemms)
    both(cat("gemm ", tile::name(c.type), " ", c.m, "x", c.n, "x", c.k, c.a_column_major ? " T" : " N", c.b_column_major ? "T" : "N", c.bias ? " bias" : "", c.residual ? " residual" : "", " activation ", static_cast<int>(c.activate)),
         [&](device::machine& on, host::session& with, problems::verdict& v) {
           problems::gemm_problem p(on, c, 1);
           p.run(with);
           v = p.check();
           return p.result();
         });
  for (const auto type : {tile::element::bf16, tile::element::f16})
    for (const int dimension : {64, 128}) {
      const problems::attention_case c{.lengths = {1, 63, 64, 130}, .heads = 2, .dimension = dimension, .type = type};
      both(cat("attention ", tile::name(type), " D=", dimension), [&](device::machine& on, host::session& with, problems::verdict& v) {
        problems::attention_problem p(on, c, 1);
        p.run(with);
        v = p.check();
        return p.result();
      });
    }
  return wrong;
}

}  // namespace

int bring_up(const std::string& device) {
  // Probes first: they use processes of their own and leave this one without a context.
  const int otherwise = run_probes(device);
  int wrong = 0;
  const auto kernels = test::run_apart(1, 600, 1, [&]() -> test::apart_worker { return [&](std::size_t) { return test::apart_text{std::to_string(run_kernels(device)), false}; }; });
  if (!kernels[0].ran) wrong = 1, std::printf("FAILED    the kernels of the library: %s\n", kernels[0].failure.c_str());
  else wrong = std::atoi(kernels[0].text.c_str());
  std::printf("%d of the probes read otherwise or failed, %d kernels wrong\n", otherwise, wrong);
  return otherwise + wrong;
}

}  // namespace tlx::bench
