#include <cstdio>

#include "source.hpp"
#include "verbs.hpp"

namespace tlxc {

namespace {

int run(const arguments& given) {
  for (const kernel_entry& k : kernels_of(given)) std::printf("%s\n", k.full_name().c_str());
  return 0;
}

}  // namespace

verb list_verb() { return {"list", "", 0, 0, "names of the registered kernels", "", {{"--from", "LIB.so", "kernels of this shared library instead of tlxc's own; may be repeated"}}, run}; }

}  // namespace tlxc
