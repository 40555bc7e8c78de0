#include "bench/device/streaming.hpp"

#include "tlx/support/text.hpp"

namespace tlx::bench {

std::string streaming_shape::name() const { return cat("stream_", block, "x", vectors, keep ? "_keep" : ""); }

std::vector<streaming_shape> streaming_shapes() {
  return {{256, 1, false}, {512, 1, false}, {1024, 1, false}, {256, 2, false}, {512, 2, false}, {256, 4, false}, {512, 1, true}, {512, 2, true}};
}

// Block b works on the vectors [b * threads * vectors, ...): thread t on every threads-th of them from t.
std::string streaming_ptx(const streaming_shape& s) {
  std::string text = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry stream(.param .u64 pq, .param .u64 pk, .param .u64 pv, .param .u64 po, .param .u32 pn)
{
  .reg .b32 %t, %b, %w, %i, %n; .reg .b64 %q, %k, %v, %o, %a, %off<8>, %hint; .reg .pred %in<8>; .reg .b32 %x<128>;
  ld.param.u64 %q, [pq]; ld.param.u64 %k, [pk]; ld.param.u64 %v, [pv]; ld.param.u64 %o, [po]; ld.param.u32 %n, [pn];
  cvta.to.global.u64 %q, %q; cvta.to.global.u64 %k, %k; cvta.to.global.u64 %v, %v; cvta.to.global.u64 %o, %o;
  mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %w, %ntid.x; mul.lo.u32 %b, %b, %w;
)";
  text += cat("  mad.lo.u32 %i, %b, ", s.vectors, ", %t;\n");
  if (s.keep) text += "  createpolicy.fractional.L2::evict_last.b64 %hint, 1.0;\n";
  const auto vector = [](int first) { return cat("{%x", first, ", %x", first + 1, ", %x", first + 2, ", %x", first + 3, "}"); };
  for (int j = 0; j < s.vectors; ++j) {
    text += cat("  setp.lt.u32 %in", j, ", %i, %n; mul.wide.u32 %off", j, ", %i, 16; add.u32 %i, %i, %w;\n");
    int array = 0;
    for (const char* base : {"%q", "%k", "%v"}) {
      text += cat("  add.u64 %a, ", base, ", %off", j, "; @%in", j, " ld.global", s.keep ? ".L2::cache_hint" : "", ".v4.b32 ", vector(16 * j + 4 * array), ", [%a]", s.keep ? ", %hint" : "", ";\n");
      ++array;
    }
  }
  for (int j = 0; j < s.vectors; ++j) {
    for (int e = 0; e < 4; ++e) {
      const int q = 16 * j + e;
      text += cat("  xor.b32 %x", q, ", %x", q, ", %x", q + 4, "; xor.b32 %x", q, ", %x", q, ", %x", q + 8, ";\n");
    }
    text += cat("  add.u64 %a, %o, %off", j, "; @%in", j, " st.global.v4.b32 [%a], ", vector(16 * j), ";\n");
  }
  return text + "  ret;\n}\n";
}

device::launch streaming_launch(const streaming_shape& s, device::address q, device::address k, device::address v, device::address out, std::uint64_t bytes, std::uint64_t stream) {
  const std::uint32_t vectors = static_cast<std::uint32_t>(bytes / 16), each = static_cast<std::uint32_t>(s.block * s.vectors);
  device::launch how;
  how.grid = {(vectors + each - 1) / each, 1, 1};
  how.block = {static_cast<std::uint32_t>(s.block), 1, 1};
  how.arguments = {device::scalar(q), device::scalar(k), device::scalar(v), device::scalar(out), device::scalar(vectors)};
  how.stream = stream;
  return how;
}

}  // namespace tlx::bench
