// Lowered kernels in text, for tests of the protocol check.
#pragma once
#include <memory>
#include <string>

#include "tlx/check/protocol.hpp"
#include "tlx/ir/text.hpp"
#include "tlx/support/text.hpp"

namespace tlx::test {

struct shape {
  std::string target = "sm_90a";
  int warps = 2, cluster = 1, shared_bytes = 65536, blocks = 1;
};

/// A kernel of (a : view<bf16 2>) with a map of 64 x 64 boxes (8192 bytes), a ring "ab" of three slots at 0, its full barriers at 32768, its empty
/// ones at 32800, and the scalars %zero %one %first (warp 0) %second (warp 1) %bar (full[0]) %slot (slot 0).
inline std::string kernel_text(const std::string& body, const shape& s = {}) {
  return cat("tlx.ir 1\nkernel @k target(\"", s.target, "\") warps(", s.warps, ") cluster(", s.cluster, ", 1, 1) blocks(", s.blocks, ") shared(", s.shared_bytes,
             ") grid(\"1\", \"1\", \"1\") @\"k.cpp\":1 [\n",
             "  map {parameter = 0, box = [64, 64], swizzle = 128, promotion = 256}\n"
             "  place {ring = \"ab\", part = \"full\", offset = 32768, bytes = 8, stages = 3} @\"k.cpp\":2\n"
             "  place {ring = \"ab\", part = \"empty\", offset = 32800, bytes = 8, stages = 3} @\"k.cpp\":2\n"
             "  place {ring = \"ab\", part = \"slots\", offset = 0, bytes = 8192, stages = 3} @\"k.cpp\":2\n"
             "  (%a.0 : view<bf16 2>)\n"
             "  %zero.1 = const {value = 0} : s32\n  %one.2 = const {value = 1} : s32\n  %warp.3 = warp_id : s32\n"
             "  %first.4 = cmp %warp.3, %zero.1 {is = \"eq\"} : bool\n  %second.5 = cmp %warp.3, %one.2 {is = \"eq\"} : bool\n"
             "  %bar.6 = shared.base {offset = 32768} : u32\n  %slot.7 = shared.base {offset = 0} : u32\n",
             body, "]\n");
}

inline check::verdict check_text(const std::string& body, const shape& s = {}) { return check::check_protocol(*ir::parse(kernel_text(body, s))); }

/// The id of the first finding; empty: none.
inline std::string id_of(const check::verdict& v) { return v.findings.empty() ? "" : v.findings[0].id; }
inline std::string id_of(const std::string& body, const shape& s = {}) { return id_of(check_text(body, s)); }

/// `text` with the first `from` replaced; a test whose text does not have it would test nothing.
inline std::string with(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  if (at == std::string::npos) throw std::runtime_error("the text has no " + from);
  return text.replace(at, from.size(), to);
}

}  // namespace tlx::test
