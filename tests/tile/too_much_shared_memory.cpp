// Must not compile: six stages of 48 KB are more than one CTA has. The message shows both numbers.
#include "tlx/tile/limits.hpp"
#include "tlx/tile/shared_tile.hpp"

using namespace tlx::tile;
constexpr int stage_bytes = make_shared_tile(element::bf16, 128, 64).size_bytes() + make_shared_tile(element::bf16, 256, 64).size_bytes();
static_assert(fits_shared_memory<6 * stage_bytes, target_limits("sm_90a")->shared_bytes_per_cta>::ok);
