#include "check/machine.hpp"

#include <algorithm>
#include <set>

#include "check/arithmetic.hpp"
#include "check/places.hpp"
#include "tlx/ir/text.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/limits.hpp"

namespace tlx::check {

using ir::opcode;

namespace {

constexpr std::uint32_t all_lanes = 0xffffffffU;
constexpr long most_steps = 2000000;

// What is thrown inside a run when it has found something; run() catches it.
struct violation { diagnostic what; };

struct barrier {
  bool known = false;
  event made;
  std::int64_t count = 0, pending = 0, bytes = 0, phase = 0;
  std::int64_t expected = 0, arrived_bytes = 0;  // of this phase, for the message
  knowledge gathering, released;
  const step* made_by = nullptr;
  std::vector<std::pair<const step*, int>> arrivals;                // each step that arrives, and a warp that ran it; the last one last
  std::vector<std::tuple<int, std::int64_t, std::uint32_t>> waits;  // actor, phase it waited for, when
};

struct meeting {  // bar.sync, barrier.cluster
  std::vector<int> warps;
  std::int64_t threads = 0;
  long generation = 0;
  knowledge together;
  clock inits;
};

struct actor {
  knowledge k;
  clock tensor, inits;                 // what tcgen05 accesses may rely on; barrier inits that were fenced for the cluster
  std::uint32_t loads_waited = 0, stores_waited = 0;
  std::uint32_t bulk_issued = 0;
  std::vector<std::uint32_t> bulk_groups;
};

enum class blocked : unsigned char { no, phase, meeting, registers };

struct warp {
  int cta = 0, number = 0;
  size_t pc = 0;
  std::uint32_t mask = all_lanes;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> frames;  // mask around, lanes that go to else
  std::vector<std::int64_t> scalars;
  std::vector<unsigned char> flags;  // 1: differs between lanes, 2: comes from what is not followed
  std::vector<std::uint32_t> cell_masks;
  std::unordered_map<int, std::array<std::int64_t, 32>> varying;
  bool done = false;
  blocked why = blocked::no;
  std::int64_t awaited_barrier = 0, awaited_parity = 0;
  long meeting_generation = -1;
  // wgmma
  bool fenced = false;
  std::uint32_t products = 0, products_closed = 0, products_done = 0;
  std::vector<std::uint32_t> groups;
  std::unordered_map<int, std::pair<std::uint32_t, std::uint32_t>> accumulators;  // cell: last product, last tied wait
  std::int64_t registers = 0;
  const step* budget = nullptr;
  int place = 0;  // the last role it was in
};

class machine {
 public:
  machine(const program& p, const scenario& values) : p_(p), k_(*p.kernel), values_(values), names_(k_) {
    ctas_ = k_.cluster[0] * k_.cluster[1] * k_.cluster[2];
    limits_ = tile::target_limits(k_.target).value_or(tile::limits{});
    entry_ = std::min(255, limits_.registers_per_sm / std::clamp(k_.warps * 32 * std::clamp(k_.blocks_per_processor, 1, 32), 1, limits_.registers_per_sm)) / 8 * 8;
    shared_.resize(static_cast<size_t>(ctas_));
    tensor_.resize(static_cast<size_t>(ctas_));
    words_.resize(static_cast<size_t>(ctas_));
    allocated_.resize(static_cast<size_t>(ctas_));
    pool_.resize(static_cast<size_t>(ctas_), 0);
    warps_.resize(static_cast<size_t>(ctas_ * k_.warps));
    actors_.resize(warps_.size() * 2);
    components_ = static_cast<int>(actors_.size());
    out_.did.resize(p.steps.size());
    for (size_t i = 0; i < warps_.size(); ++i) {
      warp& w = warps_[i];
      w.cta = static_cast<int>(i) / k_.warps;
      w.number = static_cast<int>(i) % k_.warps;
      w.scalars.resize(static_cast<size_t>(p.slots));
      w.flags.resize(static_cast<size_t>(p.slots));
      w.cell_masks.resize(static_cast<size_t>(p.slots), all_lanes);
      w.registers = entry_;
    }
    for (size_t a = 0; a < actors_.size(); ++a) actors_[a].k.order.raise(static_cast<int>(a), 1);
  }

  outcome go() {
    try {
      bool progress = true;
      while (progress && !out_.too_long) {
        progress = false;
        for (warp& w : warps_)
          if (!w.done) progress = run_warp(w) || progress;
      }
      if (!out_.too_long) finish();
    } catch (violation& v) {
      out_.finding = std::move(v.what);
    }
    return std::move(out_);
  }

 private:
  // --- who and when

  int index_of(const warp& w) const { return static_cast<int>(&w - warps_.data()); }
  struct pair_of_actors {
    int ids[2] = {-1, -1};
    int count = 0;
    const int* begin() const { return ids; }
    const int* end() const { return ids + count; }
  };
  // The elected lane is lane 0; the other lanes act together.
  pair_of_actors actors_of(const warp& w, std::uint32_t mask) const {
    pair_of_actors a;
    const int base = index_of(w) * 2;
    if (mask & 1) a.ids[a.count++] = base;
    if (mask & ~1U) a.ids[a.count++] = base + 1;
    return a;
  }
  std::uint32_t tick(int a) const { return actors_[static_cast<size_t>(a)].k.order.get(a); }
  void advance(int a) { actors_[static_cast<size_t>(a)].k.order.raise(a, tick(a) + 1); }
  event now(const pair_of_actors& who) const {
    event e{who.ids[0], -1, tick(who.ids[0]), 0};
    if (who.count > 1) {
      e.b = who.ids[1];
      e.at_b = tick(who.ids[1]);
    }
    return e;
  }
  actor& of(int a) { return actors_[static_cast<size_t>(a)]; }

  // A queue of asynchronous work; `key` tells queues of one kind and owner apart.
  enum queue : std::uint64_t { copies_in = 1, copies_out, products, tensor_products, commits, tensor_loads, tensor_stores, loads_seen, stores_seen };
  int component(queue kind, int owner, std::int64_t key = 0) {
    const std::uint64_t name = (static_cast<std::uint64_t>(kind) << 56) | (static_cast<std::uint64_t>(owner) << 36) | static_cast<std::uint64_t>(key);
    auto [it, fresh] = queues_.try_emplace(name, components_);
    if (fresh) {
      ++components_;
      issued_.push_back({});
    }
    return it->second;
  }
  struct issue {
    std::uint32_t count = 0;
    const step* last = nullptr;
    int warp = 0, cta = 0;
    queue kind = copies_in;
    std::int64_t barrier = -1;
  };
  issue& issued(int component) { return issued_[static_cast<size_t>(component) - actors_.size()]; }
  std::uint32_t issue_one(int c, const step& s, const warp& w, int cta, queue kind, std::int64_t at = -1) {
    issue& i = issued(c);
    i.last = &s;
    i.warp = index_of(w);
    i.cta = cta;
    i.kind = kind;
    i.barrier = at;
    return ++i.count;
  }

  // --- values

  bool differs(const warp& w, int slot) const { return (w.flags[static_cast<size_t>(slot)] & 1) != 0; }
  std::int64_t lane_value(const warp& w, int slot, int lane) const {
    return differs(w, slot) ? w.varying.at(slot)[static_cast<size_t>(lane)] : w.scalars[static_cast<size_t>(slot)];
  }
  static int first_lane(std::uint32_t mask) { return mask ? __builtin_ctz(mask) : 0; }
  std::int64_t value(const warp& w, int slot) const { return lane_value(w, slot, first_lane(w.mask)); }
  std::uint32_t lanes_where(const warp& w, int slot) const {
    if (!differs(w, slot)) return w.scalars[static_cast<size_t>(slot)] ? all_lanes : 0;
    std::uint32_t m = 0;
    for (int l = 0; l < 32; ++l) m |= static_cast<std::uint32_t>(lane_value(w, slot, l) != 0) << l;
    return m;
  }
  void set(warp& w, int slot, std::int64_t v, unsigned char flags = 0) {
    w.scalars[static_cast<size_t>(slot)] = v;
    w.flags[static_cast<size_t>(slot)] = static_cast<unsigned char>(flags & ~1);
  }
  template <class F>
  void set_lanes(warp& w, int slot, unsigned char flags, F&& f) {
    std::array<std::int64_t, 32> all;
    for (int l = 0; l < 32; ++l) all[static_cast<size_t>(l)] = f(l);
    w.varying[slot] = all;
    w.flags[static_cast<size_t>(slot)] = static_cast<unsigned char>(flags | 1);
  }
  void copy(warp& w, int from, int to, std::uint32_t only) {
    if (only == all_lanes && !differs(w, from)) return set(w, to, w.scalars[static_cast<size_t>(from)], w.flags[static_cast<size_t>(from)]);
    const auto flags = static_cast<unsigned char>(w.flags[static_cast<size_t>(from)] | (only == all_lanes ? 0 : w.flags[static_cast<size_t>(to)]));
    set_lanes(w, to, flags, [&](int l) { return (only >> l) & 1 ? lane_value(w, from, l) : lane_value(w, to, l); });
  }
  void note_guess(const warp& w, int slot, const step& s) {
    if (!(w.flags[static_cast<size_t>(slot)] & 2)) return;
    if (std::find(out_.guessed.begin(), out_.guessed.end(), s.from) == out_.guessed.end()) out_.guessed.push_back(s.from);
  }

  std::int64_t leaf_value(const warp& w, std::int64_t index) const {
    const leaf& l = p_.leaves[static_cast<size_t>(index)];
    const std::int64_t v = values_[static_cast<size_t>(index)];
    if (l.what == leaf::kind::rank) return w.cta;
    if (l.what == leaf::kind::cta) {
      const int x = w.cta % k_.cluster[0], y = w.cta / k_.cluster[0] % k_.cluster[1], z = w.cta / (k_.cluster[0] * k_.cluster[1]);
      return v + (l.axis == 0 ? x : l.axis == 1 ? y : z);
    }
    return v;
  }

  // --- running

  bool run_warp(warp& w) {
    bool moved = false;
    while (w.pc < p_.steps.size()) {
      if (++out_.steps > most_steps) {
        out_.too_long = true;
        return false;
      }
      if (!execute(w, p_.steps[w.pc])) return moved;
      w.why = blocked::no;
      moved = true;
    }
    w.done = true;
    return true;
  }

  // False: the warp waits at this step. Otherwise pc has moved on.
  bool execute(warp& w, const step& s) {
    if (s.place) w.place = s.place;
    switch (s.what) {
      case doing::constant: set(w, s.out, s.imm[0]); break;
      case doing::compute: compute_step(w, s); break;
      case doing::from_leaf: set(w, s.out, leaf_value(w, s.imm[0])); break;
      case doing::opaque: set(w, s.out, values_[static_cast<size_t>(opaque_index())], 2); break;
      case doing::lane: set_lanes(w, s.out, 0, [](int l) { return l; }); break;
      case doing::warp: set(w, s.out, w.number); break;
      case doing::load_global: load_global(w, s); break;
      case doing::sum_lanes: {
        std::int64_t sum = 0;
        for (int l = 0; l < 32; ++l)
          if ((w.mask >> l) & 1) sum += lane_value(w, s.in[0], l);
        set(w, s.out, wrapped(sum, s.element), w.flags[static_cast<size_t>(s.in[0])]);
        break;
      }
      case doing::cell_new:
        w.cell_masks[static_cast<size_t>(s.out)] = w.mask;
        if (!s.in.empty() && s.detail == 0) copy(w, s.in[0], s.out, all_lanes);
        else set(w, s.out, 0);
        w.accumulators.erase(s.out);
        break;
      case doing::cell_get:
        if (s.detail) read_accumulator(w, s);
        else copy(w, s.in[0], s.out, all_lanes);
        break;
      case doing::cell_set:
        if (s.detail) {
          read_accumulator(w, s);
          break;
        }
        note(s, differs(w, s.in[0]) || differs(w, s.in[1]) || w.scalars[static_cast<size_t>(s.in[0])] != w.scalars[static_cast<size_t>(s.in[1])]);
        copy(w, s.in[1], s.in[0], w.mask == w.cell_masks[static_cast<size_t>(s.in[0])] ? all_lanes : w.mask);
        break;
      case doing::branch: {
        note_guess(w, s.in[0], s);
        const std::uint32_t yes = w.mask & lanes_where(w, s.in[0]), no = w.mask & ~yes;
        w.frames.push_back({w.mask, no});
        if (yes) {
          w.mask = yes;
          break;
        }
        w.pc = static_cast<size_t>(s.jump);
        w.frames.back().second = 0;
        return true;
      }
      case doing::otherwise: {
        const std::uint32_t rest = w.frames.back().second;
        if (!rest) {
          w.pc = static_cast<size_t>(s.jump2);
          return true;
        }
        w.frames.back().second = 0;
        w.mask = rest;
        break;
      }
      case doing::join:
        w.mask = w.frames.back().first;
        w.frames.pop_back();
        break;
      case doing::loop: {
        for (int in : s.in) note_guess(w, in, s);
        const std::int64_t low = value(w, s.in[0]), high = value(w, s.in[1]), stride = value(w, s.in[2]);
        const auto flags = static_cast<unsigned char>((w.flags[static_cast<size_t>(s.in[0])] | w.flags[static_cast<size_t>(s.in[2])]) & 2);
        set(w, s.out, low, flags);
        set(w, static_cast<int>(s.imm[0]), high);
        set(w, static_cast<int>(s.imm[1]), stride);
        if (low < high) break;
        w.pc = static_cast<size_t>(s.jump);
        return true;
      }
      case doing::next: {
        const auto flags = static_cast<unsigned char>(w.flags[static_cast<size_t>(s.out)] & 2);
        const std::int64_t i = w.scalars[static_cast<size_t>(s.out)] + w.scalars[static_cast<size_t>(s.imm[1])];
        if (w.scalars[static_cast<size_t>(s.imm[1])] <= 0) {
          out_.too_long = true;
          return false;
        }
        if (i >= w.scalars[static_cast<size_t>(s.imm[0])]) break;
        set(w, s.out, i, flags);
        w.pc = static_cast<size_t>(s.jump);
        return true;
      }
      case doing::test:
        note_guess(w, s.in[0], s);
        if (w.mask & lanes_where(w, s.in[0])) break;
        w.pc = static_cast<size_t>(s.jump);
        return true;
      case doing::again: w.pc = static_cast<size_t>(s.jump); return true;
      case doing::act:
        if (!act(w, s)) return false;
        break;
    }
    ++w.pc;
    return true;
  }

  void note(const step& s, bool does_something) {
    unsigned char& did = out_.did[static_cast<size_t>(&s - p_.steps.data())];
    if (did < 2) did = does_something ? 2 : 1;
  }

  int opaque_index() const {
    for (size_t i = 0; i < p_.leaves.size(); ++i)
      if (p_.leaves[i].what == leaf::kind::opaque) return static_cast<int>(i);
    return 0;
  }

  void compute_step(warp& w, const step& s) {
    unsigned char flags = 0;
    for (int in : s.in) flags |= w.flags[static_cast<size_t>(in)];
    std::int64_t v[3] = {0, 0, 0};
    const size_t n = std::min<size_t>(3, s.in.size());
    if (!(flags & 1)) {
      for (size_t i = 0; i < n; ++i) v[i] = w.scalars[static_cast<size_t>(s.in[i])];
      return set(w, s.out, compute(s.code, s.element, s.detail, v, n).value_or(0), flags);
    }
    set_lanes(w, s.out, flags, [&](int l) {
      for (size_t i = 0; i < n; ++i) v[i] = lane_value(w, s.in[i], l);
      return compute(s.code, s.element, s.detail, v, n).value_or(0);
    });
  }

  // Whole numbers in global memory ascend: element i is i times a number of the scenario.
  void load_global(warp& w, const step& s) {
    const std::int64_t scale = values_[static_cast<size_t>(s.imm[0])];
    if (!differs(w, s.in[0])) return set(w, s.out, wrapped(w.scalars[static_cast<size_t>(s.in[0])] * scale, s.element), w.flags[static_cast<size_t>(s.in[0])]);
    set_lanes(w, s.out, w.flags[static_cast<size_t>(s.in[0])], [&](int l) { return wrapped(lane_value(w, s.in[0], l) * scale, s.element); });
  }

  // --- findings

  std::string role_of(const warp& w, const step& s) const {
    return cat("role \"", p_.roles[static_cast<size_t>(s.place ? s.place : w.place)], "\" (warp ", w.number, ctas_ > 1 ? cat(" of CTA ", w.cta) : std::string(), ")");
  }
  std::string line_of(const step& s) const { return s.from && s.from->where.known() ? " at " + to_string(s.from->where) : std::string(); }
  std::string op_of(const step& s) const { return std::string(ir::row(s.code).text); }

  [[noreturn]] void fail(const std::string& id, const std::string& what, const step& s, const std::string& because, const std::string& fix, const std::vector<std::string>& trace = {}) {
    std::string all = what;
    for (const std::string& line : trace) all += "\n    " + line;
    throw violation{{.id = id, .what = all, .where = s.from ? s.from->where : k_.where, .because = because, .fix = {fix}, .context = cat("kernel \"", k_.name, "\"")}};
  }

  std::string who_line(int warp_index, const step& s, const std::string& does) const {
    return cat(role_of(warps_[static_cast<size_t>(warp_index)], s), line_of(s), ": ", does);
  }

  // "warp 3", "warps 0, 2-3"
  static std::string list_of(const std::vector<const warp*>& who) {
    std::vector<std::string> ranges;
    for (size_t i = 0; i < who.size();) {
      size_t j = i;
      while (j + 1 < who.size() && who[j + 1]->number == who[j]->number + 1) ++j;
      ranges.push_back(i == j ? cat(who[i]->number) : cat(who[i]->number, "-", who[j]->number));
      i = j + 1;
    }
    return cat(who.size() == 1 ? "warp " : "warps ", join(ranges, ", "));
  }

  // One line for all warps of a CTA about which `say` says the same.
  template <class Say>
  std::vector<std::string> each_warp(Say&& say) {
    std::vector<std::pair<std::string, std::vector<const warp*>>> lines;
    for (const warp& w : warps_) {
      const std::string text = say(w);
      if (text.empty()) continue;
      auto it = std::find_if(lines.begin(), lines.end(), [&](const auto& l) { return l.first == text && l.second.front()->cta == w.cta && l.second.front()->place == w.place; });
      if (it == lines.end()) it = lines.insert(lines.end(), {text, {}});
      it->second.push_back(&w);
    }
    std::vector<std::string> out;
    for (const auto& [text, who] : lines)
      out.push_back(cat("role \"", p_.roles[static_cast<size_t>(who.front()->place)], "\" (", list_of(who), ctas_ > 1 ? cat(" of CTA ", who.front()->cta) : std::string(), ")", text));
    return out;
  }

  // Where every role stands.
  std::vector<std::string> standing() {
    return each_warp([&](const warp& w) {
      if (w.done) return w.place || ctas_ * k_.warps == 1 || p_.roles.size() == 1 ? std::string(" has ended") : std::string();
      const step& s = p_.steps[w.pc];
      return cat(line_of(s), ": ", waits_for(w, s));
    });
  }
  std::vector<std::string> budgets() {
    return each_warp([&](const warp& w) { return cat(w.budget ? line_of(*w.budget) : std::string(), ": ", w.registers, " registers a thread", w.why == blocked::registers ? cat(", wants ", p_.steps[w.pc].imm[0]) : std::string()); });
  }
  std::string waits_for(const warp& w, const step& s) {
    switch (w.why) {
      case blocked::phase: {
        barrier& b = barriers_[w.awaited_barrier];
        const std::int64_t awaited = (b.phase & 1) == (w.awaited_parity & 1) ? b.phase : b.phase - 1;
        std::string text = cat("waits for phase ", awaited, " (parity ", w.awaited_parity & 1, ") of ", names_.barrier(w.awaited_barrier), ", which has ", b.count - b.pending, " of ", b.count,
                               b.count == 1 ? " arrival" : " arrivals");
        if (b.bytes || b.expected) text += cat(" and ", b.arrived_bytes, " of ", b.expected, " bytes");
        return text;
      }
      case blocked::meeting:
        if (s.code == opcode::cluster_sync) return "waits at the barrier of the cluster";
        return cat("waits at named barrier ", s.imm[0], ", where ", meetings_[meeting_key(w, s)].warps.size() * 32, " of ", threads_of(s), " threads are");
      case blocked::registers: return cat("waits for ", s.imm[0], " registers a thread, the CTA has ", pool_[static_cast<size_t>(w.cta)], " left of ", entry_ * 32 * k_.warps);
      case blocked::no: break;
    }
    return op_of(s);
  }

  void finish() {
    bool all = true;
    const warp* first = nullptr;
    for (const warp& w : warps_) {
      all = all && w.done;
      // Nobody gives registers back from where roles wait: who waits for registers is why the others wait.
      const auto rank = [](const warp& each) { return each.why == blocked::registers ? 2 : each.why == blocked::phase ? 1 : 0; };
      if (!w.done && (!first || rank(w) > rank(*first))) first = &w;
    }
    if (!all) deadlock(*first);
    for (auto& [at, b] : barriers_)
      if (b.known && b.bytes != 0)
        fail("protocol-bytes", cat(names_.barrier(at), " ends with ", b.arrived_bytes, " bytes arrived of ", b.expected, " expected"), *last_expect_[at],
             "a phase ends when as many bytes have arrived as its expect announced; another count ends it early, or never", "announce exactly the bytes that the copies bring", {});
    for (auto& [at, b] : barriers_)
      if (b.known && b.pending != b.count)
        fail("protocol-arrivals", cat(names_.barrier(at), " ends with ", b.count - b.pending, " of ", b.count, " arrivals in its phase ", b.phase), *b.arrivals.back().first,
             "the count of an mbarrier is the number of arrivals in each phase; where they do not fill whole phases, a phase ends before, or without, the arrivals that it waits for", "count the arrivals that the roles make in a round", who_arrived(b));
    exits();
    for (int c = 0; c < ctas_; ++c)
      if (!allocated_[static_cast<size_t>(c)].empty())
        fail("protocol-tensor-memory", cat(allocated_[static_cast<size_t>(c)].front().second, " columns of tensor memory are never freed"), *alloc_step_,
             "tensor memory that a CTA does not free is lost to the CTAs after it", "free what was allocated before the kernel ends");
  }

  void deadlock(const warp& w) {
    const step& s = p_.steps[w.pc];
    if (w.why == blocked::registers)
      fail("protocol-registers", cat("the roles wait for more registers than the CTA has: ", waits_for(w, s)), s, "setmaxnreg.inc waits until other warps have given enough back",
           "lower a budget, or let another role give more back", budgets());
    std::string what = cat("the kernel hangs: ", role_of(w, s), " ", waits_for(w, s));
    std::string because = "nobody who is still running arrives there", fix = "let every slot that is filled be drained, and the other way round, the same number of times";
    if (w.why == blocked::phase) {
      barrier& b = barriers_[w.awaited_barrier];
      if (b.pending <= 0 && b.bytes) {
        because = cat("the expect announced ", b.expected, " bytes and ", b.arrived_bytes, " came");
        fix = "announce exactly the bytes that the copies bring";
      }
    }
    fail("protocol-deadlock", what, s, because, fix, standing());
  }

  // Work that is still under way when the CTA that it writes to, reads from or arrives in ends.
  void exits() {
    std::vector<clock> ends(static_cast<size_t>(ctas_));
    for (size_t i = 0; i < warps_.size(); ++i)
      for (int a : {0, 1}) ends[static_cast<size_t>(warps_[i].cta)].join(actors_[i * 2 + static_cast<size_t>(a)].k.order);
    for (const auto& [name, c] : queues_) {
      const issue& i = issued(c);
      if (!i.count || i.kind == tensor_loads || i.kind == tensor_stores) continue;
      if (ends[static_cast<size_t>(i.cta)].get(c) >= i.count) continue;
      if (i.kind == tensor_products) continue;  // its commit tells
      const char* what = i.kind == copies_in ? "a bulk copy into shared memory" : i.kind == copies_out ? "a bulk copy that still reads shared memory" : i.kind == products ? "a wgmma" : "the arrival of a commit";
      fail("protocol-exit", cat("CTA ", i.cta, " may end while ", what, " is under way", i.barrier >= 0 ? cat(", on ", names_.barrier(i.barrier)) : std::string()), *i.last,
           "nobody has waited for it when the last warp of that CTA ends", "wait for it before the kernel ends", with_standing(who_line(i.warp, *i.last, op_of(*i.last) + " starts it")));
    }
    for (const auto& r : remote_) {
      if (r.when.in(ends[static_cast<size_t>(r.cta)])) continue;
      fail("protocol-exit", cat("CTA ", r.cta, " of the cluster may have ended when another CTA reaches into it"), *r.by, "its shared memory is gone when it ends",
           "put a barrier of the cluster at the end of the kernel", {who_line(r.warp, *r.by, op_of(*r.by) + " reaches into CTA " + std::to_string(r.cta))});
    }
  }

  // --- accesses

  std::string does(const access& a) const {
    const std::string how = a.how == via::bulk ? " (bulk copy)" : a.how == via::wgmma ? " (wgmma operand)" : "";
    return cat(op_of(*a.by), how, a.write ? " writes " : " reads ");
  }

  void touch_shared(const warp& w, int cta, const pair_of_actors& who, access a) {
    a.warp = index_of(w);
    const step& s = *a.by;
    if (a.low < 0 || a.high > k_.shared_bytes)
      fail("protocol-shared-memory", cat(op_of(s), " reaches bytes ", a.low, " to ", a.high, " of shared memory, the CTA has ", k_.shared_bytes), s, "shared memory outside of what the kernel asked for belongs to nobody",
           "correct the address", {who_line(a.warp, s, cat(does(a), names_.shared(cta, a.low, a.high)))});
    if (a.write)
      for (const auto& [at, b] : barriers_)
        if (b.known && (at >> 32) == cta && (at & 0xffffffff) < a.high && a.low < (at & 0xffffffff) + 8)
          fail("protocol-race", cat(op_of(s), " writes over ", names_.barrier(at)), s, "a live mbarrier is touched by barrier instructions only", "give the barrier and the data bytes of their own",
               {who_line(a.warp, s, cat(does(a), names_.shared(cta, a.low, a.high)))});
    if (!a.write && !shared_[static_cast<size_t>(cta)].written(a.low, a.high))
      fail("protocol-read-early", cat(role_of(w, s), " reads ", names_.shared(cta, a.low, a.high), " before anything was written there"), s,
           "nothing orders the read behind the write that it needs", "wait for the barrier that the write completes on", standing_after(w, s, does(a) + names_.shared(cta, a.low, a.high)));
    bool only_fence = false;
    const access* before = shared_[static_cast<size_t>(cta)].add(a, [&](const access& earlier) {
      const bool both_ordinary = earlier.how == via::ordinary && a.how == via::ordinary;
      if (both_ordinary && earlier.by == a.by) return relation::fine;
      const bool part = both_ordinary && (!earlier.exact || !a.exact);
      if (both_ordinary && earlier.warp == a.warp) return part ? relation::part_ordered : relation::fine;
      for (int q : who) {
        if (!earlier.when.in(of(q).k.order)) return part ? relation::part_unordered : relation::conflict;
        if (earlier.how == via::ordinary && a.how != via::ordinary && !earlier.when.in(of(q).k.proxied)) {
          only_fence = true;
          return relation::conflict;
        }
      }
      return part ? relation::part_ordered : relation::fine;
    });
    if (!before) return;
    const std::string place = names_.shared(cta, std::max(a.low, before->low), std::min(a.high, before->high));
    const std::vector<std::string> both{who_line(before->warp, *before->by, does(*before) + names_.shared(cta, before->low, before->high)),
                                        who_line(a.warp, s, does(a) + names_.shared(cta, a.low, a.high))};
    if (only_fence)
      fail("protocol-fence", cat("no proxy fence between an access of threads and the asynchronous one that follows, to ", place), *before->by,
           "ordinary accesses and asynchronous ones (bulk copies, products) are ordered by fence.proxy.async, executed after the ordinary ones; a barrier alone does not", "add fence.async after the ordinary access and before the barrier that the other role waits for", both);
    const bool early = before->write && !a.write;
    fail(early ? "protocol-read-early" : "protocol-race",
         early ? cat(place, " is read before its bytes have arrived") : a.write && !before->write ? cat(place, " is written while it is still being read") : cat(place, " is written twice with nothing in between"), s,
         "nothing orders the second access behind the first", early ? "wait for the barrier that the write completes on" : "let the reader release the slot after its last read, and the writer wait for that", both);
  }
  std::vector<std::string> standing_after(const warp& w, const step& s, const std::string& text) { return with_standing(who_line(index_of(w), s, text)); }
  std::vector<std::string> with_standing(const std::string& first) {
    std::vector<std::string> lines{first};
    for (const std::string& l : standing()) lines.push_back(l);
    return lines;
  }

  std::vector<std::string> with_allocation(const std::string& access) const {
    if (!alloc_step_) return {access};
    return {access, who_line(alloc_warp_, *alloc_step_, cat("allocates ", alloc_step_->imm[0], " columns"))};
  }

  // By one thread to the tensor cores, which work in the order of issue.
  static bool is_issued(opcode c) { return c == opcode::tcgen05_mma || c == opcode::tcgen05_scaled || c == opcode::tcgen05_copy; }

  void touch_tensor(const warp& w, int cta, const pair_of_actors& who, access a) {
    a.warp = index_of(w);
    a.how = via::tensor;
    const step& s = *a.by;
    bool inside = false;
    for (const auto& [base, columns] : allocated_[static_cast<size_t>(cta)]) inside = inside || (a.low >= base && a.high <= base + columns);
    if (!inside)
      fail("protocol-tensor-memory", cat(op_of(s), " reaches columns ", a.low, " to ", a.high, " of tensor memory, which ", allocated_[static_cast<size_t>(cta)].empty() ? "is not allocated" : "are not all allocated"), s,
           "columns that a CTA did not allocate may belong to another CTA of the SM", "allocate them first, or correct the address", with_allocation(who_line(a.warp, s, does(a) + names_.tensor(a.low, a.high))));
    if (!a.write && !tensor_[static_cast<size_t>(cta)].written(a.low, a.high))
      fail("protocol-read-early", cat(role_of(w, s), " reads ", names_.tensor(a.low, a.high), " before anything was written there"), s, "nothing orders the read behind the product that it needs",
           "wait for the barrier that the product commits to", standing_after(w, s, does(a) + names_.tensor(a.low, a.high)));
    bool only_fence = false;
    const access* before = tensor_[static_cast<size_t>(cta)].add(a, [&](const access& earlier) {
      // One queue works in order; but scales over sums that nobody can have read yet, or sums over scales, are lost all the same.
      const bool lost = earlier.write && a.write && (earlier.by->code == opcode::tcgen05_copy) != (a.by->code == opcode::tcgen05_copy);
      if (earlier.warp == a.warp && earlier.when.a == a.when.a && !lost) return relation::fine;
      if (!is_issued(earlier.by->code) && !is_issued(a.by->code) && earlier.warp == a.warp) return relation::fine;
      for (int q : who) {
        if (earlier.when.in(of(q).tensor)) continue;
        if (a.by->code == opcode::tmem_free) {  // to give memory back, everything in it must be over; a fence is for accesses
          const bool store = earlier.by->code == opcode::tmem_store, moves = store || earlier.by->code == opcode::tmem_load;
          event over = earlier.when;
          if (moves) {
            over.a = component(store ? stores_seen : loads_seen, earlier.warp * 2);
            over.b = component(store ? stores_seen : loads_seen, earlier.warp * 2 + 1);
          }
          if (over.in(of(q).k.order)) continue;
        }
        only_fence = earlier.when.in(of(q).k.order);
        return relation::conflict;
      }
      return relation::fine;
    });
    if (!before) return;
    const std::string place = names_.tensor(std::max(a.low, before->low), std::min(a.high, before->high));
    const std::vector<std::string> both{who_line(before->warp, *before->by, does(*before) + names_.tensor(before->low, before->high)), who_line(a.warp, s, does(a) + names_.tensor(a.low, a.high))};
    if (only_fence)
      fail("protocol-fence", cat("no tcgen05 fence behind the barrier, before the second access to ", place), s, "accesses to tensor memory by several threads are ordered by a barrier with tcgen05.fence on both sides of it",
           "add tmem.fence {before = 1} before the barrier and tmem.fence after it", both);
    const bool early = before->write && !a.write;
    fail(early ? "protocol-read-early" : "protocol-race", early ? cat(place, " is read before its product is complete") : cat(place, " is written while it is still in use"), s, "nothing orders the second access behind the first",
         early ? "wait for the barrier that the product commits to" : "let the reader wait for its loads and release the accumulator after them", both);
  }

  // --- barriers

  static std::int64_t key(int cta, std::int64_t offset) { return (static_cast<std::int64_t>(cta) << 32) | (offset & 0xffffffff); }

  barrier& use(const warp& w, const step& s, std::int64_t at, const pair_of_actors& who) {
    auto it = barriers_.find(at);
    if (it == barriers_.end() || !it->second.known)
      fail("protocol-barrier", cat(op_of(s), " uses ", names_.barrier(at), ", which is not initialised"), s, "an mbarrier must be initialised, and that be seen, before it is used",
           "initialise it before the barrier at the start of the kernel, or correct the address", standing_after(w, s, op_of(s) + " of " + names_.barrier(at)));
    barrier& b = it->second;
    for (int q : who) {
      const bool remote = (at >> 32) != w.cta;
      if (b.made.in(of(q).k.order) && (!remote || b.made.in(of(q).inits))) continue;
      fail("protocol-barrier", cat(op_of(s), " uses ", names_.barrier(at), remote ? " of another CTA" : "", " and nothing orders it behind its initialisation"), s,
           remote ? "fence.mbarrier_init and a barrier of the cluster make an initialisation seen by the other CTAs" : "the threads of a CTA meet after the initialisation",
           remote ? "add fence.init after the initialisation and a cluster.sync before the first remote access" : "add a barrier of the CTA after the initialisation", standing_after(w, s, op_of(s) + " of " + names_.barrier(at)));
    }
    return b;
  }

  void complete(std::int64_t at, barrier& b, const step& s) {
    while (b.pending == 0 && b.bytes == 0) {
      b.released.join(b.gathering);
      for (const auto& [q, phase, when] : b.waits)
        if (phase == b.phase - 1 && b.released.order.get(q) < when)
          fail("protocol-phase", cat(names_.barrier(at), " may be two phases past a waiter: phase ", b.phase, " completes and nothing shows that ", role_of(warps_[static_cast<size_t>(q) / 2], *wait_step_[q]), " has seen phase ", b.phase - 1), s,
               "a waiter that looks late sees the parity of the phase before and waits for ever", "let the waiter release the slot before it is filled again",
               {who_line(q / 2, *wait_step_[q], cat("waits for phase ", b.phase - 1)), cat(op_of(s), line_of(s), ": completes phase ", b.phase)});
      b.gathering.clear();
      b.pending = b.count;
      b.expected = b.arrived_bytes = 0;
      ++b.phase;
      if (b.count == 0) return;
    }
  }

  void arrive(const warp& w, const step& s, std::int64_t at, const pair_of_actors& who, std::int64_t n, std::int64_t bytes) {
    barrier& b = use(w, s, at, who);
    if (n > b.pending)
      fail("protocol-arrivals", cat(names_.barrier(at), " gets more arrivals than the ", b.count, " of its phase ", b.phase), s, "the count of an mbarrier is the number of arrivals in each phase",
           "count the arrivals that the roles make: one for each elected lane, one for each expect, one for each commit", {who_line(index_of(w), s, cat(op_of(s), " makes ", n, n == 1 ? " arrival, " : " arrivals, ", b.pending, " are still awaited"))});
    for (int q : who) b.gathering.join(of(q).k);
    for (int q : who) advance(q);
    b.bytes += bytes;
    b.expected += bytes;
    if (bytes) last_expect_[at] = &s;
    b.pending -= n;
    note_arrival(b, s, w);
    complete(at, b, s);
  }

  void note_arrival(barrier& b, const step& s, const warp& w) {
    auto it = std::find_if(b.arrivals.begin(), b.arrivals.end(), [&](const auto& a) { return a.first == &s; });
    if (it == b.arrivals.end()) b.arrivals.emplace_back(&s, index_of(w));
    else std::swap(*it, b.arrivals.back());
  }
  std::vector<std::string> who_arrived(const barrier& b) {
    std::vector<std::string> lines;
    for (const auto& [s, warp] : b.arrivals) lines.push_back(who_line(warp, *s, op_of(*s) + " arrives there"));
    for (const std::string& l : standing()) lines.push_back(l);
    return lines;
  }

  bool wait(warp& w, const step& s) {
    const std::int64_t at = key(w.cta, value(w, s.in[0])), parity = value(w, s.in[1]);
    const pair_of_actors who = actors_of(w, w.mask);
    const auto it = barriers_.find(at);
    w.why = blocked::phase;
    w.awaited_barrier = at;
    w.awaited_parity = parity;
    if (it == barriers_.end() || !it->second.known) use(w, s, at, who);
    barrier& b = use(w, s, at, who);
    if ((b.phase & 1) == (parity & 1)) return false;
    for (int q : who) {
      note(s, is_news(of(q).k, b.released));
      of(q).k.join(b.released);
      const std::uint32_t when = tick(q);
      wait_step_[q] = &s;
      if (q == who.ids[0]) {  // the warp's other lanes wait at the same instruction
        bool found = false;
        for (auto& [other, phase, since] : b.waits)
          if (other == q) {
            phase = b.phase - 1;
            since = when;
            found = true;
          }
        if (!found) b.waits.push_back({q, b.phase - 1, when});
      }
      advance(q);
    }
    return true;
  }

  // That a commit has arrived is known of nothing but its barrier, and matters to none but who ends the kernel.
  bool is_news(const knowledge& known, const knowledge& told) {
    const auto is_commit = [&](int c) { return static_cast<size_t>(c) >= actors_.size() && issued(c).kind == commits; };
    return known.order.lacks(told.order, is_commit) || known.proxied.lacks(told.proxied, is_commit);
  }

  std::int64_t threads_of(const step& s) const { return s.imm[1] ? s.imm[1] : std::int64_t{k_.warps} * 32; }
  std::int64_t meeting_key(const warp& w, const step& s) const { return s.code == opcode::cluster_sync ? -1 : w.cta * 64 + s.imm[0]; }

  bool meet(warp& w, const step& s) {
    const bool cluster = s.code == opcode::cluster_sync;
    meeting& m = meetings_[meeting_key(w, s)];
    if (w.meeting_generation >= 0) {
      if (m.generation == w.meeting_generation) return false;
      w.meeting_generation = -1;
      return true;
    }
    const std::int64_t threads = cluster ? std::int64_t{32} * static_cast<std::int64_t>(warps_.size()) : threads_of(s);
    if (!m.warps.empty() && m.threads != threads)
      fail("protocol-arrivals", cat("warps meet at named barrier ", s.imm[0], " with ", m.threads, " and with ", threads, " threads"), s, "all warps of one round give the same number of threads", "give each group of warps a barrier of its own", standing());
    if (threads % 32 != 0 || threads <= 0 || threads > std::int64_t{32} * static_cast<std::int64_t>(warps_.size()))
      fail("protocol-arrivals", cat("named barrier ", s.imm[0], " waits for ", threads, " threads, the CTA has ", k_.warps * 32), s, "a barrier counts whole warps, no more than there are", "count the threads of the warps that meet");
    m.threads = threads;
    m.warps.push_back(index_of(w));
    const bool relaxed = cluster && s.imm[0];
    for (int q : actors_of(w, w.mask)) {
      if (!relaxed) m.together.join(of(q).k);
      m.inits.join(of(q).inits);
      advance(q);
    }
    w.why = blocked::meeting;
    w.meeting_generation = m.generation;
    if (static_cast<std::int64_t>(m.warps.size()) * 32 < threads) return false;
    for (int i : m.warps)
      for (int a : {0, 1}) {
        actor& each = actors_[static_cast<size_t>(i) * 2 + static_cast<size_t>(a)];
        each.k.join(m.together);
        each.inits.join(m.inits);
        if (relaxed) each.k.order.join(m.inits);
      }
    m.together.clear();
    m.inits.clear();
    m.warps.clear();
    ++m.generation;
    w.meeting_generation = -1;
    return true;
  }

  // --- effects

  void need_all_lanes(const warp& w, const step& s) {
    if (w.mask != all_lanes)
      fail("protocol-divergent", cat(op_of(s), " is reached by ", __builtin_popcount(w.mask), " of the 32 lanes of a warp"), s, "all lanes of a warp execute it together", "move it out of the branch that picks lanes",
           {who_line(index_of(w), s, op_of(s))});
  }

  bool act(warp& w, const step& s) {
    const pair_of_actors who = actors_of(w, w.mask);
    switch (s.code) {
      case opcode::elect: {
        const int lane = first_lane(w.mask);
        set_lanes(w, s.out, 0, [&](int l) { return l == lane; });
        return true;
      }
      case opcode::descriptor: {
        const auto start = [&](std::int64_t address) { return s.imm[0] | ((address & 0x3ffff) >> 4); };
        set(w, s.out, start(value(w, s.in[0])));
        return true;
      }
      case opcode::mbarrier_init: {
        const std::int64_t offset = value(w, s.in[0]), at = key(w.cta, offset);
        if (offset % 8 != 0 || offset < 0 || offset + 8 > k_.shared_bytes)
          fail("protocol-barrier", cat("an mbarrier at byte ", offset, " of ", k_.shared_bytes), s, "an mbarrier is 8 bytes, aligned to 8, inside shared memory", "correct the address");
        if (s.imm[0] < 1) fail("protocol-arrivals", cat(names_.barrier(at), " counts ", s.imm[0], " arrivals"), s, "an mbarrier counts 1 to 1048575 arrivals", "count the arrivals that the roles make");
        barrier& b = barriers_[at];
        if (b.known)
          fail("protocol-barrier", cat(names_.barrier(at), " is initialised twice"), s, "an mbarrier in use is not initialised again", "give each barrier an address of its own",
               {who_line(index_of(w), *b.made_by, "initialises it"), who_line(index_of(w), s, "initialises it again")});
        b = {};
        b.known = true;
        b.made = now(who);
        b.made_by = &s;
        b.count = b.pending = s.imm[0];
        last_expect_[at] = &s;
        return true;
      }
      case opcode::mbarrier_arrive: {
        const std::uint32_t mask = s.in.size() > 1 ? w.mask & lanes_where(w, s.in[1]) : w.mask;
        if (mask) arrive(w, s, key(w.cta, value(w, s.in[0])), actors_of(w, mask), __builtin_popcount(mask) * s.imm[0], 0);
        return true;
      }
      case opcode::mbarrier_expect:
        arrive(w, s, key(w.cta, value(w, s.in[0])), who, __builtin_popcount(w.mask), s.imm[0] * __builtin_popcount(w.mask));
        return true;
      case opcode::mbarrier_remote: {
        const std::int64_t rank = value(w, s.in[1]);
        std::uint32_t mask = s.in.size() > 2 ? w.mask & lanes_where(w, s.in[2]) : w.mask;
        if (!mask) return true;
        if (rank < 0 || rank >= ctas_) fail("protocol-barrier", cat("an arrival in CTA ", rank, " of a cluster of ", ctas_), s, "the cluster has no such CTA", "correct the rank");
        remote_.push_back({now(actors_of(w, mask)), static_cast<int>(rank), &s, index_of(w)});
        arrive(w, s, key(static_cast<int>(rank), value(w, s.in[0])), actors_of(w, mask), __builtin_popcount(mask), 0);
        return true;
      }
      case opcode::mbarrier_wait: return wait(w, s);
      case opcode::fence_async:
        for (int q : who) {
          of(q).k.proxied.join(of(q).k.order);
          advance(q);
        }
        return true;
      case opcode::fence_init:
        for (int q : who) {
          of(q).inits.join(of(q).k.order);
          advance(q);
        }
        return true;
      case opcode::barrier_cta:
      case opcode::cluster_sync: need_all_lanes(w, s); return meet(w, s);
      case opcode::barrier_warp: {
        need_all_lanes(w, s);
        actor &one = of(who.ids[0]), &two = of(who.ids[1]);
        one.k.join(two.k);
        two.k.join(one.k);
        one.inits.join(two.inits);
        two.inits.join(one.inits);
        for (int q : who) advance(q);
        return true;
      }
      case opcode::set_registers: need_all_lanes(w, s); return set_registers(w, s);
      case opcode::shared_read:
      case opcode::shared_load:
      case opcode::shared_write:
      case opcode::shared_store:
      case opcode::shared_zero: shared_access(w, s, who); return true;
      case opcode::tma_load: copy_in(w, s, who); return true;
      case opcode::tma_store: {
        const std::int64_t from = value(w, s.in[0]);
        const int a = who.ids[0], c = component(copies_out, a);
        const std::uint32_t t = issue_one(c, s, w, w.cta, copies_out);
        of(a).bulk_issued = t;
        touch_shared(w, w.cta, who, {.low = from, .high = from + s.imm[0], .how = via::bulk, .when = {c, -1, t, 0}, .by = &s});
        return true;
      }
      case opcode::tma_commit:
        for (int q : who)
          of(q).bulk_groups.push_back(of(q).bulk_issued);
        return true;
      case opcode::tma_wait:
        for (int q : who) {
          const auto n = static_cast<std::int64_t>(of(q).bulk_groups.size()) - s.imm[0];
          if (n > 0) of(q).k.order.raise(component(copies_out, q), of(q).bulk_groups[static_cast<size_t>(n - 1)]);
        }
        return true;
      case opcode::wgmma_fence:
        need_all_lanes(w, s);
        w.fenced = true;
        return true;
      case opcode::wgmma_mma: wgmma(w, s, who); return true;
      case opcode::wgmma_commit:
        need_all_lanes(w, s);
        w.groups.push_back(w.products);
        return true;
      case opcode::wgmma_wait: wgmma_wait(w, s, who); return true;
      default: return act_on_tensor_memory(w, s, who);
    }
  }

  bool set_registers(warp& w, const step& s) {
    const std::int64_t n = s.imm[0];
    if (n < 24 || n > 256 || n % 8 != 0) fail("protocol-registers", cat("a budget of ", n, " registers"), s, "setmaxnreg takes multiples of 8 from 24 to 256", "correct the budget");
    if (s.imm[1] ? n < w.registers : n > w.registers)
      fail("protocol-registers", cat("setmaxnreg.", s.imm[1] ? "inc" : "dec", " to ", n, " registers from ", w.registers), s, "inc only adds registers, dec only gives them back", "use the other direction");
    std::int64_t& pool = pool_[static_cast<size_t>(w.cta)];
    const std::int64_t more = (n - w.registers) * 32;
    if (more > pool) {
      w.why = blocked::registers;
      return false;
    }
    pool -= more;
    w.budget = &s;
    w.registers = n;
    return true;
  }

  void shared_access(warp& w, const step& s, const pair_of_actors& who) {
    const std::int64_t address = s.imm[3] ? s.imm[2] : value(w, s.in.back());
    const bool zero = s.code == opcode::shared_zero, write = zero || s.code == opcode::shared_write || s.code == opcode::shared_store;
    const std::int64_t start = zero ? value(w, s.in[0]) : address;
    const footprint& f = p_.footprints[static_cast<size_t>(s.touches)];
    const auto mine = static_cast<size_t>(std::max(0, w.number - p_.first_warps[static_cast<size_t>(s.place)])) % f.by_warp.size();
    const auto [low, high] = f.by_warp[mine];
    touch_shared(w, w.cta, who, {.low = start + low, .high = start + high, .write = write, .exact = f.exact, .how = via::ordinary, .when = now(who), .by = &s});
    if (s.code == opcode::shared_store) words_[static_cast<size_t>(w.cta)][address] = value(w, s.in[0]);
    if (s.code == opcode::shared_load && s.out >= 0) {
      const auto& words = words_[static_cast<size_t>(w.cta)];
      const auto it = words.find(address);
      if (it != words.end()) set(w, s.out, it->second);
      else set(w, s.out, values_.empty() ? 0 : values_[static_cast<size_t>(opaque_index())], 2);
    }
  }

  void copy_in(warp& w, const step& s, const pair_of_actors& who) {
    const std::int64_t to = value(w, s.in[0]), offset = value(w, s.in[1]), bytes = s.imm[0];
    std::int64_t mask = s.imm[1];
    if (mask == 0) mask = std::int64_t{1} << w.cta;
    if (to % 128 != 0) fail("protocol-shared-memory", cat("tma.load to byte ", to, " of shared memory"), s, "bulk tensor copies need addresses that are multiples of 128", "correct the address");
    for (int lane = 0; lane < __builtin_popcount(w.mask); ++lane)
      for (int cta = 0; cta < ctas_; ++cta) {
        if (!((mask >> cta) & 1)) continue;
        const std::int64_t at = key(s.imm[2] == 2 ? cta & ~1 : cta, offset);  // of a pair the leader is signalled
        barrier& b = use(w, s, at, who);
        const int c = component(copies_in, who.ids[0], at & 0xfffffffff);
        const std::uint32_t t = issue_one(c, s, w, cta, copies_in, at);
        if ((at >> 32) != cta) remote_.push_back({now(who), static_cast<int>(at >> 32), &s, index_of(w)});
        touch_shared(w, cta, who, {.low = to, .high = to + bytes, .write = true, .how = via::bulk, .when = {c, -1, t, 0}, .by = &s});
        knowledge done = of(who.ids[0]).k;
        done.order.raise(c, t);
        b.gathering.join(done);
        b.bytes -= bytes;
        b.arrived_bytes += bytes;
        complete(at, b, s);
      }
  }

  // Bytes that an operand's rows lie in, from its descriptor (PTX ISA: start, strides and swizzle of the matrix descriptor).
  access operand(std::int64_t descriptor, int rows, bool across, bool tcgen05) const {
    const auto d = static_cast<std::uint64_t>(descriptor);
    const std::int64_t start = static_cast<std::int64_t>(d & 0x3fff) << 4, leading = static_cast<std::int64_t>((d >> 16) & 0x3fff) << 4, stride = static_cast<std::int64_t>((d >> 32) & 0x3fff) << 4;
    const auto code = tcgen05 ? (d >> 61) & 7 : (d >> 62) & 3;
    const std::int64_t width = code == 0 ? 16 : tcgen05 ? (code == 2 ? 128 : code == 4 ? 64 : 32) : (code == 1 ? 128 : code == 2 ? 64 : 32);
    const std::int64_t low = start / width * width;
    if (code == 0) return {.low = low, .high = low + 128 + std::max(leading, stride)};
    if (!across) return {.low = low, .high = low + (rows / 8 - 1) * stride + 8 * width};  // groups of eight rows, each of eight widths
    const std::int64_t chunks = (rows * 2 + width - 1) / width;                          // 16-bit elements, sixteen rows of K
    return {.low = low, .high = low + (chunks - 1) * leading + 16 * width};
  }

  void wgmma(warp& w, const step& s, const pair_of_actors& who) {
    need_all_lanes(w, s);
    if (!w.fenced)
      fail("protocol-fence", "no wgmma.fence before a wgmma whose registers were touched since the last one", s, "wgmma reads and writes registers asynchronously; the fence orders it behind ordinary accesses to them", "add wgmma.fence before it",
           {who_line(index_of(w), s, op_of(s))});
    const int c = component(products, index_of(w));
    w.products = issue_one(c, s, w, w.cta, products);
    const bool a_in_registers = s.imm[0] != 0;
    const auto read = [&](int slot, int rows, bool across) {
      access a = operand(value(w, slot), rows, across, false);
      a.how = via::wgmma;
      a.when = {c, -1, w.products, 0};
      a.by = &s;
      touch_shared(w, w.cta, who, a);
    };
    if (!a_in_registers) read(s.in[1], 64, s.imm[2] != 0);
    read(s.in[a_in_registers ? 1 : 2], static_cast<int>(s.imm[1]), s.imm[3] != 0);
    w.accumulators[s.in[0]].first = w.products;
  }

  void wgmma_wait(warp& w, const step& s, const pair_of_actors& who) {
    need_all_lanes(w, s);
    const auto n = static_cast<std::int64_t>(w.groups.size()) - s.imm[0];
    const std::uint32_t done = n > 0 ? w.groups[static_cast<size_t>(n - 1)] : 0;
    const int c = component(products, index_of(w));
    for (int q : who) of(q).k.order.raise(c, done);
    w.products_done = std::max(w.products_done, done);
    for (int cell : s.in) w.accumulators[cell].second = w.products_done;
  }

  void read_accumulator(warp& w, const step& s) {
    const int cell = s.in[0];
    w.fenced = false;
    const auto it = w.accumulators.find(cell);
    if (it == w.accumulators.end() || it->second.first <= it->second.second) return;
    fail("protocol-read-early", "the registers of an accumulator are used before its wgmma is complete", s, "wgmma writes its registers asynchronously until a wgmma.wait that names them", "wait with wgmma.wait on this accumulator first",
         {who_line(index_of(w), s, op_of(s))});
  }

  bool act_on_tensor_memory(warp& w, const step& s, const pair_of_actors& who) {
    switch (s.code) {
      case opcode::tmem_alloc: {
        need_all_lanes(w, s);
        const std::int64_t n = s.imm[0], word = value(w, s.in[0]);
        if (n < 32 || n > limits_.tensor_memory_columns || (n & (n - 1)) != 0)
          fail("protocol-tensor-memory", cat("an allocation of ", n, " columns of tensor memory"), s, cat("allocations are powers of two from 32 to ", limits_.tensor_memory_columns), "round the number up");
        auto& mine = allocated_[static_cast<size_t>(w.cta)];
        std::int64_t base = 0;
        for (const auto& [at, columns] : mine) base = std::max(base, at + columns);
        if (base + n > limits_.tensor_memory_columns)
          fail("protocol-tensor-memory", cat(base + n, " columns of tensor memory in one CTA"), s, cat("an SM has ", limits_.tensor_memory_columns, "; the allocation waits for ever"), "allocate fewer columns");
        mine.push_back({base, n});
        alloc_step_ = &s;
        alloc_warp_ = index_of(w);
        if (s.imm[1] == 2) paired_[w.cta] = now(who);
        touch_shared(w, w.cta, who, {.low = word, .high = word + 4, .write = true, .how = via::ordinary, .when = now(who), .by = &s});
        words_[static_cast<size_t>(w.cta)][word] = base;
        return true;
      }
      case opcode::tmem_free: {
        need_all_lanes(w, s);
        auto& mine = allocated_[static_cast<size_t>(w.cta)];
        const std::int64_t base = value(w, s.in[0]) & 0xffff;
        const auto it = std::find(mine.begin(), mine.end(), std::pair{base, s.imm[0]});
        if (it == mine.end())
          fail("protocol-tensor-memory", cat("frees ", s.imm[0], " columns of tensor memory at ", base, ", which were not allocated so"), s, "what is freed is exactly what an allocation gave", "free the address and the number of columns of the allocation");
        touch_tensor(w, w.cta, who, {.low = base, .high = base + s.imm[0], .write = true, .when = now(who), .by = &s});
        if (s.imm[1] == 2) {  // a pair allocates and frees together
          const auto peer = paired_.find(w.cta ^ 1);
          for (int q : who)
            if (peer == paired_.end() || !peer->second.in(of(q).k.order))
              fail("protocol-tensor-memory", cat("CTA ", w.cta, " frees tensor memory of a pair, and CTA ", w.cta ^ 1, " may not have allocated it yet"), s, "an allocation of two CTAs needs both of them; a CTA that is late finds its peer gone",
                   "put a barrier of the cluster between the allocation and the release", standing_after(w, s, op_of(s)));
        }
        mine.erase(it);
        return true;
      }
      case opcode::tmem_load:
      case opcode::tmem_store: {
        need_all_lanes(w, s);
        const bool store = s.code == opcode::tmem_store;
        const std::int64_t address = value(w, s.in.back()), column = address & 0xffff;
        const int lane = static_cast<int>((address >> 16) & 0x7f);
        event e{component(store ? tensor_stores : tensor_loads, who.ids[0]), component(store ? tensor_stores : tensor_loads, who.ids[1]), 0, 0};
        e.at_a = issue_one(e.a, s, w, w.cta, store ? tensor_stores : tensor_loads);
        e.at_b = issue_one(e.b, s, w, w.cta, store ? tensor_stores : tensor_loads);
        touch_tensor(w, w.cta, who, {.low = column, .high = column + s.imm[0], .lane_low = lane, .lane_high = lane + static_cast<int>(s.imm[1]), .write = store, .when = e, .by = &s});
        return true;
      }
      case opcode::tmem_wait_load:
      case opcode::tmem_wait_store:
        for (int q : who) {
          const bool store = s.code == opcode::tmem_wait_store;
          const std::uint32_t n = issued(component(store ? tensor_stores : tensor_loads, q)).count;
          (store ? of(q).stores_waited : of(q).loads_waited) = n;
          of(q).k.order.raise(component(store ? stores_seen : loads_seen, q), n);
        }
        return true;
      case opcode::tmem_relinquish: return true;
      case opcode::tmem_fence:
        for (int q : who) {
          actor& a = of(q);
          if (s.imm[0]) {
            a.k.order.raise(component(tensor_loads, q), a.loads_waited);
            a.k.order.raise(component(tensor_stores, q), a.stores_waited);
          } else {
            a.tensor.join(a.k.order);
          }
        }
        return true;
      case opcode::tcgen05_mma: tcgen05(w, s, who); return true;
      case opcode::tcgen05_copy: copy_scales(w, s, who); return true;
      case opcode::tcgen05_scaled: scaled(w, s, who); return true;
      case opcode::tcgen05_commit: commit(w, s, who); return true;
      default: return true;
    }
  }

  void tcgen05(warp& w, const step& s, const pair_of_actors& who) {
    const int a = who.ids[0], c = component(tensor_products, a);
    const std::uint32_t t = issue_one(c, s, w, w.cta, tensor_products);
    const std::int64_t idesc = s.imm[0];
    const int n = static_cast<int>((idesc >> 17) & 0x3f) * 8, m = static_cast<int>((idesc >> 24) & 0x1f) * 16, pair = s.imm[1] == 2 ? 2 : 1;
    const event e{c, -1, t, 0};
    for (int i = 0; i < pair; ++i) {
      const int cta = pair == 2 ? (w.cta & ~1) + i : w.cta;
      if (cta >= ctas_) continue;
      const auto read = [&](int slot, int rows, bool across) {
        access r = operand(value(w, slot), rows, across, true);
        r.how = via::tensor;
        r.when = e;
        r.by = &s;
        touch_shared(w, cta, who, r);
      };
      if (!s.imm[2]) read(s.in[1], m / pair, ((idesc >> 15) & 1) != 0);
      else touch_tensor(w, cta, who, {.low = value(w, s.in[1]) & 0xffff, .high = (value(w, s.in[1]) & 0xffff) + 8, .when = e, .by = &s});
      read(s.in[2], n / pair, ((idesc >> 16) & 1) != 0);
      const std::int64_t d = value(w, s.in[0]) & 0xffff;
      touch_tensor(w, cta, who, {.low = d, .high = d + n, .write = true, .when = e, .by = &s});
    }
  }

  // A unit of scales from shared memory, 512 bytes, to four columns.
  void copy_scales(warp& w, const step& s, const pair_of_actors& who) {
    const int c = component(tensor_products, who.ids[0]);
    const event e{c, -1, issue_one(c, s, w, w.cta, tensor_products), 0};
    const std::int64_t from = (value(w, s.in[1]) & 0x3fff) << 4, to = value(w, s.in[0]) & 0xffff;
    touch_shared(w, w.cta, who, {.low = from, .high = from + 512, .how = via::tensor, .when = e, .by = &s});
    touch_tensor(w, w.cta, who, {.low = to, .high = to + 4, .write = true, .when = e, .by = &s});
  }

  void scaled(warp& w, const step& s, const pair_of_actors& who) {
    const int c = component(tensor_products, who.ids[0]);
    const event e{c, -1, issue_one(c, s, w, w.cta, tensor_products), 0};
    const std::int64_t idesc = s.imm[0], d = value(w, s.in[0]) & 0xffff;
    const int n = static_cast<int>((idesc >> 17) & 0x3f) * 8, m = static_cast<int>((idesc >> 27) & 3) * 128;
    for (const auto& [slot, rows] : {std::pair{1, m}, std::pair{2, n}}) {
      access r = operand(value(w, s.in[static_cast<size_t>(slot)]), rows, false, true);
      r.how = via::tensor;
      r.when = e;
      r.by = &s;
      touch_shared(w, w.cta, who, r);
    }
    for (const auto& [slot, rows] : {std::pair{3, m}, std::pair{4, n}}) {
      const std::int64_t from = value(w, s.in[static_cast<size_t>(slot)]) & 0xffff;
      for (std::int64_t unit = from; unit < from + rows / 32; unit += 4) touch_tensor(w, w.cta, who, {.low = unit, .high = unit + 4, .when = e, .by = &s});  // each was copied by itself
    }
    touch_tensor(w, w.cta, who, {.low = d, .high = d + n, .write = true, .when = e, .by = &s});
  }

  void commit(warp& w, const step& s, const pair_of_actors& who) {
    const std::int64_t offset = value(w, s.in[0]);
    std::int64_t mask = s.imm[0];
    if (mask == 0) mask = std::int64_t{1} << w.cta;
    const int a = who.ids[0];
    for (int cta = 0; cta < ctas_; ++cta) {
      if (!((mask >> cta) & 1)) continue;
      const std::int64_t at = key(cta, offset);
      barrier& b = use(w, s, at, who);
      const int c = component(commits, a, at & 0xfffffffff), products_of = component(tensor_products, a);
      const std::uint32_t t = issue_one(c, s, w, cta, commits, at);
      knowledge done = of(a).k;
      done.order.raise(c, t);
      done.order.raise(products_of, issued(products_of).count);
      const std::int64_t lanes = __builtin_popcount(w.mask);
      if (lanes > b.pending)
        fail("protocol-arrivals", cat(names_.barrier(at), " gets more arrivals than the ", b.count, " of its phase ", b.phase), s, "the count of an mbarrier is the number of arrivals in each phase",
             "count the arrivals that the roles make: one for each elected lane, one for each expect, one for each commit", {who_line(index_of(w), s, cat(op_of(s), " makes ", lanes, " arrivals, ", b.pending, " are still awaited"))});
      b.gathering.join(done);
      b.pending -= lanes;
      note_arrival(b, s, w);
      for (int q : who) advance(q);
      complete(at, b, s);
    }
  }

  const program& p_;
  const ir::kernel& k_;
  const scenario& values_;
  place_names names_;
  tile::limits limits_;
  int ctas_ = 1, entry_ = 255, components_ = 0;
  std::vector<warp> warps_;
  std::vector<actor> actors_;
  std::unordered_map<std::uint64_t, int> queues_;
  std::vector<issue> issued_;
  std::map<std::int64_t, barrier> barriers_;
  std::map<std::int64_t, meeting> meetings_;
  std::vector<shadow> shared_, tensor_;
  std::vector<std::unordered_map<std::int64_t, std::int64_t>> words_;
  std::vector<std::vector<std::pair<std::int64_t, std::int64_t>>> allocated_;
  std::vector<std::int64_t> pool_;
  std::map<std::int64_t, const step*> last_expect_;
  std::unordered_map<int, const step*> wait_step_;
  struct remote_access {
    event when;
    int cta;
    const step* by;
    int warp;
  };
  std::vector<remote_access> remote_;
  const step* alloc_step_ = nullptr;
  int alloc_warp_ = 0;
  std::unordered_map<int, event> paired_;  // by CTA: its allocation for two
  outcome out_;
};

}  // namespace

outcome run(const program& p, const scenario& values) { return machine(p, values).go(); }

}  // namespace tlx::check
