// The verbs of tlxc, one file each.
#pragma once
#include "arguments.hpp"

namespace tlxc {

verb build_verb();
verb cache_verb();
verb explain_verb();
verb inspect_verb();
verb list_verb();
verb print_verb();
verb run_verb();
verb show_verb();
verb sign_verb();
verb sim_verb();

}  // namespace tlxc
