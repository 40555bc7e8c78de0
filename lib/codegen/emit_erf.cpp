// The error function in f32, absolute error: one minimax polynomial and one ex2.
//
//   erf(x) = sign(x) * (1 - 2^q(|x|)),  q of degree 8,  |error| < 1.6e-8
//
// Coefficients: our own Remez exchange in 40 digits (weight (1 - erf) ln 2), over [0, 4.2]; q keeps falling beyond that, so large and infinite arguments give 1.
// Rounding in f32 and ex2.approx add about 6e-8 each. tests/codegen measures the total. A second polynomial for small |x| would keep relative accuracy there, which
// 1 + erf(x) does not show, for ten instructions more of some twenty.
#include "codegen/emitter.hpp"

namespace tlx::codegen {

using namespace llvm;

Value* emitter::erf(Value* x) {
  static constexpr double q[] = {-4.435067367583884e-05,  0.00043692613504152877, -0.0014603216954907916, -0.0008252662922113779, 0.02830197904686895,
                                 -0.14850669218997123, -0.9184098040213844,    -1.6279093268067708,    2.171439898910672e-08};
  Type* f32 = b.getFloatTy();
  Value* size = b.CreateUnaryIntrinsic(Intrinsic::fabs, x);
  Value* sum = ConstantFP::get(f32, q[0]);
  for (size_t i = 1; i < std::size(q); ++i) sum = b.CreateIntrinsic(f32, Intrinsic::fma, {sum, size, ConstantFP::get(f32, q[i])});
  Value* tail = ptx1("ex2.approx.ftz.f32 $0, $1;", "=f,f", {sum}, f32, asm_pure);
  return b.CreateBinaryIntrinsic(Intrinsic::copysign, b.CreateFSub(ConstantFP::get(f32, 1.0), tail), x);
}

}  // namespace tlx::codegen
