// The scheduler: which warp runs next, what happens at branches and ends, when asynchronous work lands, when nothing can go on.
#include <algorithm>
#include <bit>
#include <chrono>

#include "sim/ops.hpp"
#include "sim/state.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {

engine::engine(global_memory& memory_, const program& code_, const launch_shape& shape_, std::vector<std::byte> parameters_, const options& how_, int sm_)
    : memory(memory_), code(code_), shape(shape_), parameters(std::move(parameters_)), how(how_), sm(sm_), on(sm_ >= 100 ? chip::blackwell : chip::hopper), random(how_.seed * 0x9E3779B97F4A7C15ULL + 1) {
  cluster_grid = {shape.grid.x / shape.cluster.x, shape.grid.y / shape.cluster.y, shape.grid.z / shape.cluster.z};
  cluster_count = std::uint64_t{cluster_grid.x} * cluster_grid.y * cluster_grid.z;
  shared_bytes = code.dynamic_shared_start + shape.dynamic_shared;
  looks_at_time = std::any_of(code.code.begin(), code.code.end(), [](const instruction& i) { return i.run == op_time && i.sub >= 3; });
  if (how.trace) reached.assign(code.code.size(), {});
}

namespace {

std::uint64_t special_value(const engine& e, const warp& w, special s, std::uint32_t lane, std::uint64_t offset) {
  const cta& c = *w.home;
  const device::extent3& b = e.shape.block;
  const std::uint32_t thread = w.index * 32 + lane;
  const device::extent3 inside{c.id.x % e.shape.cluster.x, c.id.y % e.shape.cluster.y, c.id.z % e.shape.cluster.z};
  switch (s) {
    case special::tid_x: return thread % b.x;
    case special::tid_y: return thread / b.x % b.y;
    case special::tid_z: return thread / (b.x * b.y);
    case special::ntid_x: return b.x;
    case special::ntid_y: return b.y;
    case special::ntid_z: return b.z;
    case special::ctaid_x: return c.id.x;
    case special::ctaid_y: return c.id.y;
    case special::ctaid_z: return c.id.z;
    case special::nctaid_x: return e.shape.grid.x;
    case special::nctaid_y: return e.shape.grid.y;
    case special::nctaid_z: return e.shape.grid.z;
    case special::laneid: return lane;
    case special::warpid: return w.index;
    case special::nwarpid: return (b.x * b.y * b.z + 31) / 32;
    case special::lanemask_eq: return 1U << lane;
    case special::lanemask_lt: return (1U << lane) - 1;
    case special::lanemask_le: return (2U << lane) - 1;
    case special::lanemask_gt: return ~((2U << lane) - 1);
    case special::lanemask_ge: return ~((1U << lane) - 1);
    case special::cluster_ctarank: return c.rank;
    case special::cluster_nctarank: return e.shape.cluster.x * e.shape.cluster.y * e.shape.cluster.z;
    case special::clusterid_x: return c.home->id.x;
    case special::clusterid_y: return c.home->id.y;
    case special::clusterid_z: return c.home->id.z;
    case special::nclusterid_x: return e.cluster_grid.x;
    case special::nclusterid_y: return e.cluster_grid.y;
    case special::nclusterid_z: return e.cluster_grid.z;
    case special::cluster_ctaid_x: return inside.x;
    case special::cluster_ctaid_y: return inside.y;
    case special::cluster_ctaid_z: return inside.z;
    case special::cluster_nctaid_x: return e.shape.cluster.x;
    case special::cluster_nctaid_y: return e.shape.cluster.y;
    case special::cluster_nctaid_z: return e.shape.cluster.z;
    case special::smid: return c.generation % 132;
    case special::nsmid: return 132;
    case special::gridid: return 1;
    case special::is_explicit_cluster: return e.code.required_cluster[0] != 0 || e.shape.cluster.x * e.shape.cluster.y * e.shape.cluster.z > 1 ? all_lanes : 0U;  // a predicate: one bit a lane
    case special::dynamic_smem_size: return e.shape.dynamic_shared;
    case special::total_smem_size: case special::aggr_smem_size: return e.shared_bytes - shared_start;
    case special::shared_address: return (std::uint64_t{c.rank} << 24) + offset;
    case special::zero: return 0;
  }
  return 0;
}

}  // namespace

void engine::launch_next_cluster() {
  while (next_cluster < cluster_count && cancelled.count(next_cluster)) ++next_cluster;
  if (shared_next) next_cluster = shared_next->fetch_add(1);
  if (next_cluster >= cluster_count) return;
  const std::uint64_t n = next_cluster++;
  if (shared_next) memory.cluster = static_cast<std::uint32_t>(n + 1);
  // A cluster that runs alone has a schedule of its own, whatever ran before it and wherever.
  if (resident.empty()) {
    random.seed((how.seed * 0x9E3779B97F4A7C15ULL + 1) ^ (n * 0xBF58476D1CE4E5B9ULL));
    instructions_at_start = warp_instructions;
  }
  auto made = std::make_unique<cluster>();
  cluster& k = *made;
  k.id = {static_cast<std::uint32_t>(n % cluster_grid.x), static_cast<std::uint32_t>(n / cluster_grid.x % cluster_grid.y), static_cast<std::uint32_t>(n / (std::uint64_t{cluster_grid.x} * cluster_grid.y))};
  const std::uint32_t size = shape.cluster.x * shape.cluster.y * shape.cluster.z, threads = shape.block.x * shape.block.y * shape.block.z, warps = (threads + 31) / 32;
  k.live_ctas = size;
  for (std::uint32_t rank = 0; rank < size; ++rank) {
    auto c = std::make_unique<cta>();
    c->home = &k;
    c->rank = rank;
    c->generation = static_cast<std::uint32_t>(n * size + rank + 1);
    c->id = {k.id.x * shape.cluster.x + rank % shape.cluster.x, k.id.y * shape.cluster.y + rank / shape.cluster.x % shape.cluster.y, k.id.z * shape.cluster.z + rank / (shape.cluster.x * shape.cluster.y)};
    c->shared.assign(shared_bytes, std::byte{0xCD});
    c->shadows.assign(shared_bytes, shadow_unwritten);
    c->live_warps = warps;
    for (std::uint32_t i = 0; i < warps; ++i) {
      auto w = std::make_unique<warp>();
      w->home = c.get();
      w->index = i;
      w->launched = threads - i * 32 >= 32 ? all_lanes : (1U << (threads - i * 32)) - 1;
      w->register_storage = std::make_unique<std::byte[]>(code.register_bytes + 64);
      w->registers = w->register_storage.get() + (64 - reinterpret_cast<std::uintptr_t>(w->register_storage.get()) % 64) % 64;
      std::memcpy(w->registers, code.register_image.data(), code.register_bytes);
      for (const special_slot& s : code.specials)
        for (std::uint32_t l = 0; l < 32; ++l) {
          const std::uint64_t v = special_value(*this, *w, s.what, l, s.offset);
          if (s.wide) w->slot<std::uint64_t>(s.slot)[l] = v; else w->slot<std::uint32_t>(s.slot)[l] = static_cast<std::uint32_t>(v);
        }
      w->local.assign(std::size_t{code.local_bytes} * 32, std::byte{0});
      w->register_count = code.registers_per_thread;
      w->unfenced = code.wgmma_registers;
      context& first = new_context(*w);
      first.who = w->launched;
      first.at = context::state::runnable;
      make_runnable(*w);
      c->warps.push_back(std::move(w));
    }
    k.ctas.push_back(std::move(c));
  }
  start_clocks(k);
  resident.push_back(std::move(made));
}

context& engine::new_context(warp& w) {
  for (context& c : w.contexts) if (c.at == context::state::free) { c = context{}; return c; }
  w.contexts.emplace_back();
  return w.contexts.back();
}

void engine::make_runnable(warp& w) {
  if (w.queued || w.done) return;
  w.queued = true;
  queue.push_back(&w);
}

void engine::run() {
  try {
    run_all();
  } catch (fault_found& f) {
    // Poison that was read may have led here; only an order that is missing explains it better.
    if (uninitialized && f.report.kind != "race" && f.report.kind != "missing_proxy_fence") throw fault_found{*uninitialized};
    throw;
  }
  if (uninitialized) throw fault_found{*uninitialized};
}

void engine::run_all() {
  using clock_type = std::chrono::steady_clock;
  const std::uint32_t size = shape.cluster.x * shape.cluster.y * shape.cluster.z;
  const std::uint32_t processors = how.processor_count > 0 ? static_cast<std::uint32_t>(how.processor_count) : sm >= 100 ? 148U : 132U;
  const std::uint32_t per_processor = std::clamp<std::uint32_t>(233472U / std::max(1U, shared_bytes), 1U, 16U);
  const std::size_t capacity = std::max<std::size_t>(1, std::size_t{processors} * per_processor / size);
  auto last_progress = clock_type::now();
  std::uint64_t last_seen = 0, since_check = 0;
  for (;;) {
    if (resident.empty()) {
      launch_next_cluster();
      if (resident.empty()) break;
    }
    if (queue.empty()) {
      if (!in_flight.empty()) { land_some(); continue; }
      retire_clusters();
      if (resident.empty()) continue;
      if (resident.size() < capacity && !shared_next) {
        const std::size_t before = resident.size();
        launch_next_cluster();
        if (resident.size() > before) continue;
      }
      if (let_time_pass()) continue;
      report_deadlock();
    }
    if (stop && stop->load(std::memory_order_relaxed)) throw clusters_meet{};
    if (lands_now()) { land_some(); continue; }
    const std::size_t pick = pick_warp();
    warp& w = *queue[pick];
    run_warp(w, pick_budget());
    bool any = false;
    for (const context& c : w.contexts) any = any || c.at == context::state::runnable;
    if (!any || w.done) {
      w.queued = false;
      // The order of the queue carries no meaning, but the warp may have been moved by wake-ups: find it.
      const auto at = pick < queue.size() && queue[pick] == &w ? queue.begin() + static_cast<std::ptrdiff_t>(pick) : std::find(queue.begin(), queue.end(), &w);
      *at = queue.back();
      queue.pop_back();
      if (w.done) retire_clusters();
    }
    // Somebody may be polling for a cluster that has not started; less likely so where nothing in the code is made for that.
    if (warp_instructions - instructions_at_event > (code.clusters_apart ? 20000000U : 400000U) && !shared_next) {
      instructions_at_event = warp_instructions;
      if (resident.size() < capacity) launch_next_cluster();
    }
    if (uninitialized && warp_instructions - uninitialized_at > 20000000) throw fault_found{*uninitialized};
    if (++since_check == 4096) {
      since_check = 0;
      const auto now = clock_type::now();
      // Progress that a spinning program does not make.
      if (events + next_cluster != last_seen) { last_seen = events + next_cluster; last_progress = now; }
      if (std::chrono::duration<double>(now - last_progress).count() > how.seconds_without_progress)
        raise(user_error({.id = "simulation-stalled", .what = cat("no barrier completed, no copy landed and no CTA finished for ", how.seconds_without_progress, " s"), .because = "threads poll memory, so that nobody who waits can be named",
                          .fix = {"raise options.seconds_without_progress if the kernel is only long"}, .context = cat("kernel \"", code.entry, "\"")}));
    }
  }
}

// A sleeping try_wait returns false after a time of the machine's own choice. Usually that only costs a round more, so nobody wakes for it here; but a
// program that gives up after some time needs the time to pass. Pauses double while nothing happens, up to hours: a limit of seconds comes at once.
bool engine::let_time_pass() {
  if (!looks_at_time) return false;
  lapse = events == lapse_at && lapse ? lapse * 2 : 1000;
  lapse_at = events;
  if (lapse > std::uint64_t{1} << 43) return false;
  bool any = false;
  for (const auto& k : resident)
    for (const auto& c : k->ctas)
      for (auto& w : c->warps)
        for (context& x : w->contexts)
          if (x.at == context::state::blocked && x.why == block_reason::mbarrier) {
            x.at = context::state::runnable;
            x.why = block_reason::none;
            x.overslept = any = true;
            make_runnable(*w);
          }
  clock += lapse;
  return any;
}

void engine::retire_clusters() {
  for (std::size_t k = 0; k < resident.size(); ++k) {
    cluster& c = *resident[k];
    if (c.live_ctas) continue;
    // Work in flight may still read or write this cluster's memory: let it end first.
    const auto owned = [&](const async_operation& o) { return o.home && o.home->home == &c; };
    for (;;) {
      const auto found = std::find_if(in_flight.begin(), in_flight.end(), owned);
      if (found == in_flight.end()) break;
      land_at(static_cast<std::size_t>(found - in_flight.begin()));
    }
    resident.erase(resident.begin() + static_cast<std::ptrdiff_t>(k));
    --k;
    ++retired;
    note_event();
  }
}

void engine::run_warp(warp& w, unsigned budget) {
  // Start with any runnable context, so that lanes that spin do not keep their siblings from running.
  std::size_t n = w.contexts.size(), start = n == 1 ? 0 : random() % n;
  std::uint64_t executed = 0, lane_count = 0;
  const instruction* const program_code = code.code.data();
  std::byte* const registers = w.registers;
  for (std::size_t tried = 0; tried < n; ++tried) {
    context* c = &w.contexts[(start + tried) % n];
    if (c->at != context::state::runnable) continue;
    while (budget) {
      if (c->pc == c->join) {
        end_context(w, *c);
        break;
      }
      --budget;
      const instruction& i = program_code[c->pc];
      lanes active = c->who;
      if (i.guard != no_slot) {
        const lanes p = *reinterpret_cast<const lanes*>(registers + i.guard);
        active &= i.guard_inverted ? ~p : p;
      }
      ++executed;
      if (!reached.empty()) [[unlikely]] {
        if (active) reached[c->pc].warps |= std::uint64_t{1} << w.index % 64;
        if (active != c->who) reached[c->pc].guarded = true;
      }
      if (!active) { ++c->pc; continue; }
      lane_count += static_cast<unsigned>(std::popcount(active));
      if (i.touches_wgmma) [[unlikely]] touch_wgmma(w, i);
      if (i.alu) { i.alu(registers, i, active); ++c->pc; continue; }
      const step s = i.run(*this, w, *c, i, active);
      if (s == step::next) { ++c->pc; continue; }
      if (s == step::yield) { ++c->pc; budget = 0; break; }
      if (s == step::retry) { --executed; break; }
      if (c->at != context::state::runnable) break;
    }
    if (!budget) break;
    n = w.contexts.size();
  }
  warp_instructions += executed;
  lane_instructions += lane_count;
  clock += executed;
}

step engine::diverge(warp& w, context& c, const instruction& i, lanes taken) {
  const lanes stay = c.who & ~taken;
  if (!stay) { c.pc = i.target; return step::moved; }
  // Lanes that do not take a table branch have not been served yet: they run it again.
  const std::uint32_t fall = i.run == op_branch_table ? c.pc : c.pc + 1, meet = i.join;
  if (meet == c.join) {
    if (meet != no_pc && i.target == meet) { c.who = stay; c.pc = fall; return step::moved; }
    if (meet != no_pc && fall == meet) { c.who = taken; c.pc = i.target; return step::moved; }
    const std::vector<call_frame> calls = c.calls;
    const int parent = c.parent;
    context& other = new_context(w);  // deque: references stay valid
    other.at = context::state::runnable;
    other.who = taken;
    other.pc = i.target;
    other.join = meet;
    other.parent = parent;
    other.calls = calls;
    other.saved = c.saved;
    if (parent >= 0) ++w.contexts[static_cast<std::size_t>(parent)].children;
    c.who = stay;
    c.pc = fall;
    return step::moved;
  }
  int self = 0;
  while (&w.contexts[static_cast<std::size_t>(self)] != &c) ++self;
  c.at = context::state::joining;
  c.pc = meet;
  c.children = 0;
  const auto child = [&](lanes who, std::uint32_t pc) {
    if (pc == meet) return;
    context& k = new_context(w);
    k.at = context::state::runnable;
    k.who = who;
    k.pc = pc;
    k.join = meet;
    k.parent = self;
    k.saved = c.saved;
    ++c.children;
  };
  child(taken, i.target);
  child(stay, fall);
  if (c.children == 0) c.at = context::state::runnable;  // neither side has anything between
  return step::moved;
}

void engine::end_context(warp& w, context& c) {
  const int parent = c.parent;
  c.at = context::state::free;
  c.who = 0;
  c.calls.clear();
  if (parent >= 0) {
    context& p = w.contexts[static_cast<std::size_t>(parent)];
    if (--p.children == 0) {
      p.who &= ~w.exited;
      p.at = context::state::runnable;
      if (!p.who) end_context(w, p);
    }
  }
}

void engine::exit_lanes(warp& w, context& c, lanes who) {
  w.home->ended_at = w.ended_at = c.pc;
  w.exited |= who;
  c.who &= ~who;
  if (!c.who) end_context(w, c);
  if (!w.live()) {
    w.done = true;
    after_exit(w);
  } else {
    for (context& k : w.contexts)
      if (k.at == context::state::blocked && k.why == block_reason::lane_group) { k.at = context::state::runnable; k.why = block_reason::none; make_runnable(w); }
    check_barriers(*w.home);
    check_cluster_barrier(*w.home->home);
  }
}

std::string engine::exit_text(const cta& c) const { return c.ended_at < code.code.size() ? cat("; its last thread ended at ", place_of(code.code[c.ended_at])) : std::string(); }

void engine::after_exit(warp& w) {
  cta& c = *w.home;
  land_wgmmas(w, 0);
  if (--c.live_warps == 0) {
    for (const cta::reader& r : c.async_reads)
      for (const async_operation& o : in_flight)
        if (o.id == r.operation) {
          const std::string where = o.what ? place_of(*o.what) : std::string("an unknown place");
          if (o.stages == 2) fault("race", cat("the CTA ends while the bulk store of ", where, " may still read its shared memory: nobody waited for it (cp.async.bulk.wait_group.read)", exit_text(c)), &w, o.what);
          fault("race", cat("the CTA ends while the operation of ", where, " may still read its shared memory: nobody in it knows that it is complete", exit_text(c)), &w, o.what);
        }
    c.exited = true;
    if (c.tmem)
      if (const complaint left = c.tmem->end_of_cta(static_cast<int>(c.generation)))
        fault(to_string(left.kind), c.tensor_allocated ? cat(left.text, "; it was allocated at ", place_of(*c.tensor_allocated), c.tensor_allocator->ended_at < code.code.size() ? cat(" by warp ", c.tensor_allocator->index, ", which ended at ", place_of(code.code[c.tensor_allocator->ended_at])) : std::string(), exit_text(c)) : left.text, &w, nullptr);
    --c.home->live_ctas;
  }
  check_barriers(c);
  check_cluster_barrier(*c.home);
}

void engine::wake(cta& where, block_reason why, std::uint32_t key) {
  for (auto& w : where.warps)
    for (context& c : w->contexts)
      if (c.at == context::state::blocked && c.why == why && c.key == key) {
        c.at = context::state::runnable;
        c.why = block_reason::none;
        make_runnable(*w);
      }
}

// ---- asynchronous work
std::uint64_t engine::issue(async_operation op) {
  op.id = next_operation++;
  const std::uint64_t id = op.id;
  in_flight.push_back(std::move(op));
  return id;
}

bool engine::pending(std::uint64_t id, int stage) const {
  for (const async_operation& o : in_flight) if (o.id == id) return o.stage <= stage;
  return false;
}

void engine::land_at(std::size_t index) {
  // Earlier operations of the same queue come first.
  if (const std::uint64_t q = in_flight[index].queue)
    for (std::size_t k = 0; k < index; ++k) if (in_flight[k].queue == q) { index = k; break; }
  async_operation& o = in_flight[index];
  const int stage = o.stage++;
  if (o.stage < o.stages) { const auto land = o.land; land(*this, stage); }
  else {
    async_operation done = std::move(o);
    in_flight.erase(in_flight.begin() + static_cast<std::ptrdiff_t>(index));
    done.land(*this, stage);
  }
  note_event();
}

void engine::land_some() { land_at(pick_landing()); }

void engine::force(std::uint64_t id, int stage) {
  for (;;) {
    std::size_t index = 0;
    while (index < in_flight.size() && in_flight[index].id != id) ++index;
    if (index == in_flight.size() || in_flight[index].stage > stage) return;
    land_at(index);
  }
}

// ---- control
step op_branch(engine& e, warp& w, context& c, const instruction& i, lanes active) { return e.diverge(w, c, i, active); }

step op_branch_table(engine& e, warp& w, context& c, const instruction& i, lanes active) {
  const std::vector<std::uint32_t>& table = e.code.branch_tables[i.detail];
  const std::uint32_t* index = w.slot<std::uint32_t>(i.a);
  const std::uint32_t first = index[std::countr_zero(active)];
  lanes same = 0;
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    if (index[l] >= table.size()) e.fault("out_of_bounds", cat("brx.idx with index ", index[l], " of ", table.size(), " targets"), &w, &i, 1U << l);
    if (index[l] == first) same |= 1U << l;
  }
  // One target at a time; the others execute the same instruction again.
  instruction one = i;
  one.target = table[first];
  if (same == c.who) { c.pc = one.target; return step::moved; }
  return e.diverge(w, c, one, same);
}

step op_exit(engine& e, warp& w, context& c, const instruction&, lanes active) {
  const bool all = active == c.who;
  e.exit_lanes(w, c, active);
  if (!all) ++c.pc;
  return step::moved;
}

// A function that may be running already when it is called again keeps its registers and parameters in the call's frame; see decode_control.cpp.
namespace {

std::byte* local_of(const engine& e, warp& w, int lane) { return w.local.data() + std::size_t{e.code.local_bytes} * static_cast<unsigned>(lane); }

void restore(engine& e, warp& w, const call_frame& f, lanes who) {
  if (f.saved) {
    const recursion_detail& x = *f.saved->what;
    const std::byte* from = f.saved->bytes.data();
    for (const auto& r : x.registers) {
      if (r.predicate) {
        lanes old, &now = *w.slot<lanes>(r.slot);
        std::memcpy(&old, from, 4);
        now = (now & ~who) | (old & who);
        from += 4;
        continue;
      }
      for (std::uint32_t half = 0; half < r.bytes; half += r.lane_bytes * 32)
        for (lanes m = who; m; m &= m - 1) {
          const std::uint32_t at = half + r.lane_bytes * static_cast<std::uint32_t>(std::countr_zero(m));
          std::memcpy(w.registers + r.slot + at, from + at, r.lane_bytes);
        }
      from += r.bytes;
    }
    for (const auto& p : x.parameters) {
      for (lanes m = who; m; m &= m - 1) { const int l = std::countr_zero(m); std::memcpy(local_of(e, w, l) + p.place, from + std::size_t{p.bytes} * static_cast<unsigned>(l), p.bytes); }
      from += std::size_t{p.bytes} * 32;
    }
  }
  for (const call_frame::result& r : f.results)
    for (lanes m = who; m; m &= m - 1) { std::byte* const base = local_of(e, w, std::countr_zero(m)); std::memmove(base + r.to, base + r.from, r.bytes); }
}

void enter(engine& e, warp& w, context& c, const instruction& i, std::uint32_t target, call_frame frame) {
  if (frame.saved)
    for (const auto& a : frame.saved->what->addresses)
      for (lanes m = c.who; m; m &= m - 1) {
        const int l = std::countr_zero(m);
        std::uint64_t& at = w.slot<std::uint64_t>(a.slot)[l];
        at += a.frame;
        if (at + a.frame > a.end) e.fault("out_of_bounds", cat("the local memory of a recursive function is used up: it holds ", (a.end - a.begin) / a.frame, " activations"), &w, &i, 1U << l);
      }
  c.calls.push_back(std::move(frame));
  if (c.calls.size() > 4096) e.fault("out_of_bounds", "more than 4096 calls inside each other", &w, &i, c.who);
  c.join = no_pc;
  c.pc = target;
}

/// Runs the call for `some` lanes of the context; the others go on at the same instruction (`again`) or behind it. Frames are made from the context that calls.
step call_for(engine& e, warp& w, context& c, const instruction& i, lanes some, bool again, std::uint32_t target, std::vector<call_frame::result> results) {
  const std::uint32_t here = c.pc;
  const std::shared_ptr<const saved_frame> saved = i.flags & 1U ? c.saved : nullptr;
  context* caller = &c;
  step s = step::moved;
  if (some != c.who) {
    // Part of the lanes call: they do so as a child that ends behind the call.
    instruction split = i;
    split.join = here + 1;
    split.target = here;
    split.run = again ? op_branch_table : op_branch;
    s = e.diverge(w, c, split, some);
    for (context& k : w.contexts) if (k.at == context::state::runnable && k.pc == here && k.who == some) { caller = &k; break; }
  }
  enter(e, w, *caller, i, target, {here + 1, caller->join, saved, std::move(results)});
  return s;
}

}  // namespace

step op_function_exit(engine& e, warp& w, context& c, const instruction& i, lanes) {
  if (c.calls.empty()) e.fault("barrier_misuse", "return without a call", &w, &i);
  const call_frame& f = c.calls.back();
  if (f.saved || !f.results.empty()) restore(e, w, f, c.who);
  c.pc = f.back;
  c.join = f.join;
  c.calls.pop_back();
  return step::moved;
}

step op_call(engine& e, warp& w, context& c, const instruction& i, lanes active) { return call_for(e, w, c, i, active, false, i.target, {}); }

step op_save_frame(engine& e, warp& w, context& c, const instruction& i, lanes) {
  const recursion_detail& x = e.code.detail<recursion_detail>(i);
  auto frame = std::make_shared<saved_frame>();
  frame->what = &x;
  for (const auto& r : x.registers) frame->bytes.insert(frame->bytes.end(), w.registers + r.slot, w.registers + r.slot + r.bytes);
  for (const auto& p : x.parameters) for (int l = 0; l < 32; ++l) { const std::byte* from = local_of(e, w, l) + p.place; frame->bytes.insert(frame->bytes.end(), from, from + p.bytes); }
  c.saved = std::move(frame);
  return step::next;
}

step op_call_indirect(engine& e, warp& w, context& c, const instruction& i, lanes active) {
  const std::uint64_t* address = w.slot<std::uint64_t>(i.a);
  const std::uint64_t first = address[std::countr_zero(active)];
  lanes same = 0;
  for (lanes m = active; m; m &= m - 1) { const int l = std::countr_zero(m); if (address[l] == first) same |= 1U << l; }
  const auto found = e.code.callables.find(first);
  if (found == e.code.callables.end()) e.fault("out_of_bounds", cat("an indirect call to address ", first, ", where no function of this kernel lies"), &w, &i, same);
  const program::callable& f = found->second;
  if (f.parameters.size() * 2 != i.list_count || f.results.size() * 2 != i.list2_count) e.fault("out_of_bounds", cat("an indirect call of \"", f.name, "\" with ", i.list_count / 2, " arguments and ", i.list2_count / 2, " results, which has ", f.parameters.size(), " and ", f.results.size()), &w, &i, same);
  const std::uint32_t* arguments = e.code.lists.data() + i.list;
  const std::uint32_t* wanted = e.code.lists.data() + i.list2;
  std::vector<call_frame::result> results;
  for (std::size_t k = 0; k < f.parameters.size(); ++k) {
    if (arguments[2 * k + 1] != f.parameters[k].bytes) e.fault("out_of_bounds", cat("argument ", k, " of an indirect call of \"", f.name, "\" has ", arguments[2 * k + 1], " bytes and its parameter ", f.parameters[k].bytes), &w, &i, same);
    for (lanes m = same; m; m &= m - 1) { std::byte* const base = local_of(e, w, std::countr_zero(m)); std::memmove(base + f.parameters[k].place, base + arguments[2 * k], f.parameters[k].bytes); }
  }
  for (std::size_t k = 0; k < f.results.size(); ++k) {
    if (wanted[2 * k + 1] != f.results[k].bytes) e.fault("out_of_bounds", cat("result ", k, " of an indirect call of \"", f.name, "\" has ", wanted[2 * k + 1], " bytes and the function's ", f.results[k].bytes), &w, &i, same);
    results.push_back({f.results[k].place, wanted[2 * k], f.results[k].bytes});
  }
  return call_for(e, w, c, i, same, true, f.pc, std::move(results));
}

step op_copy_local(engine& e, warp& w, context&, const instruction& i, lanes active) {
  for (lanes m = active; m; m &= m - 1) {
    std::byte* const base = w.local.data() + std::size_t{e.code.local_bytes} * static_cast<unsigned>(std::countr_zero(m));
    std::memmove(base + i.d, base + i.a, static_cast<std::size_t>(i.imm));
  }
  return step::next;
}

step op_trap(engine& e, warp& w, context&, const instruction& i, lanes active) { e.fault("trap", "the kernel executed trap", &w, &i, active); }
step op_assert_fail(engine& e, warp& w, context&, const instruction& i, lanes active) { e.fault("trap", "an assertion of the kernel failed", &w, &i, active); }
step op_nothing(engine&, warp&, context&, const instruction&, lanes) { return step::next; }
step op_yield(engine&, warp&, context&, const instruction&, lanes) { return step::yield; }

step op_time(engine& e, warp& w, context&, const instruction& i, lanes active) {
  const std::uint64_t now = ++e.clock;
  const std::uint64_t v = i.sub == 1 || i.sub == 5 ? now >> 32 : now;
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    if (i.wide) w.slot<std::uint64_t>(i.d)[l] = v; else w.slot<std::uint32_t>(i.d)[l] = static_cast<std::uint32_t>(v);
  }
  return step::next;
}

}  // namespace tlx::sim
