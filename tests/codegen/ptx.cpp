#include <doctest/doctest.h>
#include "tlx/codegen/to_ptx.hpp"
TEST_CASE("llvm is 22") { CHECK(tlx::codegen::llvm_version().substr(0, 3) == "22."); }
