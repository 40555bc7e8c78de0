#include "tlx/tile/limits.hpp"

#include <doctest/doctest.h>

#include "tlx/support/error.hpp"
#include "tlx/tile/budget.hpp"

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

TEST_CASE("a budget that is exceeded says what is needed, what there is and by how much") {
  const limits hopper = *target_limits("sm_90a"), blackwell = *target_limits("sm_100a");
  CHECK(check_shared_memory(hopper, 232448).empty());
  CHECK(check_shared_memory(hopper, 294912) == "294912 bytes of shared memory per CTA are needed, sm_90a has 232448: 62464 too many");
  CHECK(check_tensor_memory(blackwell, 512).empty());
  CHECK(check_tensor_memory(blackwell, 640).find("128 too many") != std::string::npos);
  CHECK(check_tensor_memory(hopper, 64) == "64 columns of tensor memory are needed, sm_90a has none");
  CHECK(check_threads(hopper, 1056).find("32 too many") != std::string::npos);
  CHECK(check_named_barriers(hopper, 16).empty());
  CHECK_FALSE(check_named_barriers(hopper, 17).empty());
}

TEST_CASE("register shares are checked against what the CTA starts with") {
  const limits l = *target_limits("sm_90a");
  CHECK(check_registers(l, {{"load", 4, 40}, {"mma", 8, 232}}, 168).empty());
  CHECK(check_registers(l, {{"load", 4, 40}, {"mma", 8, 240}}, 168) == "load 128 x 40 + mma 256 x 240 = 66560 registers are needed, the CTA starts with 384 x 168 = 64512: 2048 too many");
  CHECK(check_registers(l, {{"mma", 4, 100}}, 168).find("multiples of 8") != std::string::npos);
  CHECK(check_registers(l, {{"a", 16, 136}}, 136).find("start with") != std::string::npos);
}

TEST_CASE("an unknown target is refused with the names of the known ones") {
  CHECK(require_target("sm_103a").target == "sm_103a");
  try {
    (void)require_target("sm_120a");
    FAIL("accepted");
  } catch (const tlx::user_error& e) {
    CHECK(e.id() == "target-unknown");
    CHECK(e.parts().fix.front().find("sm_100f") != std::string::npos);
  }
}
