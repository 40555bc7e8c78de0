#include "tlx/dsl/kernel.hpp"

using namespace tlx;

struct arguments { TLX_ARGUMENTS(arguments, (view<bf16, 2>, a), (view<f16, 2>, h)); };

void body(const arguments& in) { (void)in.a.at(0, 0); }
