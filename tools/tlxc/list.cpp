#include <cstdio>

#include "source.hpp"
#include "verbs.hpp"

namespace tlxc {

namespace {

int run(const arguments& given) {
  for (const kernel_entry& k : kernels_of(libraries_of(given), {})) std::printf("%s\n", k.full_name().c_str());
  return 0;
}

}  // namespace

verb list_verb() { return {"list", "[LIB.so|PROGRAM ...]", 0, 1000, "names of the registered kernels", "", {{"--from", "LIB.so", "the same as LIB.so alone; may be repeated"}}, run}; }

}  // namespace tlxc
