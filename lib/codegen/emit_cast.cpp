// Conversions between element types, and registers to words as they lie in memory.
#include "codegen/emitter.hpp"

namespace tlx::codegen {

using namespace llvm;
using ir::element;

namespace {
bool is_f8(element e) { return e == element::e4m3 || e == element::e5m2; }
bool is_f16(element e) { return e == element::f16 || e == element::bf16; }
}  // namespace

Value* emitter::to_f32(Value* v, element from) {
  switch (from) {
    case element::f32:
    case element::tf32: return v;
    case element::f16: return b.CreateFPExt(v, b.getFloatTy());
    // The upper half of an f32: of two in a word a shift and a mask, where cvt.f32.bf16 takes a third instruction to bring the upper one down first.
    case element::bf16: return b.CreateBitCast(b.CreateShl(b.CreateZExt(b.CreateBitCast(v, b.getInt16Ty()), b.getInt32Ty()), 16), b.getFloatTy());
    case element::f64: return b.CreateFPTrunc(v, b.getFloatTy());
    case element::e4m3:
    case element::e5m2: {
      Value* pair = ptx1(cat("cvt.rn.f16x2.", tile::name(from), "x2 $0, $1;"), "=r,h", {b.CreateZExt(v, b.getInt16Ty())}, b.getInt32Ty(), asm_pure);
      return b.CreateFPExt(b.CreateBitCast(b.CreateTrunc(pair, b.getInt16Ty()), b.getHalfTy()), b.getFloatTy());
    }
    case element::ue8m0: {  // the exponent field; code 0 is 2^-127, a subnormal that f32 arithmetic here flushes, 255 is NaN
      Value* wide = b.CreateZExt(v, b.getInt32Ty());
      Value* normal = b.CreateShl(wide, 23);
      Value* nan = b.CreateICmpEQ(wide, const32(255));
      return b.CreateBitCast(b.CreateSelect(nan, const32(0x7fffffff), b.CreateSelect(b.CreateICmpEQ(wide, const32(0)), const32(0x400000), normal)), b.getFloatTy());
    }
    default: break;
  }
  if (from == element::boolean || (tile::is_integer(from) && !tile::is_signed(from))) return b.CreateUIToFP(v, b.getFloatTy());
  if (tile::is_integer(from)) return b.CreateSIToFP(v, b.getFloatTy());
  fail("codegen-element", cat("no conversion from ", tile::name(from)), "packed floats of less than 8 bits are MMA operands only");
}

Value* emitter::cast(Value* v, element from, element to, bool saturate) {
  if (from == to) return v;
  const bool from_float = tile::is_float(from), to_float = tile::is_float(to);
  if (to == element::boolean)
    return from_float ? b.CreateFCmpUNE(to_f32(v, from), ConstantFP::get(b.getFloatTy(), 0.0)) : b.CreateICmpNE(v, ConstantInt::get(v->getType(), 0));
  if (from == element::boolean && !to_float) return b.CreateZExt(v, type_of(to));

  if (!from_float && !to_float) return tile::is_signed(from) ? b.CreateSExtOrTrunc(v, type_of(to)) : b.CreateZExtOrTrunc(v, type_of(to));
  if (!to_float) {  // toward zero; out of range: the nearest integer, NaN: 0
    if (from != element::f64) v = to_f32(v, from);
    return b.CreateIntrinsic(tile::is_signed(to) ? Intrinsic::fptosi_sat : Intrinsic::fptoui_sat, {type_of(to), v->getType()}, {v});
  }
  if (to == element::f64) {
    if (from_float) return b.CreateFPExt(to_f32(v, from), b.getDoubleTy());
    return from != element::boolean && tile::is_signed(from) ? b.CreateSIToFP(v, b.getDoubleTy()) : b.CreateUIToFP(v, b.getDoubleTy());
  }
  if (is_f16(to)) {
    if (saturate) {
      if (from != element::f64) v = to_f32(v, from);
      const double largest = to == element::f16 ? 65504.0 : 3.3895313892515355e38;
      Value* high = ConstantFP::get(v->getType(), largest);
      Value* low = ConstantFP::get(v->getType(), -largest);
      v = b.CreateSelect(b.CreateFCmpOGT(v, high), high, b.CreateSelect(b.CreateFCmpOLT(v, low), low, v));
      return b.CreateFPTrunc(v, type_of(to));
    }
    if (from == element::f64) return b.CreateFPTrunc(v, type_of(to));
    if (!from_float) return tile::is_signed(from) && from != element::boolean ? b.CreateSIToFP(v, type_of(to)) : b.CreateUIToFP(v, type_of(to));
    return b.CreateFPTrunc(to_f32(v, from), type_of(to));
  }
  Value* single = to_f32(v, from);
  switch (to) {
    case element::f32: return single;
    case element::tf32:
      return b.CreateBitCast(ptx1("cvt.rn.tf32.f32 $0, $1;", "=r,f", {single}, b.getInt32Ty(), asm_pure), b.getFloatTy());
    case element::e4m3:
    case element::e5m2: {
      Value* zero = ConstantFP::get(b.getFloatTy(), 0.0);
      Value* pair = ptx1(cat("cvt.rn.satfinite.", tile::name(to), "x2.f32 $0, $1, $2;"), "=h,f,f", {zero, single}, b.getInt16Ty(), asm_pure);
      return b.CreateTrunc(pair, b.getInt8Ty());
    }
    default: break;
  }
  fail("codegen-element", cat("no conversion from ", tile::name(from), " to ", tile::name(to)));
}

void emitter::emit_cast(const ir::op& o) {
  const element from = o.operands[0]->type.element, to = o.result()->type.element;
  const registers& in = regs(o.operands[0]);
  const bool saturate = o.integer("saturate") != 0;
  registers out;
  for (size_t i = 0; i < in.size(); ++i) {
    // Two neighbours at once: cvt.rn.bf16x2.f32 and the 8-bit forms make a pair for the price of one.
    if (i + 1 < in.size() && tile::is_float(from) && from != element::f64 && ((is_f16(to) && !saturate && !is_f16(from)) || (is_f8(to)))) {
      Value *low = to_f32(in[i], from), *high = to_f32(in[i + 1], from);
      if (is_f16(to)) {
        Value* pair = PoisonValue::get(FixedVectorType::get(b.getFloatTy(), 2));
        pair = b.CreateInsertElement(b.CreateInsertElement(pair, low, b.getInt32(0)), high, b.getInt32(1));
        pair = b.CreateFPTrunc(pair, FixedVectorType::get(type_of(to), 2));
        out.push_back(b.CreateExtractElement(pair, b.getInt32(0)));
        out.push_back(b.CreateExtractElement(pair, b.getInt32(1)));
      } else {
        Value* pair = ptx1(cat("cvt.rn.satfinite.", tile::name(to), "x2.f32 $0, $1, $2;"), "=h,f,f", {high, low}, b.getInt16Ty(), asm_pure);
        out.push_back(b.CreateTrunc(pair, b.getInt8Ty()));
        out.push_back(b.CreateTrunc(b.CreateLShr(pair, 8), b.getInt8Ty()));
      }
      ++i;
      continue;
    }
    out.push_back(cast(in[i], from, to, saturate));
  }
  define(o, std::move(out));
}

void emitter::emit_bitcast(const ir::op& o) {
  const element from = o.operands[0]->type.element, to = o.result()->type.element;
  if (tile::bits(from) != tile::bits(to) || from == element::boolean || to == element::boolean)
    fail("codegen-element", cat("a bitcast from ", tile::name(from), " to ", tile::name(to)), "both sides have the same number of bits");
  registers out;
  for (Value* v : regs(o.operands[0])) out.push_back(b.CreateBitCast(v, type_of(to)));
  define(o, std::move(out));
}

registers emitter::pack(const registers& v, element e) {
  registers out;
  const int bits = stored_bits(e);
  if (bits == 64) {
    for (Value* x : v) out.push_back(b.CreateBitCast(x, b.getInt64Ty()));
    return out;
  }
  if (bits == 32) {
    for (Value* x : v) out.push_back(b.CreateBitCast(x, b.getInt32Ty()));
    return out;
  }
  Type* lane_type = e == element::boolean ? b.getInt8Ty() : type_of(e);
  const size_t per_word = std::min(v.size(), static_cast<size_t>(32 / bits));
  for (size_t i = 0; i < v.size(); i += per_word) {
    const auto word_bits = static_cast<unsigned>(per_word) * static_cast<unsigned>(bits);
    Value* word = PoisonValue::get(FixedVectorType::get(lane_type, static_cast<unsigned>(per_word)));
    for (unsigned j = 0; j < per_word; ++j) word = b.CreateInsertElement(word, e == element::boolean ? b.CreateZExt(v[i + j], lane_type) : v[i + j], b.getInt32(j));
    word = b.CreateBitCast(word, b.getIntNTy(word_bits));
    out.push_back(word_bits == 8 ? b.CreateZExt(word, b.getInt16Ty()) : word);  // no 8-bit registers in inline PTX
  }
  return out;
}

registers emitter::unpack(const registers& words, element e, int count) {
  registers out;
  const int bits = stored_bits(e);
  if (bits >= 32) {
    for (Value* w : words) out.push_back(b.CreateBitCast(w, type_of(e)));
    return out;
  }
  Type* lane_type = e == element::boolean ? b.getInt8Ty() : type_of(e);
  const int per_word = std::min(count, 32 / bits);
  for (Value* w : words) {
    if (per_word * bits == 8) w = b.CreateTrunc(w, b.getInt8Ty());
    Value* lanes = b.CreateBitCast(w, FixedVectorType::get(lane_type, static_cast<unsigned>(per_word)));
    for (int j = 0; j < per_word; ++j) {
      Value* x = b.CreateExtractElement(lanes, const32(j));
      out.push_back(e == element::boolean ? b.CreateICmpNE(x, b.getInt8(0)) : x);
    }
  }
  return out;
}

emitter::access emitter::access_for(element e, int count) {
  const int bytes = count * stored_bits(e) / 8;
  switch (bytes) {
    case 1: return {".b8", 1, 16};
    case 2: return {".b16", 1, 16};
    case 4: return {".b32", 1, 32};
    case 8: return stored_bits(e) == 64 ? access{".b64", 1, 64} : access{".v2.b32", 2, 32};
    case 16: return stored_bits(e) == 64 ? access{".v2.b64", 2, 64} : access{".v4.b32", 4, 32};
    default: break;
  }
  fail("codegen-invalid", cat("an access of ", bytes, " bytes"));
}

}  // namespace tlx::codegen
