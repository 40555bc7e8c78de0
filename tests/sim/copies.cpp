// Asynchronous copies and reductions, tensor maps and the rarer memory instructions, each with values by hand.
#include <doctest/doctest.h>

#include <functional>

#include "support.hpp"

using namespace sim_test;

namespace {

/// The usual kernel with a tensor map beside the two pointers: %rd3 is its address.
std::vector<std::uint32_t> with_map(const std::string& body, const std::vector<std::uint32_t>& in, std::size_t out_words, const std::function<tlx::device::tensor_map(std::uint64_t in, std::uint64_t out)>& map, const setup& s = {}, std::uint32_t fill = 0) {
  std::string text = module_text("mov.b64 %rd3, p_map; cvta.param.u64 %rd3, %rd3;\n" + body, s);
  const std::string entry = ".param .u64 p_out)";
  text.replace(text.find(entry), entry.size(), ".param .u64 p_out, .param .align 64 .b8 p_map[128])");
  tlx::sim::options o;
  o.seed = s.seed;
  auto m = tlx::sim::open(s.target, o);
  const auto a = m->allocate(in.size() * 4), b = m->allocate(out_words * 4);
  m->write(a, in.data(), in.size() * 4);
  std::vector<std::uint32_t> out(out_words, fill);
  m->write(b, out.data(), out_words * 4);
  const auto code = m->load({.ptx = text, .cubin = {}});
  tlx::device::launch l;
  l.grid = {s.grid, 1, 1};
  l.block = {s.threads, 1, 1};
  l.cluster = {s.cluster, 1, 1};
  l.arguments = {tlx::device::scalar<std::uint64_t>(a), tlx::device::scalar<std::uint64_t>(b), map(a, b)};
  m->run(*code, "k", l);
  m->read(out.data(), b, out_words * 4);
  return out;
}
/// rows x columns of 32-bit words.
tlx::device::tensor_map words_map(std::uint64_t base, std::uint64_t columns, std::uint64_t rows, std::uint32_t box_columns, std::uint32_t box_rows) {
  tlx::device::tensor_map m;
  m.base = base;
  m.element = tlx::device::map_element::u32;
  m.rank = 2;
  m.extents = {columns, rows, 1, 1, 1};
  m.strides_bytes = {columns * 4, 0, 0, 0};
  m.box = {box_columns, box_rows, 1, 1, 1};
  return m;
}
std::vector<std::uint32_t> counting(std::uint32_t n) {
  std::vector<std::uint32_t> v(n);
  for (std::uint32_t k = 0; k < n; ++k) v[k] = k;
  return v;
}
const std::string one_barrier = ".shared .align 128 .b8 x[1024]; .shared .align 8 .b64 bar; mov.u32 %r2, x; mov.u32 %r3, bar; setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [bar], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0;\n";
const std::string wait_for_it = " W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra W;\n";
const std::string words_out = " mad.lo.u32 %r4, %r0, 4, %r2; ld.shared.u32 %r5, [%r4]; mul.wide.u32 %rd4, %r0, 4; add.s64 %rd5, %rd2, %rd4; st.global.u32 [%rd5], %r5;";

}  // namespace

TEST_CASE("gather4 loads four rows by their numbers and scatter4 writes them, rows outside are zeros or nothing") {
  setup s{.target = "sm_100a"};
  for (s.seed = 0; s.seed < 3; ++s.seed) {
    // 8 columns of 10 rows; columns 4..7 of rows 7, 0, 12 (outside) and 3.
    const auto in = counting(80);
    const auto rows = [](std::uint64_t a, std::uint64_t) { return words_map(a, 8, 10, 4, 1); };
    const auto out = with_map(one_barrier + "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 64; mov.u32 %r6, 4; mov.u32 %r7, 7; mov.u32 %r8, 0; mov.u32 %r9, 12; mov.u32 %r10, 3; @%p1 cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes [%r2], [%rd3, {%r6, %r7, %r8, %r9, %r10}], [%r3];" + wait_for_it + "setp.lt.u32 %p3, %r0, 16; @!%p3 ret;" + words_out, in, 16, rows, s);
    const std::uint32_t expected[] = {60, 61, 62, 63, 4, 5, 6, 7, 0, 0, 0, 0, 28, 29, 30, 31};
    for (std::size_t k = 0; k < 16; ++k) CHECK(out[k] == expected[k]);
    const auto scattered = with_map(one_barrier + "mad.lo.u32 %r4, %r0, 4, %r2; setp.lt.u32 %p3, %r0, 16; add.u32 %r5, %r0, 500; @%p3 st.shared.u32 [%r4], %r5; fence.proxy.async.shared::cta; bar.sync 0; mov.u32 %r6, 4; mov.u32 %r7, 7; mov.u32 %r8, 0; mov.u32 %r9, 12; mov.u32 %r10, 3; @%p1 cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group [%rd3, {%r6, %r7, %r8, %r9, %r10}], [%r2]; @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;", {0}, 80,
                                    [](std::uint64_t, std::uint64_t b) { return words_map(b, 8, 10, 4, 1); }, s, 9);
    for (std::uint32_t r = 0; r < 10; ++r)
      for (std::uint32_t c = 0; c < 8; ++c) CHECK(scattered[r * 8 + c] == (c < 4 ? 9U : r == 7 ? 496 + c : r == 0 ? 500 + c : r == 3 ? 508 + c : 9U));
  }
}

TEST_CASE("tensor and bulk reductions combine element by element, whatever lies outside is left alone") {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    const setup s{.seed = seed};
    // Two CTAs would do the same; here one adds twice. 4 columns of 3 rows, a box of 4 x 4 from row 1: its last rows are outside.
    const std::string fill = one_barrier + "mad.lo.u32 %r4, %r0, 4, %r2; add.u32 %r5, %r0, 1; st.shared.u32 [%r4], %r5; fence.proxy.async.shared::cta; bar.sync 0; mov.u32 %r6, 0; mov.u32 %r7, 1;";
    const std::string finish = " @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;";
    const auto map = [](std::uint64_t, std::uint64_t b) { return words_map(b, 4, 3, 4, 4); };
    const auto tensor = [&](const std::string& op) { return with_map(fill + "@%p1 cp.reduce.async.bulk.tensor.2d.global.shared::cta." + op + ".tile.bulk_group [%rd3, {%r6, %r7}], [%r2]; @%p1 cp.reduce.async.bulk.tensor.2d.global.shared::cta." + op + ".tile.bulk_group [%rd3, {%r6, %r7}], [%r2];" + finish, {0}, 12, map, s, 6); };
    const auto add = tensor("add"), low = tensor("min"), high = tensor("max"), both = tensor("and"), either = tensor("or"), differ = tensor("xor"), up = tensor("inc"), down = tensor("dec");
    for (std::uint32_t k = 0; k < 12; ++k) {
      const bool in = k >= 4;
      const std::uint32_t v = k - 3;
      CHECK(add[k] == (in ? 6 + 2 * v : 6));
      CHECK(low[k] == (in ? std::min(6U, v) : 6));
      CHECK(high[k] == (in ? std::max(6U, v) : 6));
      CHECK(both[k] == (in ? 6 & v : 6));
      CHECK(either[k] == (in ? 6 | v : 6));
      CHECK(differ[k] == 6);
      const auto inc = [](std::uint32_t x, std::uint32_t b) { return x >= b ? 0 : x + 1; };
      const auto dec = [](std::uint32_t x, std::uint32_t b) { return x == 0 || x > b ? b : x - 1; };
      CHECK(up[k] == (in ? inc(inc(6, v), v) : 6));
      CHECK(down[k] == (in ? dec(dec(6, v), v) : 6));
    }
    // 1-D: f32 keeps subnormals, 64-bit unsigned carries, bf16 needs .noftz.
    const auto bulk = [&](const std::string& op, const std::string& value, std::uint32_t first) {
      setup t = s;
      t.out_words = 4;
      std::string text = one_barrier + value + " fence.proxy.async.shared::cta; bar.sync 0; @%p1 st.global.v4.u32 [%rd2], {%r10, %r11, %r10, %r11}; fence.proxy.async.global; @%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group." + op + " [%rd2], [%r2], 16;" + finish;
      return run("mov.u32 %r10, " + std::to_string(first) + "; mov.u32 %r11, 1;" + text, {0}, t);
    };
    auto out = bulk("add.f32", "mov.f32 %f1, 0f3F800000; mov.b32 %f2, 1; @%p1 st.shared.v4.f32 [x], {%f1, %f2, %f1, %f1};", bits(2.0F));
    CHECK(real(out[0]) == 3.0F);
    CHECK(out[1] == 2);  // 2^-149 + 2^-149: an H200 keeps them
    CHECK(real(out[3]) == 1.0F);
    out = bulk("add.u64", "mov.u64 %rd6, 0xFFFFFFFF; @%p1 st.shared.v2.u64 [x], {%rd6, %rd6};", 5);
    CHECK(out[0] == 4);
    CHECK(out[1] == 2);
    out = bulk("add.noftz.bf16", "mov.u32 %r12, 0x3F803F80; @%p1 st.shared.v4.u32 [x], {%r12, %r12, %r12, %r12};", 0x40003F80);
    CHECK(out[0] == 0x40404000);
    CHECK(out[1] == 0x3F803F80);  // 1 + 2^-133
    out = bulk("max.s64", "mov.u64 %rd6, -7; @%p1 st.shared.v2.u64 [x], {%rd6, %rd6};", 5);
    CHECK(out[0] == 5);
  }
}

TEST_CASE("red.async and shared-to-cluster copies act in the peer and complete there") {
  setup s;
  s.grid = s.cluster = 2;
  s.out_words = 16;
  const auto exchange = [&](const std::string& act, int bytes) {
    return ".shared .align 16 .b8 x[64]; .shared .align 16 .b8 y[64]; .shared .align 8 .b64 b; mov.u32 %r1, %cluster_ctarank; setp.eq.u32 %p1, %r0, 0; xor.b32 %r5, %r1, 1; mov.u32 %r2, x; mov.u32 %r3, b; mov.u32 %r20, y; mapa.shared::cluster.u32 %r6, %r2, %r5; mapa.shared::cluster.u32 %r7, %r3, %r5; add.u32 %r8, %r1, 40; mov.u64 %rd8, 0x100000005;"
           "@%p1 st.shared.v4.u32 [x], {%r8, %r8, %r8, %r8}; @%p1 st.shared.v4.u32 [y], {%r1, %r8, %r1, %r8}; fence.proxy.async.shared::cta; @%p1 mbarrier.init.shared.b64 [b], 1; @%p1 fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [b], " + std::to_string(bytes) + ";" + act +
           " W: mbarrier.try_wait.parity.acquire.cluster.shared.b64 %p4, [b], 0; @!%p4 bra W; ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [x]; mul.wide.u32 %rd3, %r1, 16; add.s64 %rd3, %rd2, %rd3; @%p1 st.global.v4.u32 [%rd3], {%r10, %r11, %r12, %r13}; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
  };
  const std::string red = "@%p1 red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.";
  for (s.seed = 0; s.seed < 4; ++s.seed) {
    auto out = run(exchange(red + "add.u32 [%r6], %r8, [%r7]; " + red + "min.s32 [%r6+4], -3, [%r7]; " + red + "xor.b32 [%r6+8], 15, [%r7]; " + red + "inc.u32 [%r6+12], 40, [%r7];", 16), {0}, s);
    CHECK(out[0] == 40 + 41);
    CHECK(out[4] == 41 + 40);
    CHECK(out[1] == static_cast<std::uint32_t>(-3));
    CHECK(out[2] == (40 ^ 15));
    CHECK(out[3] == 0);   // 40 >= 40
    CHECK(out[7] == 0);   // 41 > 40
    out = run(exchange(red + "add.u64 [%r6], %rd8, [%r7];", 8), {0}, s);
    CHECK(out[0] == 45);
    CHECK(out[1] == 41);
    out = run(exchange("@%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r6], [%r20], 16, [%r7];", 16), {0}, s);
    CHECK(out[0] == 1);
    CHECK(out[1] == 41);
    CHECK(out[4] == 0);
    CHECK(out[5] == 40);
    out = run(exchange("@%p1 cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add.u32 [%r6], [%r20], 16, [%r7];", 16), {0}, s);
    CHECK(out[0] == 40 + 1);
    CHECK(out[5] == 41 + 40);
  }
}

TEST_CASE("a tensor map made by the kernel from zeros serves a copy, after its fences") {
  const std::string build = R"(.shared .align 128 .b8 map[128]; setp.lt.u32 %p5, %r0, 32; mad.lo.u32 %r20, %r0, 4, 0; mov.u32 %r21, map; add.u32 %r20, %r20, %r21; mov.u32 %r22, 0; st.shared.u32 [%r20], %r22; bar.sync 0;
    @%p1 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r21], %rd1; @%p1 tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r21], 1; @%p1 tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r21], 0, 4; @%p1 tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r21], 1, 2;
    @%p1 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r21], 0, 8; @%p1 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r21], 1, 4; mov.u64 %rd10, 32; @%p1 tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r21], 0, %rd10; @%p1 tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r21], 0, 1; @%p1 tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r21], 1, 1;
    @%p1 tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r21], 2; @%p1 tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%r21], 0; @%p1 tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%r21], 0; @%p1 tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%r21], 0; bar.sync 0;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd2+128], [%r21], 128; bar.sync 0; add.s64 %rd11, %rd2, 128; fence.proxy.tensormap::generic.acquire.gpu [%rd11], 128;)";
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    setup s{.seed = seed, .out_words = 64};
    s.threads = 32;
    const auto out = run(one_barrier + build + "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [bar], 32; mov.u32 %r6, 4; mov.u32 %r7, 2; @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r2], [%rd11, {%r6, %r7}], [%r3];" + wait_for_it + "setp.lt.u32 %p3, %r0, 8; @!%p3 ret;" + words_out, counting(32), s);
    const std::uint32_t expected[] = {20, 21, 22, 23, 28, 29, 30, 31};
    for (std::size_t k = 0; k < 8; ++k) CHECK(out[k] == expected[k]);
  }
}

TEST_CASE("bulk stores by byte mask, st.bulk, and vector, half and 128-bit atomics") {
  const setup b{.target = "sm_100a", .out_words = 8};
  auto out = run(one_barrier + "mov.u32 %r10, 0x44332211; @%p1 st.shared.v4.u32 [x], {%r10, %r10, %r10, %r10}; fence.proxy.async.shared::cta; bar.sync 0; mov.u16 %rs1, 0x8421; @%p1 cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd2], [%r2], 16, %rs1; @%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;", {0}, b);
  CHECK(out[0] == 0xEEEEEE11);
  CHECK(out[1] == 0xEEEE22EE);
  CHECK(out[2] == 0xEE33EEEE);
  CHECK(out[3] == 0x44EEEEEE);
  out = run(".shared .align 16 .b8 y[64]; mov.u32 %r1, y; cvt.u64.u32 %rd6, %r1; mov.u64 %rd7, 16; mov.u32 %r2, 7; st.shared.v4.u32 [y], {%r2, %r2, %r2, %r2}; st.bulk.weak.shared::cta [%rd6], %rd7, 0; ld.shared.u32 %r3, [y+12]; st.global.u32 [%rd2], %r3;", {0}, b);
  CHECK(out[0] == 0);
  // One thread; the old values go behind the new ones.
  const setup one{.threads = 1, .out_words = 16};
  out = run("mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000; st.global.v4.f32 [%rd2], {%f1, %f2, %f1, %f2}; atom.global.v4.f32.add {%f5, %f6, %f7, %f8}, [%rd2], {%f2, %f2, %f1, %f1}; st.global.v4.f32 [%rd2+32], {%f5, %f6, %f7, %f8}; red.global.add.v2.f32 [%rd2], {%f1, %f1};", {0}, one);
  const float sums[] = {4, 5, 2, 3};
  for (std::size_t k = 0; k < 4; ++k) CHECK(real(out[k]) == sums[k]);
  CHECK(real(out[9]) == 2.0F);
  out = run("mov.b32 %r1, 0x3C004000; st.global.u32 [%rd2], %r1; st.global.u32 [%rd2+4], %r1; mov.b32 %r2, 0x3F803F80; st.global.u32 [%rd2+8], %r2; mov.b32 %r5, 0x3C00; cvt.u16.u32 %rs1, %r5; atom.global.add.noftz.f16x2 %r3, [%rd2], %r1; atom.global.add.noftz.f16 %rs2, [%rd2+4], %rs1; atom.global.add.noftz.bf16x2 %r4, [%rd2+8], %r2; st.global.u32 [%rd2+16], %r3;", {0}, one);
  CHECK(out[0] == 0x40004400);
  CHECK(out[1] == 0x3C004200);
  CHECK(out[2] == 0x40004000);
  CHECK(out[4] == 0x3C004000);
  out = run("mov.u64 %rd6, 5; mov.u64 %rd7, 6; mov.b128 %rq1, {%rd6, %rd7}; mov.b128 %rq2, {%rd7, %rd6}; st.global.v2.u64 [%rd2], {%rd6, %rd7}; atom.global.cas.b128 %rq3, [%rd2], %rq1, %rq2; atom.global.exch.b128 %rq3, [%rd2], %rq1; mov.b128 {%rd8, %rd9}, %rq3; st.global.v2.u64 [%rd2+16], {%rd8, %rd9};", {0}, one);
  CHECK(out[0] == 5);
  CHECK(out[4] == 6);
  CHECK(out[6] == 5);
  // The largest of floats over the warp, NaN skipped unless asked for.
  const auto nan_at_3 = [](const std::string& op) { return per_lane("cvt.rn.f32.u32 %f2, %r1; neg.f32 %f2, %f2; setp.eq.u32 %p1, %r1, 3; mov.b32 %f3, 0x7FC00000; selp.f32 %f2, %f3, %f2, %p1; redux.sync." + op + ".f32 %f4, %f2, -1; mov.b32 %r9, %f4;", counting(32), {.target = "sm_100a"}); };
  CHECK(real(nan_at_3("min")[5]) == -31.0F);
  CHECK(real(nan_at_3("max.abs")[5]) == 31.0F);
  CHECK(nan_at_3("max.NaN")[5] == 0x7FFFFFFF);
}

TEST_CASE("register counts move between warpgroups of one CTA, and what does not fit waits") {
  setup s{.threads = 256, .out_words = 2};
  const auto kernel_of = [&](const std::string& first, const std::string& second) {
    std::string text = module_text("shr.u32 %r1, %r0, 7; setp.eq.u32 %p1, %r1, 0; @%p1 bra A; setmaxnreg." + second + "; bra E; A: setmaxnreg." + first + "; E: and.b32 %r2, %r0, 127; setp.eq.u32 %p2, %r2, 0; mul.wide.u32 %rd3, %r1, 4; add.s64 %rd3, %rd2, %rd3; @%p2 st.global.u32 [%rd3], %r1;", s);
    text.replace(text.find(")\n{"), 3, ") .maxntid 256 .minnctapersm 1 .maxnreg 128\n{");
    return text;
  };
  CHECK(run_module(kernel_of("dec.sync.aligned.u32 40", "inc.sync.aligned.u32 208"), {0}, s)[1] == 1);
  CHECK(id_of([&] { run_module(kernel_of("inc.sync.aligned.u32 240", "inc.sync.aligned.u32 240"), {0}, s); }) == "deadlock");
  CHECK(id_of([&] { run_module(kernel_of("dec.sync.aligned.u32 200", "inc.sync.aligned.u32 208"), {0}, s); }) != "");
}
