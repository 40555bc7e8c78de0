// The last pass cleans: with and without it a kernel does the same.
#include <doctest/doctest.h>

#include "tests/support/problems.hpp"
#include "tlx/codegen/to_ptx.hpp"
#include "tlx/device/binder.hpp"
#include "tlx/host/library.hpp"
#include "tlx/ir/verify.hpp"
#include "tlx/jit/compile.hpp"
#include "tlx/pass/pipeline.hpp"
#include "tlx/sim/machine.hpp"

using namespace tlx;

namespace {

device::kernel build(const std::string& name, const std::string& target, bool simplified) {
  for (const host::library_kernel& each : host::library_kernels()) {
    if (each.name != name) continue;
    auto k = each.trace(target);
    for (const pass::pass& step : pass::pipeline_for(target))
      if (simplified || std::string(step.name) != "simplify") step.run(*k);
    ir::verify_or_raise(*k, "test");
    device::kernel made = jit::describe(*k);
    made.code.ptx = codegen::to_ptx(*k);
    return made;
  }
  FAIL("no kernel " << name);
  return {};
}

std::vector<std::uint16_t> run(const std::string& name, const std::string& target, bool simplified) {
  const auto m = sim::open(target, {.processor_count = 2});
  const device::kernel k = build(name, target, simplified);
  const auto code = m->load(k.code);
  std::vector<std::uint16_t> out(200 * 264, problems::nan_bits());
  auto upload = [&](const std::vector<std::uint16_t>& v) {
    device::buffer b(*m, v.size() * 2);
    b.write(v.data(), v.size() * 2);
    return b;
  };
  const auto random = [](size_t count, std::uint64_t seed) { return problems::random_values(count, tile::element::bf16, seed); };
  device::buffer result = upload(out);
  if (name.rfind("gemm", 0) == 0) {
    device::buffer a = upload(random(200 * 136, 1)), b = upload(random(264 * 136, 2)), bias = upload(std::vector<std::uint16_t>(264 * 2, 0));
    m->run(*code, k.entry, device::bind(k, {device::view_value(a.where(), {200, 136}), device::view_value(b.where(), {264, 136}), device::view_value(result.where(), {200, 264}),
                                            device::view_value(bias.where(), {264}), device::view_value(0, {0, 0}), device::scalar_value(1.0f), device::view_value(0, {0}), device::view_value(0, {0}),
                                            device::view_value(0, {0, 0}), device::scalar_value(0.0f), device::scalar_value(0.0f)}, m->about()));
  } else {
    constexpr std::int64_t tokens = 100, heads = 2, d = 64;
    device::buffer q = upload(random(tokens * heads * d, 1)), key = upload(random(tokens * heads * d, 2)), v = upload(random(tokens * heads * d, 3)), offsets(*m, 12);
    const std::int32_t at[] = {0, 30, 100};
    offsets.write(at, sizeof at);
    const std::vector<std::int64_t> shape{tokens, heads, d};
    m->run(*code, k.entry, device::bind(k, {device::view_value(q.where(), shape), device::view_value(key.where(), shape), device::view_value(v.where(), shape), device::view_value(result.where(), shape),
                                            device::view_value(offsets.where(), {3}), device::scalar_value(0.18f)}, m->about()));
  }
  m->wait();
  result.read(out.data(), out.size() * 2);
  return out;
}

}  // namespace

TEST_CASE("simplify does not change what a kernel computes, to the bit") {
  for (const char* target : {"sm_90a", "sm_100a"})
    for (const char* name : {"gemm_bf16_128x256_nt", "gemm_bf16_128x256_nt_bias_gelu", "gemm_bf16_128x128_nt_threads", "block_attention_bf16_d64"}) {
      CAPTURE(target);
      CAPTURE(name);
      const auto with = run(name, target, true);
      CHECK(with == run(name, target, false));
      CHECK(std::count(with.begin(), with.end(), problems::nan_bits()) < static_cast<std::ptrdiff_t>(with.size()));  // something was written
    }
}
