// Kernels made ready before they are needed, several at a time: what a program does while it starts.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "tlx/host/library.hpp"
#include "tlx/host/session.hpp"

namespace tlx::host {

struct warm_up_step {
  std::size_t done = 0, total = 0;  // kernels, this one included
  std::string kernel, target;
  kernel_origin from = kernel_origin::compiled;
  double ms = 0;                    // of this kernel
  std::string error;                // empty: it is ready
};

struct warm_up_options {
  int threads = 0;                                          // 0: one a core
  std::function<void(const warm_up_step&)> progress = {};   // from the threads, one call at a time
};

struct warm_up_result {
  std::size_t from_bundle = 0, from_cache = 0, compiled = 0, ready_before = 0;
  double seconds = 0;
  std::vector<warm_up_step> failed;  // with their errors
};

/// Gets every kernel ready on every session: from the bundle, else the cache, else compiled; once for each target, loaded on each machine of that target.
/// A kernel that cannot be made is in the result and stops no other.
warm_up_result warm_up(const std::vector<session*>& on, const std::vector<library_kernel>& kernels, const warm_up_options& how = {});
warm_up_result warm_up(session& on, const std::vector<library_kernel>& kernels, const warm_up_options& how = {});

}  // namespace tlx::host
