// Asynchronous copies at work: what is checked and poisoned at issue, what happens when the copy lands.
#include "sim/async.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "sim/ops.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

/// A shared operand as CTA and offset. `remote`: other CTAs of the cluster are allowed.
struct shared_place { cta* home; std::uint32_t offset; };
shared_place place(engine& e, warp& w, const instruction& i, int lane, const operand_address& a, bool remote) {
  const std::uint32_t address = e.shared_address_of(w, i, lane, value_of(w, a, lane), a.where == space::generic);
  cta& home = e.shared_owner(w, i, lane, address, remote);
  return {&home, address & 0xFFFFFFU};
}

void aligned_to(engine& e, warp& w, const instruction& i, int lane, std::uint64_t value, std::uint64_t align, const char* what) {
  if (value % align) e.fault("misaligned", cat(what, " ", value, " is not a multiple of ", align), &w, &i, 1U << lane);
}

struct part { cta* home; std::uint32_t offset; };

/// Where each destination CTA's completion goes.
struct target { cta* home; cta* barrier_home; };
std::vector<target> targets(engine& e, warp& w, const instruction& i, int lane, const copy_detail& x, const shared_place& destination, const shared_place& barrier) {
  std::vector<target> out;
  cluster& k = *w.home->home;
  if (!x.multicast) {
    if (destination.home != barrier.home && !(x.cta_group == 2 && (destination.home->rank ^ barrier.home->rank) == 1))
      e.fault("barrier_misuse", cat("the copy goes to CTA rank ", destination.home->rank, " but its mbarrier is in CTA rank ", barrier.home->rank), &w, &i, 1U << lane);
    out.push_back({destination.home, barrier.home});
    return out;
  }
  const std::uint32_t mask = w.slot<std::uint32_t>(x.mask)[lane] & 0xFFFFU;
  for (std::uint32_t rank = 0; rank < 16; ++rank) {
    if (!(mask >> rank & 1U)) continue;
    if (rank >= k.ctas.size()) e.fault("out_of_bounds", cat("the multicast mask names CTA rank ", rank, " of a cluster of ", k.ctas.size()), &w, &i, 1U << lane);
    cta& c = *k.ctas[rank];
    if (c.exited) e.fault("peer_exited", cat("the multicast mask names CTA rank ", rank, ", which has exited"), &w, &i, 1U << lane);
    e.check_started(w, c, i, lane);
    cta* b = &c;
    if (x.cta_group == 2 && ((rank ^ barrier.home->rank) & 1U)) {
      if ((rank ^ 1U) >= k.ctas.size()) e.fault("out_of_bounds", "the pair of a multicast destination is outside the cluster", &w, &i, 1U << lane);
      b = k.ctas[rank ^ 1U].get();
    }
    out.push_back({&c, b});
  }
  return out;
}

void join_group(warp& w, int lane, std::uint64_t id, const instruction& i) {
  w.of(lane).open_bulk.push_back(id);
  w.of(lane).open_places.push_back(&i);
}

}  // namespace

// ---- bulk copies
step op_bulk_copy(engine& e, warp& w, context&, const instruction& i, lanes active) {
  const copy_detail& x = e.code.detail<copy_detail>(i);
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const std::uint32_t bytes = w.slot<std::uint32_t>(x.size)[l];
    aligned_to(e, w, i, l, bytes, 16, "bulk copy size");
    if (bytes == 0) e.fault("out_of_bounds", "bulk copy of 0 bytes", &w, &i, 1U << l);
    const instruction* what = &i;
    if (x.to == space::global) {  // shared -> global
      const shared_place from = place(e, w, i, l, x.source, false);
      const std::uint64_t to = value_of(w, x.destination, l);
      aligned_to(e, w, i, l, from.offset, 16, "shared address");
      aligned_to(e, w, i, l, to, 16, "global address");
      e.check_shared_range(*from.home, from.offset, bytes, &w, &i, l);
      e.read_shadow(*from.home, from.offset, bytes, &w, &i, l);
      e.async_read(w, *from.home, from.offset, bytes, &i, l, false);
      if (!e.memory.at(to, bytes)) e.fault("out_of_bounds", cat(bytes, " bytes of global memory at ", e.memory.describe(to)), &w, &i, 1U << l);
      if (x.reduce) e.check(reduce_allowed(x.op, x.type, reduce_place::global_bulk), &w, &i, 1U << l);
      const std::uint32_t mask = x.byte_mask == no_slot ? 0xFFFFU : w.slot<std::uint32_t>(x.byte_mask)[l];
      auto buffer = std::make_shared<std::vector<std::byte>>();
      async_operation o;
      o.home = from.home;
      o.stages = 2;
      o.what = what;
      const std::uint64_t id = e.next_operation;
      o.land = [=, &x, source = from](engine& en, int stage) {
        if (stage == 0) {
          buffer->assign(source.home->shared.begin() + source.offset, source.home->shared.begin() + source.offset + bytes);
          en.end_reads(*source.home, id);
          return;
        }
        std::byte* d = en.memory.at(to, bytes);
        if (!d) return;
        en.memory.writes(to, bytes);
        if (x.reduce) reduce_elements(x.op, x.type, d, buffer->data(), bytes);
        else for (std::uint32_t k = 0; k < bytes; ++k) if (mask >> (k & 15U) & 1U) d[k] = (*buffer)[k];
      };
      e.issue(std::move(o));
      e.add_read(*from.home, from.offset, from.offset + bytes, id);
      e.read_stamps[id] = w.copy_clock;
      if (!x.reduce && mask == 0xFFFFU) e.async_global_write(w, id, to, bytes, &i);
      join_group(w, l, id, i);
      continue;
    }
    const bool cluster_form = x.to == space::shared_cluster;
    const shared_place to = place(e, w, i, l, x.destination, cluster_form), bar = place(e, w, i, l, x.barrier, cluster_form);
    aligned_to(e, w, i, l, to.offset, 16, "shared address");
    std::uint64_t source_address = 0;
    shared_place from{nullptr, 0};
    if (x.from == space::global) {
      source_address = value_of(w, x.source, l);
      aligned_to(e, w, i, l, source_address, 16, "global address");
      if (!e.memory.at(source_address, bytes)) e.fault("out_of_bounds", cat(bytes, " bytes of global memory at ", e.memory.describe(source_address)), &w, &i, 1U << l);
      e.race_global(w, source_address, bytes, false, &i, -1);
    } else {
      from = place(e, w, i, l, x.source, false);
      aligned_to(e, w, i, l, from.offset, 16, "shared address");
      e.check_shared_range(*from.home, from.offset, bytes, &w, &i, l);
      e.read_shadow(*from.home, from.offset, bytes, &w, &i, l);
      e.async_read(w, *from.home, from.offset, bytes, &i, l, false);
      if (to.home == w.home) e.fault("out_of_bounds", "a shared-to-cluster copy must go to another CTA", &w, &i, 1U << l);
      if (x.reduce) e.check(reduce_allowed(x.op, x.type, reduce_place::shared_cluster), &w, &i, 1U << l);
    }
    for (const target& t : targets(e, w, i, l, x, to, bar)) {
      e.check_shared_range(*t.home, to.offset, bytes, &w, &i, l);
      e.barrier_at(*t.barrier_home, bar.offset, &w, &i, l);
      e.use_barrier(w, *t.barrier_home, bar.offset, &i, l);
      if (!x.reduce) e.async_write(w, *t.home, to.offset, bytes, &i, l);
      if (!x.reduce) e.mark_in_flight(*t.home, to.offset, bytes, &w, &i, l);
      async_operation o;
      o.home = t.home;
      o.what = what;
      const std::uint64_t id = e.next_operation;
      const std::uint32_t agent = w.agent, stamp = w.copy_clock;
      o.writes.push_back({t.home, to.offset, to.offset + bytes});
      o.land = [=, &x](engine& en, int) {
        if (t.home->exited) en.fault("peer_exited", cat("a copy that signals the ", en.barrier_text(bar.offset), " lands in CTA rank ", t.home->rank, ", which has exited", en.exit_text(*t.home)), nullptr, what);
        const std::byte* s = from.home ? from.home->shared.data() + from.offset : en.memory.at(source_address, bytes);
        std::byte* d = t.home->shared.data() + to.offset;
        if (x.reduce) reduce_elements(x.op, x.type, d, s, bytes);
        else { std::memcpy(d, s, bytes); en.set_shadow(*t.home, to.offset, bytes, shadow_written); en.async_landed(*t.home, to.offset, bytes, *t.barrier_home, bar.offset, what); }
        if (from.home) { en.end_reads(*from.home, id); en.copy_read_landed(*t.barrier_home, bar.offset, agent, stamp); }
        en.complete_tx(*t.barrier_home, bar.offset, bytes, what);
      };
      e.issue(std::move(o));
      if (from.home) e.add_read(*from.home, from.offset, from.offset + bytes, id);
    }
  }
  return step::next;
}

// ---- tensor copies
step op_tensor_copy(engine& e, warp& w, context&, const instruction& i, lanes active) {
  const copy_detail& x = e.code.detail<copy_detail>(i);
  const instruction* what = &i;
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const std::uint64_t map_address = value_of(w, x.map, l);
    if (map_address % 64) e.fault("misaligned", "a tensor map must be aligned to 64 bytes", &w, &i, 1U << l);
    const std::byte* blob = nullptr;
    if (map_address - param_window < window_bytes && map_address - param_window + 128 <= e.parameters.size()) blob = e.parameters.data() + (map_address - param_window);
    else blob = e.memory.at(map_address, 128);
    if (!blob) e.fault("out_of_bounds", cat("the tensor map lies at ", e.memory.describe(map_address)), &w, &i, 1U << l);
    decoded_map map;
    const complaint bad_map = decode_tensor_map(std::span<const std::byte, 128>(blob, 128), map);
    if (bad_map) e.fault(bad_map.kind == misuse::malformed ? "descriptor_misuse" : to_string(bad_map.kind), bad_map.text, &w, &i, 1U << l);
    if (!x.rows4 && map.map.rank != x.tensor_rank) e.fault("descriptor_misuse", cat("a ", x.tensor_rank, "d copy with a map of rank ", map.map.rank), &w, &i, 1U << l);
    std::int32_t c[5] = {};
    for (std::size_t k = 0; k < x.coordinates.size(); ++k) c[k] = static_cast<std::int32_t>(w.slot<std::uint32_t>(x.coordinates[k])[l]);
    const bool store = x.to == space::global;
    auto pieces = std::make_shared<std::vector<box_piece>>();
    if (x.rows4) e.check(walk_rows(map, c[0], std::span<const std::int32_t, 4>(c + 1, 4), store, *pieces), &w, &i, 1U << l);
    else e.check(walk_tile(map, std::span<const std::int32_t>(c, static_cast<std::size_t>(x.tensor_rank)), store, *pieces), &w, &i, 1U << l);
    for (const box_piece& p : *pieces)
      if (p.kind == box_piece::what::copy && !e.memory.at(p.global, p.bytes)) e.fault("out_of_bounds", cat("the tensor map reaches ", p.bytes, " bytes of global memory at ", e.memory.describe(p.global)), &w, &i, 1U << l);
    const swizzle_mode swizzle = map.swizzle;
    if (store) {
      const shared_place from = place(e, w, i, l, x.source, false);
      if (from.offset % 128) { aligned_to(e, w, i, l, from.offset, 16, "shared address"); e.lint("the shared address of a tensor copy is not aligned to 128 bytes", &i); }
      reduce_type type = reduce_type::u32;
      if (x.reduce) e.check(reduce_type_of(map.map.element, x.op, type), &w, &i, 1U << l);
      const std::uint64_t id = e.next_operation;
      std::vector<byte_range> reads;
      for (const box_piece& p : *pieces) {
        if (p.kind != box_piece::what::copy) continue;
        for_swizzled_parts(swizzle, from.offset, p, [&](std::uint32_t at, std::uint32_t, std::uint32_t bytes) {
          e.check_shared_range(*from.home, at, bytes, &w, &i, l);
          e.read_shadow(*from.home, at, bytes, &w, &i, l);
          e.async_read(w, *from.home, at, bytes, &i, l, false);
          if (!reads.empty() && reads.back().end == at) reads.back().end = at + bytes; else reads.push_back({at, at + bytes});
        });
      }
      // Swizzled parts come in mixed order: merge them so that the list stays short.
      std::sort(reads.begin(), reads.end(), [](const auto& a, const auto& b) { return a.begin < b.begin; });
      for (std::size_t k = 0; k < reads.size();) {
        const std::uint32_t begin = reads[k].begin;
        std::uint32_t end = reads[k].end;
        for (++k; k < reads.size() && reads[k].begin == end; ++k) end = reads[k].end;
        e.add_read(*from.home, begin, end, id);
      }
      auto buffer = std::make_shared<std::vector<std::byte>>();
      async_operation o;
      o.home = from.home;
      o.stages = 2;
      o.what = what;
      const bool reduce = x.reduce;
      const reduce_op op = x.op;
      o.land = [=](engine& en, int stage) {
        std::size_t at_byte = 0;
        for (const box_piece& p : *pieces) {
          if (p.kind != box_piece::what::copy) continue;
          if (stage == 0) {
            buffer->resize(at_byte + p.bytes);
            for_swizzled_parts(swizzle, from.offset, p, [&](std::uint32_t at, std::uint32_t done, std::uint32_t bytes) { std::memcpy(buffer->data() + at_byte + done, from.home->shared.data() + at, bytes); });
          } else if (std::byte* d = en.memory.at(p.global, p.bytes)) {
            en.memory.writes(p.global, p.bytes);
            if (reduce) reduce_elements(op, type, d, buffer->data() + at_byte, p.bytes);
            else std::memcpy(d, buffer->data() + at_byte, p.bytes);
          }
          at_byte += p.bytes;
        }
        if (stage == 0) en.end_reads(*from.home, id);
      };
      e.issue(std::move(o));
      e.read_stamps[id] = w.copy_clock;
      if (!reduce) for (const box_piece& p : *pieces) if (p.kind == box_piece::what::copy) e.async_global_write(w, id, p.global, p.bytes, &i);
      join_group(w, l, id, i);
      continue;
    }
    for (const box_piece& p : *pieces) if (p.kind == box_piece::what::copy) e.race_global(w, p.global, p.bytes, false, &i, -1);
    const bool cluster_form = x.to == space::shared_cluster;
    const shared_place to = place(e, w, i, l, x.destination, cluster_form), bar = place(e, w, i, l, x.barrier, cluster_form);
    if (to.offset % 128) { aligned_to(e, w, i, l, to.offset, 16, "shared address"); e.lint("the shared address of a tensor copy is not aligned to 128 bytes", &i); }
    const std::uint32_t transaction = box_transaction_bytes(map, x.rows4);
    const auto pattern = fill_pattern(map);
    const device::map_element element = map.map.element;
    for (const target& t : targets(e, w, i, l, x, to, bar)) {
      e.barrier_at(*t.barrier_home, bar.offset, &w, &i, l);
      e.use_barrier(w, *t.barrier_home, bar.offset, &i, l);
      for (const box_piece& p : *pieces)
        for_swizzled_parts(swizzle, to.offset, p, [&](std::uint32_t at, std::uint32_t, std::uint32_t bytes) {
          e.check_shared_range(*t.home, at, bytes, &w, &i, l);
          e.async_write(w, *t.home, at, bytes, &i, l);
          e.mark_in_flight(*t.home, at, bytes, &w, &i, l);
        });
      async_operation o;
      o.home = t.home;
      o.what = what;
      if (!pieces->empty()) {
        std::uint32_t last = 0;
        for (const box_piece& p : *pieces) last = std::max(last, p.shared_offset + p.bytes);
        o.writes.push_back({t.home, to.offset, to.offset + last});
      }
      o.land = [=](engine& en, int) {
        if (t.home->exited) en.fault("peer_exited", cat("a copy that signals the ", en.barrier_text(bar.offset), " lands in CTA rank ", t.home->rank, ", which has exited", en.exit_text(*t.home)), nullptr, what);
        for (const box_piece& p : *pieces) {
          const std::byte* s = p.kind == box_piece::what::copy ? en.memory.at(p.global, p.bytes) : nullptr;
          for_swizzled_parts(swizzle, to.offset, p, [&](std::uint32_t at, std::uint32_t done, std::uint32_t bytes) {
            std::byte* d = t.home->shared.data() + at;
            if (s) std::memcpy(d, s + done, bytes), convert_loaded(element, d, bytes);
            else if (p.kind == box_piece::what::fill) for (std::uint32_t k = 0; k < bytes; ++k) d[k] = pattern[(p.shared_offset + done + k) & 15U];
            en.set_shadow(*t.home, at, bytes, p.kind == box_piece::what::pad ? shadow_unwritten : shadow_written);
            en.async_landed(*t.home, at, bytes, *t.barrier_home, bar.offset, what);
          });
        }
        en.complete_tx(*t.barrier_home, bar.offset, transaction, what);
      };
      e.issue(std::move(o));
    }
  }
  return step::next;
}

step op_bulk_group(engine& e, warp& w, context&, const instruction& i, lanes active) {
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    if (i.sub == 0) {
      thread_async& t = w.of(l);
      t.bulk_groups.push_back(std::move(t.open_bulk));
      t.open_bulk.clear();
      t.open_places.clear();
      continue;
    }
    if (!w.async[static_cast<std::size_t>(l)]) continue;
    thread_async& t = w.of(l);
    const std::size_t keep = static_cast<std::size_t>(i.imm);
    if (t.bulk_groups.size() <= keep) continue;
    const std::size_t n = t.bulk_groups.size() - keep;
    for (std::size_t g = 0; g < n; ++g)
      for (const std::uint64_t id : t.bulk_groups[g]) { e.force(id, i.sub == 2 ? 0 : 1); e.observe_read(w, id, active); if (i.sub == 1) e.observe_operation(w, id); }
    if (i.sub == 1) t.bulk_groups.erase(t.bulk_groups.begin(), t.bulk_groups.begin() + static_cast<std::ptrdiff_t>(n));
  }
  return step::next;
}

// ---- cp.async
step op_copy_async(engine& e, warp& w, context&, const instruction& i, lanes active) {
  const copy_detail& x = e.code.detail<copy_detail>(i);
  struct one { std::uint32_t to; std::uint64_t from; std::uint32_t bytes; };
  auto list = std::make_shared<std::vector<one>>();
  const std::uint32_t size = static_cast<std::uint32_t>(i.imm);
  cta* home = w.home;
  const std::uint64_t id = e.next_operation;
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const shared_place to = place(e, w, i, l, x.destination, false);
    const std::uint64_t from = value_of(w, x.source, l);
    aligned_to(e, w, i, l, to.offset, size, "shared address");
    std::uint32_t bytes = size;
    if (i.b != no_slot) bytes = std::min(size, w.slot<std::uint32_t>(i.b)[l]);
    if (i.c != no_slot && ((*w.slot<lanes>(i.c) >> l & 1U) != 0) != i.mode.invert_c) bytes = 0;
    if (bytes) {
      aligned_to(e, w, i, l, from, size, "global address");
      if (!e.memory.at(from, bytes)) e.fault("out_of_bounds", cat(bytes, " bytes of global memory at ", e.memory.describe(from)), &w, &i, 1U << l);
    }
    if (bytes) e.race_global(w, from, bytes, false, &i, l);
    e.check_shared_range(*home, to.offset, size, &w, &i, l);
    e.generic_write(w, *home, to.offset, size, &i, l);
    e.mark_in_flight(*home, to.offset, size, &w, &i, l);
    list->push_back({to.offset, from, bytes});
    w.of(l).open_copies.push_back(id);
  }
  async_operation o;
  o.home = home;
  o.what = &i;
  o.land = [=](engine& en, int) {
    for (const one& c : *list) {
      std::byte* d = home->shared.data() + c.to;
      if (c.bytes) std::memcpy(d, en.memory.at(c.from, c.bytes), c.bytes);
      std::memset(d + c.bytes, 0, size - c.bytes);
      en.set_shadow(*home, c.to, size, shadow_written);
    }
  };
  e.issue(std::move(o));
  return step::next;
}

step op_copy_async_group(engine& e, warp& w, context&, const instruction& i, lanes active) {
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    thread_async& t = w.of(l);
    if (i.sub == 0) { t.copy_groups.push_back(std::move(t.open_copies)); t.open_copies.clear(); continue; }
    if (i.sub == 2) { for (const std::uint64_t id : t.open_copies) e.force(id, 0); t.open_copies.clear(); }
    const std::size_t keep = i.sub == 2 ? 0 : static_cast<std::size_t>(i.imm);
    while (t.copy_groups.size() > keep) { for (const std::uint64_t id : t.copy_groups.front()) e.force(id, 0); t.copy_groups.pop_front(); }
  }
  return step::next;
}

step op_copy_async_arrive(engine& e, warp& w, context&, const instruction& i, lanes active) {
  const instruction* what = &i;
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const operand_address a{i.a, i.wide_address, i.imm, i.where};
    const shared_place bar = place(e, w, i, l, a, false);
    mbarrier_state& s = e.barrier_at(*bar.home, bar.offset, &w, &i, l);
    e.use_barrier(w, *bar.home, bar.offset, &i, l);
    if (!(i.flags & 1)) e.barrier_done(*bar.home, bar.offset, barrier_add_pending(s), &w, &i, l);
    std::vector<std::uint64_t> ids = w.of(l).open_copies;
    for (const auto& g : w.of(l).copy_groups) ids.insert(ids.end(), g.begin(), g.end());
    e.arrive_mbarrier(w, *bar.home, bar.offset, active);
    async_operation o;
    o.home = bar.home;
    o.what = what;
    o.land = [=](engine& en, int) {
      for (const std::uint64_t id : ids) en.force(id, 0);
      mbarrier_state& state = en.barrier_at(*bar.home, bar.offset, nullptr, what, -1);
      en.barrier_done(*bar.home, bar.offset, barrier_arrive(state), nullptr, what, -1);
    };
    e.issue(std::move(o));
  }
  return step::next;
}

// ---- st.async, red.async
step op_store_async(engine& e, warp& w, context&, const instruction& i, lanes active) {
  const copy_detail& x = e.code.detail<copy_detail>(i);
  const instruction* what = &i;
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const shared_place to = place(e, w, i, l, x.destination, true), bar = place(e, w, i, l, x.barrier, true);
    if (to.home != bar.home) e.fault("barrier_misuse", "the address and the mbarrier must be in one CTA", &w, &i, 1U << l);
    const std::uint32_t bytes = i.bytes * static_cast<std::uint32_t>(x.coordinates.size());
    aligned_to(e, w, i, l, to.offset, bytes, "shared address");
    e.check_shared_range(*to.home, to.offset, bytes, &w, &i, l);
    e.barrier_at(*bar.home, bar.offset, &w, &i, l);
    e.use_barrier(w, *bar.home, bar.offset, &i, l);
    std::vector<std::byte> data(bytes);
    for (std::size_t k = 0; k < x.coordinates.size(); ++k) {
      if (i.bytes == 8) std::memcpy(data.data() + 8 * k, &w.slot<std::uint64_t>(x.coordinates[k])[l], 8);
      else std::memcpy(data.data() + std::size_t{i.bytes} * k, &w.slot<std::uint32_t>(x.coordinates[k])[l], i.bytes);
    }
    if (x.reduce) { e.check(reduce_allowed(x.op, x.type, reduce_place::shared_cluster), &w, &i, 1U << l); e.async_update(w, *to.home, to.offset, bytes, &i, l); }
    else { e.generic_write(w, *to.home, to.offset, bytes, &i, l); e.mark_in_flight(*to.home, to.offset, bytes, &w, &i, l); }
    async_operation o;
    o.home = to.home;
    o.what = what;
    o.land = [=, &x](engine& en, int) {
      if (to.home->exited) en.fault("peer_exited", cat("a store that signals the ", en.barrier_text(bar.offset), " lands in CTA rank ", to.home->rank, ", which has exited", en.exit_text(*to.home)), nullptr, what);
      std::byte* d = to.home->shared.data() + to.offset;
      if (x.reduce) reduce_elements(x.op, x.type, d, data.data(), bytes);
      else { std::memcpy(d, data.data(), bytes); en.set_shadow(*to.home, to.offset, bytes, shadow_written); en.async_landed(*to.home, to.offset, bytes, *bar.home, bar.offset, what); }
      en.complete_tx(*bar.home, bar.offset, bytes, what);
    };
    e.issue(std::move(o));
  }
  return step::next;
}

// ---- tensor maps edited by the device
step op_tensormap_replace(engine& e, warp& w, context&, const instruction& i, lanes active) {
  const copy_detail& x = e.code.detail<copy_detail>(i);
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const std::uint64_t a = value_of(w, x.destination, l);
    std::byte* p = e.resolve_one(w, i, l, x.destination.where, a, 128, engine::access::write);
    const std::uint64_t v = i.wide ? w.slot<std::uint64_t>(x.size)[l] : w.slot<std::uint32_t>(x.size)[l];
    e.check(replace_map_field(std::span<std::byte, 128>(p, 128), x.field, x.ordinal, v), &w, &i, 1U << l);
  }
  return step::next;
}

step op_tensormap_copy(engine& e, warp& w, context&, const instruction& i, lanes active) {
  const copy_detail& x = e.code.detail<copy_detail>(i);
  const int l = std::countr_zero(active);  // .sync.aligned: the warp copies once
  const std::byte* s = e.resolve_one(w, i, l, x.source.where, value_of(w, x.source, l), 128, engine::access::read);
  std::byte* d = e.resolve_one(w, i, l, x.destination.where, value_of(w, x.destination, l), 128, engine::access::write);
  std::memcpy(d, s, 128);
  return step::next;
}

// ---- launch control. The 16-byte answer: first ctaid x, y, z, and a word that is 1 when a cluster was taken.
step op_launch_cancel(engine& e, warp& w, context&, const instruction& i, lanes active) {
  const copy_detail& x = e.code.detail<copy_detail>(i);
  const instruction* what = &i;
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const shared_place to = place(e, w, i, l, x.destination, false), bar = place(e, w, i, l, x.barrier, false);
    aligned_to(e, w, i, l, to.offset, 16, "shared address");
    std::vector<cta*> homes{w.home};
    if (x.multicast) { homes.clear(); for (const auto& c : w.home->home->ctas) homes.push_back(c.get()); }
    for (cta* h : homes) {
      if (h->exited) e.fault("peer_exited", "launch control multicast with a CTA that has exited", &w, &i, 1U << l);
      e.check_shared_range(*h, to.offset, 16, &w, &i, l);
      e.barrier_at(*h, bar.offset, &w, &i, l);
      e.use_barrier(w, *h, bar.offset, &i, l);
      e.async_write(w, *h, to.offset, 16, &i, l);
      e.mark_in_flight(*h, to.offset, 16, &w, &i, l);
    }
    async_operation o;
    o.home = w.home;
    o.what = what;
    o.land = [=](engine& en, int) {
      std::uint32_t answer[4] = {0xDEADBEEFU, 0xDEADBEEFU, 0xDEADBEEFU, 0};
      if (en.next_cluster < en.cluster_count) {
        const std::uint64_t n = en.next_cluster++;
        ++en.retired;
        answer[0] = static_cast<std::uint32_t>(n % en.cluster_grid.x) * en.shape.cluster.x;
        answer[1] = static_cast<std::uint32_t>(n / en.cluster_grid.x % en.cluster_grid.y) * en.shape.cluster.y;
        answer[2] = static_cast<std::uint32_t>(n / (std::uint64_t{en.cluster_grid.x} * en.cluster_grid.y)) * en.shape.cluster.z;
        answer[3] = 1;
      }
      for (cta* h : homes) {
        std::memcpy(h->shared.data() + to.offset, answer, 16);
        en.set_shadow(*h, to.offset, 16, shadow_written);
        en.async_landed(*h, to.offset, 16, *h, bar.offset, what);
        en.complete_tx(*h, bar.offset, 16, what);
      }
    };
    e.issue(std::move(o));
  }
  return step::next;
}

step op_launch_query(engine& e, warp& w, context&, const instruction& i, lanes active) {
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const std::uint64_t low = w.slot<std::uint64_t>(i.a)[l], high = w.slot<std::uint64_t>(i.a + 256)[l];
    const std::uint32_t word[4] = {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(low >> 32), static_cast<std::uint32_t>(high), static_cast<std::uint32_t>(high >> 32)};
    if (i.sub == 0) { lanes& d = *w.slot<lanes>(i.d); d = (d & ~(1U << l)) | (word[3] == 1 ? 1U << l : 0U); continue; }
    if (word[3] != 1) e.lint("get_first_ctaid of a request that failed is undefined", &i);
    if (i.sub == 1) { for (std::uint32_t k = 0; k < 4; ++k) if (const std::uint32_t s = e.code.lists[i.list + k]; s != no_slot) w.slot<std::uint32_t>(s)[l] = word[k]; }
    else w.slot<std::uint32_t>(i.d)[l] = word[i.sub - 2];
  }
  return step::next;
}

}  // namespace tlx::sim
