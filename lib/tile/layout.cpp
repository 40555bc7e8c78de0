// The run-time end of the layout checks: everything else of layout.hpp is constexpr.
#include "tlx/tile/layout.hpp"

#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::tile::detail {

[[noreturn]] void layout_error(const char* id, const char* what, int a, int b) {
  raise(user_error({.id = id, .what = cat(what, ": ", a, " and ", b)}));
}

}  // namespace tlx::tile::detail
