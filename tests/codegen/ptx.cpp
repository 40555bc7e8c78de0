#include <doctest/doctest.h>

#include "tlx/codegen/to_ptx.hpp"
#include "tlx/ir/text.hpp"

TEST_CASE("the code generator is LLVM 22") { CHECK(tlx::codegen::llvm_version().substr(0, 3) == "22."); }
