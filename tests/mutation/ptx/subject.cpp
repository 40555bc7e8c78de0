#include "subject.hpp"

#include <algorithm>
#include <cstring>

#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace mutation {

using namespace tlx;

// One processor: a persistent kernel has all its tiles on one CTA, so that every ring wraps between tiles.
recorder::recorder(const std::string& target) : on(sim::open(target, {.seconds_without_progress = 4, .processor_count = 1, .trace = true})) {}

device::address recorder::allocate(std::size_t bytes) {
  const device::address where = on->allocate(bytes);
  live_.emplace_back(where, bytes);
  return where;
}

void recorder::release(device::address where) {
  // Kept alive: a launch may be made again.
  (void)where;
}

std::shared_ptr<device::module> recorder::load(const device::image& code) {
  auto module = on->load(code);
  loaded_.emplace_back(module, code.ptx);
  return module;
}

std::vector<recorder::block> recorder::snapshot() {
  std::vector<block> all;
  for (const auto& [where, bytes] : live_) {
    block b{where, std::vector<std::byte>(bytes)};
    on->read(b.bytes.data(), where, bytes);
    all.push_back(std::move(b));
  }
  return all;
}

void recorder::run(device::module& code, const std::string& entry, const device::launch& how) {
  kept k;
  k.entry = entry;
  k.how = how;
  for (const auto& [module, ptx] : loaded_) if (module.lock().get() == &code) k.ptx = ptx;
  k.before = snapshot();
  on->set_seed(1);
  on->run(code, entry, how);
  k.after = snapshot();
  launches.push_back(std::move(k));
}

outcome run(const subject& s, device::module& code, std::uint64_t seed, bool strict) {
  sim::machine& m = *s.from->on;
  m.set_strict(strict);
  for (const recorder::block& b : s.launch.before) m.write(b.where, b.bytes.data(), b.bytes.size());
  m.set_seed(seed);
  outcome o;
  o.seed = seed;
  try {
    m.run(code, s.launch.entry, s.launch.how);
  } catch (const sim_error& e) {
    o.kind = outcome::what::fault;
    o.report = *m.last_fault();
    o.text = e.what();
    return o;
  } catch (const error& e) {
    o.kind = e.id() == "simulation-stalled" ? outcome::what::stalled : outcome::what::refused;
    o.text = e.what();
    return o;
  }
  for (const recorder::block& b : s.launch.after) {
    std::vector<std::byte> now(b.bytes.size());
    m.read(now.data(), b.where, now.size());
    if (now == b.bytes) continue;
    o.kind = outcome::what::differs;
    const auto at = std::mismatch(now.begin(), now.end(), b.bytes.begin()).first - now.begin();
    o.text = cat("byte ", at, " of the allocation at ", b.where, " differs");
    return o;
  }
  return o;
}

}  // namespace mutation
