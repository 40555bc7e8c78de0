// Clusters: ranks, shared memory of peers, multicast copies, asynchronous stores and reductions, remote barriers.
#include <cstring>

#include "tests/compare/text.hpp"
#include "tests/compare/values.hpp"

namespace tlx::compare {

namespace {

constexpr int threads = 128;
const char* const sync = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n";
// %l9: this thread's word of the output; %r2: rank; %r3: CTAs of the cluster; %r4: CTA of the grid in order; %r5: thread of the grid.
const char* const begin = R"(
  mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, %cluster_nctarank; mov.u32 %r40, %ctaid.y; mov.u32 %r41, %nctaid.x; mad.lo.u32 %r4, %r40, %r41, %r1; mad.lo.u32 %r5, %r4, 128, %r0;
  ld.param.u64 %l8, [p_in]; ld.param.u64 %l9, [p_out]; mul.wide.u32 %l7, %r5, 4; add.u64 %l8, %l8, %l7; add.u64 %l9, %l9, %l7; ld.global.u32 %r6, [%l8];
  mul.lo.u32 %r7, %r0, 4;
)";

struct dimensions { unsigned x, y, clusters; };

sample one(const std::string& name, dimensions d, const std::string& body, std::uint64_t seed, const std::function<std::uint32_t(const std::vector<std::uint32_t>& in, unsigned first, unsigned rank, unsigned size, unsigned thread)>& plain = {}) {
  generator g(seed);
  sample s;
  s.name = cat(name, ", clusters of ", d.x, "x", d.y);
  s.from = quota::clusters;
  const unsigned size = d.x * d.y, ctas = size * d.clusters;
  s.grid = {d.x * d.clusters, d.y, 1};
  s.cluster = {d.x, d.y, 1};
  s.block = {threads, 1, 1};
  s.ptx = ptx_kernel(".param .u64 p_in, .param .u64 p_out", begin + body + "\nst.global.u32 [%l9], %r9;");
  const bytes in = draw_many(g, element::u32, ctas * threads, draw::bits);
  s.memories = {{"in", in, false, element::u32}, {"out", unwritten(in.size()), true, element::u32}};
  s.arguments = {place{0, 0}, place{1, 0}};
  if (plain && d.y == 1) {
    std::vector<std::uint32_t> words(in.size() / 4), expected;
    std::memcpy(words.data(), in.data(), in.size());
    for (unsigned cta = 0; cta < ctas; ++cta)
      for (unsigned t = 0; t < threads; ++t) expected.push_back(plain(words, cta / size * size * threads, cta % size, size, t));
    s.expected = {{.memory = 1, .exact = bytes_of(expected)}};
  }
  return s;
}

sample multicast(dimensions d, std::uint64_t seed) {
  generator g(seed);
  const unsigned size = d.x * d.y, ctas = size * d.clusters, slice = 4096 / size;
  sample s;
  s.name = cat("multicast of ", size, " slices, clusters of ", d.x, "x", d.y);
  s.from = quota::clusters;
  s.grid = {d.x * d.clusters, d.y, 1};
  s.cluster = {d.x, d.y, 1};
  s.block = {threads, 1, 1};
  device::tensor_map map{.element = device::map_element::u8, .rank = 2};
  map.extents = {64, 64ULL * d.clusters, 1, 1, 1};
  map.strides_bytes[0] = 64;
  map.box = {64, slice / 64, 1, 1, 1};
  const std::string body = cat(R"(.shared .align 1024 .b8 data[4096]; .shared .align 8 .b64 bar;
    mov.u32 %r2, %cluster_ctarank; mov.u32 %r3, %clusterid.x; mov.u32 %r40, %ctaid.y; mov.u32 %r41, %nctaid.x; mad.lo.u32 %r4, %r40, %r41, %r1;
    setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared::cta.b64 [bar], 1; @%p0 fence.mbarrier_init.release.cluster; @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 4096;
  )", sync, "mov.u64 %l1, map; cvta.param.u64 %l1, %l1; mul.lo.u32 %r5, %r2, ", slice / 64, "; mul.lo.u32 %r6, %r3, 64; add.u32 %r6, %r6, %r5; mul.lo.u32 %r7, %r2, ", slice, "; mov.u32 %r8, data; add.u32 %r8, %r8, %r7; mov.u16 %h1, ", (1U << size) - 1, ";\n",
      "@%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster [%r8], [%l1, {0, %r6}], [bar], %h1;\n", wait_for("bar", "0", "W"), R"(
    mov.u32 %r8, data; mul.lo.u32 %r7, %r0, 32; add.u32 %r8, %r8, %r7; ld.param.u64 %l2, [p_out]; mad.lo.u32 %r9, %r4, 4096, %r7; cvt.u64.u32 %l3, %r9; add.u64 %l2, %l2, %l3;
    ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r8]; ld.shared.v4.u32 {%r14, %r15, %r16, %r17}, [%r8+16]; st.global.v4.u32 [%l2], {%r10, %r11, %r12, %r13}; st.global.v4.u32 [%l2+16], {%r14, %r15, %r16, %r17};
  )", sync);
  s.ptx = ptx_kernel(".param .align 64 .b8 map[128], .param .u64 p_out", body);
  const bytes in = draw_many(g, element::u8, 4096 * d.clusters, draw::bits);
  s.memories = {{"tensor", in, false, element::u8}, {"out", unwritten(4096UL * ctas), true, element::u8}};
  s.arguments = {mapped{{0, 0}, map}, place{1, 0}};
  if (d.y == 1) {
    bytes expected;
    for (unsigned cta = 0; cta < ctas; ++cta) expected.insert(expected.end(), in.begin() + cta / size * 4096, in.begin() + (cta / size + 1) * 4096);
    s.expected = {{.memory = 1, .exact = expected}};
  }
  return s;
}

}  // namespace

void add_clusters(std::vector<entry>& to) {
  std::uint64_t seed = 30000;
  const auto put = [&](const std::string& name, dimensions d, auto make) {
    ++seed;
    to.push_back({cat(name, " ", d.x, "x", d.y), quota::clusters, [=, seed = seed] { return make(d, seed); }});
  };
  const std::vector<dimensions> all = {{2, 1, 3}, {4, 1, 2}, {8, 1, 1}, {2, 2, 2}};
  for (const dimensions& d : all) {
    put("cluster registers", d, [](dimensions at, std::uint64_t n) {
      return one("cluster registers", at, R"(
        mov.u32 %r10, %cluster_ctaid.x; mov.u32 %r11, %cluster_ctaid.y; mov.u32 %r12, %clusterid.x; mov.u32 %r13, %clusterid.y; mov.u32 %r14, %nclusterid.x; mov.u32 %r15, %cluster_nctaid.x; mov.u32 %r16, %cluster_nctaid.y;
        mad.lo.u32 %r9, %r10, 16, %r11; mad.lo.u32 %r9, %r9, 16, %r12; mad.lo.u32 %r9, %r9, 16, %r13; mad.lo.u32 %r9, %r9, 16, %r14; mad.lo.u32 %r9, %r9, 16, %r15; mad.lo.u32 %r9, %r9, 16, %r16; mad.lo.u32 %r9, %r9, 16, %r2;
        mov.pred %p1, %is_explicit_cluster; selp.u32 %r17, 1, 0, %p1; add.u32 %r9, %r9, %r17;
      )", n);
    });
    put("peer reads", d, [](dimensions at, std::uint64_t n) {
      return one("peer reads", at, cat(".shared .align 16 .b8 data[512];\n mov.u32 %r10, data; add.u32 %r10, %r10, %r7; st.shared.u32 [%r10], %r6;\n", sync,
                                       "add.u32 %r11, %r2, 1; rem.u32 %r11, %r11, %r3; mapa.shared::cluster.u32 %r12, %r10, %r11; ld.shared::cluster.u32 %r9, [%r12]; getctarank.shared::cluster.u32 %r13, %r12; add.u32 %r9, %r9, %r13;\n", sync),
                 n, [](const std::vector<std::uint32_t>& in, unsigned first, unsigned rank, unsigned size, unsigned t) { return in[first + (rank + 1) % size * threads + t] + (rank + 1) % size; });
    });
    put("peer writes", d, [](dimensions at, std::uint64_t n) {
      return one("peer writes", at, cat(".shared .align 16 .b8 data[512];\n mov.u32 %r10, data; add.u32 %r10, %r10, %r7; add.u32 %r11, %r2, 1; rem.u32 %r11, %r11, %r3; mapa.shared::cluster.u32 %r12, %r10, %r11;\n", sync, "st.shared::cluster.u32 [%r12], %r6;\n", sync, "ld.shared.u32 %r9, [%r10];\n"),
                 n, [](const std::vector<std::uint32_t>& in, unsigned first, unsigned rank, unsigned size, unsigned t) { return in[first + (rank + size - 1) % size * threads + t]; });
    });
    put("peer atomics", d, [](dimensions at, std::uint64_t n) {
      return one("peer atomics", at, cat(".shared .align 16 .b8 data[512];\n mov.u32 %r10, data; add.u32 %r10, %r10, %r7; st.shared.u32 [%r10], 5;\n", sync, "mov.u32 %r11, 0; mapa.shared::cluster.u32 %r12, %r10, %r11; red.relaxed.cluster.shared::cluster.add.u32 [%r12], %r6;\n", sync, "ld.shared.u32 %r9, [%r10];\n"),
                 n, [](const std::vector<std::uint32_t>& in, unsigned first, unsigned rank, unsigned size, unsigned t) {
                   std::uint32_t sum = 5;
                   for (unsigned c = 0; c < size && rank == 0; ++c) sum += in[first + c * threads + t];
                   return sum;
                 });
    });
    put("asynchronous stores", d, [](dimensions at, std::uint64_t n) {
      return one("asynchronous stores", at, cat(R"(.shared .align 16 .b8 data[512]; .shared .align 8 .b64 bar;
        mov.u32 %r10, data; add.u32 %r10, %r10, %r7; mov.u32 %r20, bar; setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared::cta.b64 [bar], 1; @%p0 fence.mbarrier_init.release.cluster; @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
        )", sync, "add.u32 %r11, %r2, 1; rem.u32 %r11, %r11, %r3; mapa.shared::cluster.u32 %r12, %r10, %r11; mapa.shared::cluster.u32 %r21, %r20, %r11; st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%r12], %r6, [%r21];\n", wait_for("bar", "0", "W"), "ld.shared.u32 %r9, [%r10];\n", sync),
                 n, [](const std::vector<std::uint32_t>& in, unsigned first, unsigned rank, unsigned size, unsigned t) { return in[first + (rank + size - 1) % size * threads + t]; });
    });
    put("asynchronous reductions", d, [](dimensions at, std::uint64_t n) {
      return one("asynchronous reductions", at, cat(R"(.shared .align 16 .b8 data[512]; .shared .align 8 .b64 bar;
        mov.u32 %r10, data; add.u32 %r10, %r10, %r7; st.shared.u32 [%r10], 9; mov.u32 %r20, bar; setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared::cta.b64 [bar], 1; @%p0 fence.mbarrier_init.release.cluster; @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
        )", sync, "add.u32 %r11, %r2, 1; rem.u32 %r11, %r11, %r3; mapa.shared::cluster.u32 %r12, %r10, %r11; mapa.shared::cluster.u32 %r21, %r20, %r11; red.async.relaxed.cluster.mbarrier::complete_tx::bytes.shared::cluster.add.u32 [%r12], %r6, [%r21];\n", wait_for("bar", "0", "W"), "ld.shared.u32 %r9, [%r10];\n", sync),
                 n, [](const std::vector<std::uint32_t>& in, unsigned first, unsigned rank, unsigned size, unsigned t) { return 9 + in[first + (rank + size - 1) % size * threads + t]; });
    });
    put("bulk copies to peers", d, [](dimensions at, std::uint64_t n) {
      return one("bulk copies to peers", at, cat(R"(.shared .align 128 .b8 data[512]; .shared .align 128 .b8 other[512]; .shared .align 8 .b64 bar;
        mov.u32 %r10, data; mov.u32 %r22, other; add.u32 %r13, %r10, %r7; st.shared.u32 [%r13], %r6; fence.proxy.async.shared::cta; mov.u32 %r20, bar; setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared::cta.b64 [bar], 1; @%p0 fence.mbarrier_init.release.cluster; @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], 512;
        )", sync, "add.u32 %r11, %r2, 1; rem.u32 %r11, %r11, %r3; mapa.shared::cluster.u32 %r12, %r22, %r11; mapa.shared::cluster.u32 %r21, %r20, %r11; @%p0 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r12], [%r10], 512, [%r21];\n", wait_for("bar", "0", "W"),
                                                 "add.u32 %r13, %r22, %r7; ld.shared.u32 %r9, [%r13];\n", sync),
                 n, [](const std::vector<std::uint32_t>& in, unsigned first, unsigned rank, unsigned size, unsigned t) { return in[first + (rank + size - 1) % size * threads + t]; });
    });
    put("remote arrivals", d, [](dimensions at, std::uint64_t n) {
      return one("remote arrivals", at, cat(R"(.shared .align 16 .b8 data[512]; .shared .align 8 .b64 bar;
        mov.u32 %r10, data; add.u32 %r10, %r10, %r7; mov.u32 %r20, bar; setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared::cta.b64 [bar], 128; @%p0 fence.mbarrier_init.release.cluster;
        )", sync, "add.u32 %r11, %r2, 1; rem.u32 %r11, %r11, %r3; mapa.shared::cluster.u32 %r12, %r10, %r11; mapa.shared::cluster.u32 %r21, %r20, %r11; st.shared::cluster.u32 [%r12], %r6; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r21];\n",
                                            "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p15, [bar], 0; @!%p15 bra W;\nld.shared.u32 %r9, [%r10];\n", sync),
                 n, [](const std::vector<std::uint32_t>& in, unsigned first, unsigned rank, unsigned size, unsigned t) { return in[first + (rank + size - 1) % size * threads + t]; });
    });
    put("multicast", d, [](dimensions at, std::uint64_t n) { return multicast(at, n); });
  }
}

}  // namespace tlx::compare
