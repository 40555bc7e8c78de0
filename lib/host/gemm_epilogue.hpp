// The library's epilogue as an expression of tiles: what a gemm_epilogue asks for, in the order of the formula in tlx/host/gemm.hpp.
#pragma once
#include "host/gemm_plan.hpp"
#include "tlx/dsl/activation.hpp"
#include "tlx/kernels/gemm.hpp"

namespace tlx::host {

/// One set of arguments for all kernels of host::gemm; what an epilogue does not read may be empty.
template <class A, class B, class C, int Rank>
struct library_arguments {
  BOOST_HANA_DEFINE_STRUCT(library_arguments, (view<A, Rank>, a), (view<B, Rank>, b), (view<C, Rank>, c), (view<float, 1>, bias), (view<C, Rank>, residual), (scalar<float>, alpha),
                           (view<float, 1>, scale_a), (view<float, 1>, scale_b), (view<C, Rank>, before), (scalar<float>, low), (scalar<float>, high));
};

template <class Tile>
Tile activated(const Tile& x, activation a) {
  switch (a) {
    case activation::relu: return relu(x);
    case activation::gelu: return gelu(x);
    case activation::gelu_tanh: return gelu_tanh(x);
    case activation::silu: return silu(x);
    case activation::none: break;
  }
  return x;
}

/// Transposed: the tile's rows are the columns of c.
template <bool Transposed = false>
struct epilogue_of {
  gemm_epilogue what;

  template <class Tile, class Arguments, class Box>
  Tile operator()(const Tile& acc, const Arguments& in, const Box& t) const {
    const Tile active = activated_of(acc, in, t);
    const Tile added = what.residual ? active + as_float(fetch<Tile::rows, Tile::cols>(kernels::result_box<Transposed>(in.residual, t))) : active;
    return clamped(added, in);
  }
  /// The same with a residual that is there already.
  template <class Tile, class Arguments, class Box>
  Tile operator()(const Tile& acc, const Arguments& in, const Box& t, const Tile& residual) const { return clamped(activated_of(acc, in, t) + residual, in); }

 private:
  template <class Tile, class Arguments>
  Tile clamped(const Tile& x, const Arguments& in) const { return what.clamp ? min(max(x, in.low), in.high) : x; }
  template <class Tile, class Arguments, class Box>
  Tile activated_of(const Tile& acc, const Arguments& in, const Box& t) const {
    const Tile scaled = multiplied(multiplied(what.scale ? acc * in.alpha : acc, in.scale_a, what.scale_a, !Transposed, t), in.scale_b, what.scale_b, Transposed, t);
    const Tile biased = !what.bias ? scaled : what.bias_by_row != Transposed ? scaled + fetch<Tile::rows, 1>(in.bias.at(t.row)) : scaled + fetch<1, Tile::cols>(in.bias.at(t.col));
    if (what.before) store(kernels::result_box<Transposed>(in.before, t), cast_to(in.before, biased));
    return activated(biased, what.activate);
  }
  template <class C, int Rank, class Tile>
  static auto cast_to(const view<C, Rank>&, const Tile& x) { return cast<C>(x); }
  template <class Tile>
  static auto as_float(const Tile& x) { return kernels::detail::as_float(x); }

  template <class Tile, class Box>
  static Tile multiplied(const Tile& x, const view<float, 1>& by, factor how, bool by_row, const Box& t) {
    if (how == factor::none) return x;
    if (how == factor::one) return x * element(by.at(0));
    return by_row ? x * fetch<Tile::rows, 1>(by.at(t.row)) : x * fetch<1, Tile::cols>(by.at(t.col));
  }
};

template <class A, class B, class C, int Rank, class Plan>
std::unique_ptr<ir::kernel> traced(const gemm_choice& c, const std::string& name, const std::string& target) {
  using arguments = library_arguments<A, B, C, Rank>;
  return trace<arguments>(name, target, [&](block& cta, const arguments& in) { kernels::gemm<A, Plan>(cta, in, epilogue_of<Plan::tc>{c.finish}); });
}

[[noreturn]] void no_kernel(const gemm_choice& c);

}  // namespace tlx::host
