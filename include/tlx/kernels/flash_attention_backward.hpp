// The gradients of flash_attention(): one kernel for dk and dv, which walks the queries of a block of keys, and one for dq, which walks the keys of a block of
// queries. Probabilities are computed again from lse. Each gradient tile has one producer: no sums in memory, the same bits every time.
#pragma once
#include "tlx/kernels/flash_attention.hpp"

namespace tlx::kernels {

namespace detail {
inline constexpr float none = -std::numeric_limits<float>::infinity(), log2e = 1.4426950408889634f;
}  // namespace detail

/// As in flash_arguments; d_o: the gradient of o; delta: the sums of d_o * o by rows, like lse. first, second: dq, or dk and dv.
template <class T>
struct flash_backward_arguments {
  BOOST_HANA_DEFINE_STRUCT(flash_backward_arguments, (view<T, 4>, q), (view<T, 4>, k), (view<T, 4>, v), (view<T, 4>, o), (view<T, 4>, d_o), (view<float, 3>, lse), (view<float, 3>, delta),
                           (view<T, 4>, dq), (view<T, 4>, dk), (view<T, 4>, dv), (view<float, 1>, slopes), (scalar<float>, scale), (scalar<float>, exponent), (scalar<float>, gradient_scale),
                           (scalar<std::int32_t>, left), (scalar<std::int32_t>, right), (scalar<std::int32_t>, section));
};
template <class T>
struct flash_jagged_backward_arguments {
  BOOST_HANA_DEFINE_STRUCT(flash_jagged_backward_arguments, (view<T, 3>, q), (view<T, 3>, k), (view<T, 3>, v), (view<T, 3>, o), (view<T, 3>, d_o), (view<float, 2>, lse), (view<float, 2>, delta),
                           (view<T, 3>, dq), (view<T, 3>, dk), (view<T, 3>, dv), (view<float, 1>, slopes), (view<std::int32_t, 1>, q_offsets), (view<std::int32_t, 1>, k_offsets),
                           (scalar<float>, scale), (scalar<float>, exponent), (scalar<float>, gradient_scale), (scalar<std::int32_t>, left), (scalar<std::int32_t>, right));
};
template <int Rows, class T> flash_tiles<Rows> query_tiles(const flash_backward_arguments<T>& in) { return flash_tiles<Rows>(in); }
template <int Rows, class T> flash_jagged_tiles<Rows> query_tiles(const flash_jagged_backward_arguments<T>& in) { return flash_jagged_tiles<Rows>(in); }
template <int Rows, class T> flash_tiles<Rows, true> key_tiles(const flash_backward_arguments<T>& in) { return flash_tiles<Rows, true>(in); }
template <int Rows, class T> flash_jagged_tiles<Rows, true> key_tiles(const flash_jagged_backward_arguments<T>& in) { return flash_jagged_tiles<Rows, true>(in); }
template <class T> inline constexpr bool is_jagged<flash_jagged_backward_arguments<T>> = true;

/// The box, without rows that are another sequence's: `own` are this one's.
template <class Arguments, class Box>
Box only_first(Box box, const index& own) {
  if (is_jagged<Arguments>) box.valid_rows = own.used();
  return box;
}
/// Numbers of N rows from `row` on, as a vector along the columns.
inline box_of<float, 3> along_columns(const view<float, 3>& v, const query_box& t, const index& head, const index& row) { return v.at(t.batch, head, row).axes(-1, 2); }
inline box_of<float, 2> along_columns(const view<float, 2>& v, const query_box& t, const index& head, const index& row) { return v.at(head, t.first_query + row).axes(-1, 1); }

/// delta = rowsum(d_o * o).
template <class T, int D, class Arguments>
void flash_attention_delta(block& cta, const Arguments& in) {
  constexpr int Rows = 64;
  cta.warps({4});
  cta.tile(query_tiles<Rows>(in), [&](const query_box& t) {
    const auto rows = [&](const auto& v) { return cast<float>(fetch<Rows, D>(only_first<Arguments>(tokens_at(v, t, t.first_query, t.row, t.head), t.queries - t.row))); };
    const auto o = rows(in.o), g = rows(in.d_o);
    store(only_first<Arguments>(rows_at(in.delta, t), t.queries - t.row), row_sum(o * g));
  });
}

/// What the backward pass makes of a score: what the exponential takes, and what its gradient is multiplied by before it is one of the raw product.
template <class X>
struct scored_tile { X x; std::optional<X> factor; };
template <int R, int C, class Arguments>
scored_tile<tile_of<float, R, C>> scored(const tile_of<float, R, C>& raw, const Arguments& in, const flash_options& options, const index& head, const tile_of<std::int32_t, R, C>& distance) {
  if (options.plain()) return {raw, std::nullopt};
  const auto scaled_score = raw * in.scale;
  if (options.slopes) return {scaled_score - abs(cast<float>(distance)) * element(in.slopes.at(head)), std::nullopt};
  const auto t = tanh(scaled_score);
  return {t, 1.0f - t * t};
}

/// dq of a tile of queries.
template <class T, int D, class Plan, class Arguments>
void flash_attention_dq(block& cta, const Arguments& in, const flash_options& options = {}) {
  using namespace literals;
  using detail::log2e, detail::none;
  constexpr int Rows = Plan::rows, Keys = Plan::keys;
  dsl::context& c = cta.home();
  auto tiles = cta.persistent(query_tiles<Rows>(in));
  auto q = cta.ring<1>("q and do", shared<T, Rows, D>, shared<T, Rows, D>);
  auto kv = cta.ring<Plan::key_slots>("k and v", shared<T, Keys, D>, shared<T, Keys, D>);
  const warp_count working{cta.has_tensor_memory() ? 4 : Rows / 16};
  cta.roles(tiles,
    role("load", 1_warp, [&](const query_box& t) {
      const key_blocks<Rows, Keys> blocks(t, in, options);
      const index key_head = key_head_of(in, t.head);
      {
        auto slot = q.fill();
        load(get<0>(slot), tokens_at(in.q, t, t.first_query, t.row, t.head));
        load(get<1>(slot), tokens_at(in.d_o, t, t.first_query, t.row, t.head));
      }
      for_each(blocks.count(), [&](const index& i) {
        auto slot = kv.fill();
        load(get<0>(slot), tokens_at(in.k, t, t.first_key, blocks.key(i), key_head));
        load(get<1>(slot), tokens_at(in.v, t, t.first_key, blocks.key(i), key_head));
      });
    }),
    role("work", working, [&](const query_box& t) {
      const key_blocks<Rows, Keys> blocks(t, in, options);
      const auto own = [&](const auto& box) { return only_first<Arguments>(box, t.queries - t.row); };
      const auto lse = fetch<Rows, 1>(own(rows_at(in.lse, t))), delta = fetch<Rows, 1>(own(rows_at(in.delta, t)));
      const auto level = where(lse > none, lse * log2e, 0.0f);  // a row that sees no key has none
      auto dq = cta.make(accumulator<float, Rows, D>);
      [&] {
        auto mine = q.drain();
        for_each(blocks.count(), [&](const index& i) {
          const index key = blocks.key(i);
          auto other = kv.drain();
          if (is_jagged<Arguments>) {
            clear_from(get<0>(other), t.keys - key);
            clear_from(get<1>(other), t.keys - key);
          }
          auto s = mma(get<0>(mine), transpose(get<0>(other)));
          auto dp = mma(get<1>(mine), transpose(get<1>(other)));
          const auto made = scored(read(s), in, options, t.head, row_index<Rows, 1>(c) + (t.row + t.keys - t.queries - key) - col_index<1, Keys>(c));
          auto x = cta.carry(made.x);
          when(blocks.at_edge(key), [&] { x.set(blocks.seen(c, x.get(), key)); });
          const auto p = exp2(fma(x.get(), in.exponent, -level));
          const auto ds = p * (read(dp) - delta);
          mma(dq, cast<T>(made.factor ? ds * *made.factor : ds), get<0>(other), accumulate(i > 0));
        });
      }();
      store(own(tokens_at(in.dq, t, t.first_query, t.row, t.head)), cast<T>(read(dq) * in.gradient_scale));
    }));
}

/// dk and dv of a tile of keys, from all heads of q that share them. Everything is transposed: a key is a row.
template <class T, int D, class Plan, class Arguments>
void flash_attention_dkdv(block& cta, const Arguments& in, const flash_options& options = {}) {
  using namespace literals;
  using detail::log2e, detail::none;
  constexpr int Rows = Plan::rows, Queries = Plan::keys;
  dsl::context& c = cta.home();
  auto tiles = cta.persistent(key_tiles<Rows>(in));
  auto kv = cta.ring<1>("k and v", shared<T, Rows, D>, shared<T, Rows, D>);
  auto q = cta.ring<Plan::key_slots>("q and do", shared<T, Queries, D>, shared<T, Queries, D>);
  const warp_count working{cta.has_tensor_memory() ? 4 : Rows / 16};
  cta.roles(tiles,
    role("load", 1_warp, [&](const query_box& t) {
      const query_blocks<Rows, Queries> blocks(t, in, options);
      {
        auto slot = kv.fill();
        load(get<0>(slot), tokens_at(in.k, t, t.first_key, t.row, t.head));
        load(get<1>(slot), tokens_at(in.v, t, t.first_key, t.row, t.head));
      }
      for_each(blocks.count(), [&](const index& i) {
        auto slot = q.fill();
        load(get<0>(slot), tokens_at(in.q, t, t.first_query, blocks.query(i), blocks.head(i)));
        load(get<1>(slot), tokens_at(in.d_o, t, t.first_query, blocks.query(i), blocks.head(i)));
      });
    }),
    role("work", working, [&](const query_box& t) {
      const query_blocks<Rows, Queries> blocks(t, in, options);
      auto dk = cta.make(accumulator<float, Rows, D>), dv = cta.make(accumulator<float, Rows, D>);
      [&] {
        auto mine = kv.drain();
        for_each(blocks.count(), [&](const index& i) {
          const index query = blocks.query(i), left = t.queries - query;
          auto other = q.drain();
          if (is_jagged<Arguments>) {
            clear_from(get<0>(other), left);
            clear_from(get<1>(other), left);
          }
          auto s = mma(get<0>(mine), transpose(get<0>(other)));
          auto dp = mma(get<1>(mine), transpose(get<1>(other)));
          // of queries behind the last one: nothing that could be NaN
          const auto inside = col_index<1, Queries>(c) < left;
          const auto lse = fetch<1, Queries>(along_columns(in.lse, t, blocks.head(i), query));
          const auto level = where(inside, where(lse > none, lse * log2e, 0.0f), 0.0f);
          const auto delta = where(inside, fetch<1, Queries>(along_columns(in.delta, t, blocks.head(i), query)), 0.0f);
          const auto made = scored(read(s), in, options, blocks.head(i), col_index<1, Queries>(c) + (query + t.keys - t.queries - t.row) - row_index<Rows, 1>(c));
          auto x = cta.carry(fma(made.x, in.exponent, -level));
          when(blocks.at_edge(query), [&] { x.set(where(inside, blocks.seen(c, x.get(), query), none)); });
          const auto p = exp2(x.get());
          mma(dv, cast<T>(p), get<1>(other), accumulate(i > 0));
          const auto ds = p * (read(dp) - delta);
          mma(dk, cast<T>(made.factor ? ds * *made.factor : ds), get<0>(other), accumulate(i > 0));
        });
      }();
      const auto own = [&](const auto& v) { return only_first<Arguments>(tokens_at(v, t, t.first_key, t.row, t.head), t.keys - t.row); };
      store(own(in.dv), cast<T>(read(dv)));
      store(own(in.dk), cast<T>(read(dk) * in.gradient_scale));
    }));
}

}  // namespace tlx::kernels
