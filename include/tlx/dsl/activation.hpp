// Activations of register tiles, in f32. erf and tanh GELU are different functions: choose by name.
#pragma once
#include "tlx/dsl/tile.hpp"

namespace tlx {

template <class Tile> Tile relu(const Tile& x) { return max(x, 0.0f); }
/// x * sigmoid(x), by exp2 and rcp (approximate, about 2 ulp of f32 each).
template <class Tile> Tile silu(const Tile& x) { return x * rcp(1.0f + exp2(x * -1.4426950408889634f)); }
/// x * Phi(x) by the error function, absolute error of erf 2e-7.
template <class Tile> Tile gelu(const Tile& x) {
  const Tile half = x * 0.5f;
  return fma(half, erf(x * 0.70710678118654752f), half);
}
/// The tanh approximation of GELU (a function of its own, up to 5e-4 away from gelu), by tanh.approx: relative error 2^-11 of the tanh.
template <class Tile> Tile gelu_tanh(const Tile& x) {
  using T = typename Tile::element_type;
  const Tile third = splat<T, Tile::rows, Tile::cols>(x.home(), 0.035677408136300125f), first = splat<T, Tile::rows, Tile::cols>(x.home(), 0.79788456080286536f);
  const Tile half = x * 0.5f, square = x * x;
  return fma(half, tanh(x * fma(square, third, first)), half);
}

}  // namespace tlx
