// A product by tcgen05, by one CTA or a pair. A[m][0] = m % 16, B[n][0] = n % 8 + 1, everything else 0, so D[m][n] is their product.
#pragma once
#include "support.hpp"

namespace sim_test {

/// What a variant changes.
struct pair_variant {
  int pair = 1;                                  // CTAs
  std::string before_mma, fence = "fence.proxy.async.shared::cta;", wait = "W: mbarrier.try_wait.parity.shared.b64 %p6, [bar], 0; @!%p6 bra W;", wait_load = "tcgen05.wait::ld.sync.aligned;";
  std::string enable = "0", dealloc_columns = "64", end, more_b;
  int n = 64, d_column = 0;
  int issuer = 0;  // which CTA multiplies
};

inline std::string pair_kernel(const pair_variant& v) {
  const std::string g = v.pair == 2 ? "2" : "1";
  const int m = 128 * v.pair;
  const unsigned word = 1U << 4 | 1U << 7 | 1U << 10 | static_cast<unsigned>(v.n / 8) << 17 | static_cast<unsigned>(m / 16) << 24;  // f32 from bf16
  // K-major without swizzle: 8-row groups every 256 bytes, the two 16-byte columns 128 bytes apart. Descriptor: version 1, LBO 128, SBO 256.
  const std::string fields = "0x0000401000080000";
  return R"(
    .shared .align 128 .b8 a[4096]; .shared .align 128 .b8 b[2048]; .shared .align 8 .b64 bar; .shared .align 4 .b32 slot;
    mov.u32 %r1, %cluster_ctarank; setp.lt.u32 %p1, %r0, 32; setp.eq.u32 %p2, %r0, 0; setp.eq.u32 %p3, %r1, )" + std::to_string(v.issuer) + R"(; and.pred %p4, %p2, %p3;
    shr.u32 %r2, %r0, 3; shl.b32 %r2, %r2, 8; and.b32 %r3, %r0, 7; shl.b32 %r3, %r3, 4; add.u32 %r2, %r2, %r3;
    mov.u32 %r4, a; add.u32 %r4, %r4, %r2; mov.u32 %r5, b; add.u32 %r5, %r5, %r2; mov.u32 %r6, 0;
    and.b32 %r7, %r0, 15; cvt.rn.f32.u32 %f1, %r7; cvt.rn.bf16.f32 %rs1, %f1; cvt.u32.u16 %r7, %rs1;
    st.shared.v4.b32 [%r4], {%r7, %r6, %r6, %r6}; st.shared.v4.b32 [%r4+128], {%r6, %r6, %r6, %r6};
    and.b32 %r8, %r0, 7; add.u32 %r8, %r8, 1; )" + v.more_b + R"( cvt.rn.f32.u32 %f1, %r8; cvt.rn.bf16.f32 %rs1, %f1; cvt.u32.u16 %r8, %rs1;
    setp.lt.u32 %p5, %r0, 64;
    @%p5 st.shared.v4.b32 [%r5], {%r8, %r6, %r6, %r6}; @%p5 st.shared.v4.b32 [%r5+128], {%r6, %r6, %r6, %r6};
    )" + v.fence + R"(
    @%p2 mbarrier.init.shared.b64 [bar], 1; @%p2 fence.mbarrier_init.release.cluster;
    mov.u32 %r9, slot;
    @%p1 tcgen05.alloc.cta_group::)" + g + R"(.sync.aligned.shared::cta.b32 [%r9], 64;
    bar.sync 0; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    ld.shared.u32 %r10, [slot];
    mov.u32 %r11, a; shr.u32 %r11, %r11, 4; cvt.u64.u32 %rd3, %r11; or.b64 %rd3, %rd3, )" + fields + R"(;
    mov.u32 %r11, b; shr.u32 %r11, %r11, 4; cvt.u64.u32 %rd4, %r11; or.b64 %rd4, %rd4, )" + fields + R"(;
    and.b64 %rd3, %rd3, 0xFFFFFFFFFFFF3FFF; and.b64 %rd4, %rd4, 0xFFFFFFFFFFFF3FFF;
    mov.u32 %r12, )" + std::to_string(word) + R"(; setp.ne.u32 %p7, )" + v.enable + R"(, 0; mov.u32 %r13, bar; mov.u16 %rs2, 3;
    add.u32 %r14, %r10, )" + std::to_string(v.d_column) + ";\n" + v.before_mma + R"(
    @%p4 tcgen05.mma.cta_group::)" + g + R"(.kind::f16 [%r14], %rd3, %rd4, %r12, %p7;
    @%p4 tcgen05.commit.cta_group::)" + g + (v.pair == 2 ? ".mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r13], %rs2;" : ".mbarrier::arrive::one.shared::cluster.b64 [%r13];") + "\n" + v.wait + R"(
    tcgen05.fence::after_thread_sync;
    shr.u32 %r15, %r0, 5; shl.b32 %r15, %r15, 21; add.u32 %r15, %r15, %r10;
    tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r16, %r17}, [%r15]; add.u32 %r18, %r15, 62; tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r19, %r20}, [%r18];
    )" + v.wait_load + R"(
    mad.lo.u32 %r21, %r1, 128, %r0; mul.wide.u32 %rd5, %r21, 16; add.s64 %rd5, %rd2, %rd5;
    st.global.v4.b32 [%rd5], {%r16, %r17, %r19, %r20};
    tcgen05.fence::before_thread_sync; bar.sync 0; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; tcgen05.fence::after_thread_sync;
    @%p1 tcgen05.relinquish_alloc_permit.cta_group::)" + g + R"(.sync.aligned;
    @%p1 tcgen05.dealloc.cta_group::)" + g + ".sync.aligned.b32 %r10, " + v.dealloc_columns + ";\n" + v.end;
}

inline setup pair_setup(const pair_variant& v, std::uint64_t seed = 1) {
  setup s;
  s.target = "sm_100a";
  s.threads = 128;
  s.grid = s.cluster = static_cast<unsigned>(v.pair);
  s.out_words = 128 * 4 * static_cast<std::size_t>(v.pair);
  s.seed = seed;
  return s;
}

}  // namespace sim_test
