// Constants and elementwise operations, register by register.
#include "codegen/emitter.hpp"

namespace tlx::codegen {

using namespace llvm;
using ir::element;
using ir::opcode;

namespace {
bool is_small_float(element e) { return tile::is_float(e) && tile::bits(e) <= 8; }

std::uint32_t small_code(element e, double v) {
  using namespace tile::detail;
  switch (e) {
    case element::e4m3: return encode(e4m3_format, v);
    case element::e5m2: return encode(e5m2_format, v);
    case element::e3m2: return encode(e3m2_format, v);
    case element::e2m3: return encode(e2m3_format, v);
    case element::e2m1: return encode(e2m1_format, v);
    case element::ue4m3: return ue4m3(static_cast<float>(v)).code;
    default: return ue8m0(static_cast<float>(v)).code;
  }
}
}  // namespace

Value* emitter::constant(element e, const ir::attribute* value) {
  const auto* whole = value ? std::get_if<std::int64_t>(value) : nullptr;
  const auto* real = value ? std::get_if<double>(value) : nullptr;
  if (tile::is_float(e)) {
    const double v = real ? *real : whole ? static_cast<double>(*whole) : 0.0;
    if (is_small_float(e)) return b.getInt8(static_cast<std::uint8_t>(small_code(e, v)));
    return ConstantFP::get(type_of(e), v);
  }
  const std::int64_t v = whole ? *whole : real ? static_cast<std::int64_t>(*real) : 0;
  if (e == element::boolean) return b.getInt1(v != 0);
  return ConstantInt::getSigned(llvm::cast<IntegerType>(type_of(e)), v, true);
}

void emitter::emit_constant(const ir::op& o) {
  const ir::attribute* value = nullptr;
  for (const auto& [key, a] : o.attributes)
    if (key == "value") value = &a;
  if (!value) fail("codegen-invalid", "a constant has no value");
  define(o, registers(static_cast<size_t>(register_count(o.result()->type)), constant(o.result()->type.element, value)));
}

void emitter::emit_elementwise(const ir::op& o) {
  const ir::type& t = o.result()->type;
  const size_t n = static_cast<size_t>(register_count(t));
  std::vector<const registers*> in;
  for (ir::value v : o.operands) {
    in.push_back(&regs(v));
    if (in.back()->size() != 1 && in.back()->size() != n)
      fail("codegen-layout", cat("an operand has ", in.back()->size(), " registers, the result ", n), "operands and result of an elementwise operation have one layout");
  }
  const element e = o.operands[o.is(opcode::select) ? 1 : 0]->type.element;
  registers out;
  for (size_t i = 0; i < n; ++i) {
    registers a;
    for (size_t j = 0; j < in.size(); ++j) a.push_back((*in[j])[o.operands[j]->type.is_tile() ? i : 0]);
    out.push_back(arithmetic(o, e, a));
  }
  define(o, std::move(out));
}

Value* emitter::compare(const std::string& is, element e, Value* x, Value* y) {
  const bool f = tile::is_float(e), s = tile::is_signed(e);
  // LLVM 22 gives setp.bf16 the .ftz of f32, which PTX has not.
  if (e == element::bf16)
    return b.CreateICmpNE(ptx1(cat("{ .reg .pred p; setp.", is == "ne" ? "neu" : is, ".bf16 p, $1, $2; selp.b32 $0, 1, 0, p; }"), "=r,h,h", {b.CreateBitCast(x, b.getInt16Ty()), b.CreateBitCast(y, b.getInt16Ty())}, b.getInt32Ty(), asm_pure), const32(0));
  if (is == "eq") return f ? b.CreateFCmpOEQ(x, y) : b.CreateICmpEQ(x, y);
  if (is == "ne") return f ? b.CreateFCmpUNE(x, y) : b.CreateICmpNE(x, y);
  if (is == "lt") return f ? b.CreateFCmpOLT(x, y) : s ? b.CreateICmpSLT(x, y) : b.CreateICmpULT(x, y);
  if (is == "le") return f ? b.CreateFCmpOLE(x, y) : s ? b.CreateICmpSLE(x, y) : b.CreateICmpULE(x, y);
  if (is == "gt") return f ? b.CreateFCmpOGT(x, y) : s ? b.CreateICmpSGT(x, y) : b.CreateICmpUGT(x, y);
  if (is == "ge") return f ? b.CreateFCmpOGE(x, y) : s ? b.CreateICmpSGE(x, y) : b.CreateICmpUGE(x, y);
  fail("codegen-invalid", cat("a comparison \"", is, "\" is not known"));
}

Value* emitter::arithmetic(const ir::op& o, element e, const registers& a) {
  const bool f = tile::is_float(e), s = tile::is_signed(e);
  if (is_small_float(e) && !o.is(opcode::select)) fail("codegen-element", cat("no arithmetic on ", tile::name(e)), "8-bit floats are storage and MMA operands: cast to f32 first");
  switch (o.code) {
    case opcode::add: return f ? b.CreateFAdd(a[0], a[1]) : b.CreateAdd(a[0], a[1]);
    case opcode::sub: return f ? b.CreateFSub(a[0], a[1]) : b.CreateSub(a[0], a[1]);
    case opcode::mul: return f ? b.CreateFMul(a[0], a[1]) : b.CreateMul(a[0], a[1]);
    case opcode::div:
      if (f && o.integer("approx") != 0) return b.CreateFMul(a[0], approximate(o, "rcp.approx.ftz.f32", e, a[1]));
      return f ? b.CreateFDiv(a[0], a[1]) : s ? b.CreateSDiv(a[0], a[1]) : b.CreateUDiv(a[0], a[1]);
    case opcode::rem: return f ? b.CreateFRem(a[0], a[1]) : s ? b.CreateSRem(a[0], a[1]) : b.CreateURem(a[0], a[1]);
    case opcode::min:
      if (f) return b.CreateBinaryIntrinsic(o.integer("nan") != 0 ? Intrinsic::minimum : Intrinsic::minnum, a[0], a[1]);
      return b.CreateBinaryIntrinsic(s ? Intrinsic::smin : Intrinsic::umin, a[0], a[1]);
    case opcode::max:
      if (f) return b.CreateBinaryIntrinsic(o.integer("nan") != 0 ? Intrinsic::maximum : Intrinsic::maxnum, a[0], a[1]);
      return b.CreateBinaryIntrinsic(s ? Intrinsic::smax : Intrinsic::umax, a[0], a[1]);
    case opcode::bit_and: return b.CreateAnd(a[0], a[1]);
    case opcode::bit_or: return b.CreateOr(a[0], a[1]);
    case opcode::bit_xor: return b.CreateXor(a[0], a[1]);
    case opcode::shl: return b.CreateShl(a[0], a[1]);
    case opcode::shr: return s ? b.CreateAShr(a[0], a[1]) : b.CreateLShr(a[0], a[1]);
    case opcode::neg: return f ? b.CreateFNeg(a[0]) : b.CreateNeg(a[0]);
    case opcode::bit_not: return b.CreateNot(a[0]);
    case opcode::abs:
      if (f) return b.CreateUnaryIntrinsic(Intrinsic::fabs, a[0]);
      return s ? b.CreateBinaryIntrinsic(Intrinsic::abs, a[0], b.getFalse()) : a[0];
    case opcode::compare: return compare(o.text("is"), e, a[0], a[1]);
    case opcode::select: return b.CreateSelect(a[0], a[1], a[2]);
    case opcode::fma:
      if (f) return b.CreateIntrinsic(a[0]->getType(), Intrinsic::fma, {a[0], a[1], a[2]});
      return b.CreateAdd(b.CreateMul(a[0], a[1]), a[2]);
    case opcode::sqrt: return b.CreateUnaryIntrinsic(Intrinsic::sqrt, a[0]);
    case opcode::exp2: return approximate(o, "ex2.approx.ftz.f32", e, a[0]);
    case opcode::log2: return approximate(o, "lg2.approx.ftz.f32", e, a[0]);
    case opcode::rcp: return approximate(o, "rcp.approx.ftz.f32", e, a[0]);
    case opcode::rsqrt: return approximate(o, "rsqrt.approx.ftz.f32", e, a[0]);
    case opcode::tanh: return approximate(o, "tanh.approx.f32", e, a[0]);
    case opcode::sin: return approximate(o, "sin.approx.ftz.f32", e, a[0]);
    case opcode::cos: return approximate(o, "cos.approx.ftz.f32", e, a[0]);
    case opcode::erf:
      if (e == element::f32) return erf(a[0]);
      if (e == element::f16 || e == element::bf16) return cast(erf(to_f32(a[0], e)), element::f32, e, false);
      break;
    default: break;
  }
  fail("codegen-element", cat("no code for \"", ir::row(o.code).text, "\" on ", tile::name(e)));
}

/// The approximations exist for f32; 16-bit values go through it.
Value* emitter::approximate(const ir::op& o, const char* instruction, element e, Value* a) {
  if (e != element::f32 && e != element::f16 && e != element::bf16)
    fail("codegen-element", cat("\"", ir::row(o.code).text, "\" on ", tile::name(e)), "the approximations exist for f32, f16 and bf16");
  Value* r = ptx1(cat(instruction, " $0, $1;"), "=f,f", {to_f32(a, e)}, b.getFloatTy(), asm_pure);
  return cast(r, element::f32, e, false);
}

Value* emitter::combine(const std::string& op, element e, Value* x, Value* y) {
  const bool f = tile::is_float(e), s = tile::is_signed(e);
  if (op == "add") return f ? b.CreateFAdd(x, y) : b.CreateAdd(x, y);
  if (op == "max") return b.CreateBinaryIntrinsic(f ? Intrinsic::maxnum : s ? Intrinsic::smax : Intrinsic::umax, x, y);
  if (op == "min") return b.CreateBinaryIntrinsic(f ? Intrinsic::minnum : s ? Intrinsic::smin : Intrinsic::umin, x, y);
  fail("codegen-invalid", cat("a reduction by \"", op, "\" is not known"));
}

}  // namespace tlx::codegen
