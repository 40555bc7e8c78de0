#include "host/gemm_16bit.hpp"

namespace tlx::host {

std::unique_ptr<ir::kernel> trace_gemm_f16(const gemm_choice& c, const std::string& name, const std::string& target) {
  if (c.c == tile::element::f16) return traced_16bit<f16, f16>(c, name, target);
  if (c.c == tile::element::f32) return traced_16bit<f16, float>(c, name, target);
  no_kernel(c);
}

}  // namespace tlx::host
