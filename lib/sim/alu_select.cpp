#include "sim/alu.hpp"

namespace tlx::sim {

alu_function find_fast(alu op, scalar type, scalar from, compare how, bool ftz) {
#if defined(TLX_SIM_HAS_AVX2)
  static const bool wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (wide) return find_fast_avx2(op, type, from, how, ftz);
#endif
  return find_fast_generic(op, type, from, how, ftz);
}

}  // namespace tlx::sim
