// The simulator as a device::machine: allocation, modules, argument checks, launches.
#include "tlx/sim/machine.hpp"

#include <chrono>
#include <cstring>
#include <map>
#include <mutex>

#include "sim/launch.hpp"
#include "sim/units/tensor_map.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

struct loaded : device::module {
  std::unique_ptr<module_text> text;
  std::map<std::string, std::unique_ptr<program>> entries;
  std::vector<std::uint64_t> owned;         // module variables in global memory
  device::watch_table watch;
  std::uint64_t watch_state = 0, records = 0;  // of a watched module
  std::shared_ptr<global_memory> memory;
  ~loaded() override { for (const std::uint64_t a : owned) memory->release(a); }
};

int number_of(const std::string& target) { return target == "sm_90a" ? 90 : target == "sm_100a" ? 100 : target == "sm_103a" ? 103 : 0; }

/// Whether code for `code` runs on `here`: "a" only on its own chip, "f" on its family, plain on the same or a later one.
bool compatible(const std::string& code, int here) {
  int n = 0;
  char suffix = 0;
  if (std::sscanf(code.c_str(), "sm_%d%c", &n, &suffix) < 1) return false;
  if (suffix == 'a') return n == here;
  if (suffix == 'f') return n / 10 == here / 10 && n <= here;
  return n <= here;
}

class simulated_machine final : public machine {
 public:
  simulated_machine(const std::string& target, const options& how) : options_(how), sm_(number_of(target)), memory_(std::make_shared<global_memory>()) {
    about_.name = "simulator";
    about_.target = target;
    about_.processor_count = how.processor_count > 0 ? how.processor_count : sm_ >= 100 ? 148 : 132;
    about_.shared_bytes_per_block = 232448;
    about_.memory_bytes = std::uint64_t{8} << 30;
  }

  const device::properties& about() const override { return about_; }
  const statistics& last_run() const override { return last_; }
  const std::optional<fault_report>& last_fault() const override { return fault_; }
  void set_seed(std::uint64_t seed) override { options_.seed = seed; }
  void set_strict(bool strict) override { options_.strict = strict; }
  void set_trace(bool trace) override { options_.trace = trace; }
  std::uint64_t digest() const override {
    std::uint64_t h = 0xCBF29CE484222325ULL;
    for (const auto& a : memory_->list)
      for (std::size_t k = 0; k < a->bytes; ++k) h = (h ^ static_cast<std::uint64_t>(a->data[k])) * 0x100000001B3ULL;
    return h;
  }
  void name(device::address where, const std::string& what) override {
    const std::lock_guard lock(mutex_);
    if (allocation* a = memory_->find(where)) a->name = what;
  }

  device::address allocate(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    return memory_->allocate(bytes, cat("allocation ", ++allocations_));
  }
  void release(device::address where) override {
    const std::lock_guard lock(mutex_);
    memory_->release(where);
  }
  void write(device::address to, const void* from, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (bytes) std::memcpy(host(to, bytes), from, bytes);
  }
  void read(void* to, device::address from, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (bytes) std::memcpy(to, host(from, bytes), bytes);
  }
  void fill(device::address to, std::uint8_t value, std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    if (bytes) std::memset(host(to, bytes), value, bytes);
  }

  std::shared_ptr<device::module> load(const device::image& code) override {
    const std::lock_guard lock(mutex_);
    if (code.ptx.empty()) raise(user_error({.id = "ptx-missing", .what = "the simulator runs PTX, and the image has none", .fix = {"compile with PTX kept in the image"}}));
    auto m = std::make_shared<loaded>();
    m->memory = memory_;
    m->text = parse(code.ptx);
    if (!compatible(m->text->target, sm_))
      raise(user_error({.id = "ptx-wrong-target", .what = cat("the PTX is for ", m->text->target, " and this machine is ", about_.target), .fix = {cat("compile for ", about_.target), "open a simulator of the PTX's target"}}));
    place_variables(*m);
    if (code.watch.on()) place_watch(*m, code.watch);
    for (std::size_t f = 0; f < m->text->functions.size(); ++f)
      if (m->text->functions[f]->entry && m->text->functions[f]->defined) m->entries[m->text->functions[f]->name] = decode(*m->text, static_cast<int>(f), sm_);
    return m;
  }

  void run(device::module& code, const std::string& entry, const device::launch& how) override {
    const std::lock_guard lock(mutex_);
    auto* m = dynamic_cast<loaded*>(&code);
    if (!m) raise(user_error({.id = "module-foreign", .what = "the module was loaded by another machine"}));
    const auto found = m->entries.find(entry);
    if (found == m->entries.end()) {
      std::vector<std::string> names;
      for (const auto& [n, p] : m->entries) names.push_back(n);
      raise(user_error({.id = "entry-unknown", .what = cat("the module has no entry \"", entry, "\""), .because = cat("its entries are: ", join(names, ", "))}));
    }
    if (how.grid.x == 0 || how.grid.y == 0 || how.grid.z == 0) return;  // nothing to do, as on every machine
    const program& p = *found->second;
    launch_shape shape{how.grid, how.block, how.cluster, how.dynamic_shared_bytes};
    check_launch(p, shape);
    const std::vector<std::byte> parameters = lay_out(p, how.arguments);
    fault_.reset();
    last_ = {};
    const auto start = std::chrono::steady_clock::now();
    launch_result r = run_launch(*memory_, p, shape, parameters, options_, sm_);
    last_.warp_instructions = r.warp_instructions;
    last_.lane_instructions = r.lane_instructions;
    last_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    last_.lints = std::move(r.lints);
    last_.printed = std::move(r.printed);
    last_.barrier_lines = std::move(r.barrier_lines);
    last_.barrier_phases = std::move(r.barrier_phases);
    last_.lines_run = std::move(r.lines_run);
    last_.lines_guarded = std::move(r.lines_guarded);
    fault_ = std::move(r.fault);
    look_at_records(*m, entry);  // first: what goes wrong after somebody gave up is the end of a kernel that is known to hang
    if (!fault_) return;
    const fault_report& f = *fault_;
    std::string id = f.kind, context = cat("kernel \"", entry, "\"");
    for (char& c : id) if (c == '_') c = '-';
    if (f.ptx_line) context += cat(", ptx line ", f.ptx_line, " (", f.opcode, ")");
    if (!f.threads.empty()) context += cat(", ", f.threads);
    context += cat(", seed ", options_.seed);
    raise(sim_error({.id = id, .what = f.message, .where = f.source_line ? location{intern_file(f.source_file), f.source_line} : location{}, .context = context}));
  }

  void wait() override {}

 private:
  std::byte* host(device::address a, std::size_t bytes) {
    std::byte* p = memory_->at(a, bytes);
    if (!p) raise(user_error({.id = "address-outside", .what = cat("a host copy of ", bytes, " bytes reaches ", memory_->describe(a)), .because = "it has to stay inside one allocation"}));
    return p;
  }

  void place_variables(loaded& m) {
    for (variable& v : m.text->variables) {
      if (v.where != space::global && v.where != space::constant) continue;
      if (v.external) {
        const auto definition = m.text->globals.find(v.name);
        if (definition != m.text->globals.end() && &m.text->variables[static_cast<std::size_t>(definition->second)] != &v) continue;
        raise(user_error({.id = "ptx-unsupported", .what = cat("external variable \"", v.name, "\" has no definition")}));
      }
      v.address = memory_->allocate(v.bytes, v.name);
      m.owned.push_back(v.address);
    }
    for (variable& v : m.text->variables) {
      if ((v.where != space::global && v.where != space::constant) || v.external || v.bytes == 0) continue;
      std::byte* at = memory_->at(v.address, v.bytes);
      std::memset(at, 0, v.bytes);
      if (!v.initial.empty()) std::memcpy(at, v.initial.data(), v.initial.size());
      for (const relocation& r : v.relocations) {
        const auto to = m.text->globals.find(r.name);
        if (const auto function = m.text->function_index.find(r.name); to == m.text->globals.end() && function != m.text->function_index.end()) {
          const std::uint64_t address = function_address(function->second);
          std::memcpy(at + r.at, &address, static_cast<std::size_t>(r.bytes));
          continue;
        }
        if (to == m.text->globals.end()) raise(user_error({.id = "ptx-unsupported", .what = cat("the initial value of \"", v.name, "\" names \"", r.name, "\", which is no variable")}));
        const std::uint64_t address = m.text->variables[static_cast<std::size_t>(to->second)].address + static_cast<std::uint64_t>(r.addend);
        std::memcpy(at + r.at, &address, static_cast<std::size_t>(r.bytes));
      }
    }
  }

  void place_watch(loaded& m, const device::watch_table& names) {
    const auto address = [&](const char* name) {
      const auto found = m.text->globals.find(name);
      if (found == m.text->globals.end())
        raise(user_error({.id = "watch-variable-missing", .what = cat("the image says that it is watched, and its PTX has no variable \"", name, "\""),
                          .because = "table and code are made together", .fix = {"compile the kernel again"}}));
      return m.text->variables[static_cast<std::size_t>(found->second)].address;
    };
    m.watch = names;
    m.watch_state = address(watch_state_name);
    m.records = memory_->allocate(sizeof(watch_records), watch_records_name);
    m.owned.push_back(m.records);
    std::memset(memory_->at(m.records, sizeof(watch_records)), 0, sizeof(watch_records));
    std::memcpy(memory_->at(address(watch_records_name), 8), &m.records, 8);
  }

  void look_at_records(const loaded& m, const std::string& entry) {
    if (!m.watch.on()) return;
    watch_records found;
    std::byte* const at = memory_->at(m.records, sizeof found);
    std::memcpy(static_cast<void*>(&found), at, sizeof found);
    if (!gave_up(found)) return;
    std::memset(at, 0, sizeof found);
    std::memset(memory_->at(m.watch_state, 8), 0, 8);
    device::raise_gave_up(entry, m.watch, found, 1);
  }

  void check_launch(const program& p, launch_shape& s) const {
    const auto refuse = [&](const std::string& what, const std::string& because) { raise(device_error({.id = "launch-refused", .what = what, .because = because, .context = cat("kernel \"", p.entry, "\"")})); };
    const std::uint64_t threads = std::uint64_t{s.block.x} * s.block.y * s.block.z;
    if (threads == 0) refuse("the block has an extent of 0", "every extent is at least 1");
    if (threads > 1024) refuse(cat("the block has ", threads, " threads"), "a block has at most 1024");
    const auto& r = p.required_threads;
    if (r[0] && (r[0] != s.block.x || r[1] != s.block.y || r[2] != s.block.z)) refuse(cat("the block is ", s.block.x, "x", s.block.y, "x", s.block.z), cat("the kernel says .reqntid ", r[0], ", ", r[1], ", ", r[2]));
    const auto& m = p.maximum_threads;
    if (m[0] && threads > std::uint64_t{m[0]} * m[1] * m[2]) refuse(cat("the block has ", threads, " threads"), cat("the kernel says .maxntid ", m[0], ", ", m[1], ", ", m[2]));
    const auto& c = p.required_cluster;
    if (c[0]) {
      if (s.cluster.x * s.cluster.y * s.cluster.z == 1) s.cluster = {c[0], c[1], c[2]};
      if (s.cluster.x != c[0] || s.cluster.y != c[1] || s.cluster.z != c[2]) refuse(cat("the cluster is ", s.cluster.x, "x", s.cluster.y, "x", s.cluster.z), cat("the kernel says .reqnctapercluster ", c[0], ", ", c[1], ", ", c[2]));
    }
    if (s.cluster.x == 0 || s.cluster.y == 0 || s.cluster.z == 0) s.cluster = {1, 1, 1};
    if (s.cluster.x * s.cluster.y * s.cluster.z > 16) refuse(cat("the cluster has ", s.cluster.x * s.cluster.y * s.cluster.z, " CTAs"), "a cluster has at most 16");
    if (s.grid.x % s.cluster.x || s.grid.y % s.cluster.y || s.grid.z % s.cluster.z) refuse(cat("the grid ", s.grid.x, "x", s.grid.y, "x", s.grid.z, " is not a multiple of the cluster ", s.cluster.x, "x", s.cluster.y, "x", s.cluster.z), "clusters are whole");
    const std::uint64_t shared = p.dynamic_shared_start - shared_start + s.dynamic_shared;
    if (shared > static_cast<std::uint64_t>(about_.shared_bytes_per_block)) refuse(cat("the launch needs ", shared, " bytes of shared memory"), cat("a CTA has at most ", about_.shared_bytes_per_block));
  }

  std::vector<std::byte> lay_out(const program& p, const std::vector<device::argument>& arguments) const {
    if (arguments.size() != p.parameters.size())
      raise(user_error({.id = "argument-count", .what = cat("the launch has ", arguments.size(), " arguments and the kernel ", p.parameters.size(), " parameters"), .context = cat("kernel \"", p.entry, "\"")}));
    std::vector<std::byte> out(p.param_bytes);
    for (std::size_t k = 0; k < arguments.size(); ++k) {
      const program::parameter& to = p.parameters[k];
      map_blob blob;
      std::span<const std::byte> bytes;
      if (const auto* map = std::get_if<device::tensor_map>(&arguments[k])) { blob = encode_tensor_map(*map); bytes = blob; }
      else bytes = std::get<std::vector<std::byte>>(arguments[k]);
      if (bytes.size() != to.bytes)
        raise(user_error({.id = "argument-size", .what = cat("argument ", k, " has ", bytes.size(), " bytes and parameter \"", to.name, "\" ", to.bytes), .context = cat("kernel \"", p.entry, "\"")}));
      std::memcpy(out.data() + to.offset, bytes.data(), bytes.size());
    }
    return out;
  }

  options options_;
  int sm_;
  device::properties about_;
  std::shared_ptr<global_memory> memory_;
  std::mutex mutex_;
  int allocations_ = 0;
  statistics last_;
  std::optional<fault_report> fault_;
};

}  // namespace

std::unique_ptr<machine> open(const std::string& name, const options& how) {
  const std::string target = name.rfind("sim:", 0) == 0 ? name.substr(4) : name;
  if (number_of(target) == 0)
    raise(user_error({.id = "target-unknown", .what = cat("there is no simulator of \"", target, "\""), .because = "the simulated targets are sm_90a, sm_100a and sm_103a"}));
  return std::make_unique<simulated_machine>(target, how);
}

}  // namespace tlx::sim
