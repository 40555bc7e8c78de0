// Fused GEMM: c = epilogue(a * b), f32 accumulation (s32 for integers). One text for Hopper (the mma and epilogue roles merge: the accumulator is
// registers) and Blackwell.
#pragma once
#include <optional>

#include "tlx/dsl/kernel.hpp"

namespace tlx::kernels {

/// How one GEMM kernel is cut: an M x N tile of C per CTA, K elements of K per stage.
template <int M, int N, int K, int Stages, bool TransposedA = false, bool TransposedB = true, bool ByThreads = false>
struct gemm_plan {
  static constexpr int m = M, n = N, k = K, stages = Stages;
  static constexpr bool ta = TransposedA;  // a is stored K x M
  static constexpr bool tb = TransposedB;  // b is stored N x K
  static constexpr bool by_threads = ByThreads;  // rows that are not 16-byte aligned: ordinary loads and stores
  static constexpr bool tc = false;        // c is stored N x M
  static constexpr int ctas = 1;           // on one SM
  static constexpr bool promoted = false;  // Hopper's 8-bit floats: each stage is summed apart, and added in f32
  static constexpr int cluster = 1;        // CTAs whose tiles are neighbours and that read the operand they share once
  static constexpr neighbour lie = neighbour::below;
  static constexpr bool pairs = false;     // Blackwell: the two CTAs of a cluster multiply together, each keeps half of b
  static constexpr bool turns = false;     // Hopper: four warps multiply a tile while four others finish the one before
  static constexpr bool loads_residual = false;  // in turns: the residual comes by bulk copies beside the operands, and the epilogue gets it as a tile
};
template <class Plan> struct result_transposed : Plan { static constexpr bool tc = true; };
template <class Plan, int Ctas> struct several_ctas : Plan { static constexpr int ctas = Ctas; };
template <class Plan, bool LoadsResidual = false> struct in_turns : Plan {
  static constexpr bool turns = true, loads_residual = LoadsResidual;
};
template <class Plan> struct sums_promoted : Plan { static constexpr bool promoted = true; };
/// Tiles below each other share the columns of b, tiles beside each other the rows of a.
template <class Plan, int Ctas, neighbour Lie = neighbour::below>
struct clustered : Plan {
  static constexpr int cluster = Ctas;
  static constexpr neighbour lie = Lie;
};
/// Tiles below each other, as clustered<Plan, 2>, whose products are made together.
template <class Plan> struct paired : clustered<Plan, 2> { static constexpr bool pairs = true; };

/// What gemm() below needs of a kernel's arguments are views a, b and c, matrices of rank 2 or batches of them of rank 3 (batch, row, column); the rest is the
/// epilogue's. This is the usual set.
template <class T>
struct gemm_arguments {
  BOOST_HANA_DEFINE_STRUCT(gemm_arguments, (view<T, 2>, a), (view<T, 2>, b), (view<T, 2>, c), (view<float, 1>, bias), (view<T, 2>, residual), (scalar<float>, alpha));
};

/// The epilogue: a function of the accumulator tile (f32), the arguments and the tile's place that gives the tile to store, of c's element or f32.
struct plain_epilogue {
  template <class Tile, class Arguments, class Box>
  auto operator()(const Tile& acc, const Arguments&, const Box&) const { return acc; }
};

/// The box of a matrix, or of the matrix of `t`'s batch, that starts at (row, column).
template <class T>
box_of<T, 2> box_at(const view<T, 2>& v, const grid_box&, const index& row, const index& col) { return v.at(row, col); }
template <class T>
box_of<T, 3> box_at(const view<T, 3>& v, const batch_box& t, const index& row, const index& col) { return v.at(t.batch, row, col); }

/// The box of the tile `t` in a matrix like c: `Transposed` when it is stored N x M.
template <bool Transposed, class T, int Rank, class Box>
box_of<T, Rank> result_box(const view<T, Rank>& v, const Box& t) {
  if constexpr (Transposed) return box_at(v, t, t.col, t.row).axes(Rank - 1, Rank - 2);
  else return box_at(v, t, t.row, t.col);
}

namespace detail {

template <class Plan, class T, int Rank>
auto result_tiles(const view<T, Rank>& c) {
  constexpr int rows = Plan::tc ? Rank - 1 : Rank - 2, cols = Plan::tc ? Rank - 2 : Rank - 1;
  if constexpr (Rank == 2) return grid_tiles<Plan::m, Plan::n>(c, 16, rows, cols, Plan::lie);
  else return batch_tiles<Plan::m, Plan::n>(c, 16, rows, cols, Plan::lie);
}

/// An operand of the tile, which the tiles of the cluster that lie `Shared` need too.
template <class Plan, neighbour Shared, class Part, class Box>
void load_operand(const Part& to, const Box& from) {
  if constexpr (Plan::lie == Shared) load_for_cluster(to, from);
  else load(to, from);
}

inline grid_box rows_from(const grid_box& t, int first) { return {first ? t.row + constant(t.row.home(), first) : t.row, t.col}; }
inline grid_box columns_from(const grid_box& t, int first) { return {t.row, first ? t.col + constant(t.col.home(), first) : t.col}; }
inline batch_box columns_from(const batch_box& t, int first) { return {t.batch, t.row, first ? t.col + constant(t.col.home(), first) : t.col}; }

template <class Plan, class Acc, class Slot>
void multiply(const Acc& acc, const Slot& slot, const accumulate& when) {
  auto a = get<0>(slot);
  auto b = get<1>(slot);
  if constexpr (Plan::ta && Plan::tb) mma(acc, transpose(a), transpose(b), when);
  else if constexpr (Plan::ta) mma(acc, transpose(a), b, when);
  else if constexpr (Plan::tb) mma(acc, a, transpose(b), when);
  else mma(acc, a, b, when);
}

template <class Tile>
auto as_float(const Tile& t) {
  if constexpr (std::is_same_v<typename Tile::element_type, float>) return t;
  else return cast<float>(t);
}

template <class C, class Tile>
auto as_stored(const Tile& t) {
  if constexpr (std::is_same_v<typename Tile::element_type, C>) return t;
  else return cast<C>(t);
}
// Sums of an M x N tile beside the accumulators, in pieces that are whole rows of 128, 64 or 32 bytes of a 16-bit result, because those leave as bulk copies.
template <int M, int N>
class promoted_sums {
 public:
  explicit promoted_sums(const block& cta) : first_(cta.carry(splat<float, M, width>(cta.home(), 0.0f))), rest_(cta) {}

  /// Adds an accumulator whose first column is this tile's `first`.
  template <class Acc>
  void add(const Acc& part, int first) {
    first_.set(first_.get() + read_columns<width>(part, first));
    rest_.add(part, first + width);
  }
  template <class Body>
  void each(Body&& body, int first = 0) const {
    body(first_.get(), first);
    rest_.each(body, first + width);
  }

 private:
  static constexpr int width = N >= 64 ? 64 : N >= 32 ? 32 : N >= 16 ? 16 : N;
  tile_cell<float, M, width> first_;
  promoted_sums<M, N - width> rest_;
};
template <int M>
class promoted_sums<M, 0> {
 public:
  explicit promoted_sums(const block&) {}
  template <class Acc> void add(const Acc&, int) {}
  template <class Body> void each(Body&&, int = 0) const {}
};

template <class View> using element_of_view = typename std::decay_t<View>::element_type;

/// Where accumulators are registers and each stage is summed apart. A tile wider than 128 columns has two accumulators: one is added while the tensor cores
/// work on the other.
template <class T, class Plan, class Epilogue, class Arguments, class Tiles>
void promoted_gemm(block& cta, const Arguments& in, Epilogue epilogue, const Tiles& tiles) {
  using namespace literals;
  using B = element_of_view<decltype(in.b)>;
  using C = element_of_view<decltype(in.c)>;
  static_assert(!Plan::ta && Plan::tb && !Plan::tc && !Plan::by_threads, "tlx: a promoted plan reads both operands with K contiguous, by bulk copies");
  constexpr int Rank = std::decay_t<decltype(in.c)>::rank, m = Plan::m, n = Plan::n, k = Plan::k, low = n > 128 ? 96 : n / 2, high = n - low;
  auto operands = cta.ring<Plan::stages>("ab", shared<T, m, k>, shared<B, low, k>, shared<B, high, k>);
  auto k_tiles = [&] { return max(ceil_div(in.a.extent(Rank - 1), k), 1); };  // of an empty K: one tile of zeros
  auto loading = role("load", 1_warp, [&](const auto& t) {
    for_each(k_tiles(), [&](index i) {
      auto slot = operands.fill();
      load_operand<Plan, neighbour::beside>(get<0>(slot), box_at(in.a, t, t.row, i * k));
      load_operand<Plan, neighbour::below>(get<1>(slot), box_at(in.b, t, t.col, i * k));
      load_operand<Plan, neighbour::below>(get<2>(slot), box_at(in.b, t, t.col + low, i * k));
    });
  });
  cta.roles(tiles, loading, role("mma", warp_count{m / 16}, [&](const auto& t) {
    promoted_sums<m, low> left(cta);
    promoted_sums<m, high> right(cta);
    for_each(k_tiles(), [&](index) {
      auto slot = operands.drain();
      auto left_part = mma(get<0>(slot), transpose(get<1>(slot)));
      auto right_part = mma(get<0>(slot), transpose(get<2>(slot)));
      left.add(left_part, 0);
      right.add(right_part, 0);
    });
    const auto finish = [&](const auto& sums, int first) {
      const auto box = columns_from(t, first);
      store(result_box<false>(in.c, box), as_stored<C>(epilogue(as_float(sums), in, box)));
    };
    left.each(finish);
    right.each([&](const auto& sums, int first) { finish(sums, low + first); });
  }));
}

// In turns, where accumulators are registers: four warps hold a whole tile as two accumulators of 64 rows, and finish it while four others multiply the next.
// The epilogue of a piece of Width columns gets the residual there, if the plan loads it.
template <class T, class Plan, class Epilogue, class Arguments, class Tiles>
void gemm_in_turns(block& cta, const Arguments& in, Epilogue epilogue, const Tiles& tiles) {
  using namespace literals;
  using B = element_of_view<decltype(in.b)>;
  using C = element_of_view<decltype(in.c)>;
  static_assert(!Plan::ta && Plan::tb && !Plan::tc && !Plan::by_threads && Plan::m == 128 && Plan::cluster == 1, "tlx: a plan in turns reads both operands with K contiguous, by bulk copies, 128 rows a tile");
  constexpr int n = Plan::n, k = Plan::k, width = 64;
  static_assert(!Plan::loads_residual || n % width == 0, "tlx: a residual is loaded 64 columns at a time");
  auto operands = cta.ring<Plan::stages>("ab", shared<T, 64, k>, shared<T, 64, k>, shared<B, n, k>);
  // A slot for each piece of a tile: with fewer the load role would wait for this tile's epilogue before it brings the next tile's operands.
  constexpr int pieces = 2 * ((n + width - 1) / width);
  std::optional<ring_of<pieces, shared_spec<C, 64, width>>> added;
  if constexpr (Plan::loads_residual) added = cta.ring<pieces>("residual", shared<C, 64, width>);
  auto k_tiles = [&] { return max(ceil_div(in.a.extent(1), k), 1); };  // of an empty K: one tile of zeros
  auto loading = role("load", 1_warp, [&](const grid_box& t) {
    for_each(k_tiles(), [&](index i) {
      auto slot = operands.fill();
      load(get<0>(slot), in.a.at(t.row, i * k));
      load(get<1>(slot), in.a.at(t.row + 64, i * k));
      load(get<2>(slot), in.b.at(t.col, i * k));
    });
    if constexpr (Plan::loads_residual)
      for (int half = 0; half < 2; ++half)
        for (int first = 0; first < n; first += width) load(added->fill(), in.residual.at(t.row + constant(t.row.home(), 64 * half), t.col + constant(t.col.home(), first)));
  });
  cta.roles(tiles, loading, role("mma", 4_warps, [&](const grid_box& t) {
    const auto top = cta.make(accumulator<float, 64, n>), bottom = cta.make(accumulator<float, 64, n>);
    for_each(k_tiles(), [&](index i) {
      auto slot = operands.drain();
      mma(top, get<0>(slot), transpose(get<2>(slot)), accumulate(i > 0));
      mma(bottom, get<1>(slot), transpose(get<2>(slot)), accumulate(i > 0));
    });
    const auto finish = [&](const auto& sums, int first_row) {
      const grid_box half = rows_from(t, first_row);
      if constexpr (Plan::loads_residual) {
        for (int first = 0; first < n; first += width) {
          const grid_box piece = columns_from(half, first);
          const auto residual = as_float(read(added->drain()));
          store(in.c[piece], as_stored<C>(epilogue(as_float(read_columns<width>(sums, first)), in, piece, residual)));
        }
      } else {
        store(in.c[half], as_stored<C>(epilogue(as_float(read(sums)), in, half)));
      }
    };
    finish(top, 0);
    finish(bottom, 64);
  }).in_turns());
}

}  // namespace detail

/// T: the element of a.
template <class T, class Plan, class Epilogue, class Arguments>
void gemm(block& cta, const Arguments& in, Epilogue epilogue) {
  using namespace literals;
  using B = detail::element_of_view<decltype(in.b)>;
  using C = detail::element_of_view<decltype(in.c)>;
  constexpr int Rank = std::decay_t<decltype(in.c)>::rank;
  static_assert(std::is_same_v<T, detail::element_of_view<decltype(in.a)>>, "tlx: gemm<T, Plan>(cta, in, epilogue): T is the element of in.a");
  constexpr int m = Plan::m, n = Plan::n, k = Plan::k;
  if (Plan::by_threads) cta.move_by_threads();
  if (Plan::ctas > 1) cta.per_processor(Plan::ctas);
  if (Plan::pairs) cta.pair();
  else if (Plan::cluster > 1) cta.cluster(Plan::cluster);
  auto tiles = cta.persistent(detail::result_tiles<Plan>(in.c));
  if constexpr (Plan::promoted)
    if (!cta.has_tensor_memory()) return detail::promoted_gemm<T, Plan>(cta, in, epilogue, tiles);
  if constexpr (Plan::turns)
    if (!cta.has_tensor_memory()) return detail::gemm_in_turns<T, Plan>(cta, in, epilogue, tiles);
  auto ab = cta.ring<Plan::stages>("ab", shared<T, Plan::ta ? k : m, Plan::ta ? m : k>, shared<B, Plan::tb ? n : k, Plan::tb ? k : n>);
  auto d = cta.ring<2>("d", accumulator<dsl::sum_of<T>, m, n>);
  const warp_count finishing = cta.has_tensor_memory() ? 4_warps : warp_count{m / 16};  // wgmma keeps 64 rows in each four warps
  auto k_tiles = [&] { return max(ceil_div(in.a.extent(Plan::ta ? Rank - 2 : Rank - 1), k), 1); };  // of an empty K: one tile of zeros
  auto finish = [&](const auto& sums, const auto& t) { store(result_box<Plan::tc>(in.c, t), detail::as_stored<C>(epilogue(detail::as_float(sums), in, t))); };

  auto loading = role("load", Plan::by_threads ? 4_warps : 1_warp, [&](const auto& t) {
    for_each(k_tiles(), [&](index i) {
      auto slot = ab.fill();
      detail::load_operand<Plan, neighbour::beside>(get<0>(slot), Plan::ta ? box_at(in.a, t, i * k, t.row) : box_at(in.a, t, t.row, i * k));
      detail::load_operand<Plan, neighbour::below>(get<1>(slot), Plan::tb ? box_at(in.b, t, t.col, i * k) : box_at(in.b, t, i * k, t.col));
    });
  });

  cta.roles(tiles, loading,
    role("mma", 1_warp, [&](const auto&) {
      auto acc = d.fill();
      for_each(k_tiles(), [&](index i) {
        auto slot = ab.drain();
        detail::multiply<Plan>(acc, slot, accumulate(i > 0));
      });
    }),
    role("epilogue", finishing, [&](const auto& t) { finish(read(d.drain()), t); }));
}

/// Two products of one a, joined element by element: c = join(a * g, a * u). The tile of each is M x N.
template <class A, class C = A>
struct gated_arguments {
  BOOST_HANA_DEFINE_STRUCT(gated_arguments, (view<A, 2>, a), (view<A, 2>, g), (view<A, 2>, u), (view<C, 2>, c), (view<float, 1>, bias_g), (view<float, 1>, bias_u));
};

template <class Plan, class A, class C, class Join>
void gated_gemm(block& cta, const gated_arguments<A, C>& in, Join join) {
  using namespace literals;
  static_assert(!Plan::ta && Plan::tb && !Plan::tc, "tlx: gated_gemm reads all three matrices with K contiguous");
  constexpr int m = Plan::m, n = Plan::n, k = Plan::k;
  if (Plan::by_threads) cta.move_by_threads();
  auto tiles = cta.persistent(grid_of<m, n>(in.c));
  auto operands = cta.ring<Plan::stages>("agu", shared<A, m, k>, shared<A, n, k>, shared<A, n, k>);
  auto g = cta.ring<2>("g", accumulator<dsl::sum_of<A>, m, n>), u = cta.ring<2>("u", accumulator<dsl::sum_of<A>, m, n>);
  const warp_count finishing = cta.has_tensor_memory() ? 4_warps : warp_count{m / 16};
  auto k_tiles = [&] { return max(ceil_div(in.a.extent(1), k), 1); };  // of an empty K: one tile of zeros
  cta.roles(tiles,
    role("load", Plan::by_threads ? 4_warps : 1_warp, [&](const grid_box& t) {
      for_each(k_tiles(), [&](index i) {
        auto slot = operands.fill();
        load(get<0>(slot), in.a.at(t.row, i * k));
        load(get<1>(slot), in.g.at(t.col, i * k));
        load(get<2>(slot), in.u.at(t.col, i * k));
      });
    }),
    role("mma", 1_warp, [&](const grid_box&) {
      auto sum_g = g.fill();
      auto sum_u = u.fill();
      for_each(k_tiles(), [&](index i) {
        auto slot = operands.drain();
        mma(sum_g, get<0>(slot), transpose(get<1>(slot)), accumulate(i > 0));
        mma(sum_u, get<0>(slot), transpose(get<2>(slot)), accumulate(i > 0));
      });
    }),
    role("epilogue", finishing, [&](const grid_box& t) {
      auto full_g = g.drain();
      auto full_u = u.drain();
      auto sums_g = detail::as_float(read(full_g));
      auto sums_u = detail::as_float(read(full_u));
      store(in.c[t], cast<C>(join(sums_g, sums_u, in, t)));
    }));
}

/// c = epilogue(the sum of `parts`), part after part: what a product whose K was divided leaves over. parts: f32 (part, row, column).
template <class C>
struct sum_arguments {
  BOOST_HANA_DEFINE_STRUCT(sum_arguments, (view<float, 3>, parts), (view<C, 2>, c), (view<float, 1>, bias), (view<C, 2>, residual), (scalar<float>, alpha), (view<float, 1>, scale_a),
                           (view<float, 1>, scale_b), (view<C, 2>, before), (scalar<float>, low), (scalar<float>, high));
};
template <class C, class Epilogue>
void sum_parts(block& cta, const sum_arguments<C>& in, int parts, Epilogue epilogue) {
  using namespace literals;
  constexpr int rows = 4, cols = 256;
  cta.warps(4_warps);
  cta.tile(grid_of<rows, cols>(in.c), [&](const grid_box& t) {
    const auto part = [&](int i) { return fetch<rows, cols>(in.parts.at(constant(cta.home(), i), t.row, t.col)); };
    const auto sum = [&](const auto& self, int i) -> tile_of<float, rows, cols> {
      if (i == 0) return part(0);
      const auto before = self(self, i - 1);
      return before + part(i);
    };
    store(in.c[t], cast<C>(epilogue(sum(sum, parts - 1), in, t)));
  });
}

}  // namespace tlx::kernels
