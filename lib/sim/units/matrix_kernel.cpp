// The kernel for each instruction set.
#include "sim/units/matrix_kernel.hpp"

#include <cstring>

namespace tlx::sim::kernel {
namespace {

typedef float float8 __attribute__((vector_size(32)));
/// For loads: unaligned. A copy into a vector would be made in 16-byte steps, and reading it back whole stalls.
typedef float loose8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef std::int32_t int8 __attribute__((vector_size(32)));
typedef std::uint32_t word8 __attribute__((vector_size(32)));
typedef std::int32_t int4 __attribute__((vector_size(16)));
typedef double double4 __attribute__((vector_size(32)));
typedef std::int64_t long4 __attribute__((vector_size(32)));
typedef float float4 __attribute__((vector_size(16)));

}  // namespace

#define TLX_KERNEL_TARGET
#define TLX_KERNEL_NAME run_plain
#include "sim/units/matrix_kernel.inc"
#undef TLX_KERNEL_TARGET
#undef TLX_KERNEL_NAME

#if defined(__x86_64__)
#define TLX_KERNEL_TARGET __attribute__((target("avx2")))
#define TLX_KERNEL_NAME run_avx2
#include "sim/units/matrix_kernel.inc"
#undef TLX_KERNEL_TARGET
#undef TLX_KERNEL_NAME
bool has_avx2() { return __builtin_cpu_supports("avx2") != 0; }
#else
bool run_avx2(const row& r, float* out, double* sums) { return run_plain(r, out, sums); }
bool has_avx2() { return false; }
#endif

}  // namespace tlx::sim::kernel
