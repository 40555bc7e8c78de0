// Block-scaled products (Blackwell): each 32 or 16 numbers of K of a row of a, or of a column of b, have a scale of their own.
#pragma once
#include "tlx/dsl/mma.hpp"
#include "tlx/support/error.hpp"

namespace tlx {

/// Fills a part of an open slot with the scales of Rows rows from row `row` on, a multiple of 128, from scale `first` of K on, a multiple of 4, by a bulk copy.
/// The view: (ceil(rows / 128), ceil(scales / 4) * 32, 16), dense; units as tlx/tile/scaled_mma.hpp says. Zeros outside.
template <class S, int Rows, int Count>
void load_scales(const operand_of<scales_spec<S, Rows, Count>>& to, const view<S, 3>& from, const index& row, const index& first, location where = location::here()) {
  using spec = scales_spec<S, Rows, Count>;
  dsl::context& c = *to.home;
  const box_of<S, 3> box = from.at(row / tile::scale_unit_rows, first / tile::scale_unit_scales * 32, 0);
  ir::op& made = dsl::record_load(to, box, hint::none, where);
  if (c.by_threads)
    raise(user_error({.id = "scales-by-threads", .what = "block scales are loaded in a kernel that moves by threads", .where = where, .because = "units of scales are 16-byte aligned and travel by bulk copies only",
                      .fix = {"leave move_by_threads() out"}}));
  if (spec::units_of_rows > 1) made.set("depth", std::int64_t{spec::units_of_rows});
}

/// acc = (a with its scales) * (b with its scales) + (when ? acc : 0). a is M x K and b is N x K as stored: b enters as transpose(b). e4m3 and e5m2 with a
/// ue8m0 for each 32 numbers of K; e2m1x2 with a ue8m0 for each 32 or a ue4m3 for each 16. Exact scales: a power of two, or a ue4m3, times each product.
template <class Acc, class A, class S, int M, int N, int Count, class B>
void mma_scaled(const Acc& acc, const operand_of<A>& a, const operand_of<scales_spec<S, M, Count>>& scales_a, const operand_of<B, true>& b, const operand_of<scales_spec<S, N, Count>>& scales_b,
                const accumulate& when, location where = location::here()) {
  const auto to = dsl::handle(acc);
  using left = typename A::element_type;
  using right = typename B::element_type;
  using sums = typename std::decay_t<decltype(to)>::spec;
  constexpr auto kind = tile::scaled_kind_of(tile::element_of<left>, tile::element_of<right>, tile::element_of<S>);
  static_assert(kind.has_value(), "tlx: mma_scaled: operands are e4m3 or e5m2 with ue8m0 scales, or both e2m1x2 with ue8m0 or ue4m3 scales");
  if constexpr (kind.has_value()) {
    constexpr const char* problem = tile::scaled_shape_problem(*kind, A::rows, B::rows, A::cols * tile::numbers_in(tile::element_of<left>), Count);
    static_assert(problem == nullptr, "tlx: mma_scaled: M is 128, N is 128 or 256, and there is one scale for each 32 numbers of K (of 16 for ue4m3), a multiple of 4 in a slot");
    static_assert(A::cols == B::cols && A::rows == sums::rows && B::rows == sums::cols && A::rows == M && B::rows == N, "tlx: mma_scaled: rows of a, b, their scales and the accumulator do not fit");
    static_assert(std::is_same_v<typename sums::element_type, float>, "tlx: mma_scaled accumulates in float");
    dsl::context& c = *to.home;
    c.at(where);
    ir::value keep = when.condition ? when.condition->used() : c.at().boolean(when.always);
    ir::op& made = c.at().make(ir::opcode::mma, {c.use(to.value, to.home), c.use(a.value, a.home), c.use(b.value, b.home), keep, c.use(scales_a.value, scales_a.home), c.use(scales_b.value, scales_b.home)}, {},
                               {{"ta", std::int64_t{0}}, {"tb", std::int64_t{1}}, {"block", std::int64_t{tile::scale_block(*kind)}}});
    if (c.pairs) made.set("ctas", std::int64_t{2});  // halve-operands refuses it
  }
}

}  // namespace tlx
