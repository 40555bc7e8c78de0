// How fast the simulator runs plain SIMT code, with all checks on: warp-lane instructions per second on one core.
#include <chrono>
#include <cstdio>
#include <string>

#include "tlx/sim/machine.hpp"

namespace {

const char* const kernel = R"(.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
{
  .reg .pred %p<4>; .reg .b32 %r<24>; .reg .f32 %f<16>; .reg .b64 %rd<8>;
  .shared .align 16 .b8 tile[4096];
  ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.u32 %r5, %r3, %r4, %r2;
  mul.wide.u32 %rd2, %r5, 4; add.s64 %rd3, %rd1, %rd2; mov.u32 %r6, tile; mad.lo.u32 %r7, %r2, 4, %r6;
  mov.u32 %r8, 0; mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f3F000000; mov.f32 %f3, 0f00000000;
  st.shared.f32 [%r7], %f1;
LOOP:
  fma.rn.f32 %f3, %f1, %f2, %f3;
  add.f32 %f4, %f3, %f2; mul.f32 %f5, %f4, %f1; max.f32 %f6, %f5, %f3; sub.f32 %f7, %f6, %f2;
  xor.b32 %r9, %r8, %r2; shl.b32 %r10, %r9, 3; and.b32 %r11, %r10, 255; add.s32 %r12, %r11, %r9; setp.gt.s32 %p1, %r12, 77; selp.b32 %r13, %r12, %r9, %p1;
  cvt.rn.f32.s32 %f8, %r13; fma.rn.f32 %f3, %f8, 0f38D1B717, %f3;
  ld.shared.f32 %f9, [%r7]; add.f32 %f10, %f9, %f7; st.shared.f32 [%r7], %f10;
  ld.global.f32 %f11, [%rd3]; fma.rn.f32 %f3, %f11, %f2, %f3;
  add.s32 %r8, %r8, 1; setp.lt.s32 %p2, %r8, %r1; @%p2 bra LOOP;
  st.global.f32 [%rd3], %f3;
  ret;
}
)";

}  // namespace

int main(int argc, char** argv) {
  const std::uint32_t rounds = argc > 1 ? static_cast<std::uint32_t>(std::stoul(argv[1])) : 4000;
  auto m = tlx::sim::open("sm_90a");
  const auto buffer = m->allocate(8 * 256 * 4);
  m->fill(buffer, 0, 8 * 256 * 4);
  const auto code = m->load({.ptx = kernel, .cubin = {}});
  tlx::device::launch l;
  l.grid = {8, 1, 1};
  l.block = {256, 1, 1};
  l.arguments = {tlx::device::scalar(buffer), tlx::device::scalar(rounds)};
  double best = 0;
  for (int k = 0; k < 3; ++k) {
    m->run(*code, "k", l);
    const auto& s = m->last_run();
    const double rate = static_cast<double>(s.lane_instructions) / s.seconds;
    if (rate > best) best = rate;
    std::printf("%llu warp instructions, %.3f s, %.1f M warp instructions/s, %.0f M lane instructions/s\n", static_cast<unsigned long long>(s.warp_instructions), s.seconds, static_cast<double>(s.warp_instructions) / s.seconds * 1e-6, rate * 1e-6);
  }
  std::printf("best %.0f M lane instructions/s\n", best * 1e-6);
  return 0;
}
