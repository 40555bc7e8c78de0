// GEMMs with a root mean square of rows: rows of a are normed on their way in, or rows of c on their way out. One pass over memory each.
#pragma once
#include <optional>
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

/// Adds squares to sums of columns that have the same number modulo 8: what a thread has of a row is added up in the thread.
template <int Rows, int Cols>
void add_squares(tile_cell<float, Rows, 8>& sums, const tile_of<float, Rows, Cols>& x) {
  if constexpr (Cols == 8) {
    sums.set(fma(x, x, sums.get()));
  } else {
    add_squares(sums, even_columns(x));
    add_squares(sums, odd_columns(x));
  }
}

/// normed_gemm where accumulators are registers and K is short: roles in turns, as gemm_in_turns, over runs of tiles of the same 128 rows. A role of its own adds up
/// the squares of the stages while the first of these tiles is multiplied, keeps the factors, and hands them to whoever finishes a tile.
template <class T, class Plan, class Epilogue, class Arguments>
void normed_in_turns(block& cta, const Arguments& in, Epilogue epilogue) {
  using namespace literals;
  static_assert(!Plan::by_threads && Plan::m == 128 && Plan::cluster == 1, "tlx: a plan in turns reads both operands by bulk copies, 128 rows a tile");
  constexpr int n = Plan::n, k = Plan::k;
  auto tiles = cta.persistent(runs_of<128, n>(in.c));
  auto operands = cta.ring<Plan::stages>("ab", shared<T, 64, k>, shared<T, 64, k>, shared<T, n, k>);
  auto factors = cta.ring<2>("factors", shared_column<64>, shared_column<64>);
  auto k_tiles = [&] { return max(ceil_div(in.a.extent(1), k), 1); };  // of an empty K: one tile of zeros
  const auto zeros = [&] { return splat<float, 64, 8>(cta.home(), 0.0f); };
  const auto by_eights = [&](tile_cell<float, 64, 8>& squares) { return eight_times(rms_factor(row_sum(squares.get()), in.a.extent(1), in.epsilon)); };
  cta.roles(tiles,
    role("load", 1_warp, registers{24}, [&](const run_box& t) {
      for_each(k_tiles(), [&](index i) {
        auto slot = operands.fill();
        load(get<0>(slot), in.a.at(t.row, i * k));
        load(get<1>(slot), in.a.at(t.row + 64, i * k));
        load(get<2>(slot), in.b.at(t.col, i * k));
      });
    }),
    role("norm", 4_warps, registers{56}, [&](const run_box& t) {
      auto top = cta.keep(zeros), bottom = cta.keep(zeros);
      auto squares_of_top = cta.carry(zeros()), squares_of_bottom = cta.carry(zeros());
      for_each(k_tiles(), [&](index) {
        auto slot = operands.drain();
        when(t.begins, [&] {
          add_squares(squares_of_top, cast<float>(read(get<0>(slot))));
          add_squares(squares_of_bottom, cast<float>(read(get<1>(slot))));
        });
      });
      when(t.begins, [&] {
        top.set(by_eights(squares_of_top));
        bottom.set(by_eights(squares_of_bottom));
      });
      auto slot = factors.fill();
      write(get<0>(slot), top.get());
      write(get<1>(slot), bottom.get());
    }),
    role("mma", 4_warps, registers{216}, [&](const run_box& t) {
      const auto top = cta.make(accumulator<float, 64, n>), bottom = cta.make(accumulator<float, 64, n>);
      for_each(k_tiles(), [&](index i) {
        auto slot = operands.drain();
        mma(top, get<0>(slot), transpose(get<2>(slot)), accumulate(i > 0));
        mma(bottom, get<1>(slot), transpose(get<2>(slot)), accumulate(i > 0));
      });
      const auto finish = [&](const auto& sums, const tile_of<float, 64, 1>& by, int first_row) {
        const grid_box half = rows_from(t, first_row);
        store(in.c[half], cast<T>(epilogue(read(sums) * by, in, half)));
      };
      auto slot = factors.drain();
      finish(top, one_of(read(get<0>(slot))), 0);
      finish(bottom, one_of(read(get<1>(slot))), 64);
    }).in_turns());
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
  if constexpr (Plan::turns)
    if (!cta.has_tensor_memory()) return detail::normed_in_turns<T, Plan>(cta, in, epilogue);
  auto tiles = cta.persistent(grid_of<m, n>(in.c));
  auto ab = cta.ring<Plan::stages>("ab", shared<T, m, k>, shared<T, n, k>);
  auto k_tiles = [&] { return max(ceil_div(in.a.extent(1), k), 1); };  // of an empty K: one tile of zeros
  auto loading = role("load", Plan::by_threads ? 4_warps : 1_warp, registers{Plan::by_threads ? 0 : 24}, [&](const grid_box& t) {
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
  const auto finish = [&](const auto& sums, const tile_of<float, m, 1>& by, const grid_box& t) {
    constexpr int width = 64;  // of what is in hand at a time
    for (int first = 0; first < n; first += width) {
      const grid_box piece = detail::columns_from(t, first);
      store(in.c[piece], cast<T>(epilogue(read_columns<width>(sums, first) * by, in, piece)));
    }
  };

  if (!cta.has_tensor_memory()) {  // who multiplies a stage reads it too, while its products run
    cta.roles(tiles, loading, role("mma", warp_count{m / 16}, registers{Plan::by_threads ? 0 : 240}, [&](const grid_box& t) {
      auto acc = cta.make(accumulator<float, m, n>);
      auto squares = cta.carry(splat<float, m, 1>(cta.home(), 0.0f));
      for_each(k_tiles(), [&](index i) {
        auto slot = ab.drain();
        mma(acc, get<0>(slot), transpose(get<1>(slot)), accumulate(i > 0));
        squares.set(squares.get() + squares_of(get<0>(slot)));
      });
      finish(acc, factor(squares.get()), t);
    }));
    return;
  }
  auto d = cta.ring<2>("d", accumulator<float, m, n>);
  auto factors = cta.ring<1>("factors", detail::shared_column<m>);
  cta.roles(tiles, loading,
    role("mma", 1_warp, [&](const grid_box&) {
      auto acc = d.fill();
      for_each(k_tiles(), [&](index i) {
        auto slot = ab.drain();
        mma(acc, get<0>(slot), transpose(get<1>(slot)), accumulate(i > 0));
      });
    }),
    role("squares", 4_warps, registers{Plan::by_threads ? 0 : 208}, [&](const grid_box&) {
      auto squares = cta.carry(splat<float, m, 1>(cta.home(), 0.0f));
      for_each(k_tiles(), [&](index) {
        auto slot = ab.drain();
        squares.set(squares.get() + squares_of(get<0>(slot)));
      });
      write(factors.fill(), detail::eight_times(factor(squares.get())));
    }),
    role("epilogue", 4_warps, registers{Plan::by_threads ? 0 : 256}, [&](const grid_box& t) {
      const auto by = detail::one_of(read(factors.drain()));
      auto sums = d.drain();
      finish(sums.template part<0>(), by, t);
    }));
}

/// c = gain * rms(epilogue(a * b) + residual): rows of c are divided by sqrt(mean of their squares + epsilon), so a CTA holds whole rows, at most 2 * Plan::n columns.
/// Two roles (on Blackwell, two of each kind) have one half of the columns each and tell each other the sums of their squares. A piece is Width columns.
/// On Hopper the accumulators are registers anyway, so all pieces of a half stay there until the row is known; a residual that these roles fetched would take more
/// than there are, and is loaded beside the operands. On Blackwell each piece is made twice, from tensor memory: for the squares, and to be stored.
/// `entering(x, in, box)` sees each piece before it is normed, `finish(x, in, box)` makes what is stored of it after.
template <class T, class Plan, int Width = 64, class Epilogue, class Entering, class Finish, class Arguments>
void gemm_normed(block& cta, const Arguments& in, bool residual, Epilogue epilogue, Entering entering, Finish finish) {
  using namespace literals;
  static_assert(!Plan::ta && Plan::tb && !Plan::tc, "tlx: gemm_normed reads a and b with K contiguous");
  constexpr int m = Plan::m, n = Plan::n, k = Plan::k, width = Width;
  static_assert(m == 64 && n % width == 0, "tlx: gemm_normed keeps 64 rows of a half in the registers of four warps");
  if (Plan::by_threads) cta.move_by_threads();
  if (Plan::cluster > 1) cta.cluster(Plan::cluster);  // CTAs below each other, which read b once
  auto tiles = cta.persistent(grid_of<m, 2 * n>(in.c, neighbour::below));
  auto ab = cta.ring<Plan::stages>("ab", shared<T, m, k>, shared<T, n, k>, shared<T, n, k>);
  auto left = cta.ring<1>("left", accumulator<float, m, n>), right = cta.ring<1>("right", accumulator<float, m, n>);
  std::optional<ring_of<2, shared_spec<T, m, width>>> added_left, added_right;
  if (residual && !cta.has_tensor_memory()) {
    added_left = cta.ring<2>("residual_left", shared<T, m, width>);
    added_right = cta.ring<2>("residual_right", shared<T, m, width>);
  }
  auto of_left = cta.ring<1>("squares_left", detail::shared_column<m>), of_right = cta.ring<1>("squares_right", detail::shared_column<m>);
  auto k_tiles = [&] { return max(ceil_div(in.a.extent(1), k), 1); };  // of an empty K: one tile of zeros

  const auto multiplying = [&](const char* name, const auto& sums, auto half) {
    return role(name, 1_warp, [&ab, &k_tiles, sums](const grid_box&) {
      auto acc = sums.fill();
      for_each(k_tiles(), [&](index i) {
        auto slot = ab.drain();
        mma(acc, get<0>(slot), transpose(get<1 + decltype(half)::value>(slot)), accumulate(i > 0));
      });
    });
  };
  const auto finishing = [&](const char* name, const auto& sums, const auto& mine, const auto& other, const auto& added, int first) {
    // With loads by threads no warps are left whose registers could be given away unasked.
    return role(name, 4_warps, registers{Plan::by_threads ? (cta.has_tensor_memory() ? 136 : 184) : 0}, [&cta, &in, residual, &epilogue, &entering, &finish, sums, mine, other, added, first](const grid_box& t) {
      auto full = sums.drain();
      const auto box = [&](int piece) { return detail::columns_from(t, first + piece * width); };
      const auto made = [&](int i) {
        const auto x = epilogue(read_columns<width>(full.template part<0>(), i * width), in, box(i));
        if (added) return x + detail::as_float(read(added->drain()));
        return residual ? x + detail::as_float(fetch<m, width>(in.residual[box(i)])) : x;
      };
      std::vector<tile_cell<float, m, width>> pieces;  // cells: what they are given is computed there and then, and the next piece's operands are read after it
      auto squares = cta.carry(splat<float, m, 1>(cta.home(), 0.0f));
      for (int i = 0; i < n / width; ++i) {
        pieces.push_back(cta.carry(made(i)));
        const auto piece = pieces.back().get();
        squares.set(squares.get() + row_sum(piece * piece));
        entering(piece, in, box(i));
      }
      write(mine.fill(), detail::eight_times(squares.get()));
      auto theirs = other.drain();
      const tile_of<float, m, 1> by = detail::rms_factor(squares.get() + detail::one_of(read(theirs)), in.c.extent(1), in.epsilon);
      for (int i = 0; i < n / width; ++i) store(in.c[box(i)], cast<T>(finish((cta.has_tensor_memory() ? made(i) : pieces[static_cast<size_t>(i)].get()) * by, in, box(i))));
    });
  };
  cta.roles(tiles,
    role("load", Plan::by_threads ? 4_warps : 1_warp, registers{Plan::by_threads ? (cta.has_tensor_memory() ? 168 : 128) : 0}, [&](const grid_box& t) {
      for_each(k_tiles(), [&](index i) {
        auto slot = ab.fill();
        load(get<0>(slot), in.a.at(t.row, i * k));
        detail::load_operand<Plan, neighbour::below>(get<1>(slot), in.b.at(t.col, i * k));
        detail::load_operand<Plan, neighbour::below>(get<2>(slot), in.b.at(t.col + n, i * k));
      });
      for (int i = 0; added_left && i < n / width; ++i) {
        load(added_left->fill(), in.residual.at(t.row, t.col + constant(t.col.home(), i * width)));
        load(added_right->fill(), in.residual.at(t.row, t.col + constant(t.col.home(), n + i * width)));
      }
    }),
    multiplying("mma_left", left, std::integral_constant<size_t, 0>{}), multiplying("mma_right", right, std::integral_constant<size_t, 1>{}),
    finishing("left", left, of_left, of_right, added_left, 0), finishing("right", right, of_right, of_left, added_right, n));
}

}  // namespace tlx::kernels
