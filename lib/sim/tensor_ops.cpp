// tcgen05 at work. mma, cp, shift and commit of one thread queue up and land in issue order; alloc, ld and st act at once.
#include <algorithm>
#include <bit>
#include <cstring>

#include "sim/matrix_ops.hpp"
#include "sim/ops.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

tensor_memory& tensor_of(cta& c) {
  if (!c.tmem) c.tmem = std::make_unique<tensor_memory>();
  return *c.tmem;
}
int owner_id(const cta& c) { return static_cast<int>(c.generation); }
std::uint64_t queue_of(const warp& w, int lane) { return (std::uint64_t{w.home->generation} << 16 | w.index << 5 | static_cast<unsigned>(lane)) + 1; }

void whole_warp(engine& e, warp& w, const instruction& i, lanes active) {
  if (active != w.live() || active != all_lanes) e.fault("barrier_misuse", cat(std::string(i.opcode), " needs all 32 threads of the warp, converged"), &w, &i, active);
}

std::uint32_t uniform(engine& e, warp& w, const instruction& i, const operand_address& a, const char* what) {
  const std::uint32_t v = static_cast<std::uint32_t>(value_of(w, a, 0));
  for (int l = 1; l < 32; ++l) if (static_cast<std::uint32_t>(value_of(w, a, l)) != v) e.fault("tmem_misuse", cat(what, " differs between the threads of the warp"), &w, &i, 1U << l);
  return v;
}

/// CTAs that a collective operation of this group needs, each of which executes it; rank bit 0 selects the half.
std::vector<cta*> members_of(engine& e, warp& w, const instruction& i, int lane, int cta_group) {
  if (cta_group == 1) return {w.home};
  cluster& k = *w.home->home;
  const std::uint32_t even = w.home->rank & ~1U;
  if (even + 1 >= k.ctas.size()) e.fault("peer_exited", cat("cta_group::2 needs the pair of CTA rank ", w.home->rank, ", which the cluster does not have"), &w, &i, 1U << lane);
  for (std::uint32_t r = even; r < even + 2; ++r) if (k.ctas[r]->exited) e.fault("peer_exited", cat("CTA rank ", r, " of the pair has exited", e.exit_text(*k.ctas[r])), &w, &i, 1U << lane);
  return {k.ctas[even].get(), k.ctas[even + 1].get()};
}

/// CTAs that an operation issued by one thread works on.
std::vector<cta*> group_of(engine& e, warp& w, const instruction& i, int lane, int cta_group) {
  if (cta_group == 2 && (w.home->rank & 1U)) e.lint("a cta_group::2 operation is issued by the odd CTA of the pair", &i);
  return members_of(e, w, i, lane, cta_group);
}

void check_columns(engine& e, cta& c, int first, int count, const warp* w, const instruction* i) {
  if (first < 0 || count <= 0 || first + count > tmem_columns) e.fault("tmem_misuse", cat("tensor memory columns [", first, ", ", first + count, ") are outside 0..511"), w, i);
  if (const complaint bad = tensor_of(c).check_columns(owner_id(c), first, count))
    e.fault(to_string(bad.kind), c.tensor_freed ? cat(bad.text, "; memory was freed at ", e.place_of(*c.tensor_freed)) : bad.text, w, i);
}

void check_not_pending(engine& e, cta& c, int first, int count, const warp* w, const instruction* i, const char* verb) {
  for (const cta::tensor_writer& p : c.tensor_writes)
    if (first < p.first + p.count && p.first < first + count) {
      std::string by;
      for (const async_operation& o : e.in_flight) if (o.id == p.operation && o.what) by = cat(": ", std::string(o.what->opcode), " of ptx line ", o.what->line);
      e.fault("race", cat("tensor memory columns [", first, ", ", first + count, ")", e.column_name(std::max(first, p.first)), " are ", verb, " while an operation that writes them is in flight", by), w, i);
    }
}

void end_tensor_writes(cta& c, std::uint64_t id) {
  c.tensor_writes.erase(std::remove_if(c.tensor_writes.begin(), c.tensor_writes.end(), [&](const auto& p) { return p.operation == id; }), c.tensor_writes.end());
}

}  // namespace

// ---- allocation
step op_tmem_alloc(engine& e, warp& w, context& c, const instruction& i, lanes active) {
  whole_warp(e, w, i, active);
  cta& home = *w.home;
  tensor_memory& t = tensor_of(home);
  const int id = owner_id(home);
  // Freeing is collective too, but a CTA that has done its part may leave at once.
  if (i.flags == 2 && i.sub == 0) members_of(e, w, i, 0, 2);
  if (i.sub == 2) { t.relinquish(id); return step::next; }
  const std::int64_t columns = static_cast<std::int32_t>(w.slot<std::uint32_t>(i.b)[0]);
  if (i.sub == 1) {
    const std::uint32_t address = w.slot<std::uint32_t>(i.a)[0];
    check_not_pending(e, home, tmem_column(address), static_cast<int>(columns), &w, &i, "freed");
    e.tensor_release(w, home, tmem_column(address), static_cast<int>(columns), &i);
    e.check(t.release(id, address, columns), &w, &i);
    home.tensor_freed = &i;
    e.wake(home, block_reason::tensor_alloc, 0);
    return step::next;
  }
  int column = -1;
  e.check(t.allocate(id, columns, column), &w, &i);
  if (column < 0) {
    c.at = context::state::blocked;
    c.why = block_reason::tensor_alloc;
    c.key = 0;
    return step::retry;
  }
  std::byte* at[32];
  e.resolve(w, i, 1U, i.where, i.a, i.wide_address, i.imm, 4, engine::access::write, at);
  home.tensor_allocated = &i;
  home.tensor_allocator = &w;
  for (std::int64_t k = 0; k < columns; ++k) home.tensor_clean[static_cast<std::size_t>(column + k)] = false;
  const std::uint32_t address = tmem_address(0, column);
  std::memcpy(at[0], &address, 4);
  // By the ISA this is a generic write, but Triton lets TMA overwrite the word without a fence and the chip does not mind.
  e.no_fence_needed(home, static_cast<std::uint32_t>(at[0] - home.shared.data()), 4);
  return step::next;
}

// ---- ld, st
step op_tmem_move(engine& e, warp& w, context&, const instruction& i, lanes active) {
  whole_warp(e, w, i, active);
  const tensor_move_detail& x = e.code.detail<tensor_move_detail>(i);
  cta& home = *w.home;
  tensor_memory& t = tensor_of(home);
  tmem_access a;
  a.shape = x.shape;
  a.repeat = x.repeat;
  a.packed = x.packed;
  a.half_split = x.half_split;
  a.address = uniform(e, w, i, x.address, "the tensor memory address");
  a.warp = static_cast<int>(w.index);
  const column_span span = tmem_columns_of(a);
  check_columns(e, home, span.first, span.count, &w, &i);
  check_not_pending(e, home, span.first, span.count, &w, &i, x.store ? "written" : "read");
  const int lane = tmem_lane(a.address), quarter = static_cast<int>(w.index % 4);
  e.tensor_access(w, home, {quarter * 2 + (x.shape == tmem_shape::s32x32b ? 0 : (lane >> 4) & 1), x.shape == tmem_shape::s32x32b ? 2 : 1, span.first, span.count}, x.store, &i);
  const std::size_t n = x.registers.size();
  std::uint32_t values[128 * 32];
  if (x.store) {
    for (std::size_t r = 0; r < n; ++r) std::memcpy(values + 32 * r, w.slot<std::uint32_t>(x.registers[r]), 128);
    e.check(tmem_store(t, a, values), &w, &i);
    return step::next;
  }
  std::uint32_t poison[128] = {};
  e.check(tmem_load(t, a, values, poison), &w, &i);
  for (std::size_t r = 0; r < n; ++r) {
    if (poison[r]) e.note_uninitialized(cat("tensor memory that nobody wrote is read (register ", r, " of the load at address 0x", [&] { char s[16]; std::snprintf(s, sizeof s, "%x", a.address); return std::string(s); }(), ")"), &w, &i, poison[r]);
    if (x.registers[r] == no_slot) continue;
    std::memcpy(w.slot<std::uint32_t>(x.registers[r]), values + 32 * r, 128);
    if (w.pinned.empty()) w.pinned.assign(e.code.register_bytes / 128 + 1, 0);
    w.pinned[x.registers[r] / 128] = 3;
    w.tensor_loads_pending = true;
    w.tensor_loaded = &i;
  }
  if (x.reduce && x.reduced != no_slot) e.check(tmem_reduce(a, x.reduction, x.absolute, x.nan, values, w.slot<std::uint32_t>(x.reduced)), &w, &i);
  return step::next;
}

step op_tmem_wait(engine& e, warp& w, context&, const instruction& i, lanes active) {
  whole_warp(e, w, i, active);
  e.tensor_wait(w, i.sub == 1);
  return step::next;
}

// ---- commit
step op_tmem_commit(engine& e, warp& w, context&, const instruction& i, lanes active) {
  const copy_detail& x = e.code.detail<copy_detail>(i);
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    group_of(e, w, i, l, x.cta_group);
    // Without .shared::cluster the operand may be a generic address, or a shared one widened to 64 bits (Triton does that).
    const std::uint64_t raw = value_of(w, x.barrier, l);
    const std::uint32_t address = e.shared_address_of(w, i, l, raw, x.barrier.where == space::generic && raw >> 32 != 0);
    cta& named = e.shared_owner(w, i, l, address, true);
    const std::uint32_t offset = address & 0xFFFFFFU;
    std::vector<cta*> homes{&named};
    if (x.multicast) {
      homes.clear();
      const std::uint32_t mask = w.slot<std::uint32_t>(x.mask)[l] & 0xFFFFU;
      for (std::uint32_t r = 0; r < 16; ++r) {
        if (!(mask >> r & 1U)) continue;
        if (r >= w.home->home->ctas.size()) e.fault("out_of_bounds", cat("the multicast mask names CTA rank ", r, " of a cluster of ", w.home->home->ctas.size()), &w, &i, 1U << l);
        homes.push_back(w.home->home->ctas[r].get());
      }
    }
    for (cta* h : homes) {
      e.barrier_at(*h, offset, &w, &i, l);
      e.use_barrier(w, *h, offset, &i, l);
    }
    async_operation o;
    o.home = w.home;
    o.queue = queue_of(w, l);
    const instruction* what = &i;
    o.what = what;
    const std::uint64_t id = e.next_operation;
    e.commit_issued(w, id);
    o.land = [=](engine& en, int) {
      for (cta* h : homes) {
        if (h->exited) en.fault("peer_exited", cat("tcgen05.commit arrives at the ", en.barrier_text(offset), " in CTA rank ", h->rank, ", which has exited", en.exit_text(*h)), nullptr, what);
        mbarrier_state& s = en.barrier_at(*h, offset, nullptr, what, -1);
        en.commit_landed(*h, offset, id);
        en.barrier_done(*h, offset, barrier_arrive(s), nullptr, what, -1);
      }
    };
    e.issue(std::move(o));
  }
  return step::next;
}

namespace {

/// Marks what a queued operation will read, at issue: everything must have arrived by then.
void read_operand(engine& e, warp& w, const instruction& i, cta& c, const std::vector<byte_range>& ranges, std::uint64_t id) {
  for (const byte_range& r : ranges) {
    e.check_shared_range(c, r.begin, r.end - r.begin, &w, &i, -1);
    e.read_shadow(c, r.begin, r.end - r.begin, &w, &i, -1);
    e.async_read(w, c, r.begin, r.end - r.begin, &i, -1, true);
    e.add_read(c, r.begin, r.end, id);
  }
}

struct mma_work {
  const tensor_mma_detail* x;
  const instruction* what;
  mma_instruction word;
  std::vector<cta*> group;
  shared_descriptor a, b;
  std::uint32_t d_address, a_address, scale_a, scale_b;
  bool use_d;
  std::uint64_t zero_columns = 0;
  std::uint32_t disabled[8] = {};
  tmem_layout layout;
};

/// One MMA. `group` has one CTA or the pair; each computes its rows with all columns of B.
void land_mma(engine& e, const mma_work& k) {
  const tensor_mma_detail& x = *k.x;
  const mma_instruction& q = k.word;
  const int groups = static_cast<int>(k.group.size()), n = q.n, depth = q.k;
  const bool integers = q.kind == mma_kind::i8;
  const operand_form af = form_of(q, false, x.issue.cta_group), bf = form_of(q, true, x.issue.cta_group);
  const std::size_t b_part = static_cast<std::size_t>(bf.rows * depth);
  if (integers) e.integer_b.resize(b_part * k.group.size()); else e.float_b.resize(b_part * k.group.size());
  for (int g = 0; g < groups; ++g) {
    const std::span<const std::byte> shared(k.group[static_cast<std::size_t>(g)]->shared);
    const std::size_t at = b_part * static_cast<std::size_t>(g);
    e.check(integers ? gather_integers(k.b, bf, shared, e.integer_b.data() + at) : gather_floats(k.b, bf, shared, e.float_b.data() + at), nullptr, k.what);
  }
  if (x.zero_columns != no_slot) {
    std::vector<std::uint8_t> zero;
    e.check(zero_column_mask(k.zero_columns, q.m, n, zero), nullptr, k.what);
    for (int c = 0; c < n; ++c) {
      if (!zero[static_cast<std::size_t>(c)]) continue;
      if (integers) std::fill_n(e.integer_b.begin() + c * depth, depth, std::int16_t{0}); else std::fill_n(e.float_b.begin() + c * depth, depth, 0.0F);
    }
  }
  std::vector<float> scale_a, scale_b;
  const int per_row = is_block_scaled(q.kind) ? depth / q.scale_block : 0;
  for (int g = 0; g < groups; ++g) {
    cta& c = *k.group[static_cast<std::size_t>(g)];
    tensor_memory& t = *c.tmem;
    const int rows = af.rows;
    const std::size_t a_count = static_cast<std::size_t>(rows * depth);
    if (integers) e.integer_a.resize(a_count); else e.float_a.resize(a_count);
    if (x.issue.a_in_tensor_memory) {
      e.check(integers ? gather_tmem_integers(t, k.layout, k.a_address, af, e.integer_a.data()) : gather_tmem_floats(t, k.layout, k.a_address, af, e.float_a.data()), nullptr, k.what);
      // .ashift: each row but the last takes the one after it.
      const std::size_t moved = a_count - static_cast<std::size_t>(depth);
      if (x.shift_a) { if (integers) std::copy_n(e.integer_a.begin() + depth, moved, e.integer_a.begin()); else std::copy_n(e.float_a.begin() + depth, moved, e.float_a.begin()); }
    }
    else {
      const std::span<const std::byte> shared(c.shared);
      e.check(integers ? gather_integers(k.a, af, shared, e.integer_a.data()) : gather_floats(k.a, af, shared, e.float_a.data()), nullptr, k.what);
    }
    mma_operands o;
    if (per_row) {
      const bool split = groups == 2 && q.m == 128;
      scale_a.resize(static_cast<std::size_t>(rows * per_row));
      scale_b.resize(static_cast<std::size_t>(n * per_row));
      e.check(gather_scales(t, {q.scale, q.scale_a_id, per_row, false}, k.scale_a, rows, scale_a.data()), nullptr, k.what);
      e.check(gather_scales(t, {q.scale, q.scale_b_id, per_row, split}, k.scale_b, n, scale_b.data()), nullptr, k.what);
      o.a_scale = scale_a.data();
      o.b_scale = scale_b.data();
      o.scale_block = q.scale_block;
    }
    const int base_column = tmem_column(k.d_address), base_lane = tmem_lane(k.d_address);
    // Row r is lane r in the two layouts of full height.
    const bool direct = k.layout == tmem_layout::d || k.layout == tmem_layout::a;
    // A row lies in one lane, or in pieces of `width` columns in as many lanes: calls each(r, column, word) for the first cell of every piece.
    const int width = accumulator_columns(k.layout, n);
    const auto for_each_piece = [&](auto&& each) {
      for (int r = 0; r < rows; ++r)
        for (int j = 0; j < n; j += width) {
          const tmem_place p = accumulator_place(k.layout, g * rows + r, j, n);
          each(r, j, (base_lane + p.lane) * tmem_columns + base_column + p.column);
        }
    };
    const bool half = q.d == number::f16;
    std::uint32_t* words = t.words();
    bool clean = true;
    for (int j = base_column; j < base_column + width; ++j) clean = clean && c.tensor_clean[static_cast<std::size_t>(j)];
    const bool check_poison = k.use_d && !clean;
    if (check_poison)
      for_each_piece([&](int r, int j, int word) {
        for (int column = 0; column < width; ++column)
          if (t.poisoned(word + column)) e.fault("uninitialized", cat("tcgen05.mma accumulates onto tensor memory that nobody wrote (row ", r, ", column ", j + column, ")"), nullptr, k.what);
      });
    const bool any_disabled = !x.disabled_lanes.empty();
    const auto disabled = [&](int word) { const int lane = word / tmem_columns; return any_disabled && (k.disabled[g * 4 + lane / 32] >> (lane % 32) & 1U); };
    const mma_model* model = integers ? nullptr : &model_of(e.on, matrix_unit::tcgen05, q.a);
    o.m = rows; o.n = n; o.k = depth; o.a = e.float_a.data(); o.b = e.float_b.data(); o.a_format = q.a; o.b_format = q.b; o.negate_a = q.negate_a; o.negate_b = q.negate_b;
    if (!integers && !half && !any_disabled && direct) {
      multiply(*model, o, reinterpret_cast<float*>(words) + base_lane * tmem_columns + base_column, tmem_columns, k.use_d, e.scratch, x.d_shift);
    } else {
      const std::size_t count = static_cast<std::size_t>(rows * n);
      if (integers) e.integer_d.resize(count); else e.float_d.resize(count);
      if (k.use_d)
        for_each_piece([&](int r, int j, int word) {
          const std::size_t at = static_cast<std::size_t>(r * n + j), count_here = static_cast<std::size_t>(width);
          if (integers) std::memcpy(e.integer_d.data() + at, words + word, count_here * 4);
          else if (!half) std::memcpy(e.float_d.data() + at, words + word, count_here * 4);
          else for (std::size_t column = 0; column < count_here; ++column) e.float_d[at + column] = widen(number::f16, words[static_cast<std::size_t>(word) + column] & 0xFFFFU);
        });
      if (integers) multiply_integers(rows, n, depth, e.integer_a.data(), e.integer_b.data(), e.integer_d.data(), n, k.use_d, q.saturate, e.scratch);
      else if (half) multiply_f16(*model, o, e.float_d.data(), n, k.use_d, e.scratch, x.d_shift);
      else multiply(*model, o, e.float_d.data(), n, k.use_d, e.scratch, x.d_shift);
      for_each_piece([&](int r, int j, int word) {
        if (disabled(word)) return;
        const std::size_t at = static_cast<std::size_t>(r * n + j), count_here = static_cast<std::size_t>(width);
        if (integers) std::memcpy(words + word, e.integer_d.data() + at, count_here * 4);
        else if (!half) std::memcpy(words + word, e.float_d.data() + at, count_here * 4);
        else for (std::size_t column = 0; column < count_here; ++column) words[static_cast<std::size_t>(word) + column] = narrow(number::f16, e.float_d[at + column]);
      });
    }
    if (!clean)
      for_each_piece([&](int, int, int word) {
        if (disabled(word)) return;
        for (int column = 0; column < width; ++column) t.set_poison(word + column, false);
      });
    if (!clean && direct && !any_disabled) for (int j = base_column; j < base_column + width; ++j) c.tensor_clean[static_cast<std::size_t>(j)] = true;
  }
}

}  // namespace

step op_tmem_mma(engine& e, warp& w, context&, const instruction& i, lanes active) {
  const tensor_mma_detail& x = e.code.detail<tensor_mma_detail>(i);
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const lanes who = 1U << l;
    auto k = std::make_shared<mma_work>();
    k->x = &x;
    k->what = &i;
    k->group = group_of(e, w, i, l, x.issue.cta_group);
    complaint lint;
    e.check(decode_instruction(x.issue, w.slot<std::uint32_t>(x.instruction_word)[l], k->word, &lint), &w, &i, who);
    if (lint) e.lint(lint.text, &i);
    const mma_instruction& q = k->word;
    if (q.sparse) e.fault("descriptor_misuse", "the instruction descriptor says sparse but the instruction is dense", &w, &i, who);
    e.check(layout_of(q.m, x.issue.cta_group, x.issue.weight_stationary, false, k->layout), &w, &i, who);
    k->d_address = static_cast<std::uint32_t>(value_of(w, x.d, l));
    const lanes p = *w.slot<lanes>(x.enable_d) ^ (x.enable_inverted ? all_lanes : 0U);
    k->use_d = (p & who) != 0;
    if (x.zero_columns != no_slot) k->zero_columns = w.slot<std::uint64_t>(x.zero_columns)[l];
    if (x.shift_a && q.m != 128 && q.m != 256) e.fault("illegal_shape", cat(".ashift exists for M 128 and 256, not ", q.m), &w, &i, who);
    for (std::size_t j = 0; j < x.disabled_lanes.size(); ++j) k->disabled[j] = w.slot<std::uint32_t>(x.disabled_lanes[j])[l];
    const std::uint64_t id = e.next_operation;
    const operand_form af = form_of(q, false, x.issue.cta_group), bf = form_of(q, true, x.issue.cta_group);
    const int d_columns = accumulator_columns(k->layout, q.n), d_first = tmem_column(k->d_address);
    std::vector<std::uint32_t> addresses;
    std::vector<byte_range> ranges;
    e.check(decode_tcgen05_descriptor(w.slot<std::uint64_t>(x.b_descriptor)[l], k->b), &w, &i, who);
    e.check(check_operand(q, k->b, true, x.issue), &w, &i, who);
    operand_pieces(k->b, bf, addresses);
    merge_pieces(addresses, ranges);
    for (cta* c : k->group) read_operand(e, w, i, *c, ranges, id);
    if (x.issue.a_in_tensor_memory) {
      k->a_address = static_cast<std::uint32_t>(value_of(w, x.a, l));
      const int bits = af.padded ? 8 : bits_of(q.a), columns = (q.k * bits + 31) / 32;
      for (cta* c : k->group) {
        check_columns(e, *c, tmem_column(k->a_address), columns, &w, &i);
        e.tensor_async(w, *c, tmem_column(k->a_address), columns, 0xFFU, false, &i);
      }
    } else {
      e.check(decode_tcgen05_descriptor(w.slot<std::uint64_t>(x.a_descriptor)[l], k->a), &w, &i, who);
      e.check(check_operand(q, k->a, false, x.issue), &w, &i, who);
      operand_pieces(k->a, af, addresses);
      merge_pieces(addresses, ranges);
      for (cta* c : k->group) read_operand(e, w, i, *c, ranges, id);
    }
    if (is_block_scaled(q.kind)) {
      k->scale_a = static_cast<std::uint32_t>(value_of(w, x.scale_a, l));
      k->scale_b = static_cast<std::uint32_t>(value_of(w, x.scale_b, l));
      for (cta* c : k->group) {
        e.tensor_async(w, *c, tmem_column(k->scale_a), (af.rows + 31) / 32, 0xFFU, false, &i);
        check_columns(e, *c, tmem_column(k->scale_a), (af.rows + 31) / 32, &w, &i);
        check_columns(e, *c, tmem_column(k->scale_b), (q.n / (x.issue.cta_group == 2 && q.m == 128 ? 2 : 1) + 31) / 32, &w, &i);
      }
    }
    // M = 64 leaves every other group of 16 lanes to somebody else.
    const unsigned d_groups = k->layout == tmem_layout::f ? (tmem_lane(k->d_address) & 16 ? 0xAAU : 0x55U) : 0xFFU;
    for (cta* c : k->group) {
      check_columns(e, *c, d_first, d_columns, &w, &i);
      e.tensor_async(w, *c, d_first, d_columns, d_groups, true, &i);
      c->tensor_writes.push_back({d_first, d_columns, id});
    }
    async_operation o;
    o.home = w.home;
    o.queue = queue_of(w, l);
    o.what = &i;
    o.land = [k, id](engine& en, int) {
      land_mma(en, *k);
      for (cta* c : k->group) { en.end_reads(*c, id); end_tensor_writes(*c, id); }
    };
    e.issue(std::move(o));
  }
  return step::next;
}

step op_tmem_copy(engine& e, warp& w, context&, const instruction& i, lanes active) {
  const tensor_copy_in_detail& x = e.code.detail<tensor_copy_in_detail>(i);
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const std::vector<cta*> group = group_of(e, w, i, l, x.cta_group);
    const std::uint32_t address = static_cast<std::uint32_t>(value_of(w, x.address, l));
    const std::uint64_t id = e.next_operation;
    const int columns = x.shift || x.shape == cp_shape::s128x256b || x.shape == cp_shape::s4x256b ? 8 : 4;
    shared_descriptor source;
    if (!x.shift) {
      e.check(decode_tcgen05_descriptor(w.slot<std::uint64_t>(x.descriptor)[l], source), &w, &i, 1U << l);
      std::vector<tmem_copy_piece> pieces;
      e.check(tmem_copy_map(x.shape, address, source, pieces), &w, &i, 1U << l);
      std::vector<std::uint32_t> addresses;
      for (const tmem_copy_piece& p : pieces) addresses.push_back(p.shared);
      std::vector<byte_range> ranges;
      merge_pieces(addresses, ranges);
      for (cta* c : group) read_operand(e, w, i, *c, ranges, id);
    }
    for (cta* c : group) {
      check_columns(e, *c, tmem_column(address), columns, &w, &i);
      e.tensor_async(w, *c, tmem_column(address), columns, 0xFFU, true, &i);
      c->tensor_writes.push_back({tmem_column(address), columns, id});
    }
    async_operation o;
    o.home = w.home;
    o.queue = queue_of(w, l);
    o.what = &i;
    const tensor_copy_in_detail* detail = &x;
    const instruction* what = &i;
    o.land = [=](engine& en, int) {
      for (cta* c : group) {
        if (detail->shift) en.check(tmem_shift(*c->tmem, address), nullptr, what);
        else en.check(tmem_copy(*c->tmem, detail->shape, detail->unpack, address, source, std::span<const std::byte>(c->shared)), nullptr, what);
        en.end_reads(*c, id);
        end_tensor_writes(*c, id);
      }
    };
    e.issue(std::move(o));
  }
  return step::next;
}

}  // namespace tlx::sim
