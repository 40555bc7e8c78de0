#include "tlx/host/library.hpp"

#include "host/families.hpp"

namespace tlx::host {

std::vector<library_kernel> library_kernels(const std::string& target) {
  std::vector<library_kernel> all = gemm_kernels();
  for (library_kernel& k : gated_kernels()) all.push_back(std::move(k));
  for (library_kernel& k : normed_kernels()) all.push_back(std::move(k));
  for (library_kernel& k : grouped_kernels()) all.push_back(std::move(k));
  if (!target.empty() && target != "sm_90a")
    for (library_kernel& k : scaled_kernels()) all.push_back(std::move(k));
  for (library_kernel& k : attention_kernels()) all.push_back(std::move(k));
  for (library_kernel& k : flash_attention_kernels()) all.push_back(std::move(k));
  return all;
}

}  // namespace tlx::host
