// The same tile in another layout, by the cheapest way that serves: other registers of the thread, shuffles in the warp, shared memory.
#include "codegen/emitter.hpp"

namespace tlx::codegen {

using namespace llvm;

namespace {

/// For one register of the result: where each lane finds its element.
struct wanted {
  int lane[tile::warp_lanes];
  int reg[tile::warp_lanes];
};

/// f(lane) == f(0) ^ XOR of the images of the lane's bits?
bool is_linear(const int (&f)[tile::warp_lanes]) {
  for (int lane = 0; lane < tile::warp_lanes; ++lane) {
    int sum = f[0];
    for (int bit = 0; bit < 5; ++bit)
      if ((lane >> bit) & 1) sum ^= f[1 << bit] ^ f[0];
    if (sum != f[lane]) return false;
  }
  return true;
}

}  // namespace

void emitter::emit_convert(const ir::op& o) {
  const tile::layout& from = layout_of(o.operands[0]->type);
  const tile::layout& to = layout_of(o.result()->type);
  if (from == to) return define(o, regs(o.operands[0]));
  if (from.warp_count() != to.warp_count() && from.warp_count() != 1)
    fail("codegen-layout", cat("a conversion from ", from.warp_count(), " to ", to.warp_count(), " warps"), "both layouts belong to one role");

  // The plan. An element may have several owners: the thread itself is best, then another lane of the warp.
  const tile::inverse_layout inverse = tile::inverse(from);
  bool same_thread = true, same_warp = true, regular = true;
  std::vector<wanted> plan(static_cast<size_t>(to.register_count()));
  for (int r = 0; r < to.register_count() && same_warp; ++r)
    for (int w = 0; w < to.warp_count() && same_warp; ++w)
      for (int lane = 0; lane < tile::warp_lanes && same_warp; ++lane) {
        const tile::coordinate c = to.at(r, lane, w);
        const int source_warp = from.warp_count() == 1 ? 0 : w;
        int found_lane = lane, reg = tile::find_register(from, c, lane, source_warp);
        if (reg < 0) {
          same_thread = false;
          const tile::owner first = inverse(c);
          if (first.warp == source_warp) {
            found_lane = first.lane;
            reg = first.reg;
          } else {
            for (int other = 0; other < tile::warp_lanes && reg < 0; ++other) reg = tile::find_register(from, c, found_lane = other, source_warp);
          }
        }
        if (reg < 0) {
          same_warp = false;
          break;
        }
        wanted& p = plan[static_cast<size_t>(r)];
        if (w > 0 && (p.lane[lane] != found_lane || p.reg[lane] != reg)) regular = false;
        p.lane[lane] = found_lane;
        p.reg[lane] = reg;
      }
  // Warps that hold copies write them to one place, so they must meet there even if each needs nothing of the others.
  const bool apart = same_warp && !from.is_replicated_over_warps();
  if (!same_warp || !regular) return convert_through_shared(o, apart);

  size_t shuffles = 0;
  for (const wanted& p : plan) {
    std::map<int, int> sources;
    for (int reg : p.reg) ++sources[reg];
    shuffles += sources.size();
  }
  // Beyond a few shuffles per element a trip through shared memory is cheaper, if there is room for it.
  if (!same_thread && shuffles > 4 * plan.size() && o.has("scratch")) return convert_through_shared(o, apart);

  const registers in = regs(o.operands[0]);
  const auto table_entry = [&](const int (&f)[tile::warp_lanes]) -> Value* {
    std::vector<std::uint32_t> entries(std::begin(f), std::end(f));
    Constant* table = ConstantDataArray::get(c_, entries);
    auto* global = new GlobalVariable(m_, table->getType(), true, GlobalValue::InternalLinkage, table, "tlx_lanes", nullptr, GlobalValue::NotThreadLocal, 1);
    return b.CreateLoad(b.getInt32Ty(), b.CreateGEP(b.getInt32Ty(), global, lane_));
  };
  const auto at_lane = [&](const int (&f)[tile::warp_lanes]) -> Value* {
    if (!is_linear(f)) return table_entry(f);
    Value* v = const32(f[0]);
    for (int bit = 0; bit < 5; ++bit)
      if (const int image = f[1 << bit] ^ f[0]; image != 0) v = b.CreateXor(v, b.CreateMul(b.CreateAnd(b.CreateLShr(lane_, static_cast<unsigned>(bit)), const32(1)), const32(image)));
    return v;
  };
  registers out;
  for (const wanted& p : plan) {
    std::map<int, int> sources;
    bool own = true;
    for (int lane = 0; lane < tile::warp_lanes; ++lane) {
      ++sources[p.reg[lane]];
      own = own && p.lane[lane] == lane;
    }
    Value* lane = own ? nullptr : at_lane(p.lane);
    Value* which = sources.size() > 1 ? at_lane(p.reg) : nullptr;
    Value* result = nullptr;
    for (const auto& [reg, uses] : sources) {
      Value* v = in[static_cast<size_t>(reg)];
      if (lane) v = v->getType()->isIntegerTy(1) ? b.CreateICmpNE(shuffle("idx", b.CreateZExt(v, b.getInt32Ty()), lane), const32(0)) : shuffle("idx", v, lane);
      result = result ? b.CreateSelect(b.CreateICmpEQ(which, const32(reg)), v, result) : v;
    }
    out.push_back(result);
  }
  define(o, std::move(out));
}

}  // namespace tlx::codegen
