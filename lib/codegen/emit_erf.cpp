// The error function in f32: two minimax polynomials, selected by |x|.
//
//   |x| < 1:  x * p(x^2),  degree 5, |error| < 1.9e-8        else:  sign(x) * (1 - 2^q(|x|)),  degree 5, |error| < 1.6e-8
//
// Coefficients: our own Remez exchange in 40 digits (weights x, and (1 - erf) ln 2), over [0, 1] and [1, 4.2]; q keeps falling beyond that, so
// large and infinite arguments give 1. Rounding in f32 and ex2.approx add about 6e-8 each. tests/codegen measures the total.
#include "codegen/emitter.hpp"

namespace tlx::codegen {

using namespace llvm;

Value* emitter::erf(Value* x) {
  static constexpr double p[] = {-0.000546288261371472, 0.004870689819087382, -0.02666379518227719, 0.11278063460396175, -0.37611938858047134, 1.1283789218820204};
  static constexpr double q[] = {-0.0016596767581704955, 0.021320077665973977, -0.12787135522186324, -0.9442290236633262, -1.612122196409912, -0.0038546644305344994};
  Type* f32 = b.getFloatTy();
  const auto horner = [&](const double (&c)[6], Value* at) {
    Value* sum = ConstantFP::get(f32, c[0]);
    for (int i = 1; i < 6; ++i) sum = b.CreateIntrinsic(f32, Intrinsic::fma, {sum, at, ConstantFP::get(f32, c[i])});
    return sum;
  };
  Value* size = b.CreateUnaryIntrinsic(Intrinsic::fabs, x);
  Value* small = b.CreateFMul(x, horner(p, b.CreateFMul(x, x)));
  Value* tail = ptx1("ex2.approx.ftz.f32 $0, $1;", "=f,f", {horner(q, size)}, f32, asm_pure);
  Value* large = b.CreateBinaryIntrinsic(Intrinsic::copysign, b.CreateFSub(ConstantFP::get(f32, 1.0), tail), x);
  return b.CreateSelect(b.CreateFCmpOLT(size, ConstantFP::get(f32, 1.0)), small, large);
}

}  // namespace tlx::codegen
