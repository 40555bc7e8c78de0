// Activations of register tiles, in f32. erf and tanh GELU are different functions: choose by name.
#pragma once
#include <type_traits>

#include "tlx/dsl/tile.hpp"

namespace tlx {

template <class Tile> Tile relu(const Tile& x) { return max(x, 0.0f); }
/// x * sigmoid(x), by exp2 and rcp (approximate, about 2 ulp of f32 each).
template <class Tile> Tile silu(const Tile& x) { return x * rcp(1.0f + exp2(x * -1.4426950408889634f)); }
/// x * Phi(x), where Phi is the normal distribution; |error| <= 2e-7 |x| and the last rounding. Not by way of erf, which would be three steps more an element:
///
///   gelu(x) = max(x, 0) - |x| Phi(-|x|),  Phi(-y) = 2^q(y) for y <= 5.9, q of degree 6, |error| < 1.07e-7
///
/// Coefficients: our own Remez exchange in 40 digits (weight Phi(-y) ln 2). Beyond 5.9 what is taken away stays 5.9 Phi(-5.9) = 1e-8. A NaN stays one.
template <class Tile> Tile gelu(const Tile& x) {
  using T = typename Tile::element_type;
  if constexpr (!std::is_same_v<T, float>) {
    return cast<T>(gelu(cast<float>(x)));
  } else {
    const auto all = [&](literal<float> value) { return splat<T, Tile::rows, Tile::cols>(x.home(), value); };
    const Tile size = min(abs(x), 5.9f);
    const auto next = [&](const Tile& sum, literal<float> coefficient) { return fma(sum, size, all(coefficient)); };
    const Tile low = next(next(next(all(1.9174799035545517e-05f), -0.00065860450333241988f), 0.0077544074513046975f), -0.052965391357842614f);
    const Tile power = next(next(next(low, -0.45906025234205017f), -1.151122053285663f), -0.99999969348622354f);
    return fma(-size, exp2(power), max_or_nan(x, 0.0f));
  }
}
/// The tanh approximation of GELU (a function of its own, up to 5e-4 away from gelu), by tanh.approx: relative error 2^-11 of the tanh.
template <class Tile> Tile gelu_tanh(const Tile& x) {
  using T = typename Tile::element_type;
  const Tile third = splat<T, Tile::rows, Tile::cols>(x.home(), 0.035677408136300125f), first = splat<T, Tile::rows, Tile::cols>(x.home(), 0.79788456080286536f);
  const Tile half = x * 0.5f, square = x * x;
  return fma(half, tanh(x * fma(square, third, first)), half);
}

}  // namespace tlx
