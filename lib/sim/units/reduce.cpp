// Element-wise reductions of the asynchronous copies and of red and atom.
#include <algorithm>
#include <cstring>

#include "sim/units/formats.hpp"
#include "sim/units/tensor_map.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

const char* name_of(reduce_type t) {
  constexpr const char* names[] = {"u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64", "b32", "b64"};
  return names[static_cast<int>(t)];
}
const char* name_of(reduce_op op) {
  constexpr const char* names[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};
  return names[static_cast<int>(op)];
}

template <class T, class F>
void each(std::byte* to, const std::byte* from, std::size_t bytes, F f) {
  for (std::size_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
    T x, y;
    std::memcpy(&x, to + i, sizeof x);
    std::memcpy(&y, from + i, sizeof y);
    x = f(x, y);
    std::memcpy(to + i, &x, sizeof x);
  }
}

template <class Unsigned, class Signed>
void integers(reduce_op op, bool is_signed, std::byte* to, const std::byte* from, std::size_t bytes) {
  const auto go = [&](auto f) { each<Unsigned>(to, from, bytes, f); };
  switch (op) {
    case reduce_op::add: go([](Unsigned x, Unsigned y) { return static_cast<Unsigned>(x + y); }); break;
    case reduce_op::min:
      go([=](Unsigned x, Unsigned y) { return is_signed ? static_cast<Unsigned>(std::min(static_cast<Signed>(x), static_cast<Signed>(y))) : std::min(x, y); });
      break;
    case reduce_op::max:
      go([=](Unsigned x, Unsigned y) { return is_signed ? static_cast<Unsigned>(std::max(static_cast<Signed>(x), static_cast<Signed>(y))) : std::max(x, y); });
      break;
    case reduce_op::inc: go([](Unsigned x, Unsigned y) { return x >= y ? Unsigned{0} : static_cast<Unsigned>(x + 1); }); break;
    case reduce_op::dec: go([](Unsigned x, Unsigned y) { return x == 0 || x > y ? y : static_cast<Unsigned>(x - 1); }); break;
    case reduce_op::logic_and: go([](Unsigned x, Unsigned y) { return static_cast<Unsigned>(x & y); }); break;
    case reduce_op::logic_or: go([](Unsigned x, Unsigned y) { return static_cast<Unsigned>(x | y); }); break;
    case reduce_op::logic_xor: go([](Unsigned x, Unsigned y) { return static_cast<Unsigned>(x ^ y); }); break;
  }
}

void halves(reduce_op op, number format, std::byte* to, const std::byte* from, std::size_t bytes) {
  each<std::uint16_t>(to, from, bytes, [&](std::uint16_t x, std::uint16_t y) {
    return op == reduce_op::add ? add_half(format, x, y) : op == reduce_op::min ? min_half(format, x, y) : max_half(format, x, y);
  });
}

}  // namespace

int bytes_of(reduce_type t) {
  switch (t) {
    case reduce_type::f16: case reduce_type::bf16: return 2;
    case reduce_type::u64: case reduce_type::s64: case reduce_type::f64: case reduce_type::b64: return 8;
    default: return 4;
  }
}

complaint reduce_allowed(reduce_op op, reduce_type t, reduce_place place) {
  using enum reduce_type;
  const bool remote = place == reduce_place::shared_cluster;
  bool ok = false;
  switch (op) {
    case reduce_op::add:
      ok = t == u32 || t == s32 || t == u64 || (!remote && (t == f32 || t == f16 || t == bf16 || (t == f64 && place == reduce_place::global_bulk)));
      break;
    case reduce_op::min: case reduce_op::max: ok = t == u32 || t == s32 || (!remote && (t == u64 || t == s64 || t == f16 || t == bf16)); break;
    case reduce_op::inc: case reduce_op::dec: ok = t == u32; break;
    default: ok = t == b32 || (t == b64 && !remote); break;
  }
  if (ok) return {};
  return {misuse::malformed, cat("the reduction .", name_of(op), ".", name_of(t), " does not exist for this destination")};
}

complaint reduce_type_of(device::map_element e, reduce_op op, reduce_type& out) {
  using device::map_element;
  const bool logic = op == reduce_op::logic_and || op == reduce_op::logic_or || op == reduce_op::logic_xor;
  switch (e) {
    case map_element::u32: out = logic ? reduce_type::b32 : reduce_type::u32; break;
    case map_element::s32: out = logic ? reduce_type::b32 : reduce_type::s32; break;
    case map_element::u64: out = logic ? reduce_type::b64 : reduce_type::u64; break;
    case map_element::s64: out = logic ? reduce_type::b64 : reduce_type::s64; break;
    case map_element::f16: out = reduce_type::f16; break;
    case map_element::bf16: out = reduce_type::bf16; break;
    case map_element::f32: case map_element::f32_ftz: out = reduce_type::f32; break;
    case map_element::f64: out = reduce_type::f64; break;
    default: return {misuse::malformed, "a tensor reduction through a map whose element type has none"};
  }
  return reduce_allowed(op, out, reduce_place::global_tensor);
}

void reduce_elements(reduce_op op, reduce_type t, std::byte* to, const std::byte* from, std::size_t bytes, bool flush) {
  switch (t) {
    case reduce_type::f32: each<float>(to, from, bytes, [=](float x, float y) { return add_f32(x, y, {.ftz = flush}); }); break;
    case reduce_type::f64: each<double>(to, from, bytes, [](double x, double y) { return add_f64(x, y); }); break;
    case reduce_type::f16: halves(op, number::f16, to, from, bytes); break;
    case reduce_type::bf16: halves(op, number::bf16, to, from, bytes); break;
    case reduce_type::u32: case reduce_type::s32: case reduce_type::b32:
      integers<std::uint32_t, std::int32_t>(op, t == reduce_type::s32, to, from, bytes);
      break;
    default: integers<std::uint64_t, std::int64_t>(op, t == reduce_type::s64, to, from, bytes); break;
  }
}

}  // namespace tlx::sim
