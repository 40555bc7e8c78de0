// The launch path: nothing is allocated and, once a kernel is warm, nothing but the launch is asked of the driver.
#include <array>
#include <typeinfo>
#include <vector>

#include "runtime/gpu_machine.hpp"
#include "tlx/runtime/gpu.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::runtime {

namespace {

constexpr size_t inline_arguments = 96, inline_maps = 12;  // on the stack; kernels with more pay for a vector

std::uint64_t volume(const device::extent3& e) { return std::uint64_t{e.x} * e.y * e.z; }
std::string text(const device::extent3& e) { return cat(e.x, "x", e.y, "x", e.z); }

// A cause that the numbers prove, or nothing.
std::string proven_cause(const gpu_function& f, const device::launch& how, const device::properties& about) {
  const auto axis = [&](const char* name, std::uint32_t grid, std::uint32_t cluster, std::uint32_t limit) -> std::string {
    if (cluster == 0) return cat("cluster ", name, " is 0");
    if (grid % cluster != 0) return cat("grid ", name, " = ", grid, " is not a multiple of cluster ", name, " = ", cluster);
    if (grid > limit) return cat("grid ", name, " = ", grid, " is over the limit of ", limit);
    return {};
  };
  for (const std::string& cause : {axis("x", how.grid.x, how.cluster.x, 2147483647u), axis("y", how.grid.y, how.cluster.y, 65535u),
                                   axis("z", how.grid.z, how.cluster.z, 65535u)}) {
    if (!cause.empty()) return cause;
  }
  if (volume(how.block) == 0 || volume(how.block) > 1024) return cat("a block has 1 to 1024 threads, not ", volume(how.block));
  if (f.max_threads > 0 && volume(how.block) > static_cast<std::uint64_t>(f.max_threads)) {
    return cat("the kernel's registers or its .maxntid allow at most ", f.max_threads, " threads in a block, not ", volume(how.block));
  }
  const std::int64_t shared = std::int64_t{how.dynamic_shared_bytes} + f.static_shared_bytes;
  if (shared > about.shared_bytes_per_block) {
    return cat(how.dynamic_shared_bytes, " dynamic and ", f.static_shared_bytes, " static bytes of shared memory are more than the ",
               about.shared_bytes_per_block, " that a block may have");
  }
  if (volume(how.cluster) > 16) return cat("a cluster has at most 16 blocks, not ", volume(how.cluster));
  return {};
}

// Takes the cache's lock at the first map and keeps it for the others of the launch.
struct map_encoder {
  map_cache& maps;
  const driver& d;
  device::address nowhere;
  std::unique_lock<std::mutex> lock = {};
  void operator()(const device::tensor_map& recipe, cu::tensor_map& out) {
    if (!lock.owns_lock()) lock = maps.hold();
    maps.encode(d, recipe, nowhere, out);
  }
};

// The driver's view of a launch's arguments: their addresses in order. The driver copies what they point at before a call returns.
class packed_arguments {
 public:
  packed_arguments(const std::vector<device::argument>& arguments, map_encoder encode) {
    const size_t count = arguments.size();
    if (count > inline_arguments) {
      many_pointers_.resize(count);
      pointers_ = many_pointers_.data();
    }
    size_t map_count = 0;
    for (const device::argument& a : arguments) map_count += std::holds_alternative<device::tensor_map>(a) ? 1 : 0;
    cu::tensor_map* maps = few_maps_.data();
    if (map_count > inline_maps) {
      many_maps_.resize(map_count);
      maps = many_maps_.data();
    }
    for (size_t i = 0; i < count; ++i) {
      if (const auto* bytes = std::get_if<std::vector<std::byte>>(&arguments[i])) {
        pointers_[i] = const_cast<std::byte*>(bytes->data());
        continue;
      }
      encode(std::get<device::tensor_map>(arguments[i]), *maps);
      pointers_[i] = maps++;
    }
  }
  packed_arguments(const packed_arguments&) = delete;
  packed_arguments& operator=(const packed_arguments&) = delete;
  void** pointers() { return pointers_; }

 private:
  std::array<void*, inline_arguments> few_pointers_;
  std::array<cu::tensor_map, inline_maps> few_maps_;
  std::vector<void*> many_pointers_;
  std::vector<cu::tensor_map> many_maps_;
  void** pointers_ = few_pointers_.data();
};

}  // namespace

cu::launch_config launch_config_of(const device::launch& how, cu::launch_attribute* attributes) {
  unsigned count = 0;
  if (volume(how.cluster) != 1) {
    attributes[count].id = cu::launch_attribute_cluster;
    attributes[count++].value.cluster = {how.cluster.x, how.cluster.y, how.cluster.z};
  }
  if (how.dependent) {
    attributes[count].id = cu::launch_attribute_programmatic;
    attributes[count++].value.programmatic_allowed = 1;
  }
  return {how.grid.x, how.grid.y, how.grid.z, how.block.x, how.block.y, how.block.z, how.dynamic_shared_bytes, reinterpret_cast<cu::stream>(how.stream), attributes, count};
}

// A stream of another GPU or of another context is refused by the driver with no more than "invalid handle".
std::string gpu_machine::foreign_stream(const device::launch& how) const {
  const driver& d = context_->d;
  cu::context of_stream = nullptr;
  if (how.stream == 0 || d.stream_context(reinterpret_cast<cu::stream>(how.stream), &of_stream) != cu::success || of_stream == context_->handle) return {};
  cu::device there = -1;
  if (d.context_push(of_stream) == cu::success) {
    if (d.context_device(&there) != cu::success) there = -1;
    d.context_pop(&of_stream);
  }
  if (there < 0 || there == context_->device) return cat("the stream belongs to another context of gpu:", context_->device);
  return cat("the stream belongs to gpu:", there, ", the kernel was loaded on gpu:", context_->device);
}

void gpu_machine::launch_failed(cu::result code, const char* call, const gpu_function& f, const device::launch& how) const {
  std::string cause = proven_cause(f, how, about_);
  if (cause.empty()) cause = foreign_stream(how);
  raise(device_error({.id = "launch-failed",
                      .what = cat(call, " returned ", describe(context_->d, code)),
                      .because = cause,
                      .fix = {"compare the launch with what the kernel was built for"},
                      .context = cat("kernel \"", f.entry, "\", grid ", text(how.grid), ", block ", text(how.block), ", cluster ", text(how.cluster), ", ",
                                     how.dynamic_shared_bytes, " + ", f.static_shared_bytes, " bytes of shared memory")}));
}

gpu_module& gpu_machine::own(device::module& code) const {
  auto* mine = typeid(code) == typeid(gpu_module) ? static_cast<gpu_module*>(&code) : nullptr;
  if (mine && mine->context().handle == context_->handle) return *mine;
  raise(user_error({.id = "module-of-another-machine",
                    .what = cat("the module was not loaded on ", about_.name, " (device ", context_->device, ")"),
                    .because = "code is loaded once per machine",
                    .fix = {"load the image on the machine that runs it"}}));
}

// Both limits are properties of the function, set once and kept.
void gpu_machine::prepare(gpu_function& f, const device::launch& how) {
  const driver& d = context_->d;
  const int wanted = static_cast<int>(how.dynamic_shared_bytes);
  if (wanted > f.dynamic_limit.load(std::memory_order_acquire) || wanted < 0) {
    std::lock_guard lock(f.limits_guard);
    if (wanted > f.dynamic_limit || wanted < 0) {
      const cu::result code = d.function_set(f.handle, cu::function_max_dynamic_shared, wanted);
      if (code != cu::success) launch_failed(code, "cuFuncSetAttribute(MAX_DYNAMIC_SHARED_SIZE_BYTES)", f, how);
      f.dynamic_limit.store(wanted, std::memory_order_release);
    }
  }
  if (volume(how.cluster) > 8 && !f.large_clusters.load(std::memory_order_acquire)) {
    const cu::result code = d.function_set(f.handle, cu::function_non_portable_cluster, 1);
    if (code != cu::success) launch_failed(code, "cuFuncSetAttribute(NON_PORTABLE_CLUSTER_SIZE_ALLOWED)", f, how);
    f.large_clusters.store(true, std::memory_order_release);
  }
}

void gpu_machine::run(device::module& code, const std::string& entry, const device::launch& how) {
  gpu_module& mine = own(code);
  const current scope(*context_);
  gpu_function& f = mine.find(entry);
  if (volume(how.grid) == 0) return;
  prepare(f, how);

  packed_arguments arguments(how.arguments, map_encoder{maps_, context_->d, nowhere_});

  cu::launch_attribute attributes[2] = {};
  submit(mine, f, launch_config_of(how, attributes), arguments.pointers(), how);
}

void gpu_machine::submit(gpu_module& code, gpu_function& f, const cu::launch_config& config, void** arguments, const device::launch& how) {
  gpu_context& in = *context_;
  const cu::result result = in.d.launch(&config, f.handle, arguments, nullptr);
  if (result != cu::success) {
    device::launch said = how;
    said.stream = reinterpret_cast<std::uint64_t>(config.where);
    launch_failed(result, "cuLaunchKernelEx", f, said);
  }
  in.recorded.launched(in.d, config.where);
  last_entry_.store(f.interned_entry, std::memory_order_relaxed);
  if (code.watch()) code.watch()->launched(f.interned_entry);
  if (in.flights.limited()) in.flights.launched(config.where, f.interned_entry);
}

void gpu_machine::encode(const device::launch& how, cu::tensor_map* maps) {
  map_encoder one{maps_, context_->d, nowhere_};
  for (const device::argument& a : how.arguments)
    if (const auto* recipe = std::get_if<device::tensor_map>(&a)) one(*recipe, *maps++);
}

void gpu_machine::change(cu::graph_exec in, cu::graph_node which, device::module& code, const std::string& entry, const device::launch& how) {
  gpu_module& mine = own(code);
  const current scope(*context_);
  gpu_function& f = mine.find(entry);
  prepare(f, how);
  packed_arguments arguments(how.arguments, map_encoder{maps_, context_->d, nowhere_});
  const cu::kernel_node to{f.handle, how.grid.x, how.grid.y, how.grid.z, how.block.x, how.block.y, how.block.z, how.dynamic_shared_bytes, arguments.pointers(), nullptr};
  const cu::result result = context_->d.graph_set_kernel(in, which, &to);
  if (result != cu::success) launch_failed(result, "cuGraphExecKernelNodeSetParams", f, how);
}

void prepare(device::machine& gpu, device::module& code, const std::string& entry, std::uint32_t dynamic_shared_bytes) {
  gpu_machine& m = as_gpu(gpu);
  gpu_module& mine = m.own(code);
  const current scope(*m.context());
  device::launch how;
  how.dynamic_shared_bytes = dynamic_shared_bytes;
  m.prepare(mine.find(entry), how);
}

device::resources measure(device::machine& gpu, device::module& code, const std::string& entry) {
  gpu_machine& m = as_gpu(gpu);
  gpu_module& mine = m.own(code);
  const current scope(*m.context());
  gpu_function& f = mine.find(entry);
  const driver& d = m.context()->d;
  device::resources out;
  int version = 0;
  check(d, d.function_get(&out.registers, cu::function_registers, f.handle), "cuFuncGetAttribute");
  check(d, d.function_get(&out.stack_bytes, cu::function_local_bytes, f.handle), "cuFuncGetAttribute");
  check(d, d.driver_version(&version), "cuDriverGetVersion");
  out.static_shared_bytes = f.static_shared_bytes;
  out.assembler = cat("driver for CUDA ", version / 1000, ".", version % 1000 / 10);
  std::istringstream lines(mine.log());
  for (std::string line; std::getline(lines, line);) {
    if (line.find("(C7") != std::string::npos || line.find("warning") != std::string::npos) out.advisories.push_back(line);
  }
  return out;
}

std::uint64_t maps_encoded(device::machine& gpu) { return as_gpu(gpu).maps_encoded(); }

}  // namespace tlx::runtime
