// GEMMs with a root mean square of rows: rows of a are normed on their way in, or rows of c on their way out. One pass over memory each.
#pragma once
#include <utility>
#include <vector>

#include "tlx/kernels/gemm.hpp"

namespace tlx::kernels {

/// c (M x N) of 16-bit elements, a: M x K, b: N x K. What an epilogue does not read may be empty.
template <class T>
struct normed_arguments {
  BOOST_HANA_DEFINE_STRUCT(normed_arguments, (view<T, 2>, a), (view<T, 2>, b), (view<T, 2>, c), (view<float, 1>, bias), (view<T, 2>, residual), (view<T, 2>, before), (view<float, 1>, gain),
                           (scalar<float>, epsilon));
};

namespace detail {

/// 1 / sqrt(mean + epsilon) of rows whose squares add up to `squares`.
template <int Rows>
tile_of<float, Rows, 1> rms_factor(const tile_of<float, Rows, 1>& squares, const index& length, const scalar<float>& epsilon) {
  return rsqrt(squares * rcp(cast<float>(max(length, 1))) + epsilon);
}

/// What roles hand to each other of a row lies in shared memory as eight equal columns: the narrowest tile there is.
template <int Rows> inline constexpr auto shared_column = shared<float, Rows, 8>;
template <int Rows>
tile_of<float, Rows, 8> eight_times(const tile_of<float, Rows, 1>& column) { return splat<float, Rows, 8>(column.home(), 0.0f) + column; }
template <int Rows>
tile_of<float, Rows, 1> one_of(const tile_of<float, Rows, 8>& columns) { return row_max(columns); }

/// Columns first .. first + Cols - 1 of an accumulator.
template <int Cols, class T, int R, int C>
tile_of<T, R, Cols> read_columns(const operand_of<accumulator_spec<T, R, C>>& acc, int first, location where = location::here()) {
  dsl::context& c = *acc.home;
  const ir::value v = c.use(acc.value, acc.home);
  return {c, c.at(where).make(ir::opcode::acc_read, {v}, {ir::type::tile_of(tile::element_of<T>, R, Cols)}, {{"column", std::int64_t{first}}}).result()};
}

}  // namespace detail

/// c = epilogue(rms(a) * b): each row of a is divided by sqrt(mean of its squares + epsilon). That is a factor of the row's sums, so the products run on a
/// as it is; whoever reads the stages of a for the products, or beside them, adds the squares up. A gain of a's columns is a factor of b's rows: fold it in.
template <class T, class Plan, class Epilogue, class Arguments>
void normed_gemm(block& cta, const Arguments& in, Epilogue epilogue) {
  using namespace literals;
  static_assert(!Plan::ta && Plan::tb && !Plan::tc, "tlx: normed_gemm reads a and b with K contiguous");
  constexpr int m = Plan::m, n = Plan::n, k = Plan::k;
  if (Plan::by_threads) cta.move_by_threads();
  auto tiles = cta.persistent(grid_of<m, n>(in.c));
  auto ab = cta.ring<Plan::stages>("ab", shared<T, m, k>, shared<T, n, k>);
  auto k_tiles = [&] { return max(ceil_div(in.a.extent(1), k), 1); };  // of an empty K: one tile of zeros
  auto loading = role("load", Plan::by_threads ? 4_warps : 1_warp, [&](const grid_box& t) {
    for_each(k_tiles(), [&](index i) {
      auto slot = ab.fill();
      load(get<0>(slot), in.a.at(t.row, i * k));
      load(get<1>(slot), in.b.at(t.col, i * k));
    });
  });
  const auto squares_of = [&](const auto& stage) {
    const auto x = cast<float>(read(stage));
    return row_sum(x * x);
  };
  const auto factor = [&](const tile_of<float, m, 1>& squares) { return detail::rms_factor(squares, in.a.extent(1), in.epsilon); };
  const auto finish = [&](const auto& sums, const tile_of<float, m, 1>& by, const grid_box& t) { store(in.c[t], cast<T>(epilogue(sums * by, in, t))); };

  if (!cta.has_tensor_memory()) {  // who multiplies a stage reads it too, while its products run
    cta.roles(tiles, loading, role("mma", warp_count{m / 16}, [&](const grid_box& t) {
      auto acc = cta.make(accumulator<float, m, n>);
      auto squares = cta.carry(splat<float, m, 1>(cta.home(), 0.0f));
      for_each(k_tiles(), [&](index i) {
        auto slot = ab.drain();
        mma(acc, get<0>(slot), transpose(get<1>(slot)), accumulate(i > 0));
        squares.set(squares.get() + squares_of(get<0>(slot)));
      });
      finish(read(acc), factor(squares.get()), t);
    }));
    return;
  }
  auto d = cta.ring<2>("d", accumulator<float, m, n>);
  auto factors = cta.ring<2>("factors", detail::shared_column<m>);
  cta.roles(tiles, loading,
    role("mma", 1_warp, [&](const grid_box&) {
      auto acc = d.fill();
      for_each(k_tiles(), [&](index i) {
        auto slot = ab.drain();
        mma(acc, get<0>(slot), transpose(get<1>(slot)), accumulate(i > 0));
      });
    }),
    role("squares", 4_warps, [&](const grid_box&) {
      auto squares = cta.carry(splat<float, m, 1>(cta.home(), 0.0f));
      for_each(k_tiles(), [&](index) {
        auto slot = ab.drain();
        squares.set(squares.get() + squares_of(get<0>(slot)));
      });
      write(factors.fill(), detail::eight_times(factor(squares.get())));
    }),
    role("epilogue", 4_warps, [&](const grid_box& t) {
      auto full = d.drain();
      auto by = factors.drain();
      finish(read(full), detail::one_of(read(by)), t);
    }));
}

/// c = gain * rms(epilogue(a * b)): rows of c are divided by sqrt(mean of their squares + epsilon), so a CTA holds whole rows, at most 2 * Plan::n columns. Two
/// roles (on Blackwell, two of each kind) have one half of the columns each and tell each other the sums of their squares. `finish(x, in, box)` is what is
/// stored for the normed piece x.
template <class T, class Plan, class Epilogue, class Finish, class Arguments>
void gemm_normed(block& cta, const Arguments& in, Epilogue epilogue, Finish finish) {
  using namespace literals;
  static_assert(!Plan::ta && Plan::tb && !Plan::tc, "tlx: gemm_normed reads a and b with K contiguous");
  constexpr int m = Plan::m, n = Plan::n, k = Plan::k, width = 64;
  static_assert(m == 64 && n % width == 0, "tlx: gemm_normed keeps 64 rows of a half in the registers of four warps");
  if (Plan::by_threads) cta.move_by_threads();
  auto tiles = cta.persistent(grid_of<m, 2 * n>(in.c));
  auto ab = cta.ring<Plan::stages>("ab", shared<T, m, k>, shared<T, n, k>, shared<T, n, k>);
  auto left = cta.ring<1>("left", accumulator<float, m, n>), right = cta.ring<1>("right", accumulator<float, m, n>);
  auto of_left = cta.ring<1>("squares_left", detail::shared_column<m>), of_right = cta.ring<1>("squares_right", detail::shared_column<m>);
  auto k_tiles = [&] { return max(ceil_div(in.a.extent(1), k), 1); };  // of an empty K: one tile of zeros

  const auto multiplying = [&](const char* name, const auto& sums, auto half) {
    return role(name, 1_warp, [&cta, &ab, &k_tiles, sums](const grid_box&) {
      auto acc = sums.fill();
      for_each(k_tiles(), [&](index i) {
        auto slot = ab.drain();
        mma(acc, get<0>(slot), transpose(get<1 + decltype(half)::value>(slot)), accumulate(i > 0));
      });
    });
  };
  const auto finishing = [&](const char* name, const auto& sums, const auto& mine, const auto& other, int first) {
    return role(name, 4_warps, [&in, &epilogue, &finish, sums, mine, other, first](const grid_box& t) {
      auto full = sums.drain();
      const auto box = [&](int piece) { return grid_box{t.row, t.col + constant(t.col.home(), first + piece * width)}; };
      std::vector<tile_of<float, m, width>> pieces;
      std::vector<tile_of<float, m, 1>> squares;  // of the pieces up to the one of that index
      for (int i = 0; i < n / width; ++i) {
        pieces.push_back(epilogue(detail::read_columns<width>(full.template part<0>(), i * width), in, box(i)));
        const tile_of<float, m, 1> these = row_sum(pieces.back() * pieces.back());
        squares.push_back(i == 0 ? these : squares.back() + these);
      }
      write(mine.fill(), detail::eight_times(squares.back()));
      auto theirs = other.drain();
      const tile_of<float, m, 1> by = detail::rms_factor(squares.back() + detail::one_of(read(theirs)), in.c.extent(1), in.epsilon);
      for (int i = 0; i < n / width; ++i) store(in.c[box(i)], cast<T>(finish(pieces[static_cast<size_t>(i)] * by, in, box(i))));
    });
  };
  cta.roles(tiles,
    role("load", Plan::by_threads ? 4_warps : 1_warp, [&](const grid_box& t) {
      for_each(k_tiles(), [&](index i) {
        auto slot = ab.fill();
        load(get<0>(slot), in.a.at(t.row, i * k));
        load(get<1>(slot), in.b.at(t.col, i * k));
        load(get<2>(slot), in.b.at(t.col + n, i * k));
      });
    }),
    multiplying("mma_left", left, std::integral_constant<size_t, 0>{}), multiplying("mma_right", right, std::integral_constant<size_t, 1>{}),
    finishing("left", left, of_left, of_right, 0), finishing("right", right, of_right, of_left, n));
}

}  // namespace tlx::kernels
