#include "bench/device/streaming.hpp"

#include "tlx/support/text.hpp"

namespace tlx::bench {

std::string streaming_shape::name() const { return cat("stream_", block, "x", vectors, keep ? "_keep" : ""); }

std::vector<streaming_shape> streaming_shapes(int reads, int writes) {
  std::vector<streaming_shape> all = {{256, 1, false}, {512, 1, false}, {1024, 1, false}, {256, 2, false}, {512, 2, false}, {256, 4, false}, {512, 1, true}, {512, 2, true}};
  for (streaming_shape& s : all) {
    s.reads = reads;
    s.writes = writes;
  }
  return all;
}

// Block b works on the vectors [b * threads * vectors, ...): thread t on every threads-th of them from t.
std::string streaming_ptx(const streaming_shape& s) {
  const int arrays = s.reads + s.writes;
  std::string text = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry stream(";
  for (int i = 0; i < arrays; ++i) text += cat(".param .u64 p", i, ", ");
  text += R"(.param .u32 pn)
{
  .reg .b32 %t, %b, %w, %i, %n; .reg .b64 %p<16>, %a, %off<8>, %hint; .reg .pred %in<8>; .reg .b32 %x<256>;
)";
  for (int i = 0; i < arrays; ++i) text += cat("  ld.param.u64 %p", i, ", [p", i, "]; cvta.to.global.u64 %p", i, ", %p", i, ";\n");
  text += "  ld.param.u32 %n, [pn];\n  mov.u32 %t, %tid.x; mov.u32 %b, %ctaid.x; mov.u32 %w, %ntid.x; mul.lo.u32 %b, %b, %w;\n";
  text += cat("  mad.lo.u32 %i, %b, ", s.vectors, ", %t;\n");
  if (s.keep) text += "  createpolicy.fractional.L2::evict_last.b64 %hint, 1.0;\n";
  const auto vector = [](int first) { return cat("{%x", first, ", %x", first + 1, ", %x", first + 2, ", %x", first + 3, "}"); };
  const int registers = 4 * s.reads;
  for (int j = 0; j < s.vectors; ++j) {
    text += cat("  setp.lt.u32 %in", j, ", %i, %n; mul.wide.u32 %off", j, ", %i, 16; add.u32 %i, %i, %w;\n");
    for (int r = 0; r < s.reads; ++r)
      text += cat("  add.u64 %a, %p", r, ", %off", j, "; @%in", j, " ld.global", s.keep ? ".L2::cache_hint" : "", ".v4.b32 ", vector(registers * j + 4 * r), ", [%a]", s.keep ? ", %hint" : "", ";\n");
  }
  for (int j = 0; j < s.vectors; ++j) {
    const int first = registers * j;
    for (int r = 1; r < s.reads; ++r)
      for (int e = 0; e < 4; ++e) text += cat("  xor.b32 %x", first + e, ", %x", first + e, ", %x", first + 4 * r + e, ";\n");
    for (int w = 0; w < s.writes; ++w) {
      if (w)
        for (int e = 0; e < 4; ++e) text += cat("  shf.l.wrap.b32 %x", first + e, ", %x", first + e, ", %x", first + e, ", 1;\n");
      text += cat("  add.u64 %a, %p", s.reads + w, ", %off", j, "; @%in", j, " st.global.v4.b32 [%a], ", vector(first), ";\n");
    }
  }
  return text + "  ret;\n}\n";
}

device::launch streaming_launch(const streaming_shape& s, const std::vector<device::address>& arrays, std::uint64_t bytes, std::uint64_t stream) {
  const std::uint32_t vectors = static_cast<std::uint32_t>(bytes / 16), each = static_cast<std::uint32_t>(s.block * s.vectors);
  device::launch how;
  how.grid = {(vectors + each - 1) / each, 1, 1};
  how.block = {static_cast<std::uint32_t>(s.block), 1, 1};
  for (const device::address a : arrays) how.arguments.push_back(device::scalar(a));
  how.arguments.push_back(device::scalar(vectors));
  how.stream = stream;
  return how;
}

}  // namespace tlx::bench
