#include "tlx/jit/compile.hpp"

#include <chrono>
#include <future>

#include "jit/print_stages.hpp"
#include "jit/protocol.hpp"
#include "jit/watch.hpp"
#include "tlx/codegen/to_ptx.hpp"
#include "tlx/ir/text.hpp"
#include "tlx/ir/verify.hpp"
#include "tlx/jit/assemble.hpp"
#include "tlx/jit/stored.hpp"
#include "tlx/pass/pipeline.hpp"

namespace tlx::jit {

namespace {

class stopwatch {
 public:
  explicit stopwatch(const observer& seen) : times_(seen.times), start_(std::chrono::steady_clock::now()) {}
  void lap(const std::string& stage) {
    const auto now = std::chrono::steady_clock::now();
    if (times_) times_->push_back({stage, std::chrono::duration<double, std::milli>(now - start_).count()});
    start_ = now;
  }

 private:
  std::vector<stage_time>* times_;
  std::chrono::steady_clock::time_point start_;
};

void show(const observer& seen, const std::string& stage, const ir::kernel& k) {
  if (seen.after) seen.after(stage, k);
}

// Everything but the cache.
device::kernel make(const ir::kernel& traced, const compile_options& how, const watch_options& watched, const observer& seen, stopwatch& watch) {
  const std::unique_ptr<ir::kernel> k = ir::clone(traced);
  if (watched.on() && watched.bounds) pass::check_bounds(*k);
  if (!watched.on()) pass::drop_requirements(*k);
  for (const pass::pass& step : pass::pipeline_for(k->target)) {
    step.run(*k);
    ir::verify_or_raise(*k, step.name);
    show(seen, step.name, *k);
    watch.lap(step.name);
  }
  std::unique_ptr<ir::kernel> timed = watched.on() ? ir::clone(*k) : nullptr;  // the check reads the kernel as the passes left it
  if (timed) {
    if (watched.bounds) pass::check_boxes(*timed);
    pass::watch(*timed, static_cast<std::int64_t>(watched.seconds * 1e9));
    ir::verify_or_raise(*timed, "watch");
    show(seen, "watch", *timed);
    watch.lap("watch");
  }

  const ir::kernel& last = timed ? *timed : *k;
  device::kernel made = describe(last);
  const codegen::options emit{.line_info = how.line_info};
  if (seen.llvm) seen.llvm(codegen::to_llvm(last, emit));
  // Side by side: the check takes a quarter of the time of code generation. A finding wins; nothing is assembled before the verdict.
  std::future<std::string> ptx = std::async(std::launch::async, [&] { return codegen::to_ptx(last, emit); });
  if (checks_protocol(how)) {
    check_protocol(*k, seen);
    watch.lap("check-protocol");
  }
  made.code.ptx = ptx.get();
  watch.lap("ptx");
  if (seen.ptx) seen.ptx(made.code.ptx);

  if (how.assemble) {
    assembly a = assemble(made.code.ptx, made.target);
    made.code.cubin = std::move(a.cubin);
    made.used = std::move(a.used);
    watch.lap("assemble");
    if (seen.cubin) seen.cubin(made.code.cubin);
  }
  return made;
}

}  // namespace

device::kernel compile(const ir::kernel& traced, const compile_options& how, const observer& by_caller) {
  const observer seen = also_printing(by_caller, traced);
  stopwatch watch(seen);
  show(seen, "trace", traced);
  const watch_options watched = how.watch ? checked(*how.watch, traced.where) : watch_from_environment();
  const bool shows_stages = seen.after || seen.protocol || seen.llvm || seen.ptx || seen.cubin;  // which only a compilation has
  const std::string key = how.use_cache && !shows_stages ? stored_key(traced, how) : "";
  stored_kernel got = find_or_make_stored(key, [&] { return make(traced, how, watched, seen, watch); });
  if (got.found) {
    watch.lap("cache");
    if (seen.found) seen.found();
  }
  return std::move(got.kernel);
}

}  // namespace tlx::jit
