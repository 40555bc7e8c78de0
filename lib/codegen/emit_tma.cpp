// Bulk tensor copies.
#include "codegen/emitter.hpp"

namespace tlx::codegen {

using namespace llvm;
using ir::opcode;

namespace {
/// Cache policies as createpolicy makes them: 1 evict first, 2 evict last.
std::uint64_t policy(std::int64_t hint) { return hint == 1 ? 0x12F0000000000000ULL : 0x14F0000000000000ULL; }
}  // namespace

void emitter::emit_tma(const ir::op& o) {
  const auto map = [&] {
    const auto i = static_cast<size_t>(o.integer("map", -1));
    if (i >= maps_.size()) fail("codegen-invalid", cat("tensor map ", o.integer("map", -1), " of ", maps_.size()));
    return maps_[i];
  };
  const size_t fixed = o.is(opcode::tma_load) ? 2 : 1;
  std::vector<std::string> names;
  registers inputs;
  std::string constraints;
  const auto add = [&](Value* v, const char* constraint) {
    inputs.push_back(v);
    constraints += cat(constraints.empty() ? "" : ",", constraint);
    return cat("$", inputs.size() - 1);
  };
  switch (o.code) {
    case opcode::tma_load: {
      const bool pair = o.integer("group", 1) == 2;
      // A shared address has the rank of its CTA from bit 24 on: without that bit it is the same offset in the even CTA of the pair.
      Value* const signalled = pair ? b.CreateAnd(scalar(o.operands[1]), const32(~(std::int64_t{1} << 24))) : scalar(o.operands[1]);
      const std::string to = add(scalar(o.operands[0]), "r"), from = add(map(), "l"), barrier = add(signalled, "r");
      for (size_t i = fixed; i < o.operands.size(); ++i) names.push_back(add(scalar(o.operands[i]), "r"));
      const auto multicast = o.integer("multicast"), hint = o.integer("hint");
      std::string text = cat("cp.async.bulk.tensor.", names.size(), "d.shared::cluster.global.tile.mbarrier::complete_tx::bytes", multicast != 0 ? ".multicast::cluster" : "", pair ? ".cta_group::2" : "",
                             hint != 0 ? ".L2::cache_hint" : "", " [", to, "], [", from, ", {", join(names, ", "), "}], [", barrier, "]");
      if (multicast != 0) text += ", " + add(b.getInt16(static_cast<std::uint16_t>(multicast)), "h");
      if (hint != 0) text += ", " + add(b.getInt64(policy(hint)), "l");
      return ptx0(text + ";", constraints, inputs, asm_effect | asm_memory);
    }
    case opcode::tma_store: {
      const std::string from = add(scalar(o.operands[0]), "r"), to = add(map(), "l");
      for (size_t i = fixed; i < o.operands.size(); ++i) names.push_back(add(scalar(o.operands[i]), "r"));
      const auto hint = o.integer("hint");
      const bool adds = o.integer("adds") != 0;
      std::string text = cat(adds ? "cp.reduce.async.bulk.tensor." : "cp.async.bulk.tensor.", names.size(), "d.global.shared::cta", adds ? ".add" : "", ".tile.bulk_group", hint != 0 ? ".L2::cache_hint" : "", " [", to, ", {", join(names, ", "), "}], [",
                             from, "]");
      if (hint != 0) text += ", " + add(b.getInt64(policy(hint)), "l");
      return ptx0(text + ";", constraints, inputs, asm_effect | asm_memory);
    }
    case opcode::tma_commit: return ptx0("cp.async.bulk.commit_group;", "", {}, asm_effect | asm_memory);
    case opcode::tma_wait:
      return ptx0(cat("cp.async.bulk.wait_group", o.integer("read") != 0 ? ".read " : " ", o.integer("pending"), ";"), "", {}, asm_effect | asm_memory);
    default: return ptx0("prefetch.tensormap [$0];", "l", {map()}, asm_effect | asm_memory);
  }
}

}  // namespace tlx::codegen
