#include "host/gemm_16bit.hpp"

namespace tlx::host {

std::unique_ptr<ir::kernel> trace_gemm_bf16(const gemm_choice& c, const std::string& name, const std::string& target) {
  if (c.c == tile::element::bf16) return traced_16bit<bf16, bf16>(c, name, target);
  if (c.c == tile::element::f32) return traced_16bit<bf16, float>(c, name, target);
  no_kernel(c);
}

}  // namespace tlx::host
