// The library's kernels by family; library.cpp puts them into one list.
#pragma once
#include "tlx/host/library.hpp"

namespace tlx::host {

std::vector<library_kernel> gemm_kernels();
std::vector<library_kernel> gated_kernels();
std::vector<library_kernel> normed_kernels();
std::vector<library_kernel> grouped_kernels();
std::vector<library_kernel> scaled_kernels();
std::vector<library_kernel> attention_kernels();
std::vector<library_kernel> flash_attention_kernels();

}  // namespace tlx::host
