// What exists while a kernel runs: global memory, clusters of CTAs, warps, contexts (groups of lanes at one place), pending asynchronous work.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "sim/program.hpp"
#include "sim/units/complaint.hpp"
#include "sim/units/descriptor.hpp"
#include "sim/units/mbarrier.hpp"
#include "sim/units/matrix.hpp"
#include "sim/units/tensor_memory.hpp"
#include "tlx/device/device.hpp"
#include "tlx/sim/machine.hpp"

namespace tlx::sim {

/// Thrown inside the engine; machine.cpp turns it into a sim_error.
struct fault_found { fault_report report; };

// ---- global memory
struct allocation {
  std::uint64_t base = 0;
  std::size_t bytes = 0;
  std::unique_ptr<std::byte[]> data;
  std::string name;
  bool read_only = false;
  /// While clusters run on several threads: who wrote each 8 bytes (low half: number of the cluster, from one) and who else touched them (high half; all ones: several).
  std::atomic<std::uint64_t>* claims = nullptr;
};

class global_memory {
 public:
  std::uint64_t allocate(std::size_t bytes, const std::string& name);
  void release(std::uint64_t base);
  allocation* find(std::uint64_t address);  // the one that holds or most closely precedes it, or null
  /// Host pointer to [address, address + bytes), or null when it is not inside one allocation.
  std::byte* at(std::uint64_t address, std::size_t bytes);
  std::string describe(std::uint64_t address) const;  // "8 bytes past the end of \"x\" (1024 bytes)"
  std::vector<std::unique_ptr<allocation>> list;  // by base

 private:
  struct freed { std::uint64_t base; std::size_t bytes; std::string name; };
  std::deque<freed> freed_;  // the latest: addresses are never given out again
  std::uint64_t next_ = 0x0000'0010'0000'0000ULL;
  allocation* last_ = nullptr;
};

/// Thrown when two clusters on different threads touch the same global bytes and one of them writes.
struct clusters_meet {};

/// Global memory as one engine sees it. On several threads every access is claimed for the cluster that runs, and what it overwrites is kept.
class global_view {
 public:
  explicit global_view(global_memory& all) : all_(&all) {}
  std::byte* at(std::uint64_t address, std::size_t bytes);
  /// The bytes, which at() has found, are about to be written.
  void writes(std::uint64_t address, std::size_t bytes) { if (cluster) claim(address, bytes, true); }
  std::string describe(std::uint64_t address) const { return all_->describe(address); }
  std::uint32_t cluster = 0;  // the number to claim for; 0: nobody else runs
  struct old_bytes { std::byte* at; std::uint64_t value; std::uint32_t bytes; };
  std::vector<old_bytes> overwritten;

 private:
  void claim(std::uint64_t address, std::size_t bytes, bool write);
  global_memory* all_;
  allocation* last_ = nullptr;
};

/// A large array of zeros: pages that nobody writes are never there.
template <class T> class zeros {
 public:
  void assign(std::size_t count, T) {
    data_.reset(static_cast<T*>(std::calloc(count ? count : 1, sizeof(T))));
    if (!data_) throw std::bad_alloc();
    size_ = count;
  }
  T* data() { return data_.get(); }
  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t k) { return data_.get()[k]; }

 private:
  struct release { void operator()(T* p) const { std::free(static_cast<void*>(p)); } };
  std::unique_ptr<T, release> data_;
  std::size_t size_ = 0;
};

// ---- shared memory
enum shadow : std::uint8_t { shadow_unwritten = 0, shadow_written = 1, shadow_in_flight = 2, shadow_barrier = 3 };

struct cta;
struct cluster;

// ---- happens-before: one entry for each warp of the cluster, then one for each mbarrier that asynchronous writes complete on and for each warp's bulk stores
using vector_clock = std::vector<std::uint32_t>;
inline std::uint32_t seen_of(const vector_clock& v, std::uint32_t agent) { return agent < v.size() ? v[agent] : 0; }
inline void raise_clock(vector_clock& v, std::uint32_t agent, std::uint32_t clock) {
  if (v.size() <= agent) v.resize(agent + 1);
  v[agent] = std::max(v[agent], clock);
}
inline void join_clock(vector_clock& a, const vector_clock& b) {
  if (a.size() < b.size()) a.resize(b.size());
  for (std::size_t k = 0; k < b.size(); ++k) a[k] = std::max(a[k], b[k]);
}
/// `seen` is what happened before; `proxied` the part of it that a proxy fence has made visible to the async proxy; `elsewhere` what strong accesses of
/// global memory told about other clusters, by cluster number.
struct clocks {
  vector_clock seen, proxied, tensor;  // tensor: what a tcgen05.fence::before_thread_sync, or a commit, has covered
  std::map<std::uint32_t, vector_clock> elsewhere;
  void join(const clocks& other);
  bool empty() const { return seen.empty(); }
};
inline constexpr std::uint8_t lane_collective = 32, lane_several = 33, lane_unknown = 34;  // the warp as one; more than one lane; an operation without a lane
/// at: engine::index_of. async: needs no proxy fence. round: of the warp's lanes (warp::round).
struct last_write { std::uint32_t clock = 0, round = 0; int at = 0; std::uint16_t agent = 0; std::uint8_t lane = lane_unknown; bool async : 1 = false, strong : 1 = false; };
struct last_read { std::uint32_t round = 0; int at = 0; std::uint16_t agent = 0; std::uint8_t lane = lane_unknown; };
struct barrier_clocks { clocks arriving, done; std::uint32_t init_agent = 0, init_clock = 0, async_agent = 0, async_clock = 0; };

// ---- happens-before in global memory (global_races.cpp): what touched 16 bytes last
struct global_access { std::uint32_t cta = 0, clock = 0, round = 0; int at = 0; std::uint16_t agent = 0, mask = 0; std::uint8_t lane = lane_unknown; bool write : 1 = false, strong : 1 = false, narrow : 1 = false, async : 1 = false, swaps : 1 = false; };
struct global_cell { global_access first; std::unique_ptr<std::vector<global_access>> more; };
struct global_page { std::array<global_cell, 256> cells; };
/// What strong accesses of one word of global memory have published: to everybody, and to single CTAs (by generation).
struct strong_place { std::map<std::uint32_t, vector_clock> wide; std::map<std::uint32_t, std::map<std::uint32_t, vector_clock>> narrow; };

enum class block_reason : std::uint8_t { none, cta_barrier, cluster_barrier, mbarrier, lane_group, tensor_alloc, registers };

/// What a call keeps of its caller when the callee may reach the caller again, as it was at the call.
struct saved_frame { const recursion_detail* what = nullptr; std::vector<std::byte> bytes; };
struct call_frame {
  struct result { std::uint32_t from, to, bytes; };  // local memory; copied when an indirect call returns
  std::uint32_t back, join;
  std::shared_ptr<const saved_frame> saved;
  std::vector<result> results;
};

/// Lanes of one warp that stand at the same place. Divergence makes children; they end at `join`, where their parent goes on.
struct context {
  enum class state : std::uint8_t { free, runnable, joining, blocked };
  lanes who = 0;
  std::uint32_t pc = 0, join = no_pc;
  int parent = -1, children = 0;
  state at = state::free;
  block_reason why = block_reason::none;
  std::uint32_t key = 0;          // barrier number, or the shared address of an mbarrier
  cta* key_cta = nullptr;
  std::uint64_t phase = 0;        // mbarrier: the phase waited for
  bool overslept = false;         // a try_wait that has slept long enough: it answers
  std::vector<call_frame> calls;
  std::shared_ptr<const saved_frame> saved;  // from op_save_frame to the call that it is for
};

/// A wgmma that has been issued by one warp and whose effects are not visible yet.
struct pending_wgmma { const instruction* what; std::uint64_t a_descriptor, b_descriptor; bool use_d; std::uint64_t id, sequence; std::uint32_t clock = 0; };
struct bulk_group { std::vector<std::uint64_t> operations; };
/// Per-thread bookkeeping of bulk-group and cp.async completion.
struct thread_async {
  std::vector<std::uint64_t> open_bulk;
  std::vector<const instruction*> open_places;  // of open_bulk
  std::deque<std::vector<std::uint64_t>> bulk_groups;
  std::vector<std::uint64_t> open_copies;
  std::deque<std::vector<std::uint64_t>> copy_groups;
};

struct warp {
  cta* home = nullptr;
  std::uint32_t index = 0;       // in the CTA
  lanes launched = 0, exited = 0;
  std::byte* registers = nullptr;
  std::unique_ptr<std::byte[]> register_storage;
  std::vector<std::byte> local;  // 32 x program.local_bytes
  std::deque<context> contexts;
  std::size_t current = 0;
  bool queued = false, done = false;
  std::uint32_t ended_at = no_pc;               // where a thread of it ended last
  std::uint32_t proxy_fence_clock = 0;          // of its latest proxy fence, which stands at proxy_fence_at (engine::index_of)
  int proxy_fence_at = 0;
  std::uint32_t agent = 0;                      // index in the vector clocks
  clocks now, fenced;                           // fenced: at the last fence, what a relaxed cluster arrive and a relaxed store publish
  clocks loaded;                                // what relaxed loads read of others; a fence takes it in
  std::uint32_t round = 1, round_clock = 0;     // counts the moments at which its lanes were ordered; the clock at the last
  lanes touched = 0;                            // lanes that accessed shared memory since
  std::uint32_t copy_clock = 0, matrix_clock = 0;  // asynchronous reads issued
  std::array<std::uint32_t, 32> copies_waited{};   // by lane: bulk copies known to have read, not known to the warp yet
  bool lanes_waited = false;
  const cta* waited_in = nullptr;               // the mbarrier that it has waited for last, successfully
  std::uint32_t waited_for = 0;
  vector_clock tensor_after;                    // clocks::tensor at the last tcgen05.fence::after_thread_sync
  bool tensor_loads_pending = false;            // registers of a tcgen05.ld that was not waited for
  const instruction* tensor_loaded = nullptr;   // the latest one
  std::uint32_t store_agent = 0, store_clock = 0;  // its bulk stores to global memory
  std::vector<pending_wgmma> wgmmas;            // issue order
  std::deque<std::size_t> wgmma_groups;         // sizes of committed groups, oldest first
  std::size_t wgmma_open = 0;                   // issued, not committed
  std::uint64_t wgmma_sequence = 0;
  struct tensor_span { int group_first, group_count, first, count; };
  std::vector<tensor_span> tensor_loads_open, tensor_stores_open;  // not waited for yet
  std::vector<std::uint8_t> pinned;             // by slot / 128: registers of pending operations (1 may not be touched, 2 may not be written; 3: loaded from tensor memory, may not be touched)
  std::vector<std::uint8_t> unfenced;           // by slot / 128: touched since the last wgmma.fence
  std::array<std::unique_ptr<thread_async>, 32> async;
  std::uint32_t register_count = 0;             // setmaxnreg
  lanes cluster_waiting = 0;                    // arrived at the cluster barrier, not waited yet
  std::uint64_t cluster_round = 0;

  template <class T> T* slot(std::uint32_t at) { return reinterpret_cast<T*>(registers + at); }
  lanes live() const { return launched & ~exited; }
  thread_async& of(int lane) { auto& p = async[static_cast<std::size_t>(lane)]; if (!p) p = std::make_unique<thread_async>(); return *p; }
};

struct cta_barrier { std::uint32_t arrived = 0, expected = 0; lanes arrived_lanes[64] = {}; bool reducing = false; std::uint32_t red_count = 0; bool red_and = true, red_or = false; std::uint64_t round = 0; std::uint32_t last_count = 0; bool last_and = false, last_or = false; };

struct cta {
  cluster* home = nullptr;
  std::uint32_t rank = 0;
  device::extent3 id;
  std::vector<std::unique_ptr<warp>> warps;
  std::vector<std::byte> shared;
  std::vector<std::uint8_t> shadows;       // per byte
  std::map<std::uint32_t, mbarrier_state> barriers;
  std::map<std::uint32_t, std::vector<int>> arrivals;  // by barrier: what has signalled it in its phase, at most eight places (engine::index_of)
  std::map<std::uint32_t, std::vector<int>> signalled;  // and in the phase before
  std::array<cta_barrier, 16> named;
  std::uint32_t live_warps = 0;
  bool exited = false;
  bool cluster_met = false;                // one of its warps has been at a cluster barrier: all CTAs of the cluster have started
  std::uint32_t ended_at = no_pc;          // where a thread ended last
  std::unique_ptr<tensor_memory> tmem;
  const instruction* tensor_allocated = nullptr;  // the latest tcgen05.alloc and .dealloc, for reports
  const instruction* tensor_freed = nullptr;
  const warp* tensor_allocator = nullptr;         // who allocated
  std::bitset<tmem_columns> tensor_clean;  // columns whose 128 lanes all hold values
  std::uint32_t register_pool = 0;
  std::uint32_t generation = 0;            // serial number, unique in the launch
  // Race detection, by grain of shared memory.
  std::vector<last_write> writes;
  zeros<std::uint32_t> reads;              // [grain][warp of the cluster]: the clock of its last read
  std::vector<last_read> last_reads;       // by grain: the latest one
  std::vector<std::uint32_t> copy_reads, matrix_reads;  // [16 bytes][warp of the cluster]: the latest asynchronous read it issued; empty until there is one
  std::vector<int> async_read_places;
  std::map<std::uint32_t, barrier_clocks> barrier_sync;
  std::array<barrier_clocks, 16> named_sync;
  std::unordered_map<std::uint32_t, clocks> strong_places;
  struct reader { std::uint64_t operation; std::vector<byte_range> ranges; };
  std::vector<reader> async_reads;         // shared memory that pending operations are going to read
  std::vector<std::uint16_t> reading;      // how many of them, by 16 bytes
  struct tensor_writer { int first, count; std::uint64_t operation; };
  std::vector<tensor_writer> tensor_writes; // tensor-memory columns that pending operations are going to write
  // Order of tcgen05.ld and st, by group of 16 lanes and column: the last store, and each warp's last load. all ones: not waited for yet.
  struct tensor_store { std::uint32_t clock = 0; std::uint16_t agent = 0; int at = 0; };
  std::vector<tensor_store> tensor_stores, tensor_results, tensor_uses;  // results, uses: of matrix operations and copies
  std::vector<std::uint32_t> tensor_loads;
  struct wgmma_operands { std::uint64_t a_descriptor = 0, b_descriptor = 0; const instruction* what = nullptr; std::vector<float> a, b; int uses = 0; };
  std::map<std::uint64_t, wgmma_operands> wgmma_shared;  // (warpgroup, sequence number) -> operands, gathered once for its four warps
};

struct cluster {
  device::extent3 id;
  std::vector<std::unique_ptr<cta>> ctas;
  std::uint32_t live_ctas = 0;
  std::uint64_t barrier_round = 0;
  std::uint32_t barrier_arrived = 0;
  barrier_clocks sync;
  std::uint32_t number = 0;
  std::uint32_t warp_count = 0;            // of all its CTAs
  std::uint32_t agents = 0;                // entries of its vector clocks
  std::vector<std::uint32_t> lane_agents;  // by warp, for what single lanes have signalled, then for what they have fenced: the first of its 32 lanes, or 0
  std::unordered_map<const warp*, lanes> arrived_lanes;   // lanes that arrived this round
};

// ---- asynchronous work
struct async_operation {
  std::uint64_t id = 0;
  std::uint64_t queue = 0;        // operations of one non-zero queue land in order
  cta* home = nullptr;
  int stage = 0;                  // stores have two: source read, destination written
  int stages = 1;
  std::function<void(engine&, int stage)> land;
  const instruction* what = nullptr;
  struct span { const cta* home; std::uint32_t begin, end; };
  std::vector<span> writes;       // shared memory it writes, roughly: for reports
};

struct launch_shape {
  device::extent3 grid, block, cluster;
  std::uint32_t dynamic_shared = 0;
};

class engine {
 public:
  engine(global_memory& memory, const program& code, const launch_shape& shape, std::vector<std::byte> parameters, const options& how, int sm);
  void run();

  // ---- scheduling
  bool lands_now();                        // schedule.cpp: what the seed's policy says
  std::size_t pick_landing();
  std::size_t pick_warp();
  unsigned pick_budget();
  void launch_next_cluster();
  void retire_clusters();
  void check_barriers(cta& c);             // after an exit: barriers that wait only for threads that are gone
  void check_cluster_barrier(cluster& c);
  void finish_named(cta& c, std::uint32_t number);
  void make_runnable(warp& w);
  void run_warp(warp& w, unsigned budget);
  void wake(cta& where, block_reason why, std::uint32_t key);
  void exit_lanes(warp& w, context& c, lanes who);
  void end_context(warp& w, context& c);
  void after_exit(warp& w);
  context& new_context(warp& w);
  step diverge(warp& w, context& c, const instruction& i, lanes taken);
  [[noreturn]] void report_deadlock();
  /// When nobody can go on and the program looks at the time: every try_wait that sleeps answers, some time later. False: that was tried long enough.
  bool let_time_pass();

  // ---- faults
  fault_report report_of(const char* kind, const std::string& message, const warp* w, const instruction* i, lanes who) const;
  /// A read of memory that nobody wrote yet: the run goes on with poison, because a write that comes later and unordered makes it a race. Reported at the end.
  void note_uninitialized(const std::string& message, const warp* w, const instruction* i, lanes who);
  std::optional<fault_report> uninitialized;
  std::uint64_t uninitialized_at = 0;
  void run_all();
  [[noreturn]] void fault(const char* kind, const std::string& message, const warp* w, const instruction* i, lanes who = 0);
  void check(const complaint& c, const warp* w, const instruction* i, lanes who = 0);
  std::string where(const warp& w, lanes who) const;
  /// What the PTX calls the mbarrier, or the data, at a shared offset: "full barrier of slot 2 of ring \"a\""; empty when it does not say.
  std::string place_name(std::uint32_t offset, bool data) const;
  std::string barrier_text(std::uint32_t offset) const;  // "mbarrier at shared offset 1032 (...)"
  std::string arrivals_text(const cta& c, std::uint32_t offset) const;
  std::string byte_text(std::uint32_t offset) const;     // "shared memory byte 1032 (...)"
  std::string column_name(int column) const;             // " (slot 0 of ring "d")", or empty
  std::string column_text(int column) const;
  std::string signals_text(const cta& c, std::uint32_t offset) const;  // of a barrier's latest phase that has ended
  std::string role_name(const warp& w) const;            // "role \"load\"", or empty

  // ---- memory
  enum class access : std::uint8_t { read, write, atomic };
  /// Host pointers of the active lanes' [address, address + bytes), all checks done, effects on the shadow included.
  void resolve(warp& w, const instruction& i, lanes active, space where, std::uint32_t slot, bool wide, std::int64_t offset, std::size_t bytes, access how, std::byte* (&out)[32]);
  std::byte* resolve_one(warp& w, const instruction& i, int lane, space where, std::uint64_t address, std::size_t bytes, access how);
  /// The CTA and offset a shared address names. `remote` allows other CTAs of the cluster.
  cta& shared_owner(warp& w, const instruction& i, int lane, std::uint32_t address, bool remote);
  /// A fault where a peer's shared memory is touched before anything shows that the peer has started.
  void check_started(warp& w, const cta& other, const instruction& i, int lane);
  std::uint32_t shared_address_of(warp& w, const instruction& i, int lane, std::uint64_t generic_or_shared, bool generic);
  void check_shared_range(cta& c, std::uint32_t offset, std::size_t bytes, const warp* w, const instruction* i, int lane);
  std::string exit_text(const cta& c) const;  // "; its last thread ended at ptx line 12"
  std::string copy_to(const cta& c, std::uint32_t offset) const;
  void read_shadow(cta& c, std::uint32_t offset, std::size_t bytes, const warp* w, const instruction* i, int lane);
  void write_shadow(cta& c, std::uint32_t offset, std::size_t bytes, const warp* w, const instruction* i, int lane);
  void mark_in_flight(cta& c, std::uint32_t offset, std::size_t bytes, const warp* w, const instruction* i, int lane);
  void check_not_read(cta& c, std::uint32_t offset, std::size_t bytes, const warp* w, const instruction* i, int lane);
  void add_read(cta& c, std::uint32_t begin, std::uint32_t end, std::uint64_t id);
  void end_reads(cta& c, std::uint64_t id);
  void set_shadow(cta& c, std::uint32_t offset, std::size_t bytes, std::uint8_t value);

  // ---- asynchronous work
  std::uint64_t issue(async_operation op);
  bool pending(std::uint64_t id, int stage) const;  // true while `stage` has not happened
  void force(std::uint64_t id, int stage);          // make it happen now, with what must come before it
  void land_some();
  void land_at(std::size_t index);
  mbarrier_state& barrier_at(cta& c, std::uint32_t offset, const warp* w, const instruction* i, int lane);
  void barrier_done(cta& c, std::uint32_t offset, const barrier_answer& a, const warp* w, const instruction* i, int lane);
  void complete_tx(cta& c, std::uint32_t offset, std::int64_t bytes, const instruction* i);

  // ---- happens-before (races.cpp)
  void start_clocks(cluster& k);
  void tick(warp& w) { if (!w.now.seen.empty()) ++w.now.seen[w.agent]; }
  void race_read(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane, bool strong);
  void race_write(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane, bool strong);
  void race_global(warp& w, std::uint64_t address, std::size_t bytes, bool write, const instruction* i, int lane);
  void publish(warp& w, std::uint64_t address, const instruction& i, bool reads, bool writes);
  std::uint32_t new_agent(cluster& k) { return k.agents++; }
  bool before(const warp& w, const global_access& a) const;
  // Records of accesses hold an instruction as its number in the program, from one; 0 is none.
  int index_of(const instruction* i) const;
  std::string late_fence_text(const cta& c, std::uint32_t agent, std::uint32_t written) const;
  std::string place_of_index(int index) const;         // "ptx line 12, a.cpp:3"
  std::string place_of(const instruction& i) const;
  std::string ungrouped_text(const warp& w) const;
  std::string agent_name(const cta& c, std::uint32_t agent) const;
  std::unordered_map<std::uint64_t, strong_place> strong_global_places;
  std::unordered_map<std::uint64_t, std::unique_ptr<global_page>> global_pages;
  std::uint64_t last_page_number = ~std::uint64_t{0};
  global_page* last_page = nullptr;
  std::unordered_map<std::uint64_t, std::uint32_t> store_stamps;  // bulk stores in flight or not waited for: their clock
  std::unordered_map<std::uint64_t, clocks> commits;   // tcgen05.commit in flight: what its thread had seen
  std::uint32_t grain = 2;                             // shift
  void arrive_named(warp& w, cta& c, std::uint32_t number, bool waits);
  void synchronise_named(cta& c, std::uint32_t number);
  void acquire_named(warp& w, cta& c, std::uint32_t number);
  void arrive_cluster(warp& w, cluster& k, bool release);
  void synchronise_cluster(cluster& k);
  void acquire_cluster(warp& w, cluster& k);
  void init_barrier(warp& w, cta& c, std::uint32_t offset);
  void use_barrier(warp& w, cta& c, std::uint32_t offset, const instruction* i, int lane);
  void arrive_mbarrier(warp& w, cta& c, std::uint32_t offset, lanes who);
  void complete_phase(cta& c, std::uint32_t offset);
  void acquire_mbarrier(warp& w, cta& c, std::uint32_t offset);
  void synchronise_warp(warp& w);
  /// An asynchronous operation issued by `w` will read or write shared memory; a generic write that is not a plain store.
  void async_read(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane, bool matrix);
  void note_async_read(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, bool matrix);
  void check_async_reads(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane, const char* verb);
  void copy_read_landed(cta& barrier_home, std::uint32_t barrier, std::uint32_t agent, std::uint32_t stamp);
  void observe_read(warp& w, std::uint64_t id, lanes who);   // lanes have waited for a bulk copy's read
  void merge_lanes(warp& w);
  void fence_proxies(warp& w, lanes who);
  std::uint32_t lane_agent(cluster& k, std::uint32_t agent, unsigned lane);
  bool lane_signalled(const cluster& k, const vector_clock& seen, std::uint32_t agent, std::uint8_t lane, std::uint32_t stamp) const;
  bool lane_fenced(const cluster& k, const vector_clock& proxied, std::uint32_t agent, std::uint8_t lane, std::uint32_t stamp) const;
  std::unordered_map<std::uint64_t, std::uint32_t> read_stamps;  // bulk copies out of shared memory: their clock
  void async_update(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane);  // red.async: what it adds to has been written
  void async_write(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane);
  void generic_write(warp& w, cta& c, std::uint32_t offset, std::size_t bytes, const instruction* i, int lane);
  void async_landed(cta& c, std::uint32_t offset, std::size_t bytes, cta& barrier_home, std::uint32_t barrier, const instruction* i);
  /// A bulk store of `w` to global memory, then: its thread has waited for it.
  void async_global_write(warp& w, std::uint64_t id, std::uint64_t address, std::size_t bytes, const instruction* i);
  void observe_operation(warp& w, std::uint64_t id);
  void no_fence_needed(cta& c, std::uint32_t offset, std::size_t bytes);
  void tensor_access(warp& w, cta& c, const warp::tensor_span& at, bool store, const instruction* i);
  void tensor_wait(warp& w, bool store);
  void start_tensor(cta& c);
  void tensor_release(warp& w, cta& c, int first, int count, const instruction* i);
  void tensor_fenced(warp& w, cta& c, int column, std::uint32_t agent, std::uint32_t clock, const instruction* i);
  /// An MMA or copy issued by `w` reads or writes the columns in the lane groups of the mask.
  void tensor_async(warp& w, cta& c, int first, int count, unsigned groups, bool writes, const instruction* i);
  void commit_issued(warp& w, std::uint64_t id);
  void commit_landed(cta& c, std::uint32_t offset, std::uint64_t id);

  // ---- wgmma
  void land_wgmmas(warp& w, std::size_t groups_left);
  void touch_wgmma(warp& w, const instruction& i);

  global_view memory;
  const program& code;
  launch_shape shape;
  std::vector<std::byte> parameters;
  options how;
  int sm;
  chip on;
  std::mt19937_64 random;
  std::uint32_t shared_bytes = 0;   // end of a CTA's window
  std::uint64_t next_cluster = 0, cluster_count = 0, retired = 0;
  device::extent3 cluster_grid;
  std::vector<std::unique_ptr<cluster>> resident;
  std::vector<warp*> queue;
  std::deque<async_operation> in_flight;
  std::uint64_t next_operation = 1;
  std::uint64_t warp_instructions = 0, lane_instructions = 0;
  std::uint64_t instructions_at_start = 0;  // of the clusters that are resident
  std::uint64_t instructions_at_event = 0, events = 0;  // events: landings, completed barriers, ended clusters
  void note_event() { instructions_at_event = warp_instructions; ++events; }
  std::set<std::pair<int, std::uint32_t>> barrier_lines;
  std::map<std::uint32_t, std::uint64_t> barrier_phases;
  struct reach { std::uint64_t warps = 0; bool guarded = false; };
  std::vector<reach> reached;                          // with how.trace: by pc
  std::vector<std::string> lints;
  std::vector<std::uint64_t> lint_cluster;  // by lint: the cluster that ran when it first appeared
  // Several threads: where the next cluster comes from, and whether to give up.
  std::atomic<std::uint64_t>* shared_next = nullptr;
  std::atomic<bool>* stop = nullptr;
  void lint(const std::string& what, const instruction* i);
  std::vector<std::uint8_t> fence_linted;              // by instruction: its missing tcgen05 fence is told
  std::uint64_t clock = 0;
  bool looks_at_time = false;             // the program reads %globaltimer
  std::uint64_t lapse = 0, lapse_at = 0;  // the last pause, in ns, and how many events there had been
  std::unordered_map<std::uint64_t, std::vector<std::uint64_t>> cancelled;  // launch control: clusters taken
  std::vector<std::string> printed;
  mma_scratch scratch;
  std::map<std::pair<std::uint64_t, int>, std::vector<byte_range>> ranges_of_operands;  // of wgmma in shared memory, by descriptor and instruction with which of the two
  std::vector<float> float_a, float_b, float_d;
  std::vector<std::int16_t> integer_a, integer_b;
  std::vector<std::int32_t> integer_d;

  unsigned chance(unsigned below) { return static_cast<unsigned>(random() % below); }
};

}  // namespace tlx::sim
