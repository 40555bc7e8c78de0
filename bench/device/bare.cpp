#include "bench/device/bare.hpp"

#include "tlx/support/error.hpp"

namespace tlx::bench {

namespace cu = runtime::cu;

bare_kernel::bare_kernel(const device::kernel& k, const device::launch& how) : d_(runtime::the_driver()), how_(how) {
  runtime::check(d_, d_.module_load(&module_, k.code.cubin.empty() ? k.code.ptx.c_str() : k.code.cubin.data(), 0, nullptr, nullptr), "cuModuleLoadDataEx");
  runtime::check(d_, d_.module_function(&function_, module_, k.entry.c_str()), "cuModuleGetFunction");
  runtime::check(d_, d_.function_set(function_, cu::function_max_dynamic_shared, static_cast<int>(how.dynamic_shared_bytes)), "cuFuncSetAttribute");
  size_t maps = 0;
  for (const device::argument& a : how_.arguments) maps += std::holds_alternative<device::tensor_map>(a) ? 1 : 0;
  maps_.resize(maps);
  for (size_t i = 0, map = 0; i < how_.arguments.size(); ++i) {
    if (auto* bytes = std::get_if<std::vector<std::byte>>(&how_.arguments[i])) pointers_.push_back(bytes->data());
    else pointers_.push_back(&maps_[map++]);
  }
  for (size_t i = 0; i < maps; ++i) encode(i);
  unsigned count = 0;
  if (how.cluster.x * how.cluster.y * how.cluster.z != 1) {
    attributes_[count].id = cu::launch_attribute_cluster;
    attributes_[count++].value.cluster = {how.cluster.x, how.cluster.y, how.cluster.z};
  }
  if (how.dependent) {
    attributes_[count].id = cu::launch_attribute_programmatic;
    attributes_[count++].value.programmatic_allowed = 1;
  }
  config_ = {how.grid.x, how.grid.y, how.grid.z, how.block.x, how.block.y, how.block.z, how.dynamic_shared_bytes, reinterpret_cast<cu::stream>(how.stream), attributes_, count};
}

bare_kernel::~bare_kernel() { d_.module_unload(module_); }

void bare_kernel::launch() { runtime::check(d_, d_.launch(&config_, function_, pointers_.data(), nullptr), "cuLaunchKernelEx"); }

void bare_kernel::encode(int map, device::address base) {
  std::get<device::tensor_map>(how_.arguments[static_cast<size_t>(map)]).base = base;  // maps come first
  encode(static_cast<size_t>(map));
}

void bare_kernel::set_address(int argument, device::address base) { *static_cast<device::address*>(pointers_[static_cast<size_t>(argument)]) = base; }

// Maps of 16-bit elements with the swizzle and promotion that tlx gives them: the driver's call alone, no checks.
void bare_kernel::encode(size_t map) {
  const auto& m = std::get<device::tensor_map>(how_.arguments[map]);
  const int swizzle = m.swizzle_bytes == 128 ? cu::swizzle_128 : m.swizzle_bytes == 64 ? cu::swizzle_64 : m.swizzle_bytes == 32 ? cu::swizzle_32 : cu::swizzle_none;
  const int element = m.element == device::map_element::bf16 ? cu::map_bf16 : cu::map_f16;
  runtime::check(d_, d_.encode_tiled(&maps_[map], element, static_cast<unsigned>(m.rank), reinterpret_cast<void*>(m.base), m.extents.data(), m.strides_bytes.data(), m.box.data(),
                                     m.element_strides.data(), cu::interleave_none, swizzle, cu::promotion_256, cu::fill_zero),
                 "cuTensorMapEncodeTiled");
}

}  // namespace tlx::bench
