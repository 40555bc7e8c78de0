// Our few driver types against cuda.h, where a toolkit is installed.
#include <doctest/doctest.h>

#include "runtime/driver_types.hpp"

#ifdef TLX_HAVE_CUDA_H
#include <cuda.h>

namespace mine = tlx::runtime::cu;

#define SAME(ours, theirs) static_assert(static_cast<long long>(mine::ours) == static_cast<long long>(theirs), #theirs)
SAME(success, CUDA_SUCCESS);
SAME(error_invalid_value, CUDA_ERROR_INVALID_VALUE);
SAME(error_out_of_memory, CUDA_ERROR_OUT_OF_MEMORY);
SAME(error_deinitialized, CUDA_ERROR_DEINITIALIZED);
SAME(error_stub_library, CUDA_ERROR_STUB_LIBRARY);
SAME(error_no_device, CUDA_ERROR_NO_DEVICE);
SAME(error_no_binary_for_gpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME(error_not_found, CUDA_ERROR_NOT_FOUND);
SAME(error_not_ready, CUDA_ERROR_NOT_READY);
SAME(event_disable_timing, CU_EVENT_DISABLE_TIMING);
SAME(host_portable, CU_MEMHOSTALLOC_PORTABLE);
SAME(host_mapped, CU_MEMHOSTALLOC_DEVICEMAP);
SAME(attribute_multiprocessor_count, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(attribute_compute_major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(attribute_compute_minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(attribute_shared_per_block_optin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(function_max_threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(function_shared_bytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME(function_local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME(function_registers, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME(function_max_dynamic_shared, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(function_non_portable_cluster, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
SAME(jit_info_log_buffer, CU_JIT_INFO_LOG_BUFFER);
SAME(jit_info_log_bytes, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
SAME(jit_error_log_buffer, CU_JIT_ERROR_LOG_BUFFER);
SAME(jit_error_log_bytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME(jit_log_verbose, CU_JIT_LOG_VERBOSE);
SAME(pointer_on_device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER);
SAME(pointer_device_ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME(error_peer_access_already_enabled, CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
SAME(capture_active, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(stream_non_blocking, CU_STREAM_NON_BLOCKING);
SAME(event_default, CU_EVENT_DEFAULT);
SAME(capture_thread_local, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(launch_attribute_cluster, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME(launch_attribute_programmatic, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME(map_u8, CU_TENSOR_MAP_DATA_TYPE_UINT8);
SAME(map_u16, CU_TENSOR_MAP_DATA_TYPE_UINT16);
SAME(map_u32, CU_TENSOR_MAP_DATA_TYPE_UINT32);
SAME(map_s32, CU_TENSOR_MAP_DATA_TYPE_INT32);
SAME(map_u64, CU_TENSOR_MAP_DATA_TYPE_UINT64);
SAME(map_s64, CU_TENSOR_MAP_DATA_TYPE_INT64);
SAME(map_f16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16);
SAME(map_f32, CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
SAME(map_f64, CU_TENSOR_MAP_DATA_TYPE_FLOAT64);
SAME(map_bf16, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
SAME(map_f32_ftz, CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ);
SAME(map_tf32, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32);
SAME(map_tf32_ftz, CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ);
#if CUDA_VERSION >= 12080
SAME(map_u4x16_align8, CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN8B);
SAME(map_u4x16_align16, CU_TENSOR_MAP_DATA_TYPE_16U4_ALIGN16B);
SAME(map_u6x16_align16, CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B);
#endif
SAME(interleave_none, CU_TENSOR_MAP_INTERLEAVE_NONE);
SAME(interleave_16, CU_TENSOR_MAP_INTERLEAVE_16B);
SAME(interleave_32, CU_TENSOR_MAP_INTERLEAVE_32B);
SAME(swizzle_none, CU_TENSOR_MAP_SWIZZLE_NONE);
SAME(swizzle_32, CU_TENSOR_MAP_SWIZZLE_32B);
SAME(swizzle_64, CU_TENSOR_MAP_SWIZZLE_64B);
SAME(swizzle_128, CU_TENSOR_MAP_SWIZZLE_128B);
SAME(promotion_none, CU_TENSOR_MAP_L2_PROMOTION_NONE);
SAME(promotion_64, CU_TENSOR_MAP_L2_PROMOTION_L2_64B);
SAME(promotion_128, CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
SAME(promotion_256, CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
SAME(fill_zero, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
SAME(fill_nan, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA);

static_assert(sizeof(mine::tensor_map) == sizeof(CUtensorMap) && alignof(mine::tensor_map) <= 64);
static_assert(sizeof(mine::launch_config) == sizeof(CUlaunchConfig));
static_assert(offsetof(mine::launch_config, shared_bytes) == offsetof(CUlaunchConfig, sharedMemBytes));
static_assert(offsetof(mine::launch_config, where) == offsetof(CUlaunchConfig, hStream));
static_assert(offsetof(mine::launch_config, attributes) == offsetof(CUlaunchConfig, attrs));
static_assert(offsetof(mine::launch_config, attribute_count) == offsetof(CUlaunchConfig, numAttrs));
static_assert(sizeof(mine::kernel_node) == sizeof(CUDA_KERNEL_NODE_PARAMS_v1) && offsetof(mine::kernel_node, arguments) == offsetof(CUDA_KERNEL_NODE_PARAMS_v1, kernelParams));
static_assert(offsetof(mine::kernel_node, shared_bytes) == offsetof(CUDA_KERNEL_NODE_PARAMS_v1, sharedMemBytes));
static_assert(sizeof(mine::launch_attribute) == sizeof(CUlaunchAttribute));
static_assert(offsetof(mine::launch_attribute, value) == offsetof(CUlaunchAttribute, value));
static_assert(offsetof(CUlaunchAttributeValue, clusterDim) == 0 && offsetof(CUlaunchAttributeValue, programmaticStreamSerializationAllowed) == 0);
static_assert(sizeof(mine::device_pointer) == sizeof(CUdeviceptr) && sizeof(mine::result) == sizeof(CUresult) && sizeof(mine::device) == sizeof(CUdevice));

TEST_CASE("the driver's types and constants are those of cuda.h (checked when this file was compiled)") { CHECK(CUDA_VERSION >= 12000); }
#endif
