// How fast the simulator runs plain SIMT code: warp-lane instructions per second of processor time, race detection off and on, for several kinds of code, and what
// several threads give on the clock. The targets: 200 million with the detector off, 60 million with it on, on one core.
//   sim_speed [ROUNDS]
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>
#include <thread>

#include "tlx/sim/machine.hpp"

namespace {

/// A loop of `n` rounds around `body`; registers are set up so that any mix of instructions may follow.
std::string kernel(const std::string& body) {
  return R"(.version 8.8
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n)
{
  .reg .pred %p<8>; .reg .b32 %r<32>; .reg .f32 %f<16>; .reg .b64 %rd<16>;
  .shared .align 16 .b8 tile[8192];
  ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.u32 %r5, %r3, %r4, %r2;
  mul.wide.u32 %rd2, %r5, 16; add.s64 %rd3, %rd1, %rd2; mov.u32 %r6, tile; mad.lo.u32 %r7, %r2, 16, %r6;
  mov.u32 %r8, 0; mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f3F000000; mov.f32 %f3, 0f00000000; mov.u32 %r14, 0x3C003C00; mov.u32 %r15, 0x3C014000;
  st.shared.v4.f32 [%r7], {%f1, %f1, %f1, %f1}; bar.sync 0;
LOOP:
)" + body + R"(
  add.s32 %r8, %r8, 1; setp.lt.s32 %p2, %r8, %r1; @%p2 bra LOOP;
  st.global.f32 [%rd3], %f3;
  ret;
}
)";
}

const char* const arithmetic = R"(
  fma.rn.f32 %f3, %f1, %f2, %f3; add.f32 %f4, %f3, %f2; mul.f32 %f5, %f4, %f1; max.f32 %f6, %f5, %f3; sub.f32 %f7, %f6, %f2;
  xor.b32 %r9, %r8, %r2; shl.b32 %r10, %r9, 3; and.b32 %r11, %r10, 255; add.s32 %r12, %r11, %r9; setp.gt.s32 %p1, %r12, 77; selp.b32 %r13, %r12, %r9, %p1;
  cvt.rn.f32.s32 %f8, %r13; fma.rn.f32 %f3, %f8, 0f38D1B717, %f3;)";
const char* const memory = R"(
  ld.shared.f32 %f9, [%r7]; add.f32 %f10, %f9, %f7; st.shared.f32 [%r7], %f10;
  ld.global.f32 %f11, [%rd3]; fma.rn.f32 %f3, %f11, %f2, %f3;)";
const char* const wide = R"(
  ld.shared.v4.f32 {%f4, %f5, %f6, %f7}, [%r7]; ld.global.v4.f32 {%f8, %f9, %f10, %f11}, [%rd3]; fma.rn.f32 %f4, %f4, %f8, %f3; fma.rn.f32 %f5, %f5, %f9, %f4; fma.rn.f32 %f3, %f6, %f10, %f5;
  st.shared.v4.f32 [%r7], {%f4, %f5, %f6, %f7}; st.global.v4.f32 [%rd3], {%f8, %f9, %f10, %f11};)";
const char* const exchange = R"(
  st.shared.f32 [%r7], %f3; bar.sync 0; sub.u32 %r9, %r7, %r6; xor.b32 %r9, %r9, 2048; add.u32 %r9, %r9, %r6; ld.shared.f32 %f4, [%r9]; shfl.sync.bfly.b32 %r10, %r8, 4, 31, -1; add.s32 %r11, %r10, %r8; add.f32 %f3, %f4, %f2; bar.sync 0;)";
const char* const divergent = R"(
  and.b32 %r9, %r2, 3; setp.eq.u32 %p1, %r9, 1; @%p1 bra ODD; add.f32 %f3, %f3, %f1; mul.f32 %f4, %f3, %f2; bra MEET; ODD: sub.f32 %f3, %f3, %f1; mul.f32 %f4, %f3, %f1; add.f32 %f5, %f4, %f3; MEET: )";
const char* const halves = R"(
  fma.rn.f16x2 %r16, %r14, %r15, %r14; add.f16x2 %r17, %r16, %r15; fma.rn.bf16x2 %r18, %r14, %r15, %r17; max.f16x2 %r19, %r17, %r16; cvt.rn.bf16x2.f32 %r20, %f1, %f2; ex2.approx.f32 %f4, %f2;)";

struct measured { double rate = 0, wall = 0; };

measured measure(const std::string& text, std::uint32_t rounds, bool races, int threads) {
  auto m = tlx::sim::open("sm_90a", {.detect_races = races, .threads = threads});
  constexpr std::size_t bytes = 8 * 256 * 16;
  const auto buffer = m->allocate(bytes);
  m->fill(buffer, 0, bytes);
  const auto code = m->load({.ptx = text, .cubin = {}});
  tlx::device::launch l;
  l.grid = {8, 1, 1};
  l.block = {256, 1, 1};
  l.arguments = {tlx::device::scalar(buffer), tlx::device::scalar(rounds)};
  measured best;
  for (int k = 0; k < 5; ++k) {
    const std::clock_t start = std::clock();
    m->run(*code, "k", l);
    const double used = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    const auto& s = m->last_run();
    best.rate = std::max(best.rate, static_cast<double>(s.lane_instructions) / used);
    best.wall = std::max(best.wall, static_cast<double>(s.lane_instructions) / s.seconds);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint32_t rounds = argc > 1 ? static_cast<std::uint32_t>(std::stoul(argv[1])) : 1000;
  const std::string mix = std::string(arithmetic) + memory;
  const struct { const char* name; std::string body; } rows[] = {{"mix of arithmetic and memory", mix}, {"arithmetic", arithmetic}, {"16-byte loads and stores", wide}, {"exchange through shared memory, barriers, shuffles", exchange},
                                                                   {"divergent branches", divergent}, {"half precision and conversions", halves}};
  std::printf("M lane instructions per second of processor time, best of 5\n%-52s %10s %10s\n", "", "races off", "races on");
  for (const auto& r : rows) std::printf("%-52s %10.0f %10.0f\n", r.name, measure(kernel(r.body), rounds, false, 1).rate * 1e-6, measure(kernel(r.body), rounds, true, 1).rate * 1e-6);
  std::printf("\nM lane instructions per second on the clock, races on, %u processors\n", std::thread::hardware_concurrency());
  for (const int threads : {1, 2, 4}) std::printf("%d thread%s %43s %10.0f\n", threads, threads == 1 ? " " : "s", "", measure(kernel(mix), rounds * 4, true, threads).wall * 1e-6);
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  std::printf("\nlargest resident memory: %ld MiB\n", used.ru_maxrss / 1024);
  return 0;
}
