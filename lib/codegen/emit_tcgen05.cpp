// Tensor memory and tcgen05. The MMA is inline PTX on purpose: its intrinsic is modelled as writing only through its first argument, so LLVM
// deletes repeated MMAs and the stores that feed them.
//
// A tile of 128 rows per 128 lanes: `address` has the warp's lane base in it; what a further warpgroup's columns add comes from the layout. Further blocks of 128 rows lie {block_columns} (default: the tile's columns) further.
#include "codegen/emitter.hpp"

namespace tlx::codegen {

using namespace llvm;
using ir::opcode;

void emitter::emit_tcgen05(const ir::op& o) {
  const std::string group = cat("cta_group::", o.integer("group", 1));
  switch (o.code) {
    case opcode::tmem_alloc:
      return ptx0(cat("tcgen05.alloc.", group, ".sync.aligned.shared::cta.b32 [$0], ", o.integer("columns"), ";"), "r", {scalar(o.operands[0])}, asm_barrier);
    case opcode::tmem_free: return ptx0(cat("tcgen05.dealloc.", group, ".sync.aligned.b32 $0, ", o.integer("columns"), ";"), "r", {scalar(o.operands[0])}, asm_barrier);
    case opcode::tmem_relinquish: return ptx0(cat("tcgen05.relinquish_alloc_permit.", group, ".sync.aligned;"), "", {}, asm_barrier);
    case opcode::tmem_load:
    case opcode::tmem_store: return emit_tmem_move(o);
    case opcode::tmem_wait_load: return emit_tmem_wait_load(o);
    case opcode::tmem_wait_store: return ptx0("tcgen05.wait::st.sync.aligned;", "", {}, asm_barrier);
    case opcode::tmem_fence: return ptx0(o.integer("before") != 0 ? "tcgen05.fence::before_thread_sync;" : "tcgen05.fence::after_thread_sync;", "", {}, asm_effect | asm_memory);
    case opcode::tcgen05_commit: {
      const auto multicast = o.integer("multicast");
      if (multicast == 0)
        return ptx0(cat("tcgen05.commit.", group, ".mbarrier::arrive::one.shared::cluster.b64 [$0];"), "r", {scalar(o.operands[0])}, asm_effect | asm_memory);
      return ptx0(cat("tcgen05.commit.", group, ".mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [$0], $1;"), "r,h",
                  {scalar(o.operands[0]), b.getInt16(static_cast<std::uint16_t>(multicast))}, asm_effect | asm_memory);
    }
    default: break;
  }
  // tcgen05.mma
  const bool a_in_tensor_memory = o.operands[1]->type.element != ir::element::s64 && o.operands[1]->type.element != ir::element::u64;
  Value* accumulate = scalar(o.operands[3]);
  registers inputs{scalar(o.operands[0]), scalar(o.operands[1]), scalar(o.operands[2]), const32(o.integer("idesc"))};
  const std::string instruction = cat("tcgen05.mma.", group, ".kind::", o.text("kind", "f16"), " [$0], ", a_in_tensor_memory ? "[$1]" : "$1", ", $2, $3, ");
  const std::string constraints = a_in_tensor_memory ? "r,r,l,r" : "r,l,l,r";
  if (const auto* known = dyn_cast<ConstantInt>(accumulate))
    return ptx0(cat("{ .reg .pred p; setp.ne.b32 p, ", known->isZero() ? 0 : 1, ", 0; ", instruction, "p; }"), constraints, inputs, asm_effect | asm_memory);
  inputs.push_back(accumulate);
  ptx0(instruction + "$4;", constraints + ",b", inputs, asm_effect | asm_memory);
}

void emitter::emit_tmem_move(const ir::op& o) {
  const bool store = o.is(opcode::tmem_store);
  const ir::type& t = store ? o.operands[0]->type : o.result()->type;
  const tile::layout& l = layout_of(t);
  Value* address = scalar(o.operands[store ? 1 : 0]);
  const std::string shape = o.text("shape", "32x32b");
  const bool rows32 = shape == "32x32b";
  if (!rows32 && shape != "16x256b") fail("codegen-invalid", cat("a tensor memory shape \"", shape, "\""), "32x32b and 16x256b are supported");
  const int per_word = 32 / tile::bits(t.element);  // 16-bit elements: two per column, as MMA reads its A operand
  if (per_word < 1 || (per_word > 1 && !rows32)) fail("codegen-element", cat("a ", shape, " access of ", tile::name(t.element)));

  // Blocks of consecutive registers that lie in consecutive columns (groups of four registers per eight columns for 16x256b).
  const int n = l.register_count();
  const auto expected = [&](int r) { return rows32 ? tile::coordinate{0, r} : tile::coordinate{8 * ((r >> 1) & 1), (r & 1) + 8 * (r >> 2)}; };
  for (int i = 0; i < 5; ++i) {
    static constexpr tile::coordinate quad[] = {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}};
    const tile::coordinate lane = rows32 ? tile::coordinate{1 << i, 0} : quad[i];
    if (!(l.at(0, 1 << i) - l.at(0, 0) == lane)) fail("codegen-layout", cat("lane ", 1 << i, " of the tile is not where ", shape, " puts it"));
  }
  if (l.warp_count() == 8 && l.at(0, 0, 4) - l.at(0, 0, 0) == tile::coordinate{16, 0}) {  // the second warpgroup takes the other half of each quarter's lanes
    address = b.CreateAdd(address, b.CreateMul(b.CreateLShr(layout_warp(), 2), const32(16 * 65536)));
  } else if (l.warp_count() > 4) {  // further warpgroups take further columns
    const int group_columns = l.at(0, 0, 4).col - l.at(0, 0, 0).col;
    for (int w = 4; w < l.warp_count(); w += 4)
      if (l.at(0, 0, w).col - l.at(0, 0, 0).col != w / 4 * group_columns) fail("codegen-layout", "the warpgroups of the tile are not evenly spaced along the columns");
    address = b.CreateAdd(address, b.CreateMul(b.CreateLShr(layout_warp(), 2), const32(group_columns / per_word)));
  }
  const int block_columns = static_cast<int>(o.integer("block_columns", t.cols));
  const int step = rows32 ? per_word : 4;
  registers values = store ? regs(o.operands[0]) : registers(static_cast<size_t>(n));
  for (int from = 0; from < n;) {
    // The longest power of two of pieces that stays regular, at most 64 registers: ptxas checks a message against the entry's register limit.
    int words = 64;
    const auto regular = [&](int count) {
      if (from + count > n) return false;
      for (int r = 0; r < count; ++r)
        if (!(l.at(from + r, 0) - l.at(from, 0) == expected(r))) return false;
      return true;
    };
    while (words > 0 && !regular(words * per_word)) words /= 2;
    if (words == 0 || (words * per_word) % step != 0) fail("codegen-layout", cat("register ", from, " of the tile is not where ", shape, " puts it"));
    const tile::coordinate c = l.at(from, 0);
    const int lane = rows32 ? c.row % 128 : c.row % 32;
    const int column = (rows32 ? c.col / per_word : c.col) + c.row / 128 * (block_columns / per_word);
    Value* at = plus(address, static_cast<std::int64_t>(lane) * 65536 + column);
    const std::string name = cat(".sync.aligned.", shape, ".x", rows32 ? words : words / 4, ".b32");
    std::vector<std::string> names;
    std::string constraints;
    if (store) {
      registers piece(values.begin() + from, values.begin() + from + words * per_word);
      registers inputs = per_word == 1 ? piece : pack(piece, t.element);
      for (size_t i = 0; i < inputs.size(); ++i) {
        names.push_back(cat("$", i + 1));
        constraints += inputs[i]->getType()->isFloatTy() ? ",f" : ",r";
      }
      inputs.insert(inputs.begin(), at);
      ptx0(cat("tcgen05.st", name, " [$0], {", join(names, ", "), "};"), "r" + constraints, inputs, asm_barrier);
    } else {
      if (per_word != 1) fail("codegen-element", "a tensor memory load of packed elements");
      Type* type = type_of(t.element);
      for (int i = 0; i < words; ++i) {
        names.push_back(cat("$", i));
        constraints += type->isFloatTy() ? "=f," : "=r,";
      }
      const registers out = ptx(cat("tcgen05.ld", name, " {", join(names, ", "), "}, [$", words, "];"), constraints + "r", {at}, std::vector<Type*>(static_cast<size_t>(words), type), asm_barrier);
      for (int i = 0; i < words; ++i) values[static_cast<size_t>(from + i)] = out[static_cast<size_t>(i)];
    }
    from += words * per_word;
  }
  if (!store) define(o, std::move(values));
}

void emitter::emit_tmem_wait_load(const ir::op& o) {
  if (o.operands.empty()) return ptx0("tcgen05.wait::ld.sync.aligned;", "", {}, asm_barrier);
  for (size_t i = 0; i < o.operands.size(); ++i) {
    const registers in = regs(o.operands[i]);
    registers out;
    for (size_t from = 0; from < in.size(); from += 128) {
      const registers piece(in.begin() + static_cast<std::ptrdiff_t>(from), in.begin() + static_cast<std::ptrdiff_t>(std::min(in.size(), from + 128)));
      for (Value* v : tie("tcgen05.wait::ld.sync.aligned;", piece)) out.push_back(v);
    }
    define(o, std::move(out), i);
  }
}

}  // namespace tlx::codegen
