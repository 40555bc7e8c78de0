// Kernels that are broken on purpose, behind the compiler's back: the passes run as always, then one thing is changed, then the kernel is watched.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/machines.hpp"
#include "tlx/codegen/to_ptx.hpp"
#include "tlx/device/binder.hpp"
#include "tlx/dsl/kernel.hpp"
#include "tlx/ir/verify.hpp"
#include "tlx/jit/compile.hpp"
#include "tlx/pass/pipeline.hpp"
#include "tlx/support/error.hpp"

namespace broken {

using namespace tlx;

inline device::kernel build(const ir::kernel& traced, double seconds, const std::function<void(ir::kernel&)>& change) {
  const std::unique_ptr<ir::kernel> k = ir::clone(traced);
  for (const pass::pass& step : pass::pipeline_for(k->target)) step.run(*k);
  change(*k);
  if (seconds > 0) pass::watch(*k, static_cast<std::int64_t>(seconds * 1e9));
  ir::verify_or_raise(*k, "watch");
  device::kernel made = jit::describe(*k);
  made.code.ptx = codegen::to_ptx(*k);
  return made;
}

/// Loaded and ready on a machine.
struct on_machine {
  device::machine& m;
  device::kernel kernel;
  std::shared_ptr<device::module> code = m.load(kernel.code);
  device::binder bind{kernel, m.about()};

  void run(const std::vector<device::value>& arguments) { m.run(*code, kernel.entry, bind(arguments)); }
  /// Launches, waits; the error's id and text, or two empty strings.
  std::pair<std::string, std::string> outcome(const std::vector<device::value>& arguments) {
    try {
      run(arguments);
      m.wait();
    } catch (const error& e) {
      return {e.id(), e.what()};
    }
    return {};
  }
};

inline std::vector<ir::op*> find(ir::kernel& k, const std::function<bool(const ir::op&)>& is) {
  std::vector<ir::op*> found;
  ir::walk(k.body, [&](ir::op& o) {
    if (is(o)) found.push_back(&o);
  });
  return found;
}

inline bool contains(const ir::op& o, ir::opcode code) {
  bool found = o.is(code);
  for (const auto& r : o.regions)
    for (const auto& inner : r->ops) found = found || contains(*inner, code);
  return found;
}

}  // namespace broken
