#include "tlx/tile/limits.hpp"

#include <doctest/doctest.h>

using namespace tlx::tile;

TEST_CASE("limits are known for the supported targets only") {
  CHECK(target_limits("sm_90a")->shared_bytes_per_cta == 232448);
  CHECK_FALSE(target_limits("sm_90a")->has_tensor_memory());
  for (const char* t : {"sm_100a", "sm_103a", "sm_100f"}) CHECK(target_limits(t)->tensor_memory_columns == 512);
  CHECK_FALSE(target_limits("sm_120").has_value());
  CHECK_FALSE(target_limits("sm_90").has_value());
}

TEST_CASE("a whole CTA's shared memory and its reserve are one SM's share") {
  constexpr limits l = *target_limits("sm_90a");
  static_assert(ctas_by_shared_memory(l, l.shared_bytes_per_cta) == 1);
  static_assert(ctas_by_shared_memory(l, 33 * 1024) == 6);
  static_assert(ctas_by_registers(l, 128, 4) == 4);
  static_assert(ctas_by_registers(l, 85, 4) == 5);  // 85 becomes 88 for the warp
  static_assert(ctas_by_threads(l, 384) == 5);
  static_assert(fits_shared_memory<232448, l.shared_bytes_per_cta>::ok);
}
