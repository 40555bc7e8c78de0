// Runs the passes of a kernel's target as far as wanted, with the verifier after each.
#pragma once
#include <cstring>
#include <functional>
#include <string>

#include "tlx/ir/text.hpp"
#include "tlx/ir/verify.hpp"
#include "tlx/pass/pipeline.hpp"

namespace tlx::test {

inline void run_passes(ir::kernel& k, const std::string& last = "simplify", const std::function<void(const std::string&, const ir::kernel&)>& each = {}) {
  for (const pass::pass& step : pass::pipeline_for(k.target)) {
    step.run(k);
    ir::verify_or_raise(k, step.name);
    if (each) each(step.name, k);
    if (last == step.name) return;
  }
}

inline int count_ops(const ir::kernel& k, ir::opcode code) {
  int n = 0;
  ir::walk(k.body, [&](const ir::op& o) { n += o.is(code); });
  return n;
}

}  // namespace tlx::test
