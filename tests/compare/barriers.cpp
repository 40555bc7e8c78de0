// mbarriers by hand: what each instruction does to phase, arrivals and bytes, as tests see it.
#include "tests/compare/text.hpp"
#include "tests/compare/values.hpp"

namespace tlx::compare {

namespace {

/// One thread; TEST n p writes whether the phase of parity p is complete to word n.
sample one(const std::string& name, const std::string& body, const std::vector<std::uint32_t>& expected) {
  sample s;
  s.name = name;
  s.from = quota::rings;
  s.block = {32, 1, 1};
  s.ptx = ptx_kernel(".param .u64 p_out", ".shared .align 8 .b64 bar;\nsetp.ne.u32 %p0, %r0, 0; @%p0 ret; ld.param.u64 %l1, [p_out];\n" + body);
  s.memories = {{"out", unwritten(expected.size() * 4), true, element::u32}};
  s.arguments = {place{0, 0}};
  s.expected = {{.memory = 0, .exact = bytes_of(expected)}};
  return s;
}
std::string test(int at, int parity) { return cat("mbarrier.test_wait.parity.shared::cta.b64 %p1, [bar], ", parity, "; selp.u32 %r2, 1, 0, %p1; st.global.u32 [%l1+", 4 * at, "], %r2;\n"); }
std::string init(int count) { return cat("mbarrier.init.shared::cta.b64 [bar], ", count, ";\n"); }
const char* const arrive = "mbarrier.arrive.shared::cta.b64 %l2, [bar];\n";

}  // namespace

void add_barriers(std::vector<entry>& to) {
  const auto put = [&](const std::string& name, const std::string& body, const std::vector<std::uint32_t>& expected) { to.push_back({"mbarrier " + name, quota::rings, [=] { return one("mbarrier " + name, body, expected); }}); };
  put("fresh", init(1) + test(0, 0) + test(1, 1), {0, 1});
  put("one phase", init(1) + arrive + test(0, 0) + test(1, 1), {1, 0});
  put("two phases behind", init(1) + arrive + test(0, 0) + arrive + test(1, 0) + test(2, 1), {1, 0, 1});
  put("two arrivals", init(2) + arrive + test(0, 0) + arrive + test(1, 0), {0, 1});
  put("arrive with a count", init(5) + "mbarrier.arrive.shared::cta.b64 %l2, [bar], 4;\n" + test(0, 0) + arrive + test(1, 0), {0, 1});
  put("bytes hold the phase", init(1) + "mbarrier.arrive.expect_tx.shared::cta.b64 %l2, [bar], 32;\n" + test(0, 0) + "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [bar], 32;\n" + test(1, 0), {0, 1});
  put("bytes before their announcement", init(1) + "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [bar], 16;\n" + test(0, 0) + "mbarrier.arrive.expect_tx.shared::cta.b64 %l2, [bar], 16;\n" + test(1, 0), {0, 1});
  put("a bare expect_tx back to zero", init(1) + "mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [bar], 16;\n" + arrive + test(0, 0) + "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 16;\n" + test(1, 0), {0, 1});
  put("arrive_drop lowers later phases", init(2) + "mbarrier.arrive_drop.shared::cta.b64 %l2, [bar];\n" + arrive + test(0, 0) + arrive + test(1, 1), {1, 1});
  put("pending count of a token", init(7) + "mbarrier.arrive.shared::cta.b64 %l2, [bar], 2; mbarrier.pending_count.b64 %r3, %l2; st.global.u32 [%l1], %r3; mbarrier.arrive.shared::cta.b64 %l2, [bar]; mbarrier.pending_count.b64 %r3, %l2; st.global.u32 [%l1+4], %r3;\n", {7, 5});
  put("invalidated and made again", init(1) + arrive + "mbarrier.inval.shared::cta.b64 [bar];\n" + init(3) + test(0, 0) + arrive + test(1, 0), {0, 0});
  put("a token's own phase", init(1) + "mbarrier.arrive.shared::cta.b64 %l2, [bar]; mbarrier.test_wait.shared::cta.b64 %p1, [bar], %l2; selp.u32 %r2, 1, 0, %p1; st.global.u32 [%l1], %r2;\n", {1});
}

}  // namespace tlx::compare
