// wmma: warp matrices whose fragments are opaque. Element e of a matrix, counted row by row, is lane e % 32's element e / 32; registers beyond that repeat it.
#include <bit>
#include <cstring>

#include "sim/matrix_ops.hpp"
#include "sim/ops.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

void whole_warp(engine& e, warp& w, const instruction& i, lanes active) {
  if (active != all_lanes) e.fault("barrier_misuse", cat(std::string(i.opcode), " needs all 32 threads of the warp, converged"), &w, &i, active);
}

int per_register(number t) { return bits_of(t) >= 32 ? 1 : 32 / bits_of(t); }

std::uint64_t get(warp& w, number t, const std::vector<std::uint32_t>& slots, int lane, int k) {
  if (t == number::f64) return w.slot<std::uint64_t>(slots[static_cast<std::size_t>(k)])[lane];
  const int per = per_register(t), bits = bits_of(t);
  const std::uint32_t v = w.slot<std::uint32_t>(slots[static_cast<std::size_t>(k / per)])[lane];
  return per == 1 ? v : v >> (bits * (k % per)) & ((1U << bits) - 1);
}
void put(warp& w, number t, const std::vector<std::uint32_t>& slots, int lane, int k, std::uint64_t value) {
  if (t == number::f64) { w.slot<std::uint64_t>(slots[static_cast<std::size_t>(k)])[lane] = value; return; }
  const int per = per_register(t), bits = bits_of(t);
  if (slots[static_cast<std::size_t>(k / per)] == no_slot) return;
  std::uint32_t& v = w.slot<std::uint32_t>(slots[static_cast<std::size_t>(k / per)])[lane];
  const std::uint32_t mask = per == 1 ? ~0U : (1U << bits) - 1, shift = static_cast<std::uint32_t>(bits * (k % per));
  v = per == 1 ? static_cast<std::uint32_t>(value) : (v & ~(mask << shift)) | static_cast<std::uint32_t>(value) << shift;
}

}  // namespace

step op_wmma_move(engine& e, warp& w, context&, const instruction& i, lanes active) {
  whole_warp(e, w, i, active);
  const wmma_move_detail& x = e.code.detail<wmma_move_detail>(i);
  const int bytes = bits_of(x.element) / 8, elements = x.rows * x.columns, held = elements / 32, room = static_cast<int>(x.slots.size()) * per_register(x.element);
  for (int k = 0; k < (x.store ? held : room); ++k)
    for (int l = 0; l < 32; ++l) {
      const int at = k % held * 32 + l, row = at / x.columns, column = at % x.columns;
      const std::uint64_t stride = x.stride != no_slot ? w.slot<std::uint32_t>(x.stride)[l] : static_cast<std::uint64_t>(x.column_major ? x.rows : x.columns);
      const std::uint64_t offset = x.column_major ? static_cast<std::uint64_t>(column) * stride + static_cast<std::uint64_t>(row) : static_cast<std::uint64_t>(row) * stride + static_cast<std::uint64_t>(column);
      std::byte* const p = e.resolve_one(w, i, l, x.address.where, value_of(w, x.address, l) + offset * static_cast<std::uint64_t>(bytes), static_cast<std::size_t>(bytes), x.store ? engine::access::write : engine::access::read);
      std::uint64_t v = 0;
      if (x.store) { v = get(w, x.element, x.slots, l, k); std::memcpy(p, &v, static_cast<std::size_t>(bytes)); }
      else { std::memcpy(&v, p, static_cast<std::size_t>(bytes)); put(w, x.element, x.slots, l, k, v); }
    }
  return step::next;
}

step op_wmma_mma(engine& e, warp& w, context&, const instruction& i, lanes active) {
  whole_warp(e, w, i, active);
  const mma_sync_detail& x = e.code.detail<mma_sync_detail>(i);
  const int m = x.m, n = x.n, k = x.k;
  // The layout words of wmma.mma name how the fragments were loaded; here a fragment is the same for both.
  const auto each = [](int count, auto&& f) { for (int at = 0; at < count; ++at) f(at, at % 32, at / 32); };
  if (x.a == number::f64) {
    std::vector<double> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(n * k)), d(static_cast<std::size_t>(m * n));
    each(m * k, [&](int at, int l, int j) { a[static_cast<std::size_t>(at)] = std::bit_cast<double>(get(w, x.a, x.a_slots, l, j)); });
    each(k * n, [&](int at, int l, int j) { b[static_cast<std::size_t>(at % n * k + at / n)] = std::bit_cast<double>(get(w, x.b, x.b_slots, l, j)); });
    each(m * n, [&](int at, int l, int j) { d[static_cast<std::size_t>(at)] = std::bit_cast<double>(get(w, x.c, x.c_slots, l, j)); });
    multiply_f64(m, n, k, a.data(), b.data(), d.data(), n);
    each(m * n, [&](int at, int l, int j) { put(w, x.d, x.d_slots, l, j, std::bit_cast<std::uint64_t>(d[static_cast<std::size_t>(at)])); });
    return step::next;
  }
  const auto value = [&](number t, const std::vector<std::uint32_t>& slots, int l, int j) { const std::uint32_t v = static_cast<std::uint32_t>(get(w, t, slots, l, j)); return t == number::f32 ? std::bit_cast<float>(v) : widen(t, v); };
  const std::size_t count = static_cast<std::size_t>(m * n);
  if (is_integer(x.a)) {
    std::vector<std::int16_t> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(n * k));
    std::vector<std::int32_t> d(count);
    each(m * k, [&](int at, int l, int j) { a[static_cast<std::size_t>(at)] = static_cast<std::int16_t>(value(x.a, x.a_slots, l, j)); });
    each(k * n, [&](int at, int l, int j) { b[static_cast<std::size_t>(at % n * k + at / n)] = static_cast<std::int16_t>(value(x.b, x.b_slots, l, j)); });
    each(m * n, [&](int at, int l, int j) { d[static_cast<std::size_t>(at)] = static_cast<std::int32_t>(get(w, x.c, x.c_slots, l, j)); });
    multiply_integers(m, n, k, a.data(), b.data(), d.data(), n, true, x.saturate, e.scratch);
    each(m * n, [&](int at, int l, int j) { put(w, x.d, x.d_slots, l, j, static_cast<std::uint32_t>(d[static_cast<std::size_t>(at)])); });
    return step::next;
  }
  e.float_a.resize(static_cast<std::size_t>(m * k)); e.float_b.resize(static_cast<std::size_t>(n * k)); e.float_d.resize(count);
  each(m * k, [&](int at, int l, int j) { e.float_a[static_cast<std::size_t>(at)] = value(x.a, x.a_slots, l, j); });
  each(k * n, [&](int at, int l, int j) { e.float_b[static_cast<std::size_t>(at % n * k + at / n)] = value(x.b, x.b_slots, l, j); });
  each(m * n, [&](int at, int l, int j) { e.float_d[static_cast<std::size_t>(at)] = value(x.c, x.c_slots, l, j); });
  mma_operands o;
  o.m = m; o.n = n; o.k = k; o.a = e.float_a.data(); o.b = e.float_b.data(); o.a_format = x.a; o.b_format = x.b;
  const mma_model& model = model_of(e.on, matrix_unit::mma_sync, x.a);
  if (x.d == number::f16) multiply_f16(model, o, e.float_d.data(), n, true, e.scratch); else multiply(model, o, e.float_d.data(), n, true, e.scratch);
  each(m * n, [&](int at, int l, int j) { const float v = e.float_d[static_cast<std::size_t>(at)]; put(w, x.d, x.d_slots, l, j, x.d == number::f16 ? narrow(number::f16, v) : std::bit_cast<std::uint32_t>(v)); });
  return step::next;
}

}  // namespace tlx::sim
