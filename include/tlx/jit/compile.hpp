// The spine: a traced kernel becomes a compiled one.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tlx/device/kernel.hpp"
#include "tlx/ir/kernel.hpp"

namespace tlx::jit {

struct stage_time {
  std::string stage;
  double ms = 0;
};

/// Sees every stage; whatever is empty is not called.
struct observer {
  std::function<void(const std::string& stage, const ir::kernel&)> after;  // "trace", then every pass
  std::function<void(const std::string& text)> protocol;                   // what the protocol check says, findings included
  std::function<void(const std::string& text)> llvm, ptx;
  std::function<void(const std::string& bytes)> cubin;  // not called when nothing is assembled
  std::function<void()> found;  // in place of all others but "trace": the kernel was in the cache, or another thread or process has just made it
  std::vector<stage_time>* times = nullptr;
};

/// How a kernel is watched on the machine: docs/watch.md.
struct watch_options {
  double seconds = 0;   // how long a wait may take, up to 3600; 0: not watched, and nothing of it in the code
  bool bounds = false;  // boxes and elements that start outside of their view are reported too
  bool on() const { return seconds > 0; }
};

/// TLX_WATCH: "SECONDS" or "SECONDS,bounds"; unset, empty or 0: not watched. Raises user_error [watch-limit-invalid].
watch_options watch_from_environment();

struct compile_options {
  bool assemble = true;  // off: PTX only (the simulator needs no cubin; a GPU's driver can take PTX)
  bool line_info = true;
  bool use_cache = true;
  bool check_protocol = true;  // of what the passes made, before code is generated; the environment variable TLX_CHECK=off turns it off everywhere
  std::optional<watch_options> watch = {};  // nothing: what the environment says
};

/// The environment variable TLX_PRINT=after:PASS|after:trace|after:all|protocol|llvm|ptx|sass (several with commas) prints those stages of every compilation
/// to standard error; raises user_error [print-stage-unknown] for other words.
/// Raises user_error for what is wrong with the description or with TLX_WATCH, device_error [assembler-missing], internal_error for faults of tlx.
device::kernel compile(const ir::kernel& traced, const compile_options& how = {}, const observer& seen = {});

/// What a launch needs to know of a lowered kernel: parameters, maps, grid, block. No code.
device::kernel describe(const ir::kernel& lowered);

}  // namespace tlx::jit
