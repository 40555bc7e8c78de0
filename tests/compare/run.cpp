// Memories lie in one allocation each, between two guard bands that must keep their pattern.
#include "tests/compare/run.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "tests/compare/values.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/sha256.hpp"
#include "tlx/support/text.hpp"

namespace tlx::compare {

namespace {
constexpr std::size_t guard = 1024;
constexpr std::byte guard_byte{0xa5};

std::string hex(std::uint64_t v) {
  std::ostringstream out;
  out << "0x" << std::hex << v;
  return out.str();
}

/// Order of the codes of a float type as integers, so that neighbours differ by one; -0 and +0 are the same place.
double ordinal(element e, std::uint64_t bits) {
  const int n = 8 * width(e);
  const std::uint64_t sign = std::uint64_t{1} << (n - 1), magnitude = bits & (sign - 1);
  return (bits & sign) ? -static_cast<double>(magnitude) : static_cast<double>(magnitude);
}
}  // namespace

outcome run(device::machine& on, const sample& s, const std::string& cubin) {
  outcome o;
  try {
    std::vector<device::buffer> held;
    for (const memory& m : s.memories) {
      held.emplace_back(on, m.before.size() + 2 * guard);
      bytes image(m.before.size() + 2 * guard, guard_byte);
      std::copy(m.before.begin(), m.before.end(), image.begin() + guard);
      held.back().write(image.data(), image.size());
    }
    const auto address = [&](const place& p) { return held.at(p.memory).where() + guard + p.offset; };
    device::launch how;
    how.grid = s.grid;
    how.block = s.block;
    how.cluster = s.cluster;
    how.dynamic_shared_bytes = s.dynamic_shared;
    for (const argument& a : s.arguments) {
      if (const auto* raw = std::get_if<bytes>(&a)) how.arguments.emplace_back(*raw);
      else if (const auto* p = std::get_if<place>(&a)) how.arguments.push_back(device::scalar(address(*p)));
      else {
        device::tensor_map map = std::get<mapped>(a).map;
        map.base = address(std::get<mapped>(a).base);
        how.arguments.emplace_back(map);
      }
    }
    const auto code = on.load({.ptx = s.ptx, .cubin = cubin});
    on.run(*code, s.entry, how);
    on.wait();
    for (std::size_t i = 0; i < s.memories.size(); ++i) {
      bytes image(held[i].size_bytes());
      held[i].read(image.data(), image.size());
      const auto first = image.begin() + guard, last = image.end() - guard;
      const auto kept = [](std::byte b) { return b == guard_byte; };
      o.guards_kept = o.guards_kept && std::all_of(image.begin(), first, kept) && std::all_of(last, image.end(), kept);
      o.after.emplace_back(first, last);
    }
  } catch (const error& e) {
    o.error = cat("[", e.id(), "] ", e.what());
  } catch (const std::exception& e) {
    o.error = cat("[exception] ", e.what());
  }
  return o;
}

difference differences(const sample& s, const outcome& a, const outcome& b) {
  difference d;
  if (s.faults) {
    d.elements = 1;
    if (a.error.empty() || b.error.empty()) d.differing = d.beyond = 1, d.first = cat("a fault was expected of both: left \"", a.error, "\", right \"", b.error, "\"");
    return d;
  }
  for (std::size_t m = 0; m < s.memories.size(); ++m) {
    const memory& what = s.memories[m];
    const std::size_t count = what.before.size() / static_cast<std::size_t>(width(what.type));
    d.elements += what.output ? count : 0;
    if (a.after.size() <= m || b.after.size() <= m) {
      if (what.output) d.differing += count, d.beyond += count;
      if (d.first.empty()) d.first = cat(a.after.empty() ? "left: " + a.error : "right: " + b.error);
      continue;
    }
    if (a.after[m] == b.after[m]) continue;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t x = get(a.after[m], what.type, i), y = get(b.after[m], what.type, i);
      if (x == y) continue;
      ++d.differing;
      bool fits = what.any_nan && std::isnan(decode(what.type, x)) && std::isnan(decode(what.type, y));
      if (fits) --d.differing;
      if (what.output && (what.ulps > 0 || what.absolute > 0)) {
        const double u = decode(what.type, x), v = decode(what.type, y);
        if (std::isnan(u) && std::isnan(v)) fits = true;
        else if (!std::isnan(u) && !std::isnan(v)) {
          // Bounded functions of f64 are approximations that give an upper word: its last place is the unit shown.
          const double ulps = std::abs(ordinal(what.type, x) - ordinal(what.type, y)), unit = what.type == element::f64 ? 0x1p32 : 1;
          const bool small = std::abs(u - v) <= what.absolute;
          if (!small) d.largest_ulps = std::max(d.largest_ulps, ulps / unit);
          fits = small || ulps <= what.ulps;
        }
      }
      if (fits) continue;
      ++d.beyond;
      if (d.first.empty()) d.first = cat(what.name, "[", i, "] is ", hex(x), " (", decode(what.type, x), ") and ", hex(y), " (", decode(what.type, y), ")");
    }
  }
  if (!a.guards_kept || !b.guards_kept) {
    ++d.differing, ++d.beyond;
    if (d.first.empty()) d.first = cat(a.guards_kept ? "right" : "left", " wrote outside of its memories");
  }
  return d;
}

std::string check(const sample& s, const outcome& got) {
  if (s.faults) return got.error.empty() ? "a fault was expected" : "";
  if (!got.error.empty()) return got.error;
  if (!got.guards_kept) return "wrote outside of its memories";
  for (const expectation& e : s.expected) {
    const memory& what = s.memories[e.memory];
    const bytes& after = got.after[e.memory];
    const std::size_t count = after.size() / static_cast<std::size_t>(width(what.type));
    if (!e.exact.empty()) {
      if (e.exact == after) continue;
      for (std::size_t i = 0; i < count; ++i)
        if (get(after, what.type, i) != get(e.exact, what.type, i)) return cat(what.name, "[", i, "] is ", hex(get(after, what.type, i)), ", expected ", hex(get(e.exact, what.type, i)));
      return cat(what.name, " has another size than expected");
    }
    if (e.values.size() != count) return cat(what.name, " has ", count, " elements, expected ", e.values.size());
    for (std::size_t i = 0; i < count; ++i) {
      const double is = decode(what.type, get(after, what.type, i)), should = e.values[i];
      const bool good = std::isnan(should) ? std::isnan(is) : is == should || std::abs(is - should) <= e.relative * std::abs(should) + e.absolute;
      if (!good) return cat(what.name, "[", i, "] is ", is, ", expected ", should);
    }
  }
  // What is no output must be as before.
  for (std::size_t m = 0; m < s.memories.size(); ++m)
    if (!s.memories[m].output && got.after[m] != s.memories[m].before) return cat(s.memories[m].name, " is an input and was written");
  return {};
}

namespace {
void add(sha256& to, const bytes& b) { to.add(cat(b.size(), ";")), to.add({reinterpret_cast<const char*>(b.data()), b.size()}); }
}  // namespace

std::string digest_of_inputs(const sample& s) {
  sha256 d;
  const auto three = [](const device::extent3& e) { return cat(e.x, ",", e.y, ",", e.z, ";"); };
  d.add(three(s.grid) + three(s.block) + three(s.cluster));
  for (const memory& m : s.memories) add(d, m.before);
  return d.hex().substr(0, 16);
}

std::string digest_of_outputs(const sample& s, const outcome& o) {
  sha256 d;
  for (std::size_t m = 0; m < s.memories.size(); ++m) {
    const memory& what = s.memories[m];
    if (!what.output || s.faults) continue;
    bytes after = o.after.at(m);
    for (std::size_t i = 0; what.any_nan && i < after.size() / static_cast<std::size_t>(width(what.type)); ++i)
      if (std::isnan(decode(what.type, get(after, what.type, i)))) put(after, what.type, i, ~std::uint64_t{0} >> 1);
    add(d, after);
  }
  return d.hex().substr(0, 16);
}

}  // namespace tlx::compare
