// The kernels of the example programs: each program's main() becomes a function of its own namespace, run on a machine that keeps its launches.
#include "subject.hpp"
#include "tlx/support/error.hpp"

#include <limits>

// Everything that the programs include, before they are included inside namespaces.
#define main main_of_programs
#include "examples/common.hpp"
#undef main

#include "tlx/dsl/activation.hpp"
#include "tlx/host/launch.hpp"
#include "tlx/kernels/attention.hpp"
#include "tlx/kernels/gemm.hpp"


namespace examples {
static tlx::device::machine* on = nullptr;
static bool was_right = false;
inline int main(int, char**, const std::function<bool(tlx::device::machine&)>& body) {
  was_right = body(*on);
  return was_right ? 0 : 1;
}
}  // namespace examples

namespace e01 {
#include "examples/01_copy.cpp"
}
namespace e02 {
#include "examples/02_elementwise.cpp"
}
namespace e03 {
#include "examples/03_row_softmax.cpp"
}
namespace e04 {
#include "examples/04_tma_copy.cpp"
}
namespace e05 {
#include "examples/05_ring.cpp"
}
namespace e06 {
#include "examples/06_mma.cpp"
}
namespace e07 {
#include "examples/07_roles.cpp"
}
namespace e08 {
#include "examples/08_fused_epilogue.cpp"
}
namespace e09 {
#include "examples/09_block_attention.cpp"
}
namespace e11 {
#include "examples/11_quantised_epilogue.cpp"
}

namespace mutation {

std::vector<subject> examples(const std::string& target, const wanted& is_wanted) {
  struct program { const char* name; int (*run)(int, char**); };
  const program programs[] = {{"01_copy", e01::main}, {"02_elementwise", e02::main}, {"03_row_softmax", e03::main},    {"04_tma_copy", e04::main},        {"05_ring", e05::main},
                              {"06_mma", e06::main},  {"07_roles", e07::main},       {"08_fused_epilogue", e08::main}, {"09_block_attention", e09::main}, {"11_quantised_epilogue", e11::main}};
  std::vector<subject> all;
  for (const program& p : programs) {
    if (!is_wanted(p.name)) continue;
    auto on = std::make_shared<recorder>(target);
    ::examples::on = on.get();
    char name[] = "program";
    char* arguments[] = {name, nullptr};
    if (p.run(1, arguments) != 0) tlx::raise(tlx::internal_error({.id = "mutation-subject-wrong", .what = std::string(p.name) + " is wrong before it is made wrong"}));
    for (recorder::kept& k : on->launches) all.push_back({p.name, target, on, std::move(k)});
    on->launches.clear();
  }
  return all;
}

}  // namespace mutation
