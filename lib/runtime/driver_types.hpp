// The few types and constants of the CUDA driver interface that tlx uses, so that it builds without a toolkit.
// tests/runtime/constants.cpp compares them with cuda.h where there is one.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tlx::runtime::cu {

using result = int;  // an enum in cuda.h: int-sized
using device = int;
using device_pointer = unsigned long long;
struct context_;
struct module_;
struct function_;
struct stream_;
struct event_;
struct graph_;
struct graph_exec_;
struct graph_node_;
using context = context_*;
using module = module_*;
using function = function_*;
using stream = stream_*;
using event = event_*;
using graph = graph_*;
using graph_exec = graph_exec_*;
using graph_node = graph_node_*;

constexpr result success = 0, error_invalid_value = 1, error_out_of_memory = 2, error_deinitialized = 4, error_stub_library = 34, error_no_device = 100,
                 error_no_binary_for_gpu = 209, error_peer_access_already_enabled = 704, error_not_found = 500, error_not_ready = 600;

constexpr int attribute_multiprocessor_count = 16, attribute_compute_major = 75, attribute_compute_minor = 76, attribute_shared_per_block_optin = 97;

constexpr int function_max_threads = 0, function_shared_bytes = 1, function_local_bytes = 3, function_registers = 4, function_max_dynamic_shared = 8,
              function_non_portable_cluster = 14;

constexpr int jit_info_log_buffer = 3, jit_info_log_bytes = 4, jit_error_log_buffer = 5, jit_error_log_bytes = 6, jit_log_verbose = 12;

constexpr int pointer_on_device = 3;       // the address under which kernels of the current context see the memory
constexpr int pointer_device_ordinal = 9;  // the GPU that it was allocated on

constexpr unsigned stream_non_blocking = 1, event_default = 0, event_disable_timing = 2;
constexpr unsigned host_portable = 1, host_mapped = 2;
constexpr int capture_thread_local = 1, capture_active = 1;

constexpr int launch_attribute_cluster = 4, launch_attribute_programmatic = 6;

union launch_value {
  char pad[64];
  struct {
    unsigned x, y, z;
  } cluster;
  int programmatic_allowed;
};

struct launch_attribute {
  int id;
  char pad[8 - sizeof(int)];
  launch_value value;
};

struct launch_config {
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  stream where;
  launch_attribute* attributes;
  unsigned attribute_count;
};

struct kernel_node {  // CUDA_KERNEL_NODE_PARAMS_v1
  function what;
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  void** arguments;
  void** extra;
};

struct alignas(64) tensor_map {
  std::uint64_t opaque[16];
};

constexpr int map_u8 = 0, map_u16 = 1, map_u32 = 2, map_s32 = 3, map_u64 = 4, map_s64 = 5, map_f16 = 6, map_f32 = 7, map_f64 = 8, map_bf16 = 9,
              map_f32_ftz = 10, map_tf32 = 11, map_tf32_ftz = 12, map_u4x16_align8 = 13, map_u4x16_align16 = 14, map_u6x16_align16 = 15;
constexpr int interleave_none = 0, interleave_16 = 1, interleave_32 = 2;
constexpr int swizzle_none = 0, swizzle_32 = 1, swizzle_64 = 2, swizzle_128 = 3;
constexpr int promotion_none = 0, promotion_64 = 1, promotion_128 = 2, promotion_256 = 3;
constexpr int fill_zero = 0, fill_nan = 1;

}  // namespace tlx::runtime::cu
