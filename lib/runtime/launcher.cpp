// Launches that repeat: the driver's view of the parameters stays laid out from launch to launch, in a few cache lines, and a launch compares, patches what is new and calls the driver.
// No lock but an uncontended one, no allocation, no hash, no look at a name.
#include "tlx/device/launcher.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/gpu_machine.hpp"
#include "tlx/device/binder.hpp"
#include "tlx/runtime/gpu.hpp"

namespace tlx::runtime {

namespace {

using device::value_ref;

// Arguments as one row of words, so that two launches are compared in one pass over neighbouring memory: for each argument its counts, extents, strides and bytes. Addresses and scalars
// are apart: they may change without anything else.
std::int64_t counts_of(const value_ref& v) { return static_cast<std::int64_t>(v.rank) | static_cast<std::int64_t>(v.stride_count) << 16 | static_cast<std::int64_t>(v.byte_count) << 32; }
void append_shape(std::vector<std::int64_t>& row, const value_ref& v) {
  row.push_back(counts_of(v));
  row.insert(row.end(), v.extents, v.extents + v.rank);
  row.insert(row.end(), v.strides, v.strides + v.stride_count);
}

const std::int64_t* same_words(const std::int64_t* row, const std::int64_t* with, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i)
    if (row[i] != with[i]) return nullptr;
  return row + count;
}

// Past the argument's words in the row, or null when it has another shape.
const std::int64_t* same_shape(const std::int64_t* row, const value_ref& v) {
  if (*row++ != counts_of(v)) return nullptr;
  row = same_words(row, v.extents, v.rank);
  return row ? same_words(row, v.strides, v.stride_count) : nullptr;
}

// A view's address: looked at when it is not the one of the last launch, or when that one is in doubt.
struct place {
  std::byte* where = nullptr;                  // in the block of parameters
  device::address start = 0, end = 0;          // the allocation of the last one, which kernels reach
  std::uint32_t first_map = 0, map_count = 0;  // in map_order
  std::uint32_t align = 1;
  bool filled = false;                         // a view with elements: its address counts
};
struct number {
  std::byte* where = nullptr;
  std::uint32_t argument = 0, bytes = 0;
  bool in_grid = false;  // a formula of the grid may read it
};

bool may_name(const device::formula& f, const std::string& name) { return f.find(name) != std::string::npos; }

}  // namespace

class gpu_launcher final : public device::launcher {
 public:
  gpu_launcher(gpu_machine& on, const device::kernel& k, std::shared_ptr<device::module> code)
      : on_(on), kernel_(k), code_(std::move(code)), module_(on.own(*code_)), first_lane_(new lane(k, on.about())), function_(find(k)) {
    lanes_[0].store(first_lane_.get(), std::memory_order_release);
  }
  ~gpu_launcher() override {
    for (size_t i = 1; i < lanes_.size(); ++i) delete lanes_[i].load(std::memory_order_acquire);
  }

  void launch(const value_ref* arguments, std::size_t count, std::uint64_t stream) override {
    lane& mine = lane_of_this_thread();
    const std::lock_guard lock(mine.guard);
    const current scope(*on_.context());
    if (!again(mine, arguments, count)) anew(mine, arguments, count, stream);
    if (mine.nothing) return;
    mine.config.where = reinterpret_cast<cu::stream>(stream);
    on_.submit(module_, function_, mine.config, mine.pointers.data(), *mine.how);
  }

 private:
  // What one thread at a time launches with. Threads that launch one kernel side by side, each with its own arguments, do not disturb each other while they are no more than the lanes.
  struct lane {
    std::mutex guard;
    bool ready = false, nothing = false;  // nothing: the grid has no CTAs
    std::uint64_t releases = 0;           // of memory of this machine, when the addresses were last known to be reached
    cu::launch_config config{};
    const device::launch* how = nullptr;  // of the binder
    std::vector<std::int64_t> shape;
    std::vector<device::address> last;    // one an argument, 0 for a scalar
    std::vector<number> numbers;          // the scalars
    std::vector<place> places;            // one an argument, nothing for a scalar
    std::vector<void*> pointers;          // one an entry parameter
    std::vector<std::uint64_t> block;     // what they point at, but for the maps
    std::vector<cu::tensor_map> maps;
    std::vector<std::uint32_t> map_order;  // maps by parameter
    std::vector<map_call> calls;           // of the driver, one a map
    cu::launch_attribute attributes[2] = {};
    device::binder bind;
    std::vector<device::value> values;
    lane(const device::kernel& k, const device::properties& machine) : bind(k, machine) {}
  };

  gpu_function& find(const device::kernel& k) {
    const current scope(*on_.context());
    gpu_function& f = module_.find(k.entry);
    device::launch limits;
    limits.dynamic_shared_bytes = k.dynamic_shared_bytes;
    limits.cluster = k.cluster;
    on_.prepare(f, limits);
    return f;
  }

  lane& lane_of_this_thread() {
    static std::atomic<unsigned> threads{0};
    static thread_local const unsigned number = threads.fetch_add(1, std::memory_order_relaxed);
    std::atomic<lane*>& place = lanes_[number % lanes_.size()];
    if (lane* there = place.load(std::memory_order_acquire)) return *there;
    auto fresh = std::make_unique<lane>(kernel_, on_.about());
    lane* none = nullptr;
    if (place.compare_exchange_strong(none, fresh.get(), std::memory_order_acq_rel)) return *fresh.release();
    return *none;
  }

  // The common case. False: something else than addresses and scalars is new, or an address is one that anew() has an error for.
  bool again(lane& l, const value_ref* arguments, size_t count) {
    if (!l.ready || count != l.last.size()) return false;
    const std::int64_t* row = l.shape.data();
    bool moved = false;
    for (size_t i = 0; i < count; ++i) {
      row = same_shape(row, arguments[i]);
      if (!row) return false;
      moved |= arguments[i].base != l.last[i];
    }
    for (const number& n : l.numbers)
      if (n.in_grid && std::memcmp(n.where, arguments[n.argument].bytes, n.bytes) != 0) return false;
    const std::uint64_t releases = on_.releases();
    if ((moved || releases != l.releases) && !move(l, arguments, releases)) return false;
    for (const number& n : l.numbers) {
      const std::byte* from = arguments[n.argument].bytes;
      if (n.bytes == 4) std::memcpy(n.where, from, 4);  // sizes that the compiler knows
      else if (n.bytes == 8) std::memcpy(n.where, from, 8);
      else std::memcpy(n.where, from, n.bytes);
    }
    return true;
  }

  // Looks at the addresses that are new, or at all of them when memory was given back and one may be nobody's now; then takes over those that are new.
  bool move(lane& l, const value_ref* arguments, std::uint64_t releases) {
    const bool doubtful = releases != l.releases;
    for (size_t i = 0; i < l.last.size(); ++i) {
      place& p = l.places[i];
      const device::address at = arguments[i].base;
      if (!p.filled || (at == l.last[i] && !doubtful)) continue;
      if (at == 0 || at % p.align != 0) return false;
      if (doubtful || at < p.start || at >= p.end) {
        if (!on_.reaches(at, p.start, p.end)) return false;
      }
    }
    l.releases = releases;
    l.ready = false;  // an error below leaves addresses and maps that do not go together
    for (size_t i = 0; i < l.last.size(); ++i) {
      const place& p = l.places[i];
      const device::address at = arguments[i].base;
      if (at == l.last[i] || !p.where) continue;
      l.last[i] = at;
      std::memcpy(p.where, &at, sizeof at);
      if (!p.filled) continue;  // its maps are those of nothing
      for (std::uint32_t m = p.first_map; m < p.first_map + p.map_count; ++m) on_.encode_moved(l.calls[l.map_order[m]], at, l.maps[l.map_order[m]]);
    }
    l.ready = true;
    return true;
  }

  void anew(lane& l, const value_ref* arguments, size_t count, std::uint64_t stream) {
    l.ready = false;
    l.values.resize(count);
    for (size_t i = 0; i < count; ++i) device::copy(arguments[i], l.values[i]);
    l.releases = on_.releases();
    l.how = &l.bind(l.values, stream);
    l.nothing = l.how->grid.x == 0 || l.how->grid.y == 0 || l.how->grid.z == 0;
    if (l.nothing) return;  // and not ready: a scalar may make it something
    check_pointers(on_, kernel_, l.values);  // a host pointer would be found by the kernel, later and without a name
    lay_out(l);
    l.shape.clear();
    for (size_t i = 0; i < count; ++i) append_shape(l.shape, arguments[i]);
    remember(l);
    l.ready = true;
  }

  // The block, the pointers and the maps of a bound launch. Laid out anew where the shapes are new, in the memory of before.
  void lay_out(lane& l) {
    const device::launch& how = *l.how;
    size_t words = 0, maps = 0;
    for (const device::argument& a : how.arguments) {
      if (const auto* bytes = std::get_if<std::vector<std::byte>>(&a)) words += (bytes->size() + 7) / 8;
      else ++maps;
    }
    l.block.resize(words);
    l.maps.resize(maps);
    l.pointers.resize(how.arguments.size());
    size_t word = 0, map = 0;
    for (size_t i = 0; i < how.arguments.size(); ++i) {
      if (const auto* bytes = std::get_if<std::vector<std::byte>>(&how.arguments[i])) {
        std::memcpy(&l.block[word], bytes->data(), bytes->size());
        l.pointers[i] = &l.block[word];
        word += (bytes->size() + 7) / 8;
      } else {
        l.pointers[i] = &l.maps[map++];
      }
    }
    on_.encode(how, l.maps.data());
    l.config = launch_config_of(how, l.attributes);
  }

  void remember(lane& l) {
    const size_t count = l.values.size();
    l.places.assign(count, place{});
    l.last.assign(count, 0);
    l.numbers.clear();
    l.map_order.clear();
    l.calls.clear();
    for (size_t m = 0; m < kernel_.maps.size(); ++m) l.calls.push_back(map_call(std::get<device::tensor_map>(l.how->arguments[m])));
    size_t at = kernel_.maps.size();  // maps come first, then each parameter's pieces: the contract of kernel.hpp
    for (size_t i = 0; i < count; ++i) {
      const device::parameter& p = kernel_.parameters[i];
      const device::value& v = l.values[i];
      auto* where = static_cast<std::byte*>(l.pointers[at]);
      l.last[i] = v.base;
      if (p.what == device::parameter::kind::scalar) {
        l.numbers.push_back({where, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(v.bytes.size()), may_name(kernel_.grid_x, p.name) || may_name(kernel_.grid_y, p.name) || may_name(kernel_.grid_z, p.name)});
        ++at;
        continue;
      }
      place& view = l.places[i];
      view.where = where;
      view.filled = std::find(v.extents.begin(), v.extents.end(), 0) == v.extents.end();
      view.align = static_cast<std::uint32_t>(std::max(1, p.align_bytes));
      view.first_map = static_cast<std::uint32_t>(l.map_order.size());
      for (size_t m = 0; m < kernel_.maps.size(); ++m) {
        if (kernel_.maps[m].parameter_index != static_cast<int>(i)) continue;
        l.map_order.push_back(static_cast<std::uint32_t>(m));
        const bool packed_16 = kernel_.maps[m].element == device::map_element::u4x16_align16 || kernel_.maps[m].element == device::map_element::u6x16_align16;
        view.align = std::max(view.align, packed_16 ? 32u : 16u);
      }
      view.map_count = static_cast<std::uint32_t>(l.map_order.size()) - view.first_map;
      at += p.rank > 0 ? 2 * static_cast<size_t>(p.rank) : 1;
    }
  }

  gpu_machine& on_;
  const device::kernel& kernel_;
  std::shared_ptr<device::module> code_;
  gpu_module& module_;
  std::unique_ptr<lane> first_lane_;
  gpu_function& function_;
  std::array<std::atomic<lane*>, 8> lanes_{};
};

std::unique_ptr<device::launcher> gpu_machine::make_launcher(const device::kernel& k, std::shared_ptr<device::module> code) { return std::make_unique<gpu_launcher>(*this, k, std::move(code)); }

}  // namespace tlx::runtime
