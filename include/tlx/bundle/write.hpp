// Makes a bundle from compiled kernels. The same kernels give the same bytes, in whatever order they come.
#pragma once
#include <string>
#include <vector>

#include "tlx/bundle/bundle.hpp"

namespace tlx::bundle {

struct compiled {
  std::string name, configuration;
  device::kernel kernel;
};

struct write_options {
  bool cubin = true, ptx = false;  // which code goes in, as far as a kernel has it
  bool compress = true;            // by zstd; never where it was not built in
};

/// The bytes of the file. Raises user_error [bundle-kernel-twice] for two kernels of one name, configuration and target.
std::string pack(const package& about, std::vector<compiled> kernels, const write_options& how = {});

/// `bundle` with another signature, any bytes; "" takes it away. The digest of the bundle stays. Raises what bundle::of_memory() raises.
std::string with_signature(const std::string& bundle, const std::string& signature);

}  // namespace tlx::bundle
