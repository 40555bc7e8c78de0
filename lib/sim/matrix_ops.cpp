// ldmatrix, stmatrix, mma.sync and wgmma at work.
#include "sim/matrix_ops.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "sim/decode.hpp"
#include "sim/ops.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

void whole_warp(engine& e, warp& w, const instruction& i, lanes active) {
  if (active != w.live() || active != all_lanes) e.fault("barrier_misuse", cat(std::string(i.opcode), " needs all 32 threads of the warp, converged"), &w, &i, active);
}

float decode_cell(number t, std::uint32_t bits) { return t == number::f32 ? std::bit_cast<float>(bits) : widen(t, bits); }

}  // namespace

step op_ldmatrix(engine& e, warp& w, context&, const instruction& i, lanes active) {
  whole_warp(e, w, i, active);
  const std::uint32_t* list = e.code.lists.data() + i.list;
  std::byte* row[32];
  const lanes readers = i.count == 4 ? all_lanes : i.count == 2 ? 0xFFFFU : 0xFFU;
  e.resolve(w, i, readers, i.where, i.a, i.wide_address, i.imm, 16, engine::access::read, row);
  for (int k = 0; k < i.count; ++k) {
    if (list[k] == no_slot) continue;
    std::uint32_t* d = w.slot<std::uint32_t>(list[k]);
    for (int l = 0; l < 32; ++l) {
      std::uint16_t v[2];
      for (int h = 0; h < 2; ++h) {
        const int r = i.flags ? 2 * (l % 4) + h : l / 4, c = i.flags ? l / 4 : 2 * (l % 4) + h;
        std::memcpy(&v[h], row[8 * k + r] + 2 * c, 2);
      }
      d[l] = static_cast<std::uint32_t>(v[0] | v[1] << 16);
    }
  }
  return step::next;
}

step op_stmatrix(engine& e, warp& w, context&, const instruction& i, lanes active) {
  whole_warp(e, w, i, active);
  const std::uint32_t* list = e.code.lists.data() + i.list;
  std::byte* row[32];
  const lanes writers = i.count == 4 ? all_lanes : i.count == 2 ? 0xFFFFU : 0xFFU;
  e.resolve(w, i, writers, i.where, i.a, i.wide_address, i.imm, 16, engine::access::write, row);
  for (int k = 0; k < i.count; ++k) {
    const std::uint32_t* s = w.slot<std::uint32_t>(list[k]);
    for (int l = 0; l < 32; ++l)
      for (int h = 0; h < 2; ++h) {
        const int r = i.flags ? 2 * (l % 4) + h : l / 4, c = i.flags ? l / 4 : 2 * (l % 4) + h;
        const std::uint16_t v = static_cast<std::uint16_t>(s[l] >> (16 * h));
        std::memcpy(row[8 * k + r] + 2 * c, &v, 2);
      }
  }
  return step::next;
}

// Rows are given by their addresses. How the elements of the byte forms are dealt out is read from the figures of the ISA; see docs/simulator.md.
step op_ldmatrix_bytes(engine& e, warp& w, context&, const instruction& i, lanes active) {
  whole_warp(e, w, i, active);
  const std::uint32_t* list = e.code.lists.data() + i.list;
  const int bits = i.flags, rows = i.sub == 1 ? 16 : 8;
  std::byte* row[32];
  const lanes readers = rows * i.count == 32 ? all_lanes : (1U << (rows * i.count)) - 1;
  for (lanes m = readers; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const std::uint64_t a = (i.wide_address ? w.slot<std::uint64_t>(i.a)[l] : w.slot<std::uint32_t>(i.a)[l]) + static_cast<std::uint64_t>(i.imm);
    if (a % 16) e.fault("misaligned", cat("row address ", a, " of ldmatrix is not a multiple of 16"), &w, &i, 1U << l);
  }
  for (lanes m = readers; m; m &= m - 1) {
    // The pad behind packed elements is never read.
    const int l = std::countr_zero(m);
    const std::uint64_t a = (i.wide_address ? w.slot<std::uint64_t>(i.a)[l] : w.slot<std::uint32_t>(i.a)[l]) + static_cast<std::uint64_t>(i.imm);
    row[l] = e.resolve_one(w, i, l, i.where, a, static_cast<std::size_t>(2 * bits), engine::access::read);
  }
  const auto element = [&](int r, int c) {
    const int at = bits * c;
    std::uint32_t v = std::to_integer<std::uint32_t>(row[r][at / 8]);
    if (at % 8 + bits > 8) v |= std::to_integer<std::uint32_t>(row[r][at / 8 + 1]) << 8;
    return (v >> (at % 8) & ((1U << bits) - 1)) << (bits < 8 ? tmem_element_shift(bits) : 0);
  };
  const int per = i.sub == 1 ? 2 : 1;
  for (int k = 0; k < i.count * per; ++k) {
    if (list[k] == no_slot) continue;
    std::uint32_t* d = w.slot<std::uint32_t>(list[k]);
    for (int l = 0; l < 32; ++l) {
      std::uint32_t v = 0;
      for (int b = 0; b < 4; ++b) v |= (per == 2 ? element(16 * (k / 2) + 4 * (l % 4) + b, l / 4 + 8 * (k % 2)) : element(8 * k + l / 4, 4 * (l % 4) + b)) << (8 * b);
      d[l] = v;
    }
  }
  return step::next;
}

step op_stmatrix_bytes(engine& e, warp& w, context&, const instruction& i, lanes active) {
  whole_warp(e, w, i, active);
  const std::uint32_t* list = e.code.lists.data() + i.list;
  std::byte* row[32];
  e.resolve(w, i, i.count == 4 ? all_lanes : (1U << (8 * i.count)) - 1, i.where, i.a, i.wide_address, i.imm, 16, engine::access::write, row);
  for (int k = 0; k < i.count; ++k) {
    const std::uint32_t* s = w.slot<std::uint32_t>(list[k]);
    for (int l = 0; l < 32; ++l)
      for (int b = 0; b < 4; ++b) row[8 * k + 2 * (l % 4) + (b & 1)][l / 4 + 8 * (b >> 1)] = static_cast<std::byte>(s[l] >> (8 * b));
  }
  return step::next;
}

step op_movmatrix(engine& e, warp& w, context&, const instruction& i, lanes active) {
  whole_warp(e, w, i, active);
  std::uint32_t in[32];
  std::copy_n(w.slot<std::uint32_t>(i.a), 32, in);
  std::uint32_t* d = w.slot<std::uint32_t>(i.d);
  for (int l = 0; l < 32; ++l) {
    const auto at = [&](int r, int c) { return in[4 * r + c / 2] >> (16 * (c & 1)) & 0xFFFFU; };
    d[l] = at(2 * (l % 4), l / 4) | at(2 * (l % 4) + 1, l / 4) << 16;
  }
  return step::next;
}

// m8n8k4 of f16: four products, one for each quad and the quad sixteen lanes above it.
step op_mma_quads(engine& e, warp& w, context&, const instruction& i, lanes active) {
  whole_warp(e, w, i, active);
  const mma_sync_detail& x = e.code.detail<mma_sync_detail>(i);
  const auto half_of = [&](const std::vector<std::uint32_t>& slots, int l, int k) { return widen(number::f16, w.slot<std::uint32_t>(slots[static_cast<std::size_t>(k / 2)])[l] >> (16 * (k & 1)) & 0xFFFFU); };
  const auto cell_of = [](number t, int l, int k) {
    const int high = l >= 16 ? 4 : 0;
    return t == number::f32 ? cell{(l & 1) + (k & 2) + high, (k & 4) + (l & 2) + (k & 1)} : cell{l % 4 + high, k};
  };
  for (int quad = 0; quad < 4; ++quad) {
    float a[32], b[32], d[64];
    const auto each_lane = [&](auto&& f) { for (int j = 0; j < 8; ++j) f(4 * quad + j % 4 + 16 * (j / 4)); };
    each_lane([&](int l) {
      const int high = l >= 16 ? 4 : 0;
      for (int k = 0; k < 4; ++k) {
        const float va = half_of(x.a_slots, l, k), vb = half_of(x.b_slots, l, k);
        if (x.a_column_major) a[(k + high) * 4 + l % 4] = va; else a[(l % 4 + high) * 4 + k] = va;
        if (x.b_row_major) b[(k + high) * 4 + l % 4] = vb; else b[(l % 4 + high) * 4 + k] = vb;
      }
      for (int k = 0; k < 8; ++k) {
        const cell c = cell_of(x.c, l, k);
        d[c.row * 8 + c.column] = x.c == number::f32 ? std::bit_cast<float>(w.slot<std::uint32_t>(x.c_slots[static_cast<std::size_t>(k)])[l]) : half_of(x.c_slots, l, k);
      }
    });
    mma_operands o;
    o.m = 8; o.n = 8; o.k = 4; o.a = a; o.b = b;
    const mma_model& model = model_of(e.on, matrix_unit::mma_sync, number::f16);
    if (x.d == number::f16) multiply_f16(model, o, d, 8, true, e.scratch); else multiply(model, o, d, 8, true, e.scratch);
    each_lane([&](int l) {
      for (int k = 0; k < 8; ++k) {
        const cell c = cell_of(x.d, l, k);
        const float v = d[c.row * 8 + c.column];
        if (x.d == number::f32) { w.slot<std::uint32_t>(x.d_slots[static_cast<std::size_t>(k)])[l] = std::bit_cast<std::uint32_t>(v); continue; }
        std::uint32_t& to = w.slot<std::uint32_t>(x.d_slots[static_cast<std::size_t>(k / 2)])[l];
        const std::uint32_t h = narrow(number::f16, v);
        to = k & 1 ? (to & 0xFFFFU) | h << 16 : (to & 0xFFFF0000U) | h;
      }
    });
  }
  return step::next;
}

step op_mma_sync(engine& e, warp& w, context&, const instruction& i, lanes active) {
  whole_warp(e, w, i, active);
  const mma_sync_detail& x = e.code.detail<mma_sync_detail>(i);
  const int m = x.m, n = x.n, k = x.k;
  if (x.a == number::f64) {
    std::vector<double> a(static_cast<std::size_t>(m * k)), b(static_cast<std::size_t>(n * k)), d(static_cast<std::size_t>(m * n));
    const auto at = [&](std::uint32_t slot, int l) { return std::bit_cast<double>(w.slot<std::uint64_t>(slot)[l]); };
    for (int l = 0; l < 32; ++l) {
      for (int j = 0; j < static_cast<int>(x.a_slots.size()); ++j) { const cell c = mma_a_cell(m, k, 64, l, j); a[static_cast<std::size_t>(c.row * k + c.column)] = at(x.a_slots[static_cast<std::size_t>(j)], l); }
      for (int j = 0; j < static_cast<int>(x.b_slots.size()); ++j) { const cell c = mma_b_cell(k, 64, l, j); b[static_cast<std::size_t>(c.column * k + c.row)] = at(x.b_slots[static_cast<std::size_t>(j)], l); }
      for (int j = 0; j < static_cast<int>(x.c_slots.size()); ++j) { const cell c = mma_c_cell(m, l, j); d[static_cast<std::size_t>(c.row * n + c.column)] = at(x.c_slots[static_cast<std::size_t>(j)], l); }
    }
    multiply_f64(m, n, k, a.data(), b.data(), d.data(), n);
    for (int l = 0; l < 32; ++l)
      for (int j = 0; j < static_cast<int>(x.d_slots.size()); ++j) { const cell c = mma_c_cell(m, l, j); w.slot<std::uint64_t>(x.d_slots[static_cast<std::size_t>(j)])[l] = std::bit_cast<std::uint64_t>(d[static_cast<std::size_t>(c.row * n + c.column)]); }
    return step::next;
  }
  const int abits = bits_of(x.a), bbits = bits_of(x.b), aper = 32 / abits, bper = 32 / bbits;
  const auto element = [&](std::uint32_t slot, int l, int bits, int part) { const std::uint32_t v = w.slot<std::uint32_t>(slot)[l]; return bits == 32 ? v : v >> (bits * part) & ((1U << bits) - 1); };
  const bool integers = is_integer(x.a);
  e.float_a.resize(static_cast<std::size_t>(m * k)); e.float_b.resize(static_cast<std::size_t>(n * k));
  e.integer_a.resize(static_cast<std::size_t>(m * k)); e.integer_b.resize(static_cast<std::size_t>(n * k));
  for (int l = 0; l < 32; ++l) {
    for (int j = 0; j < mma_a_count(m, k); ++j) {
      const cell c = mma_a_cell(m, k, abits, l, j);
      const float v = widen(x.a, element(x.a_slots[static_cast<std::size_t>(j / aper)], l, abits, j % aper));
      if (integers) e.integer_a[static_cast<std::size_t>(c.row * k + c.column)] = static_cast<std::int16_t>(v); else e.float_a[static_cast<std::size_t>(c.row * k + c.column)] = v;
    }
    for (int j = 0; j < mma_b_count(k, n); ++j) {
      const cell c = mma_b_cell(k, bbits, l, j);
      const float v = widen(x.b, element(x.b_slots[static_cast<std::size_t>(j / bper)], l, bbits, j % bper));
      if (integers) e.integer_b[static_cast<std::size_t>(c.column * k + c.row)] = static_cast<std::int16_t>(v); else e.float_b[static_cast<std::size_t>(c.column * k + c.row)] = v;
    }
  }
  e.float_d.resize(static_cast<std::size_t>(m * n));
  e.integer_d.resize(static_cast<std::size_t>(m * n));
  const int cper = x.c == number::f16 ? 2 : 1, dper = x.d == number::f16 ? 2 : 1;
  for (int l = 0; l < 32; ++l)
    for (int j = 0; j < mma_c_count(m, n); ++j) {
      const cell c = mma_c_cell(m, l, j);
      const std::uint32_t v = element(x.c_slots[static_cast<std::size_t>(j / cper)], l, cper == 2 ? 16 : 32, j % cper);
      if (integers) e.integer_d[static_cast<std::size_t>(c.row * n + c.column)] = static_cast<std::int32_t>(v); else e.float_d[static_cast<std::size_t>(c.row * n + c.column)] = decode_cell(x.c, v);
    }
  if (x.xor_popc) {
    for (int r = 0; r < m; ++r)
      for (int c = 0; c < n; ++c)
        for (int j = 0; j < k; ++j) e.integer_d[static_cast<std::size_t>(r * n + c)] += e.integer_a[static_cast<std::size_t>(r * k + j)] ^ e.integer_b[static_cast<std::size_t>(c * k + j)];
  } else if (integers) multiply_integers(m, n, k, e.integer_a.data(), e.integer_b.data(), e.integer_d.data(), n, true, x.saturate, e.scratch);
  else {
    mma_operands o;
    o.m = m; o.n = n; o.k = k; o.a = e.float_a.data(); o.b = e.float_b.data(); o.a_format = x.a; o.b_format = x.b;
    const mma_model& model = model_of(e.on, matrix_unit::mma_sync, x.a);
    const bool is_fp8 = x.a == number::e4m3 || x.a == number::e5m2;
    if (is_fp8 && e.on == chip::hopper) multiply_fp8_as_f16(model_of(e.on, matrix_unit::mma_sync, number::f16), o, e.float_d.data(), n, e.scratch, x.d == number::f16);
    else if (x.d == number::f16) multiply_f16(model, o, e.float_d.data(), n, true, e.scratch); else multiply(model, o, e.float_d.data(), n, true, e.scratch);
  }
  for (int l = 0; l < 32; ++l)
    for (int j = 0; j < mma_c_count(m, n); ++j) {
      const cell c = mma_c_cell(m, l, j);
      const std::size_t at = static_cast<std::size_t>(c.row * n + c.column);
      std::uint32_t& d = w.slot<std::uint32_t>(x.d_slots[static_cast<std::size_t>(j / dper)])[l];
      if (integers) d = static_cast<std::uint32_t>(e.integer_d[at]);
      else if (dper == 2) { const std::uint32_t h = narrow(number::f16, e.float_d[at]); d = j % 2 ? (d & 0xFFFFU) | h << 16 : (d & 0xFFFF0000U) | h; }
      else d = std::bit_cast<std::uint32_t>(e.float_d[at]);
    }
  return step::next;
}

// ---- wgmma. Each warp of the group computes its own 16 rows; the effects appear when the group of the wgmma is waited for.
namespace {

// Single bits are fetched as bytes.
operand_form a_form(const wgmma_detail& x) { return x.a == number::b1 ? operand_form{number::u8, x.shape.m, x.shape.k / 8, false, false} : operand_form{x.a, x.shape.m, x.shape.k, x.transpose_a, false}; }
operand_form b_form(const wgmma_detail& x) { return x.b == number::b1 ? operand_form{number::u8, x.shape.n, x.shape.k / 8, false, false} : operand_form{x.b, x.shape.n, x.shape.k, x.transpose_b, false}; }

/// Bytes to bits, in place: from the end, so that nothing is overwritten before it is read.
void spread_bits(std::int16_t* values, int count) {
  for (int k = count; k-- > 0;) { const int v = values[k]; for (int b = 8; b-- > 0;) values[8 * k + b] = static_cast<std::int16_t>(v >> b & 1); }
}

void pin(warp& w, const engine& e, const std::vector<std::uint32_t>& slots, std::uint8_t how) {
  if (w.pinned.empty()) w.pinned.assign(e.code.register_bytes / 128 + 1, 0);
  for (const std::uint32_t s : slots) if (s != no_slot && w.pinned[s / 128] != 1) w.pinned[s / 128] = how;
}

void pin_all(warp& w, const engine& e) {
  std::fill(w.pinned.begin(), w.pinned.end(), std::uint8_t{0});
  for (const pending_wgmma& p : w.wgmmas) {
    const wgmma_detail& x = e.code.detail<wgmma_detail>(*p.what);
    pin(w, e, x.d_slots, 1);
    pin(w, e, x.a_slots, 2);
  }
}

void land(engine& e, warp& w, const pending_wgmma& p) {
  const wgmma_detail& x = e.code.detail<wgmma_detail>(*p.what);
  const int n = x.shape.n, k = x.shape.k, quarter = static_cast<int>(w.index % 4);
  const std::span<const std::byte> shared(w.home->shared);
  const bool integers = is_integer(x.a);
  shared_descriptor descriptor;
  const std::size_t a_count = static_cast<std::size_t>(x.shape.m * k), b_count = static_cast<std::size_t>(n * k);
  if (integers) { e.integer_a.resize(a_count); e.integer_b.resize(b_count); }
  // The four warps of the group name the same operands: the first to land gathers them for all.
  const std::uint64_t key = std::uint64_t{w.index / 4} << 48 | p.sequence;
  cta::wgmma_operands& operands = w.home->wgmma_shared[key];
  const bool first_to_land = operands.uses == 0;
  if (!first_to_land && (operands.what != p.what || operands.a_descriptor != p.a_descriptor || operands.b_descriptor != p.b_descriptor))
    e.fault("descriptor_misuse", "the four warps of a warpgroup execute different wgmmas, or with different descriptors", &w, p.what);
  if (first_to_land) { operands.what = p.what; operands.a_descriptor = p.a_descriptor; operands.b_descriptor = p.b_descriptor; }
  ++operands.uses;
  const float* float_a = e.float_a.data();
  if (x.a_in_registers) {
    e.float_a.resize(a_count);
    float_a = e.float_a.data();
    const int bits = bits_of(x.a), per = 32 / bits, count = 4 * per;
    for (int l = 0; l < 32; ++l)
      for (int j = 0; j < count; ++j) {
        const cell c = wgmma_a_cell(bits, quarter * 32 + l, j);
        std::uint32_t v = w.slot<std::uint32_t>(x.a_slots[static_cast<std::size_t>(j / per)])[l];
        if (bits < 32) v = v >> (bits * (j % per)) & ((1U << bits) - 1);
        const std::size_t at = static_cast<std::size_t>(c.row * k + c.column);
        if (integers) e.integer_a[at] = static_cast<std::int16_t>(widen(x.a, v)); else e.float_a[at] = widen(x.a, v);
      }
  } else {
    if (integers || first_to_land) {
      operands.a.resize(integers ? 0 : a_count);
      e.check(decode_wgmma_descriptor(p.a_descriptor, descriptor), &w, p.what);
      e.check(integers ? gather_integers(descriptor, a_form(x), shared, e.integer_a.data()) : gather_floats(descriptor, a_form(x), shared, operands.a.data()), &w, p.what);
      if (x.a == number::b1) spread_bits(e.integer_a.data(), x.shape.m * k / 8);
    }
    float_a = operands.a.data();
  }
  if (integers || first_to_land) {
    operands.b.resize(integers ? 0 : b_count);
    e.check(decode_wgmma_descriptor(p.b_descriptor, descriptor), &w, p.what);
    e.check(integers ? gather_integers(descriptor, b_form(x), shared, e.integer_b.data()) : gather_floats(descriptor, b_form(x), shared, operands.b.data()), &w, p.what);
    if (x.b == number::b1) spread_bits(e.integer_b.data(), n * k / 8);
  }
  const std::size_t first_row = static_cast<std::size_t>(quarter * 16 * k);
  const int per = x.d == number::f16 ? 2 : 1, elements = n / 2;
  // Element d of lane l: row l / 4 + 8 * (d / 2 % 2), column 2 * (l % 4) + d % 2 + d / 4 * 8: a part of the lane and one of the element.
  std::size_t of_lane[32];
  for (std::size_t l = 0; l < 32; ++l) of_lane[l] = l / 4 * static_cast<std::size_t>(n) + 2 * (l % 4);
  const auto of_element = [n](int d) { return static_cast<std::size_t>(8 * ((d >> 1) & 1) * n + (d & 1) + 8 * (d >> 2)); };
  if (integers) e.integer_d.resize(static_cast<std::size_t>(16 * n)); else e.float_d.resize(static_cast<std::size_t>(16 * n));
  if (p.use_d)
    for (int d = 0; d < elements; ++d) {
      const std::uint32_t* s = w.slot<std::uint32_t>(x.d_slots[static_cast<std::size_t>(d / per)]);
      const std::size_t from = of_element(d);
      if (!integers && per == 1) {
        for (int l = 0; l < 32; ++l) e.float_d[from + of_lane[l]] = std::bit_cast<float>(s[l]);
        continue;
      }
      for (int l = 0; l < 32; ++l) {
        const std::size_t at = from + of_lane[l];
        if (integers) e.integer_d[at] = static_cast<std::int32_t>(s[l]);
        else e.float_d[at] = widen(number::f16, s[l] >> (16 * (d & 1)) & 0xFFFFU);
      }
    }
  if (integers) multiply_integers(16, n, k, e.integer_a.data() + first_row, e.integer_b.data(), e.integer_d.data(), n, p.use_d, x.saturate, e.scratch);
  else {
    mma_operands o;
    o.m = 16; o.n = n; o.k = k; o.a = float_a + first_row; o.b = operands.b.data(); o.a_format = x.a; o.b_format = x.b; o.negate_a = x.negate_a; o.negate_b = x.negate_b;
    const mma_model& model = model_of(e.on, matrix_unit::wgmma, x.a);
    if (per == 2) multiply_f16(model, o, e.float_d.data(), n, p.use_d, e.scratch); else multiply(model, o, e.float_d.data(), n, p.use_d, e.scratch);
  }
  for (int d = 0; d < elements; ++d) {
    std::uint32_t* t = w.slot<std::uint32_t>(x.d_slots[static_cast<std::size_t>(d / per)]);
    const std::size_t from = of_element(d);
    if (!integers && per == 1) {
      for (int l = 0; l < 32; ++l) t[l] = std::bit_cast<std::uint32_t>(e.float_d[from + of_lane[l]]);
      continue;
    }
    for (int l = 0; l < 32; ++l) {
      const std::size_t at = from + of_lane[l];
      if (integers) t[l] = static_cast<std::uint32_t>(e.integer_d[at]);
      else { const std::uint32_t h = narrow(number::f16, e.float_d[at]); t[l] = d & 1 ? (t[l] & 0xFFFFU) | h << 16 : (t[l] & 0xFFFF0000U) | h; }
    }
  }
  e.end_reads(*w.home, p.id);
  if (operands.uses == 4) w.home->wgmma_shared.erase(key);
}

}  // namespace

void engine::land_wgmmas(warp& w, std::size_t groups_left) {
  bool any = false;
  while (w.wgmma_groups.size() > groups_left) {
    const std::size_t n = w.wgmma_groups.front();
    w.wgmma_groups.pop_front();
    for (std::size_t k = 0; k < n; ++k) land(*this, w, w.wgmmas[k]);
    if (n && !w.now.empty()) raise_clock(w.now.seen, 2 * w.home->home->warp_count + w.agent, w.wgmmas[n - 1].clock);
    w.wgmmas.erase(w.wgmmas.begin(), w.wgmmas.begin() + static_cast<std::ptrdiff_t>(n));
    any = any || n;
  }
  if (any) pin_all(w, *this);
}

namespace {

/// Calls visit(slot, written) for every register slot that an instruction names.
template <class Visit> void for_slots(const program& p, const instruction& i, Visit&& visit) {
  if (i.run == op_copy_local || i.run == op_print || i.run == op_call || i.run == op_assert_fail) return;  // their fields are places in local memory
  const bool list_written = i.run == op_load || i.run == op_ldmatrix || i.run == op_mma_sync || i.run == op_atomic;
  const bool unpacks = !i.run && i.mode.kind && i.d2 != no_slot;
  visit(i.d, true); visit(i.d2, true); visit(i.a, false); visit(i.b, false); visit(i.c, unpacks); visit(i.e, unpacks);
  for (std::uint32_t k = 0; k < i.list_count; ++k) visit(p.lists[i.list + k], list_written);
  for (std::uint32_t k = 0; k < i.list2_count; ++k) visit(p.lists[i.list2 + k], false);
}

}  // namespace

void mark_wgmma_registers(program& p) {
  bool any = false;
  for (const instruction& i : p.code) any = any || i.run == op_wgmma || (i.run == op_tmem_move && !p.detail<tensor_move_detail>(i).store);
  if (!any) return;
  p.wgmma_registers.assign(p.register_bytes / 128 + 1, 0);
  for (const instruction& i : p.code) {
    if (i.run == op_tmem_move && !p.detail<tensor_move_detail>(i).store)
      for (const std::uint32_t s : p.detail<tensor_move_detail>(i).registers) if (s != no_slot) p.wgmma_registers[s / 128] = 1;
    if (i.run != op_wgmma) continue;
    const wgmma_detail& x = p.detail<wgmma_detail>(i);
    for (const std::uint32_t s : x.d_slots) p.wgmma_registers[s / 128] = 1;
    for (const std::uint32_t s : x.a_slots) p.wgmma_registers[s / 128] = 1;
  }
  for (instruction& i : p.code) {
    if (i.run == op_wgmma || i.run == op_tmem_move) continue;
    for_slots(p, i, [&](std::uint32_t slot, bool) { if (slot != no_slot && slot / 128 < p.wgmma_registers.size() && p.wgmma_registers[slot / 128]) i.touches_wgmma = true; });
  }
}

void engine::touch_wgmma(warp& w, const instruction& i) {
  if (on == chip::blackwell && !w.tensor_loads_pending) return;
  for_slots(code, i, [&](std::uint32_t slot, bool write) {
    if (slot == no_slot || slot / 128 >= code.wgmma_registers.size() || !code.wgmma_registers[slot / 128]) return;
    w.unfenced[slot / 128] = 1;
    if (w.tensor_loads_pending && w.pinned[slot / 128] == 3) fault("race", cat("a register of a tcgen05.ld is touched before tcgen05.wait::ld; the latest load is that of ", place_of(*w.tensor_loaded)), &w, &i);
    if (w.wgmmas.empty()) return;
    const std::uint8_t how_pinned = w.pinned[slot / 128];
    if (how_pinned != 1 && !(how_pinned == 2 && write)) return;
    std::size_t in_groups = 0;
    for (const std::size_t n : w.wgmma_groups) in_groups += n;
    for (std::size_t k = w.wgmmas.size(); k-- > 0;) {
      const wgmma_detail& x = code.detail<wgmma_detail>(*w.wgmmas[k].what);
      const std::vector<std::uint32_t>& slots = how_pinned == 1 ? x.d_slots : x.a_slots;
      if (std::none_of(slots.begin(), slots.end(), [&](std::uint32_t s) { return s / 128 == slot / 128; })) continue;
      fault("race", cat(how_pinned == 1 ? "an accumulator register of a wgmma in flight is touched" : "an A register of a wgmma in flight is written", " before wgmma.wait_group: ", std::string(w.wgmmas[k].what->opcode), " of ",
                        place_of(*w.wgmmas[k].what), in_groups < w.wgmmas.size() ? cat("; no wgmma.commit_group has followed the one of ", place_of(*w.wgmmas[in_groups].what)) : ""), &w, &i);
    }
  });
}

step op_wgmma(engine& e, warp& w, context&, const instruction& i, lanes active) {
  whole_warp(e, w, i, active);
  const wgmma_detail& x = e.code.detail<wgmma_detail>(i);
  if (w.index / 4 * 4 + 4 > w.home->warps.size()) e.fault("barrier_misuse", "wgmma needs four warps of one warpgroup", &w, &i);
  for (const auto* slots : {&x.d_slots, &x.a_slots})
    for (const std::uint32_t r : *slots)
      if (w.unfenced[r / 128]) e.fault("race", "a register of this wgmma was touched, and no wgmma.fence stands between", &w, &i);
  const lanes p = *w.slot<lanes>(x.scale_d) ^ (x.scale_d_inverted ? all_lanes : 0U);
  pending_wgmma pending{&i, 0, 0, (p & 1U) != 0, e.next_operation++, w.wgmma_sequence++};
  const auto operand = [&](std::uint32_t slot, const operand_form& form, bool is_b) {
    const std::uint64_t* v = w.slot<std::uint64_t>(slot);
    for (int l = 1; l < 32; ++l) if (v[l] != v[0]) e.fault("descriptor_misuse", "the descriptor differs between threads", &w, &i, 1U << l);
    shared_descriptor d;
    e.check(decode_wgmma_descriptor(v[0], d), &w, &i);
    // The four warps of a group, and each round of a loop, name the same bytes again.
    if (e.ranges_of_operands.size() > 4096) e.ranges_of_operands.clear();
    std::vector<byte_range>& ranges = e.ranges_of_operands[{v[0], 2 * e.index_of(&i) + is_b}];
    if (ranges.empty()) {
      std::vector<std::uint32_t> addresses;
      operand_pieces(d, form, addresses);
      merge_pieces(addresses, ranges);
    }
    for (const byte_range& r : ranges) {
      e.check_shared_range(*w.home, r.begin, r.end - r.begin, &w, &i, -1);
      e.read_shadow(*w.home, r.begin, r.end - r.begin, &w, &i, -1);
      e.async_read(w, *w.home, r.begin, r.end - r.begin, &i, -1, true);
      e.add_read(*w.home, r.begin, r.end, pending.id);
    }
    return v[0];
  };
  if (!x.a_in_registers) pending.a_descriptor = operand(x.a_descriptor, a_form(x), false);
  pending.b_descriptor = operand(x.b_descriptor, b_form(x), true);
  pending.clock = w.matrix_clock;
  // A chain on one accumulator may go on; reading or writing another pending wgmma's registers with another shape may not.
  w.wgmmas.push_back(pending);
  ++w.wgmma_open;
  pin(w, e, x.d_slots, 1);
  pin(w, e, x.a_slots, 2);
  return step::next;
}

step op_wgmma_fence(engine& e, warp& w, context&, const instruction& i, lanes active) {
  whole_warp(e, w, i, active);
  std::fill(w.unfenced.begin(), w.unfenced.end(), std::uint8_t{0});
  return step::next;
}

step op_wgmma_group(engine& e, warp& w, context&, const instruction& i, lanes active) {
  whole_warp(e, w, i, active);
  if (i.sub == 0) { w.wgmma_groups.push_back(w.wgmma_open); w.wgmma_open = 0; return step::next; }
  e.land_wgmmas(w, static_cast<std::size_t>(i.imm));
  return step::next;
}

}  // namespace tlx::sim
