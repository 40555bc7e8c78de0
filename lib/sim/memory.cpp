// Global memory, address resolution with every check, loads, stores and atomics.
#include <algorithm>
#include <bit>
#include <cstring>

#include "sim/ops.hpp"
#include "sim/units/tensor_map.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {

// ---- global memory
std::uint64_t global_memory::allocate(std::size_t bytes, const std::string& name) {
  auto a = std::make_unique<allocation>();
  a->base = next_;
  a->bytes = bytes;
  a->data = std::make_unique<std::byte[]>(bytes + 64);
  a->name = name;
  // A gap after each allocation, so that running over the end never lands in the next one by accident.
  next_ += (bytes + 255) / 256 * 256 + 4096;
  list.push_back(std::move(a));
  return list.back()->base;
}

void global_memory::release(std::uint64_t base) {
  last_ = nullptr;
  if (const allocation* a = find(base); a && a->base == base) freed_.push_back({base, a->bytes, a->name});
  if (freed_.size() > 256) freed_.pop_front();
  list.erase(std::remove_if(list.begin(), list.end(), [&](const auto& a) { return a->base == base; }), list.end());
}

allocation* global_memory::find(std::uint64_t address) {
  auto after = std::upper_bound(list.begin(), list.end(), address, [](std::uint64_t x, const auto& a) { return x < a->base; });
  return after == list.begin() ? nullptr : std::prev(after)->get();
}

std::byte* global_memory::at(std::uint64_t address, std::size_t bytes) {
  allocation* a = last_;
  if (!a || address < a->base || address - a->base + bytes > a->bytes) {
    a = find(address);
    if (!a || address - a->base + bytes > a->bytes || address - a->base > a->bytes) return nullptr;
    last_ = a;
  }
  return a->data.get() + (address - a->base);
}

std::byte* global_view::at(std::uint64_t address, std::size_t bytes) {
  allocation* a = last_;
  if (!a || address < a->base || address - a->base + bytes > a->bytes) {
    a = all_->find(address);
    if (!a || address - a->base + bytes > a->bytes || address - a->base > a->bytes) return nullptr;
    last_ = a;
  }
  if (cluster) claim(address, bytes, false);
  return a->data.get() + (address - a->base);
}

void global_view::claim(std::uint64_t address, std::size_t bytes, bool write) {
  if (bytes == 0) return;
  const allocation& a = *last_;  // at() came just before
  if (address < a.base || address - a.base + bytes > a.bytes) { at(address, bytes); claim(address, bytes, write); return; }
  constexpr std::uint64_t several = 0xFFFFFFFFU;
  const std::uint64_t me = cluster;
  for (std::uint64_t g = (address - a.base) >> 3; g <= (address - a.base + bytes - 1) >> 3; ++g) {
    std::uint64_t now = a.claims[g].load(std::memory_order_relaxed);
    for (;;) {
      const std::uint64_t writer = now & several, reader = now >> 32;
      std::uint64_t then = now;
      if (write) {
        if ((writer && writer != me) || (reader && reader != me)) throw clusters_meet{};
        then = (now & ~several) | me;
      } else {
        if (writer && writer != me) throw clusters_meet{};
        if (reader != me && reader != several) then = writer | (reader ? several : me) << 32;
      }
      if (then == now) break;
      if (!a.claims[g].compare_exchange_weak(now, then, std::memory_order_acq_rel)) continue;
      if (write && !writer) {
        const std::uint64_t at_byte = g << 3;
        old_bytes old{a.data.get() + at_byte, 0, static_cast<std::uint32_t>(std::min<std::uint64_t>(8, a.bytes - at_byte))};
        std::memcpy(&old.value, old.at, old.bytes);
        overwritten.push_back(old);
      }
      break;
    }
  }
}

std::string global_memory::describe(std::uint64_t address) const {
  const allocation* before = nullptr;
  const allocation* next = nullptr;
  for (const auto& a : list) { if (a->base <= address) before = a.get(); else { next = a.get(); break; } }
  char hex[32];
  std::snprintf(hex, sizeof hex, "0x%llx", static_cast<unsigned long long>(address));
  for (const freed& f : freed_) if (address - f.base < f.bytes) return cat(hex, ", byte ", address - f.base, " of \"", f.name, "\" (", f.bytes, " bytes), which was freed");
  if (before && address - before->base < before->bytes) return cat(hex, ", byte ", address - before->base, " of \"", before->name, "\" (", before->bytes, " bytes)");
  if (before && address - before->base < before->bytes + 65536) return cat(hex, ", ", address - before->base - before->bytes, " bytes past the end of \"", before->name, "\" (", before->bytes, " bytes)");
  if (next && next->base - address < 65536) return cat(hex, ", ", next->base - address, " bytes before \"", next->name, "\" (", next->bytes, " bytes)");
  return cat(hex, ", far from any allocation");
}

// ---- shared memory
void engine::check_shared_range(cta& c, std::uint32_t offset, std::size_t bytes, const warp* w, const instruction* i, int lane) {
  if (offset < shared_start || offset + bytes > shared_bytes)
    fault("out_of_bounds", cat("shared memory bytes [", offset, ", ", offset + bytes, ") of CTA rank ", c.rank, " are outside [", shared_start, ", ", shared_bytes, ")"), w, i, lane < 0 ? 0 : 1U << lane);
}

/// ": cp.async.bulk... of ptx line 12", the copy in flight that will write this byte, if it is known by its mark.
std::string engine::copy_to(const cta& c, std::uint32_t offset) const {
  for (const async_operation& o : in_flight)
    for (const auto& [home, begin, end] : o.writes) if (home == &c && begin <= offset && offset < end) return cat(": ", std::string(o.what->opcode), " of ", place_of(*o.what));
  return {};
}

void engine::read_shadow(cta& c, std::uint32_t offset, std::size_t bytes, const warp* w, const instruction* i, int lane) {
  const std::uint8_t* s = c.shadows.data() + offset;
  if (bytes == 4) { std::uint32_t v; std::memcpy(&v, s, 4); if (v == 0x01010101U) [[likely]] return; }
  else if (bytes == 16) { std::uint64_t v[2]; std::memcpy(v, s, 16); if ((v[0] & v[1]) == 0x0101010101010101ULL && (v[0] | v[1]) == 0x0101010101010101ULL) [[likely]] return; }
  for (std::size_t k = 0; k < bytes; ++k) {
    if (s[k] == shadow_written) [[likely]] continue;
    const lanes who = lane < 0 ? 0 : 1U << lane;
    if (s[k] == shadow_in_flight) fault("race", cat(byte_text(static_cast<std::uint32_t>(offset + k)), " is read while an asynchronous copy to it is in flight", copy_to(c, static_cast<std::uint32_t>(offset + k))), w, i, who);
    if (s[k] == shadow_barrier) fault("barrier_misuse", cat(byte_text(static_cast<std::uint32_t>(offset + k)), " belongs to a live mbarrier and is read like ordinary memory"), w, i, who);
    note_uninitialized(cat(byte_text(static_cast<std::uint32_t>(offset + k)), " is read but nobody wrote it"), w, i, who);
    return;
  }
}

void engine::check_not_read(cta& c, std::uint32_t offset, std::size_t bytes, const warp* w, const instruction* i, int lane) {
  bool any = false;
  for (std::size_t g = offset >> 4; g <= (offset + bytes - 1) >> 4; ++g) any |= c.reading[g] != 0;
  if (!any) [[likely]] return;
  for (const cta::reader& r : c.async_reads)
    for (const byte_range& range : r.ranges) {
      if (offset >= range.end || range.begin >= offset + bytes) continue;
      std::string by;
      for (const async_operation& o : in_flight) if (o.id == r.operation && o.what) by = cat(": ", std::string(o.what->opcode), " of ", place_of(*o.what));
      const auto issued = [&](const std::vector<std::uint64_t>& ids) { return std::find(ids.begin(), ids.end(), r.operation) != ids.end(); };
      for (const auto& x : c.warps)
        if (std::any_of(x->async.begin(), x->async.end(), [&](const auto& t) { return t && (issued(t->open_bulk) || std::any_of(t->bulk_groups.begin(), t->bulk_groups.end(), issued)); })) by += ungrouped_text(*x);
      for (const auto& x : c.warps) for (const pending_wgmma& p : x->wgmmas) if (p.id == r.operation) by = cat(": ", std::string(p.what->opcode), " of warp ", x->index, ", ", place_of(*p.what), ", which no wgmma.wait_group has ended");
      fault("race", cat(byte_text(std::max(offset, range.begin)), " is overwritten while an asynchronous operation may still read it", by), w, i, lane < 0 ? 0 : 1U << lane);
    }
}

/// Bulk operations of a warp that are in no group: its waits, which count groups, then end too early.
std::string engine::ungrouped_text(const warp& w) const {
  std::string text;
  for (const auto& t : w.async)
    if (t)
      for (const instruction* i : t->open_places) text += cat("; no cp.async.bulk.commit_group has followed the one of ", place_of(*i));
  return text;
}

void engine::add_read(cta& c, std::uint32_t begin, std::uint32_t end, std::uint64_t id) {
  if (c.reading.empty()) c.reading.assign((shared_bytes >> 4) + 1, 0);
  for (std::uint16_t *g = c.reading.data() + (begin >> 4), *const last = c.reading.data() + ((end - 1) >> 4); g <= last; ++g) ++*g;
  if (c.async_reads.empty() || c.async_reads.back().operation != id) c.async_reads.push_back({id, {}});
  c.async_reads.back().ranges.push_back({begin, end});
}

void engine::end_reads(cta& c, std::uint64_t id) {
  for (const cta::reader& r : c.async_reads)
    if (r.operation == id)
      for (const byte_range& range : r.ranges)
        for (std::uint16_t *g = c.reading.data() + (range.begin >> 4), *const last = c.reading.data() + ((range.end - 1) >> 4); g <= last; ++g) --*g;
  c.async_reads.erase(std::remove_if(c.async_reads.begin(), c.async_reads.end(), [&](const cta::reader& r) { return r.operation == id; }), c.async_reads.end());
}

void engine::mark_in_flight(cta& c, std::uint32_t offset, std::size_t bytes, const warp* w, const instruction* i, int lane) {
  if (!c.async_reads.empty()) check_not_read(c, offset, bytes, w, i, lane);
  std::uint8_t* s = c.shadows.data() + offset;
  for (std::size_t k = 0; k < bytes; ++k) {
    if (s[k] > shadow_written) [[unlikely]] {
      if (s[k] == shadow_barrier) fault("barrier_misuse", cat(byte_text(static_cast<std::uint32_t>(offset + k)), " belongs to a live mbarrier and is the destination of a copy"), w, i, lane < 0 ? 0 : 1U << lane);
      fault("race", cat(byte_text(static_cast<std::uint32_t>(offset + k)), " is the destination of two asynchronous copies in flight"), w, i, lane < 0 ? 0 : 1U << lane);
    }
    s[k] = shadow_in_flight;
  }
}

void engine::write_shadow(cta& c, std::uint32_t offset, std::size_t bytes, const warp* w, const instruction* i, int lane) {
  if (!c.async_reads.empty()) [[unlikely]] check_not_read(c, offset, bytes, w, i, lane);
  std::uint8_t* s = c.shadows.data() + offset;
  if (bytes == 4) { std::uint32_t v; std::memcpy(&v, s, 4); if ((v & ~0x01010101U) == 0) [[likely]] { v = 0x01010101U; std::memcpy(s, &v, 4); return; } }
  for (std::size_t k = 0; k < bytes; ++k) {
    if (s[k] > shadow_written) [[unlikely]] {
      const lanes who = lane < 0 ? 0 : 1U << lane;
      if (s[k] == shadow_in_flight) fault("race", cat(byte_text(static_cast<std::uint32_t>(offset + k)), " is written while an asynchronous copy to it is in flight"), w, i, who);
      fault("barrier_misuse", cat(byte_text(static_cast<std::uint32_t>(offset + k)), " belongs to a live mbarrier and is written like ordinary memory"), w, i, who);
    }
    s[k] = shadow_written;
  }
}

void engine::set_shadow(cta& c, std::uint32_t offset, std::size_t bytes, std::uint8_t value) { std::memset(c.shadows.data() + offset, value, bytes); }

cta& engine::shared_owner(warp& w, const instruction& i, int lane, std::uint32_t address, bool remote) {
  const std::uint32_t rank = address >> 24;
  cta& own = *w.home;
  if (rank == own.rank) return own;
  if (!remote || rank >= own.home->ctas.size())
    fault("out_of_bounds", cat("shared address 0x", [&] { char t[16]; std::snprintf(t, sizeof t, "%x", address); return std::string(t); }(), " names CTA rank ", rank, remote ? ", which the cluster does not have" : ", but this instruction reaches only its own CTA"), &w, &i, 1U << lane);
  cta& other = *own.home->ctas[rank];
  if (other.exited) fault("peer_exited", cat("CTA rank ", rank, " has exited; its shared memory is gone", exit_text(other)), &w, &i, 1U << lane);
  check_started(w, other, i, lane);
  return other;
}

void engine::check_started(warp& w, const cta& other, const instruction& i, int lane) {
  if (!how.detect_races || w.home->cluster_met || &other == w.home) return;
  for (const auto& o : other.warps)
    if (seen_of(w.now.seen, o->agent) > 0) return;
  fault("race", cat("the shared memory of CTA rank ", other.rank, " is touched and nothing shows that this CTA has started: a cluster barrier must lie before"), &w, &i, 1U << lane);
}

std::byte* engine::resolve_one(warp& w, const instruction& i, int lane, space where, std::uint64_t address, std::size_t bytes, access how_) {
  const lanes who = 1U << lane;
  const bool strong = (i.run == op_load || i.run == op_store || i.run == op_atomic) && (i.flags & 1U);
  if (where == space::generic) {
    if (address - shared_window < window_bytes) { where = space::shared_cluster; address -= shared_window; }
    else if (address - local_window < window_bytes) { where = space::local; address -= local_window; }
    else if (address - param_window < window_bytes) { where = space::param; address -= param_window; }
    else where = space::global;
  }
  const std::size_t align = std::min<std::size_t>(std::bit_floor(bytes), 32);
  if (address & (align - 1)) fault("misaligned", cat("address 0x", [&] { char t[32]; std::snprintf(t, sizeof t, "%llx", static_cast<unsigned long long>(address)); return std::string(t); }(), " (", to_string(where), ") is not aligned to ", align, " bytes"), &w, &i, who);
  switch (where) {
    case space::global: case space::constant: {
      std::byte* p = memory.at(address, bytes);
      if (!p) fault("out_of_bounds", cat(bytes, " bytes of global memory at ", memory.describe(address)), &w, &i, who);
      if (where == space::global) {
        if (strong) publish(w, address, i, how_ != access::write, false);
        race_global(w, address, bytes, how_ != access::read, &i, lane);
        if (strong && how_ != access::read) publish(w, address, i, how_ == access::atomic, true);
      }
      if (how_ != access::read) memory.writes(address, bytes);
      return p;
    }
    case space::shared: case space::shared_cluster: {
      cta& c = shared_owner(w, i, lane, static_cast<std::uint32_t>(address), where == space::shared_cluster);
      const std::uint32_t offset = static_cast<std::uint32_t>(address) & 0xFFFFFFU;
      check_shared_range(c, offset, bytes, &w, &i, lane);
      if (how_ != access::write) { read_shadow(c, offset, bytes, &w, &i, lane); race_read(w, c, offset, bytes, &i, lane, strong); }
      if (how_ != access::read) { write_shadow(c, offset, bytes, &w, &i, lane); race_write(w, c, offset, bytes, &i, lane, strong); }
      return c.shared.data() + offset;
    }
    case space::local:
      if (address + bytes > code.local_bytes) fault("out_of_bounds", cat("local memory bytes [", address, ", ", address + bytes, ") of ", code.local_bytes), &w, &i, who);
      return w.local.data() + std::size_t{code.local_bytes} * static_cast<unsigned>(lane) + address;
    case space::param:
      if (address + bytes > parameters.size()) fault("out_of_bounds", cat("parameter bytes [", address, ", ", address + bytes, ") of ", parameters.size()), &w, &i, who);
      if (how_ != access::read) fault("out_of_bounds", "kernel parameters are read-only", &w, &i, who);
      return parameters.data() + address;
    default: break;
  }
  fault("out_of_bounds", "address without a state space", &w, &i, who);
}

void engine::resolve(warp& w, const instruction& i, lanes active, space where, std::uint32_t slot, bool wide, std::int64_t offset, std::size_t bytes, access how_, std::byte* (&out)[32]) {
  const std::uint64_t o = static_cast<std::uint64_t>(offset);
  const bool strong = (i.run == op_load || i.run == op_store || i.run == op_atomic) && (i.flags & 1U);
  if (where == space::shared) {
    // The common case without a call per lane: own CTA, inside, aligned, everything written and quiet.
    cta& c = *w.home;
    const std::uint32_t base = c.rank << 24, limit = shared_bytes - static_cast<std::uint32_t>(bytes), align = static_cast<std::uint32_t>(std::min<std::size_t>(std::bit_floor(bytes), 32)) - 1;
    for (lanes m = active; m; m &= m - 1) {
      const int l = std::countr_zero(m);
      const std::uint32_t a = static_cast<std::uint32_t>((wide ? w.slot<std::uint64_t>(slot)[l] : w.slot<std::uint32_t>(slot)[l]) + o), at = a - base;
      if (at < shared_start || at > limit || (at & align)) { out[l] = resolve_one(w, i, l, where, a, bytes, how_); continue; }
      if (how_ != access::write) { read_shadow(c, at, bytes, &w, &i, l); race_read(w, c, at, bytes, &i, l, strong); }
      if (how_ != access::read) { write_shadow(c, at, bytes, &w, &i, l); race_write(w, c, at, bytes, &i, l, strong); }
      out[l] = c.shared.data() + at;
    }
    return;
  }
  if ((where == space::global || where == space::generic || where == space::constant) && wide) {
    const std::uint64_t align = std::min<std::size_t>(std::bit_floor(bytes), 32) - 1;
    const std::uint64_t* address = w.slot<std::uint64_t>(slot);
    const bool tracked = how.detect_races && where != space::constant;
    // Lanes side by side are one access to the race detector.
    std::uint64_t begin = 0, end = 0;
    int lane = -1;
    const auto note = [&] { if (end) race_global(w, begin, end - begin, how_ != access::read, &i, lane); };
    for (lanes m = active; m; m &= m - 1) {
      const int l = std::countr_zero(m);
      const std::uint64_t a = address[l] + o;
      std::byte* const p = (a & align) || strong ? nullptr : memory.at(a, bytes);
      if (p && how_ != access::read) memory.writes(a, bytes);
      out[l] = p ? p : resolve_one(w, i, l, where, a, bytes, how_);
      if (!p || !tracked) continue;
      if (a == end) { end += bytes; lane = lane_several; continue; }
      note();
      begin = a;
      end = a + bytes;
      lane = l;
    }
    note();
    return;
  }
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const std::uint64_t a = wide ? w.slot<std::uint64_t>(slot)[l] + o : static_cast<std::uint32_t>(w.slot<std::uint32_t>(slot)[l] + o);
    out[l] = resolve_one(w, i, l, where, a, bytes, how_);
  }
}

namespace {

template <class Memory, class Slot> void load_elements(warp& w, const std::uint32_t* list, unsigned count, lanes active, std::byte* const (&from)[32]) {
  for (unsigned k = 0; k < count; ++k) {
    if (list[k] == no_slot) continue;
    Slot* const d = w.slot<Slot>(list[k]);
    if (active == all_lanes) {
      for (int l = 0; l < 32; ++l) { Memory v; std::memcpy(&v, from[l] + k * sizeof(Memory), sizeof v); d[l] = static_cast<Slot>(v); }
    } else {
      for (lanes m = active; m; m &= m - 1) { const int l = std::countr_zero(m); Memory v; std::memcpy(&v, from[l] + k * sizeof(Memory), sizeof v); d[l] = static_cast<Slot>(v); }
    }
  }
}
template <class Memory, class Slot> void store_elements(warp& w, const std::uint32_t* list, unsigned count, lanes active, std::byte* const (&to)[32]) {
  // Lane by lane, so that the highest lane wins where lanes overlap.
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    for (unsigned k = 0; k < count; ++k) { const Memory v = static_cast<Memory>(w.slot<Slot>(list[k])[l]); std::memcpy(to[l] + k * sizeof(Memory), &v, sizeof v); }
  }
}

}  // namespace

step op_load(engine& e, warp& w, context&, const instruction& i, lanes active) {
  std::byte* from[32];
  const std::uint32_t* list = e.code.lists.data() + i.list;
  e.resolve(w, i, active, i.where, i.a, i.wide_address, i.imm, std::size_t{i.bytes} * i.count, engine::access::read, from);
  switch (i.bytes) {
    case 1: if (i.sign_extend) load_elements<std::int8_t, std::int32_t>(w, list, i.count, active, from); else load_elements<std::uint8_t, std::uint32_t>(w, list, i.count, active, from); break;
    case 2: if (i.sign_extend) load_elements<std::int16_t, std::int32_t>(w, list, i.count, active, from); else load_elements<std::uint16_t, std::uint32_t>(w, list, i.count, active, from); break;
    case 4: load_elements<std::uint32_t, std::uint32_t>(w, list, i.count, active, from); break;
    case 8: load_elements<std::uint64_t, std::uint64_t>(w, list, i.count, active, from); break;
    default:  // b128
      for (unsigned k = 0; k < i.count; ++k)
        for (lanes m = active; m; m &= m - 1) {
          const int l = std::countr_zero(m);
          std::memcpy(&w.slot<std::uint64_t>(list[k])[l], from[l] + 16 * k, 8);
          std::memcpy(&w.slot<std::uint64_t>(list[k] + 256)[l], from[l] + 16 * k + 8, 8);
        }
  }
  return step::next;
}

step op_store(engine& e, warp& w, context&, const instruction& i, lanes active) {
  std::byte* to[32];
  const std::uint32_t* list = e.code.lists.data() + i.list;
  e.resolve(w, i, active, i.where, i.a, i.wide_address, i.imm, std::size_t{i.bytes} * i.count, engine::access::write, to);
  switch (i.bytes) {
    case 1: store_elements<std::uint8_t, std::uint32_t>(w, list, i.count, active, to); break;
    case 2: store_elements<std::uint16_t, std::uint32_t>(w, list, i.count, active, to); break;
    case 4: store_elements<std::uint32_t, std::uint32_t>(w, list, i.count, active, to); break;
    case 8: store_elements<std::uint64_t, std::uint64_t>(w, list, i.count, active, to); break;
    default:
      for (unsigned k = 0; k < i.count; ++k)
        for (lanes m = active; m; m &= m - 1) {
          const int l = std::countr_zero(m);
          std::memcpy(to[l] + 16 * k, &w.slot<std::uint64_t>(list[k])[l], 8);
          std::memcpy(to[l] + 16 * k + 8, &w.slot<std::uint64_t>(list[k] + 256)[l], 8);
        }
  }
  return step::next;
}

step op_store_bulk(engine& e, warp& w, context&, const instruction& i, lanes active) {
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const std::uint64_t bytes = w.slot<std::uint64_t>(i.b)[l];
    const std::uint64_t a = (i.wide_address ? w.slot<std::uint64_t>(i.a)[l] : w.slot<std::uint32_t>(i.a)[l]) + static_cast<std::uint64_t>(i.imm);
    if (bytes % 8) e.fault("misaligned", cat("st.bulk of ", bytes, " bytes: not a multiple of 8"), &w, &i, 1U << l);
    for (std::uint64_t k = 0; k < bytes; k += 8) std::memset(e.resolve_one(w, i, l, i.where, a + k, 8, engine::access::write), 0, 8);
  }
  return step::next;
}

namespace {

reduce_type reduction_of(scalar t) {
  switch (t) {
    case scalar::u32: return reduce_type::u32;
    case scalar::s32: return reduce_type::s32;
    case scalar::u64: return reduce_type::u64;
    case scalar::s64: return reduce_type::s64;
    case scalar::f16: case scalar::f16x2: return reduce_type::f16;
    case scalar::bf16: case scalar::bf16x2: return reduce_type::bf16;
    case scalar::f32: return reduce_type::f32;
    case scalar::f64: return reduce_type::f64;
    case scalar::b64: return reduce_type::b64;
    default: return reduce_type::b32;
  }
}

}  // namespace

step op_atomic(engine& e, warp& w, context&, const instruction& i, lanes active) {
  std::byte* at[32];
  e.resolve(w, i, active, i.where, i.a, i.wide_address, i.imm, std::size_t{i.bytes} * i.count, engine::access::atomic, at);
  const std::uint32_t* out = e.code.lists.data() + i.list;
  const std::uint32_t* in = e.code.lists.data() + i.list2;
  // Lanes act one after the other in an order nobody promises: start anywhere.
  const int start = static_cast<int>(e.chance(32));
  for (int k = 0; k < 32; ++k) {
    const int l = (start + k) & 31;
    if (!(active >> l & 1U)) continue;
    for (unsigned n = 0; n < i.count; ++n) {
      std::byte* const p = at[l] + std::size_t{i.bytes} * n;
      std::byte old[16], operand[16], swap[16];
      std::memcpy(old, p, i.bytes);
      const auto value = [&](std::uint32_t slot, std::byte* to) {
        if (i.bytes == 16) { std::memcpy(to, &w.slot<std::uint64_t>(slot)[l], 8); std::memcpy(to + 8, &w.slot<std::uint64_t>(slot + 256)[l], 8); }
        else if (i.bytes == 8) std::memcpy(to, &w.slot<std::uint64_t>(slot)[l], 8);
        else std::memcpy(to, &w.slot<std::uint32_t>(slot)[l], i.bytes);
      };
      value(in[n], operand);
      switch (i.sub) {
        case 8: std::memcpy(p, operand, i.bytes); break;
        case 9: value(i.c, swap); if (std::memcmp(old, operand, i.bytes) == 0) std::memcpy(p, swap, i.bytes); break;
        case 5: case 6: case 7:
          for (std::size_t b = 0; b < i.bytes; ++b) p[b] = i.sub == 5 ? p[b] & operand[b] : i.sub == 6 ? p[b] | operand[b] : p[b] ^ operand[b];
          break;
        default: {
          constexpr reduce_op ops[] = {reduce_op::add, reduce_op::min, reduce_op::max, reduce_op::inc, reduce_op::dec};
          const bool in_global = i.where == space::global || (i.where == space::generic && w.slot<std::uint64_t>(i.a)[l] + static_cast<std::uint64_t>(i.imm) - shared_window >= window_bytes);
          reduce_elements(ops[i.sub], reduction_of(i.mode.from), p, operand, i.bytes, in_global);
        }
      }
      if (i.list_count && out[n] != no_slot) {
        if (i.bytes == 16) { std::memcpy(&w.slot<std::uint64_t>(out[n])[l], old, 8); std::memcpy(&w.slot<std::uint64_t>(out[n] + 256)[l], old + 8, 8); }
        else if (i.bytes == 8) std::memcpy(&w.slot<std::uint64_t>(out[n])[l], old, 8);
        else { std::uint32_t v = 0; std::memcpy(&v, old, i.bytes); w.slot<std::uint32_t>(out[n])[l] = v; }
      }
    }
  }
  return step::next;
}

step op_is_space(engine&, warp& w, context&, const instruction& i, lanes active) {
  const std::uint64_t* a = w.slot<std::uint64_t>(i.a);
  lanes yes = 0;
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const bool shared = a[l] - shared_window < window_bytes, local = a[l] - local_window < window_bytes, param = a[l] - param_window < window_bytes;
    bool in = false;
    switch (i.where) {
      case space::shared: in = shared && ((a[l] - shared_window) >> 24) == w.home->rank; break;
      case space::shared_cluster: in = shared; break;
      case space::local: in = local; break;
      case space::param: in = param; break;
      case space::constant: in = false; break;
      default: in = !shared && !local && !param;
    }
    if (in) yes |= 1U << l;
  }
  lanes& d = *w.slot<lanes>(i.d);
  d = (d & ~active) | yes;
  return step::next;
}

step op_map_address(engine& e, warp& w, context&, const instruction& i, lanes active) {
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const std::uint32_t rank = w.slot<std::uint32_t>(i.b)[l];
    if (rank >= w.home->home->ctas.size()) e.fault("out_of_bounds", cat("mapa names CTA rank ", rank, " of a cluster of ", w.home->home->ctas.size()), &w, &i, 1U << l);
    if (i.wide) {
      std::uint64_t a = w.slot<std::uint64_t>(i.a)[l];
      const std::uint64_t base = i.where == space::generic ? shared_window : 0;
      w.slot<std::uint64_t>(i.d)[l] = (((a - base) & 0xFFFFFFU) | std::uint64_t{rank} << 24) + base;
    } else w.slot<std::uint32_t>(i.d)[l] = (w.slot<std::uint32_t>(i.a)[l] & 0xFFFFFFU) | rank << 24;
  }
  return step::next;
}

step op_rank_of_address(engine&, warp& w, context&, const instruction& i, lanes active) {
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const std::uint64_t a = i.wide ? w.slot<std::uint64_t>(i.a)[l] - (i.where == space::generic ? shared_window : 0) : w.slot<std::uint32_t>(i.a)[l];
    w.slot<std::uint32_t>(i.d)[l] = static_cast<std::uint32_t>(a >> 24) & 0xFFU;
  }
  return step::next;
}

}  // namespace tlx::sim
