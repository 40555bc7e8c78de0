// Block attention: jagged sequences cut into blocks of 64, 128 or 256 tokens, each block attends inside itself. One tile per CTA, bound by the hardware.
#pragma once
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tlx/dsl/kept.hpp"
#include "tlx/dsl/kernel.hpp"
#include "tlx/dsl/look_ahead.hpp"
#include "tlx/dsl/rows.hpp"

namespace tlx::kernels {

/// What is decided when the kernel is made.
struct attention_options {
  bool causal = false;   // a token attends to those of its block that do not come after it
  bool by_token = false; // rotary tables have a row for each token, not for each position
  bool rotate_v = false; // rotary: v as well
  bool rotate = true;    // rotary, backward: q, k (and v) come as they were before the rotation, which is done again
  bool grouped = false;  // fewer heads of k and v than of q: q's heads [i * g, (i + 1) * g) share the i-th, g = q's heads / k's heads
};

/// q o: (token, head, D), k v: (token, key head, D); offsets: batch + 1 token numbers on the device; scale: of the scores, already times log2(e).
template <class T>
struct attention_arguments {
  BOOST_HANA_DEFINE_STRUCT(attention_arguments, (view<T, 3>, q), (view<T, 3>, k), (view<T, 3>, v), (view<T, 3>, o), (view<std::int32_t, 1>, offsets), (scalar<float>, scale_log2));
};

/// As above; do: the gradient of o; scale: of the scores, scale_log2: times log2(e).
template <class T>
struct attention_backward_arguments {
  BOOST_HANA_DEFINE_STRUCT(attention_backward_arguments, (view<T, 3>, q), (view<T, 3>, k), (view<T, 3>, v), (view<T, 3>, d_o), (view<T, 3>, dq), (view<T, 3>, dk), (view<T, 3>, dv),
                           (view<std::int32_t, 1>, offsets), (scalar<float>, scale), (scalar<float>, scale_log2));
};

/// As above with rotary tables cos, sin: (position in the sequence, D / 2), or (token, D / 2) with attention_options::by_token.
template <class T>
struct attention_rotary_arguments {
  BOOST_HANA_DEFINE_STRUCT(attention_rotary_arguments, (view<T, 3>, q), (view<T, 3>, k), (view<T, 3>, v), (view<T, 3>, o), (view<std::int32_t, 1>, offsets), (view<float, 2>, cos),
                           (view<float, 2>, sin), (scalar<float>, scale_log2));
};
template <class T>
struct attention_rotary_backward_arguments {
  BOOST_HANA_DEFINE_STRUCT(attention_rotary_backward_arguments, (view<T, 3>, q), (view<T, 3>, k), (view<T, 3>, v), (view<T, 3>, d_o), (view<T, 3>, dq), (view<T, 3>, dk), (view<T, 3>, dv),
                           (view<std::int32_t, 1>, offsets), (view<float, 2>, cos), (view<float, 2>, sin), (scalar<float>, scale), (scalar<float>, scale_log2));
};

/// How many CTAs share an SM. Bytes in flight decide: at least 128 KB of operands on each SM where they fit, in three pieces or more. What stands against
/// it: registers on Hopper, the 512 columns of tensor memory on Blackwell.
constexpr int attention_ctas(int block, int dimension, bool tensor_memory) {
  const int registers = block == 64 ? (dimension == 64 ? 6 : dimension == 96 ? 5 : dimension == 128 ? 4 : 2) : (dimension <= 128 ? 2 : 1);
  const int columns = std::max(block, dimension);
  return tensor_memory ? std::min(registers, columns <= 64 ? 8 : columns <= 128 ? 4 : 2) : registers;
}
constexpr int attention_backward_ctas(int block, int dimension, bool tensor_memory) {
  const int registers = block == 64 ? (dimension == 64 ? 5 : dimension <= 128 ? 3 : 1) : 1;
  const int columns = std::max(2 * block, dimension);
  return tensor_memory ? std::min(registers, columns <= 128 ? 4 : 2) : registers;
}

/// With rotary embeddings: angles take registers, and so do both columns of a pair where they are parts of their own.
constexpr int attention_rotary_ctas(int block, int dimension, bool tensor_memory, bool rotate_v) {
  return std::max(1, std::min(attention_ctas(block, dimension, tensor_memory), block == 64 ? (dimension == 64 ? 5 - rotate_v : 3) : 1));
}
constexpr int attention_rotary_backward_ctas(int block, int dimension, bool tensor_memory, bool halves, bool rotate, bool rotate_v) {
  const int fewer = dimension == 64 ? 1 + (rotate_v && rotate) : halves && (tensor_memory || !rotate);
  return std::max(1, attention_backward_ctas(block, dimension, tensor_memory) - fewer);
}

/// Scores without those of keys that a row does not attend to.
template <int Block>
tile_of<float, Block, Block> block_scores(const tile_of<float, Block, Block>& scores, const jagged_box& t, bool causal) {
  constexpr float none = -std::numeric_limits<float>::infinity();
  const auto valid = where(t.key_mask<Block>(), scores, none);
  return causal ? where(row_index<Block, 1>(scores.home()) >= col_index<1, Block>(scores.home()), valid, none) : valid;
}

/// Softmax by rows of scores that are times log2(e). The whole row lies in one tile: no loop over keys, no running maximum, no rescaling.
template <int Block>
tile_of<float, Block, Block> block_softmax(const tile_of<float, Block, Block>& scores, const jagged_box& t, bool causal) {
  const auto x = block_scores<Block>(scores, t, causal);
  const auto e = exp2(x - row_max(x));
  return e * rcp(row_sum(e));
}

/// The box of k and v that belongs to `t`.
template <class Arguments>
jagged_box keys_of(const jagged_box& t, const Arguments& in, const attention_options& options) {
  return options.grouped ? t.of_head(t.head / (in.q.extent(1) / in.k.extent(1))) : t;
}

/// o = softmax(scale * q k^T) v.
template <class T, int Block, int D>
void block_attention(block& cta, const attention_arguments<T>& in, const attention_options& options = {}) {
  cta.warps({Block / 16});
  cta.per_processor(attention_ctas(Block, D, cta.has_tensor_memory()));
  constexpr auto operand = shared<T, Block, D>;
  auto q = cta.ring<1>("q", operand), k = cta.ring<1>("k", operand), v = cta.ring<1>("v", operand);
  cta.tile(jagged<Block>(in.offsets, in.q), [&](const jagged_box& t) {
    const jagged_box kv = keys_of(t, in, options);
    load(q.fill(), in.q[t], hint::evict_last);
    load(k.fill(), in.k[kv], hint::evict_last);
    load(v.fill(), in.v[kv], hint::evict_last);
    auto s = mma(q.drain(), transpose(k.drain()));
    auto x = block_scores<Block>(read(s) * in.scale_log2, t, options.causal);
    auto e = exp2(x - row_max(x));
    auto norm = rcp(row_sum(e));
    if constexpr (Block == 64 || Block + D < 256) {
      auto o = mma(cast<T>(e * norm), v.drain());
      store(in.o[t], cast<T>(read(o)));
    } else {  // numerators become operands one by one: not all of them have to wait for the sum in registers
      auto o = mma(cast<T>(e), v.drain());
      store(in.o[t], cast<T>(read(o) * norm));
    }
  });
}

/// The blocks of jagged sequences in parts of Rows tokens, parts innermost: body(block's box, first token of the part in it) for each part that has tokens.
template <int Block, int Rows>
class block_parts {
 public:
  template <class T>
  block_parts(const view<std::int32_t, 1>& offsets, const view<T, 3>& tokens)
      : blocks_(offsets, tokens), count_formula_("(mul " + std::to_string(Block / Rows) + " " + blocks_.count_formula() + ")") {}
  const std::string& count_formula() const { return count_formula_; }
  template <class Body>
  void visit(const index& tile, Body&& body) const {
    constexpr int parts = Block / Rows;
    blocks_.visit(tile / parts, [&](const jagged_box& t) {
      const index first = tile % parts * Rows;
      when(t.rows > first, [&] { body(t, first); });
    });
  }

 private:
  jagged_tiles<Block> blocks_;
  std::string count_formula_;
};

/// block_attention() of blocks whose scores are too many for one CTA: a tile is Rows tokens of a block against all of its keys, so the whole row still lies
/// in one tile. The parts of a block run side by side and find its keys in L2.
template <class T, int Block, int Rows, int D>
void block_attention_by_rows(block& cta, const attention_arguments<T>& in, const attention_options& options = {}) {
  cta.warps({Rows / 16});
  cta.per_processor(D == 64 ? 2 : 1);
  auto q = cta.ring<1>("q", shared<T, Rows, D>);
  auto k = cta.ring<1>("k", shared<T, Block, D>), v = cta.ring<1>("v", shared<T, Block, D>);
  cta.tile(block_parts<Block, Rows>(in.offsets, in.q), [&](const jagged_box& t, const index& first) {
    constexpr float none = -std::numeric_limits<float>::infinity();
    const jagged_box kv = keys_of(t, in, options), mine{t.row + first, t.head, min(t.rows - first, Rows), t.position + first};
    load(q.fill(), in.q[mine], hint::evict_last);
    load(k.fill(), in.k[kv], hint::evict_last);
    load(v.fill(), in.v[kv], hint::evict_last);
    auto s = mma(q.drain(), transpose(k.drain()));
    auto valid = where(t.key_mask<Block>(), read(s) * in.scale_log2, none);
    auto x = options.causal ? where(row_index<Rows, 1>(cta.home()) + first >= col_index<1, Block>(cta.home()), valid, none) : valid;
    auto e = exp2(x - row_max(x));
    auto norm = rcp(row_sum(e));
    auto o = mma(cast<T>(e * norm), v.drain());
    store(in.o[mine], cast<T>(read(o)));
  });
}

/// The columns of a box from `first` on.
template <class T>
box_of<T, 3> columns_from(const view<T, 3>& tensor, const jagged_box& t, int first) {
  box_of<T, 3> box = tensor.at(t.row, t.head, first).axes(0, 2);
  box.valid_rows = t.rows.used();
  return box;
}

/// The same with two warpgroups of 64 rows and a role that loads ahead of them: one multiplies while the other exponentiates. CTAs stay. Blocks that end in their first
/// half have half the keys.
template <class T, int Block, int D>
void block_attention_by_halves(block& cta, const attention_arguments<T>& in, const attention_options& options = {}) {
  using namespace literals;
  constexpr int Rows = Block / 2, ahead = D <= 64 ? 2 : 1;
  auto tiles = cta.persistent(jagged_ahead<Block, Block / Rows>(in.offsets, in.q));
  constexpr auto half = shared<T, Rows, D>;
  auto q = cta.ring<2>("q", half);
  auto k = cta.ring<ahead>("k", half, half), v = cta.ring<ahead>("v", half, half);
  cta.roles(tiles,
    role("load", 1_warp, registers{24}, [&](const jagged_ahead_box& t) {
      t.look_ahead();
      const jagged_box kv = keys_of(t, in, options);
      load(q.fill(), in.q.at(t.row + t.part * Rows, t.head, 0).axes(0, 2), hint::evict_last);
      const auto both = [&](const auto& ring, const view<T, 3>& from) {
        auto slot = ring.fill();
        load(get<0>(slot), from.at(kv.row, kv.head, 0).axes(0, 2), hint::evict_last);
        load(get<1>(slot), from.at(kv.row + Rows, kv.head, 0).axes(0, 2), hint::evict_last);
      };
      both(k, in.k);
      both(v, in.v);
    }),
    role("work", warp_count{Rows / 16}, registers{240}, [&](const jagged_ahead_box& t) {
      constexpr float none = -std::numeric_limits<float>::infinity();
      using scores = tile_of<float, Rows, Rows>;
      const index first = t.part * Rows;
      const jagged_box mine{t.row + first, t.head, min(t.rows - first, Rows), t.position + first};
      // Scores of the keys of one half, those that are seen.
      const auto seen = [&](const scores& raw, const index& from) {
        const auto keys = col_index<1, Rows>(cta.home()) + from;
        auto x = cta.carry(raw * in.scale_log2);
        if (options.causal) x.set(where(row_index<Rows, 1>(cta.home()) + first >= keys, x.get(), none));
        when(t.rows < from + Rows, [&] { x.set(where(keys < t.rows, x.get(), none)); });
        return x;
      };
      std::vector<tile_cell<T, Rows, 64>> out;  // as many columns as one store takes
      for (int d = 0; d < D; d += 64) out.push_back(cta.carry(cast<T>(splat<float, Rows, 64>(cta.home(), 0.0f))));
      const auto finish = [&](const auto& o, const auto& norm) {
        for (int d = 0; d < D; d += 64) out[static_cast<std::size_t>(d / 64)].set(cast<T>(read_columns<64>(o, d) * norm));
      };
      const auto attend = [&](bool whole) {
        std::optional<tile_cell<float, Rows, Rows>> low, high;
        {
          auto qs = q.drain();
          auto ks = k.drain();
          const index zero = constant(cta.home(), 0);
          auto s = mma(qs, transpose(get<0>(ks)));
          if (whole) {
            auto more = mma(qs, transpose(get<1>(ks)));
            t.look_ahead();
            low.emplace(seen(read(s), zero));
            high.emplace(seen(read(more), zero + Rows));
          } else {
            t.look_ahead();
            low.emplace(seen(read(s), zero));
          }
        }
        const auto top = whole ? max(row_max(low->get()), row_max(high->get())) : row_max(low->get());
        const auto e = exp2(low->get() - top);
        auto vs = v.drain();
        clear_from(get<0>(vs), t.rows);
        if (whole) {
          const auto f = exp2(high->get() - top);
          clear_from(get<1>(vs), t.rows - Rows);
          auto o = mma(cast<T>(e), get<0>(vs));
          mma(o, cast<T>(f), get<1>(vs), accumulate(true));
          finish(o, rcp(row_sum(e) + row_sum(f)));
        } else {
          auto o = mma(cast<T>(e), get<0>(vs));
          finish(o, rcp(row_sum(e)));
        }
      };
      when(t.rows > Rows, [&] { attend(true); });
      when(t.rows <= Rows, [&] { attend(false); });
      for (int d = 0; d < D; d += 64) store(columns_from(in.o, mine, d), out[static_cast<std::size_t>(d / 64)].get());
    }));
}

/// P = softmax(S) and dS = scale * P * (dP - rowsum(P * dP)), rounded, from the products `s` and `dp` into the rings `p` and `ds`.
template <int Block, class Scores, class Gradients, class RingP, class RingS, class Arguments>
void write_score_gradients(const Scores& s, const Gradients& dp, const RingP& p, const RingS& ds, const Arguments& in, const jagged_box& t, bool causal) {
  using T = typename decltype(in.d_o)::element_type;
  auto probability = block_softmax<Block>(read(s) * in.scale_log2, t, causal);
  write(p.fill(), cast<T>(probability));
  auto g = read(dp);
  write(ds.fill(), cast<T>(probability * (g - row_sum(probability * g)) * in.scale));
}

/// dq, dk, dv. The probabilities are computed again, and rowsum(p * dp) stands for rowsum(do * o), so neither o nor any row statistic is read. Each
/// gradient tile has one producer: no sums in memory, the same bits every time.
template <class T, int Block, int D>
void block_attention_backward(block& cta, const attention_backward_arguments<T>& in, const attention_options& options = {}) {
  cta.warps({Block / 16});
  cta.per_processor(attention_backward_ctas(Block, D, cta.has_tensor_memory()));
  constexpr auto operand = shared<T, Block, D>;
  auto q = cta.ring<1>("q", operand), k = cta.ring<1>("k", operand), v = cta.ring<1>("v", operand), d_o = cta.ring<1>("do", operand);
  auto p = cta.ring<1>("p", shared<T, Block, Block>), ds = cta.ring<1>("ds", shared<T, Block, Block>);
  cta.tile(jagged<Block>(in.offsets, in.q), [&](const jagged_box& t) {
    load(q.fill(), in.q[t], hint::evict_last);
    load(k.fill(), in.k[t], hint::evict_last);
    load(d_o.fill(), in.d_o[t], hint::evict_last);
    load(v.fill(), in.v[t], hint::evict_last);
    auto qs = q.drain(), ks = k.drain();
    auto s = mma(qs, transpose(ks));
    auto gs = d_o.drain();
    auto dp = mma(gs, transpose(v.drain()));
    write_score_gradients<Block>(s, dp, p, ds, in, t, options.causal);
    // One product after another: a result leaves its registers before the next product wants as many.
    auto dv = mma(transpose(p.drain()), gs);
    store(in.dv[t], cast<T>(read(dv)));
    auto dss = ds.drain();
    auto dq = mma(dss, ks);
    store(in.dq[t], cast<T>(read(dq)));
    auto dk = mma(transpose(dss), qs);
    store(in.dk[t], cast<T>(read(dk)));
  });
}

/// An open slot that closes when it is told to, not where its handle's block ends.
template <class Ring>
auto open_slot(const Ring& ring) {
  using slot = decltype(ring.drain());
  return std::unique_ptr<slot>(new slot(ring.drain()));
}

/// block_attention_backward() for tiles of which an SM holds one: CTAs stay, and a role of its own loads the next tile's operands as soon as the slots of this
/// one's are dead, in the order in which they die: v, k, q, do. The next tile wants do last, behind its softmax. Results are on their way out beside products.
template <class T, int Block, int D>
void block_attention_backward_pipelined(block& cta, const attention_backward_arguments<T>& in, const attention_options& options = {}) {
  using namespace literals;
  auto tiles = cta.persistent(jagged_ahead<Block>(in.offsets, in.q));
  constexpr auto operand = shared<T, Block, D>;
  auto v = cta.ring<1>("v", operand), k = cta.ring<1>("k", operand), q = cta.ring<1>("q", operand), d_o = cta.ring<1>("do", operand);
  auto p = cta.ring<1>("p", shared<T, Block, Block>), ds = cta.ring<1>("ds", shared<T, Block, Block>);
  cta.roles(tiles,
    role("load", 1_warp, registers{24}, [&](const jagged_ahead_box& t) {
      t.look_ahead();
      const auto whole = [&](const view<T, 3>& tensor) { return tensor.at(t.row, t.head, 0).axes(0, 2); };
      load(v.fill(), whole(in.v), hint::evict_last);
      load(k.fill(), whole(in.k), hint::evict_last);
      load(q.fill(), whole(in.q), hint::evict_last);
      load(d_o.fill(), whole(in.d_o), hint::evict_last);
    }),
    role("work", warp_count{Block / 16}, registers{240}, [&](const jagged_ahead_box& t) {
      auto ks = open_slot(k), qs = open_slot(q);
      for (const auto* slot : {ks.get(), qs.get()}) clear_from(*slot, t.rows);
      auto s = mma(*qs, transpose(*ks));
      t.look_ahead();
      const auto probability = block_softmax<Block>(read(s) * in.scale_log2, t, options.causal);
      write(p.fill(), cast<T>(probability));
      auto vs = open_slot(v), gs = open_slot(d_o);
      for (const auto* slot : {vs.get(), gs.get()}) clear_from(*slot, t.rows);
      auto dp = mma(*gs, transpose(*vs));
      const auto g = read(dp);
      vs.reset();
      write(ds.fill(), cast<T>(probability * (g - row_sum(probability * g)) * in.scale));
      auto dss = ds.drain();
      auto dq = mma(dss, *ks), dk = mma(transpose(dss), *qs);
      auto ps = p.drain();
      auto dv = mma(transpose(ps), *gs);
      const auto dq_out = cast<T>(read(dq));
      ks.reset();
      store(in.dq[t], dq_out);
      const auto dk_out = cast<T>(read(dk));
      qs.reset();
      store(in.dk[t], dk_out);
      const auto dv_out = cast<T>(read(dv));
      gs.reset();
      store(in.dv[t], dv_out);
    }));
}

/// The same where heads of q share a head of k and v: one tile for each head of k and v, in turn for all heads of q that share it. The gradients of k and v
/// stay in accumulators, so they too have one producer each.
template <class T, int Block, int D>
void block_attention_backward_grouped(block& cta, const attention_backward_arguments<T>& in, const attention_options& options = {}) {
  cta.warps({Block / 16});
  cta.per_processor(cta.has_tensor_memory() || Block > 64 ? 1 : D <= 64 ? 3 : 2);
  constexpr auto operand = shared<T, Block, D>;
  auto q = cta.ring<1>("q", operand), k = cta.ring<1>("k", operand), v = cta.ring<1>("v", operand), d_o = cta.ring<1>("do", operand);
  auto p = cta.ring<1>("p", shared<T, Block, Block>), ds = cta.ring<1>("ds", shared<T, Block, Block>);
  cta.tile(jagged<Block>(in.offsets, in.k), [&](const jagged_box& t) {
    load(k.fill(), in.k[t], hint::evict_last);
    load(v.fill(), in.v[t], hint::evict_last);
    auto ks = k.drain(), vs = v.drain();
    auto dk = cta.make(accumulator<float, Block, D>), dv = cta.make(accumulator<float, Block, D>);
    const index group = in.q.extent(1) / in.k.extent(1);
    for_each(group, [&](const index& i) {
      const jagged_box mine = t.of_head(t.head * group + i);
      load(q.fill(), in.q[mine], hint::evict_last);
      load(d_o.fill(), in.d_o[mine], hint::evict_last);
      auto qs = q.drain(), gs = d_o.drain();
      auto s = mma(qs, transpose(ks));
      auto dp = mma(gs, transpose(vs));
      write_score_gradients<Block>(s, dp, p, ds, in, t, options.causal);
      auto dss = ds.drain();
      mma(dv, transpose(p.drain()), gs, accumulate(i > 0));
      mma(dk, transpose(dss), qs, accumulate(i > 0));
      auto dq = mma(dss, ks);
      store(in.dq[mine], cast<T>(read(dq)));
    });
    store(in.dv[t], cast<T>(read(dv)));
    store(in.dk[t], cast<T>(read(dk)));
  });
}

/// block_attention_backward() of blocks whose scores are too many for one CTA: a tile is one part of Rows tokens, whose gradients it makes. Each row's maximum,
/// sum and rowsum(p * dp) come from one walk over the block's keys and stay in registers; the parts of a block find each other's operands in L2. Each gradient has
/// one producer here too.
template <class T, int Block, int Rows, int D>
void block_attention_backward_by_parts(block& cta, const attention_backward_arguments<T>& in, const attention_options& options = {}) {
  cta.warps({Rows / 16});
  cta.per_processor(D == 64 && !cta.has_tensor_memory() ? 2 : 1);
  constexpr auto operand = shared<T, Rows, D>;
  auto k = cta.ring<1>("k", operand), v = cta.ring<1>("v", operand), q = cta.ring<1>("q", operand), d_o = cta.ring<1>("do", operand);
  auto some_k = cta.ring<1>("some k", operand), some_v = cta.ring<1>("some v", operand);  // of one part after another
  auto p = cta.ring<1>("p", shared<T, Rows, Rows>), ds = cta.ring<1>("ds", shared<T, Rows, Rows>);
  cta.tile(block_parts<Block, Rows>(in.offsets, in.q), [&](const jagged_box& t, const index& first) {
    constexpr float none = -std::numeric_limits<float>::infinity();
    using vector = tile_of<float, Rows, 1>;
    const index mine = first / Rows, parts = ceil_div(t.rows, Rows);
    const auto part = [&](const index& i) { return jagged_box{t.row + i * Rows, t.head, min(t.rows - i * Rows, Rows), t.position + i * Rows}; };
    const auto key_parts = [&](const index& rows) { return max(options.causal ? rows + 1 : parts, 1); };  // never none
    auto s = cta.make(accumulator<float, Rows, Rows>), dp = cta.make(accumulator<float, Rows, Rows>);
    const auto load_pair = [](const auto& one, const auto& two, const box_of<T, 3>& a, const box_of<T, 3>& b) {
      load(one.fill(), a, hint::evict_last);
      load(two.fill(), b, hint::evict_last);
    };
    // The scores in s, times log2(e), as those of rows of part i and keys of part j.
    const auto scores = [&](const index& i, const index& j) {
      const auto keys = col_index<1, Rows>(cta.home()) + j * Rows;
      const auto valid = where(keys < t.rows, read(s) * in.scale_log2, none);
      return options.causal ? where(row_index<Rows, 1>(cta.home()) + i * Rows >= keys, valid, none) : valid;
    };
    auto top = cta.carry(splat<float, Rows, 1>(cta.home(), none)), sum = cta.carry(splat<float, Rows, 1>(cta.home(), 0.0f)), weighted = cta.carry(splat<float, Rows, 1>(cta.home(), 0.0f));
    const auto walk_keys = [&](const index& i, const auto& qs, const auto& gs, bool with_dp) {
      top.set(splat<float, Rows, 1>(cta.home(), none));
      sum.set(splat<float, Rows, 1>(cta.home(), 0.0f));
      weighted.set(splat<float, Rows, 1>(cta.home(), 0.0f));
      for_each(key_parts(i), [&](const index& j) {
        load(some_k.fill(), in.k[part(j)], hint::evict_last);
        if (with_dp) load(some_v.fill(), in.v[part(j)], hint::evict_last);
        mma(s, qs, transpose(some_k.drain()));
        if (with_dp) mma(dp, gs, transpose(some_v.drain()));
        const auto x = scores(i, j);
        const vector before = top.get(), now = max(before, row_max(x)), shrink = exp2(before - now);
        const auto e = exp2(x - now);
        top.set(now);
        sum.set(sum.get() * shrink + row_sum(e));
        if (with_dp) weighted.set(weighted.get() * shrink + row_sum(e * read(dp)));
      });
    };
    // From what scores() gave: the probabilities, and the gradient of the scores, into their rings.
    const auto probabilities = [&](const auto& x) { return exp2(x - top.get()) * rcp(sum.get()); };
    const auto write_gradients = [&](const auto& probability) { write(ds.fill(), cast<T>(probability * (read(dp) - weighted.get() * rcp(sum.get())) * in.scale)); };

    load_pair(k, v, in.k[part(mine)], in.v[part(mine)]);
    {
      const auto ks = k.drain(), vs = v.drain();
      // add(n, probabilities, qs, gs) for the n-th part of queries that attend to these keys; dp where it is wanted
      const auto over_queries = [&](bool with_dp, const auto& add) {
        for_each(max(options.causal ? parts - mine : parts, 1), [&](const index& n) {
          const index i = options.causal ? mine + n : n;
          load_pair(q, d_o, in.q[part(i)], in.d_o[part(i)]);
          const auto qs = q.drain(), gs = d_o.drain();
          walk_keys(i, qs, gs, with_dp);
          mma(s, qs, transpose(ks));
          if (with_dp) mma(dp, gs, transpose(vs));
          add(n, probabilities(scores(i, mine)), qs, gs);
        });
      };
      auto dk = cta.make(accumulator<float, Rows, D>), dv = cta.make(accumulator<float, Rows, D>);
      const auto add_to_dv = [&](const index& n, const auto& probability, const auto&, const auto& gs) {
        write(p.fill(), cast<T>(probability));
        mma(dv, transpose(p.drain()), gs, accumulate(n > 0));
      };
      const auto add_to_dk = [&](const index& n, const auto& probability, const auto& qs, const auto&) {
        write_gradients(probability);
        mma(dk, transpose(ds.drain()), qs, accumulate(n > 0));
      };
      if constexpr (D <= 64) {
        over_queries(true, [&](const index& n, const auto& probability, const auto& qs, const auto& gs) {
          add_to_dv(n, probability, qs, gs);
          add_to_dk(n, probability, qs, gs);
        });
        store(in.dv[part(mine)], cast<T>(read(dv)));
      } else {  // both gradients and the scores together are more registers than a thread has
        over_queries(false, add_to_dv);
        store(in.dv[part(mine)], cast<T>(read(dv)));
        over_queries(true, add_to_dk);
      }
      store(in.dk[part(mine)], cast<T>(read(dk)));
    }
    load_pair(q, d_o, in.q[part(mine)], in.d_o[part(mine)]);
    const auto qs = q.drain(), gs = d_o.drain();
    walk_keys(mine, qs, gs, true);
    auto dq = cta.make(accumulator<float, Rows, D>);
    for_each(key_parts(mine), [&](const index& j) {
      load_pair(some_k, some_v, in.k[part(j)], in.v[part(j)]);
      const auto ks = some_k.drain(), vs = some_v.drain();
      mma(s, qs, transpose(ks));
      mma(dp, gs, transpose(vs));
      write_gradients(probabilities(scores(mine, j)));
      mma(dq, ds.drain(), ks, accumulate(j > 0));
    });
    store(in.dq[part(mine)], cast<T>(read(dq)));
  });
}

/// a + b * by, one rounding, `by` the same along a row.
template <int R, int C>
tile_of<float, R, C> add_by_rows(const tile_of<float, R, C>& a, const tile_of<float, R, C>& b, const tile_of<float, R, 1>& by) {
  return {a.home(), a.home().at().make(ir::opcode::fma, {b.used(), dsl::spread<R, C>(by), a.used()}, {a.type()}).result()};
}

/// block_attention_backward() of whole blocks whose scores are too many for one CTA's registers: two walks over what stays in shared memory. The first goes by rows of
/// queries: scores of a row against all keys, its statistics, dq. The second goes by rows of keys, everything transposed: it finds the statistics of its columns in
/// shared memory, has P and dS in registers as left operands, and adds up dk and dv. k and v are there once, halves of q and do come again for the second walk. A
/// role of its own loads ahead. Seven products; each gradient has one producer.
template <class T, int Block, int D>
void block_attention_backward_in_walks(block& cta, const attention_backward_arguments<T>& in, const attention_options& options = {}) {
  using namespace literals;
  constexpr int Rows = Block / 2;
  constexpr int Queries = D <= 64 ? 64 : 32;  // of a round of the second walk: two gradients and two tiles of scores are in registers
  constexpr int ahead = D <= 64 ? 2 : 1;
  dsl::context& c = cta.home();
  auto tiles = cta.persistent(jagged_ahead<Block>(in.offsets, in.q));
  auto keys = cta.ring<ahead>("k and v", shared<T, Block, D>, shared<T, Block, D>);
  auto queries = cta.ring<ahead>("q and do", shared<T, Rows, D>, shared<T, Rows, D>);
  auto statistics = cta.ring<1>("statistics", numbers<float, Block>, numbers<float, Block>);  // of each row: -log2 of its sum of exponentials; Di
  const auto halves = [](const jagged_box& t) { return max(ceil_div(t.rows, Rows), 1); };
  const auto part = [](const jagged_box& t, const index& first) { return jagged_box{t.row + first, t.head, min(t.rows - first, Rows), t.position + first}; };
  // Halves of queries that see keys of half j.
  const auto seen_by = [&](const jagged_box& t, const index& j) { return range{options.causal ? j : constant(c, 0), halves(t)}; };
  cta.roles(tiles,
    role("load", 1_warp, registers{24}, [&](const jagged_ahead_box& t) {
      t.look_ahead();
      const auto pair = [&](const auto& ring, const view<T, 3>& one, const view<T, 3>& two, const index& row) {
        auto slot = ring.fill();
        load(get<0>(slot), one.at(row, t.head, 0).axes(0, 2), hint::evict_last);
        load(get<1>(slot), two.at(row, t.head, 0).axes(0, 2), hint::evict_last);
      };
      pair(keys, in.k, in.v, t.row);
      const auto one = [&](const index& i) { pair(queries, in.q, in.d_o, t.row + i * Rows); };
      for_each(halves(t), one);
      for_each(halves(t), [&](const index& j) { for_each(seen_by(t, j), one); });
    }),
    role("work", warp_count{Rows / 16}, registers{240}, [&](const jagged_ahead_box& t) {
      constexpr float none = -std::numeric_limits<float>::infinity();
      using scores = tile_of<float, Rows, Rows>;
      constexpr auto gradient = accumulator<float, Rows, D>;
      const index zero = constant(c, 0), half = constant(c, Rows);
      const auto cleared = [&](const auto& slot, const index& rows) {
        clear_from(get<0>(slot), rows);
        clear_from(get<1>(slot), rows);
      };
      // Scores, times log2(e), of rows of queries and of keys that begin there; those that are not seen are none.
      const auto seen = [&](const scores& raw, const index& query, const index& key) {
        const auto of_keys = col_index<1, Rows>(c) + key;
        auto x = cta.carry(raw * in.scale_log2);
        if (options.causal) x.set(where(row_index<Rows, 1>(c) + query >= of_keys, x.get(), none));
        when(t.rows < key + Rows, [&] { x.set(where(of_keys < t.rows, x.get(), none)); });
        return x;
      };
      t.look_ahead();
      auto kv = keys.drain();
      cleared(kv, t.rows);
      // The first walk: Rows queries from `first` on, against all keys.
      const auto by_queries = [&](bool whole, const index& first, const auto& dq, auto& norm, const auto& found) {
        // All scores and both halves of dp are more registers than there are. Numerators wait in 16 bits, which do for what is 1 at most; dp of the first half is made again.
        using vector = kept<float, Rows, 1>;
        using waiting = kept<f16, Rows, Rows>;
        const auto k = [&](const index& row) { return rows_of<Rows>(get<0>(kv), row); };
        const auto v = [&](const index& row) { return rows_of<Rows>(get<1>(kv), row); };
        auto rows = queries.drain();
        cleared(rows, t.rows - first);
        auto s = mma(get<0>(rows), transpose(k(zero)));
        std::optional<decltype(s)> s_high;
        if (whole) s_high.emplace(mma(get<0>(rows), transpose(k(half))));
        auto x = seen(read(s), first, zero);
        std::optional<tile_cell<float, Rows, Rows>> y;
        if (whole) y.emplace(seen(read(*s_high), first, half));
        const auto top = whole ? max(row_max(x.get()), row_max(y->get())) : row_max(x.get());
        std::optional<vector> sum_high;
        std::optional<waiting> p_high;
        if (whole) {
          const auto f = exp2(y->get() - top);
          sum_high.emplace(row_sum(f));
          p_high.emplace(cast<f16>(f));
        }
        auto dp = mma(get<1>(rows), transpose(v(zero)));
        const auto e = exp2(x.get() - top);
        const auto product = e * read(dp);
        const vector sum(row_sum(e)), weighted(row_sum(product));
        const auto write_statistics = [&](const auto& all, const auto& delta) {
          write(get<0>(found), first, -(top + log2(all)));
          write(get<1>(found), first, delta);
          norm.set(rcp(all) * in.scale);
        };
        if (!whole) {
          const auto delta = weighted.get() * rcp(sum.get());
          write_statistics(sum.get(), delta);
          mma(dq, cast<T>(add_by_rows(product, e, -delta)), k(zero));
          return;
        }
        const waiting p(cast<f16>(e));
        // Never taken. ptxas issues no product across a branch; without it this one takes its registers before the numerators above are packed, and others are spilled.
        when(t.row < 0, [&] { c.at().make(ir::opcode::barrier_warp); });
        auto dp_high = mma(get<1>(rows), transpose(v(half)));
        const auto f = cast<float>(p_high->get());
        const auto product_high = f * read(dp_high);
        const vector weighted_high(row_sum(product_high));
        const auto all = sum.get() + sum_high->get(), delta = (weighted.get() + weighted_high.get()) * rcp(all);
        write_statistics(all, delta);
        mma(dq, cast<T>(add_by_rows(product_high, f, -delta)), k(half));
        auto dp_again = mma(get<1>(rows), transpose(v(zero)));
        mma(dq, cast<T>(cast<float>(p.get()) * (read(dp_again) - delta)), k(zero), accumulate(true));
      };
      {
        auto found = statistics.fill();
        for_each(halves(t), [&](const index& i) {
          const index first = i * Rows;
          const auto walk = [&](bool whole) {
            auto dq = cta.make(gradient);
            auto norm = cta.carry(splat<float, Rows, 1>(c, 0.0f));
            by_queries(whole, first, dq, norm, found);
            store(in.dq[part(t, first)], cast<T>(read(dq) * norm.get()));
          };
          const index keys_seen = options.causal ? first + 1 : t.rows;
          when(keys_seen > Rows, [&] { walk(true); });
          when(keys_seen <= Rows, [&] { walk(false); });
        });
      }
      // The second walk: rows of keys, everything transposed.
      auto known = statistics.drain();
      for_each(halves(t), [&](const index& j) {
        const index key = j * Rows;
        auto dk = cta.make(gradient), dv = cta.make(gradient);
        write(dk, splat<float, Rows, D>(c, 0.0f));
        write(dv, splat<float, Rows, D>(c, 0.0f));
        for_each(seen_by(t, j), [&](const index& i) {
          const index first = i * Rows, some = max(min(t.rows - first, Rows), 1);
          auto rows = queries.drain();
          cleared(rows, t.rows - first);
          for_each(range{zero, some, Queries}, [&](const index& n) {
            const auto q = rows_of<Queries>(get<0>(rows), n), g = rows_of<Queries>(get<1>(rows), n);
            auto s = mma(rows_of<Rows>(get<0>(kv), key), transpose(q)), dp = mma(rows_of<Rows>(get<1>(kv), key), transpose(g));
            const auto level = read_along<Queries>(get<0>(known), n + first), delta = read_along<Queries>(get<1>(known), n + first);
            const auto all = exp2(fma(read(s), in.scale_log2, level));
            const auto p = options.causal ? where(row_index<Rows, 1>(c) + key <= col_index<1, Queries>(c) + (n + first), all, 0.0f) : all;
            mma(dv, cast<T>(p), g, accumulate(true));
            mma(dk, cast<T>(p * (read(dp) - delta)), q, accumulate(true));
          });
        });
        const jagged_box mine = part(t, key);
        store(in.dv[mine], cast<T>(read(dv)));
        store(in.dk[mine], cast<T>(read(dk) * in.scale));
      });
    }));
}

/// Which columns a rotary embedding turns together: column i and i + D / 2, or 2i and 2i + 1.
enum class rotary_pairs { halves, neighbours };

/// A tile of D columns on its way from memory through a rotation to a product. Halves are parts of their own, so that a pair lies in the same registers of
/// the same thread; neighbours do in any case.
template <class T, int Block, int D, rotary_pairs Pairs>
struct rotary_tile {
  static constexpr int half = D / 2;
  static constexpr bool halves = Pairs == rotary_pairs::halves;
  using angles = tile_of<float, Block, half>;

  static auto ring(block& cta, const named& name) {
    if constexpr (halves) return cta.ring<1>(name, shared<T, Block, half>, shared<T, Block, half>);
    else return cta.ring<1>(name, shared<T, Block, D>);
  }
  template <class Slot>
  static void load_into(const Slot& to, const view<T, 3>& from, const jagged_box& t) {
    load(get<0>(to), columns_from(from, t, 0), hint::evict_last);
    if constexpr (halves) load(get<1>(to), columns_from(from, t, half), hint::evict_last);
  }
  /// What `from` holds, rotated and rounded, into the next slot of `to`.
  template <class Slot, class Ring>
  static void rotate(const Slot& from, const Ring& to, const angles& cos, const angles& sin) {
    if constexpr (halves) {
      const auto x = cast<float>(read(get<0>(from))), y = cast<float>(read(get<1>(from)));
      const auto slot = to.fill();
      write(get<0>(slot), cast<T>(x * cos - y * sin));
      write(get<1>(slot), cast<T>(x * sin + y * cos));
    } else {
      const auto whole = cast<float>(read(get<0>(from)));
      const auto x = even_columns(whole), y = odd_columns(whole);
      write(get<0>(to.fill()), cast<T>(interleave(x * cos - y * sin, x * sin + y * cos)));
    }
  }
  /// a times b transposed.
  template <class A, class B>
  static auto product_of_rows(const A& a, const B& b) {
    auto s = mma(get<0>(a), transpose(get<0>(b)));
    if constexpr (halves) mma(s, get<1>(a), transpose(get<1>(b)), accumulate(true));
    return s;
  }
  /// Stores a * b into the box of `t`, some columns at a time: finish.operator()<N>(x, y, first) gets pairs first .. first + N - 1 and returns what they become.
  template <class A, class B, class Finish>
  static void store_product(const view<T, 3>& to, const jagged_box& t, const A& a, const B& b, Finish&& finish) {
    if constexpr (halves) {
      const auto low = mma(a, get<0>(b)), high = mma(a, get<1>(b));
      const auto [x, y] = finish.template operator()<half>(read(low), read(high), 0);
      store(columns_from(to, t, 0), cast<T>(x));
      store(columns_from(to, t, half), cast<T>(y));
    } else {
      constexpr int some = std::min(D, 64);  // as many as one store takes
      const auto all = mma(a, get<0>(b));
      for (int first = 0; first < D; first += some) {
        const auto part = read_columns<some>(all, first);
        const auto [x, y] = finish.template operator()<some / 2>(even_columns(part), odd_columns(part), first / 2);
        store(columns_from(to, t, first), cast<T>(interleave(x, y)));
      }
    }
  }
};

/// block_attention() of q and k that are rotated on their way to the products, v too with attention_options::rotate_v.
template <class T, int Block, int D, rotary_pairs Pairs>
void block_attention_rotary(block& cta, const attention_rotary_arguments<T>& in, const attention_options& options = {}) {
  using operand = rotary_tile<T, Block, D, Pairs>;
  cta.warps({Block / 16});
  cta.per_processor(attention_rotary_ctas(Block, D, cta.has_tensor_memory(), options.rotate_v));
  const auto q = operand::ring(cta, "q"), k = operand::ring(cta, "k"), rotated_q = operand::ring(cta, "rotated q"), rotated_k = operand::ring(cta, "rotated k");
  cta.tile(jagged<Block>(in.offsets, in.q), [&](const jagged_box& t) {
    const jagged_box kv = keys_of(t, in, options);
    operand::load_into(q.fill(), in.q, t);
    operand::load_into(k.fill(), in.k, kv);
    const index angle = options.by_token ? t.row : t.position;
    const auto cos = fetch<Block, D / 2>(in.cos.at(angle, 0)), sin = fetch<Block, D / 2>(in.sin.at(angle, 0));  // on their way beside the operands
    const auto scores = [&] {
      operand::rotate(q.drain(), rotated_q, cos, sin);
      operand::rotate(k.drain(), rotated_k, cos, sin);
      return operand::product_of_rows(rotated_q.drain(), rotated_k.drain());
    };
    const auto probabilities = [&](const auto& s) { return cast<T>(block_softmax<Block>(read(s) * in.scale_log2, t, options.causal)); };
    if (options.rotate_v) {
      const auto v = operand::ring(cta, "v"), rotated_v = operand::ring(cta, "rotated v");
      operand::load_into(v.fill(), in.v, kv);
      const auto s = scores();
      operand::rotate(v.drain(), rotated_v, cos, sin);
      operand::store_product(in.o, t, probabilities(s), rotated_v.drain(), []<int>(const auto& x, const auto& y, int) { return std::pair(x, y); });
    } else {
      const auto v = cta.ring<1>("v", shared<T, Block, D>);
      load(v.fill(), in.v[kv], hint::evict_last);
      const auto s = scores();
      const auto o = mma(probabilities(s), v.drain());
      store(in.o[t], cast<T>(read(o)));
    }
  });
}

/// block_attention_backward() with rotary embeddings: gradients of q, k (and v with attention_options::rotate_v) as they were before the rotation, rotated back
/// in float32, then rounded once. Without attention_options::rotate q, k and v come rotated.
template <class T, int Block, int D, rotary_pairs Pairs>
void block_attention_rotary_backward(block& cta, const attention_rotary_backward_arguments<T>& in, const attention_options& options = {}) {
  using operand = rotary_tile<T, Block, D, Pairs>;
  using whole = rotary_tile<T, Block, D, rotary_pairs::neighbours>;
  cta.warps({Block / 16});
  cta.per_processor(attention_rotary_backward_ctas(Block, D, cta.has_tensor_memory(), operand::halves, options.rotate, options.rotate_v));
  cta.tile(jagged<Block>(in.offsets, in.q), [&](const jagged_box& t) {
    const index angle = options.by_token ? t.row : t.position;
    using angles = tile_of<float, Block, D / 2>;
    std::optional<std::pair<angles, angles>> held;  // cos, sin: from memory once, then in registers
    const auto table = [&]() -> const std::pair<angles, angles>& {
      if (!held) {
        const auto cos = fetch<Block, D / 2>(in.cos.at(angle, 0)), sin = fetch<Block, D / 2>(in.sin.at(angle, 0));
        held.emplace(cos, sin);
      }
      return *held;
    };
    const auto back = [&]<int N>(const auto& x, const auto& y, int first) {
      const auto turn = [&](const auto& cos, const auto& sin) { return std::pair(x * cos + y * sin, y * cos - x * sin); };
      if constexpr (N == D / 2) {
        return turn(table().first, table().second);
      } else {
        const auto cos = fetch<Block, N>(in.cos.at(angle, first)), sin = fetch<Block, N>(in.sin.at(angle, first));
        return turn(cos, sin);
      }
    };
    const auto as_they_are = []<int N>(const auto& x, const auto& y, int) { return std::pair(x, y); };
    const auto run = [&](auto values, const auto& finish_dv) {  // values: how v and d_o lie in shared memory
      using value = decltype(values);
      const auto q = operand::ring(cta, "q"), k = operand::ring(cta, "k");
      const auto v = value::ring(cta, "v"), d_o = value::ring(cta, "do");
      const auto gradients = [&](const auto& qs, const auto& ks, const auto& vs) {
        const auto p = cta.ring<1>("p", shared<T, Block, Block>), ds = cta.ring<1>("ds", shared<T, Block, Block>);
        const auto s = operand::product_of_rows(qs, ks);
        const auto gs = d_o.drain();
        const auto dp = value::product_of_rows(gs, vs);
        write_score_gradients<Block>(s, dp, p, ds, in, t, options.causal);
        value::store_product(in.dv, t, transpose(p.drain()), gs, finish_dv);
        const auto dss = ds.drain();
        operand::store_product(in.dq, t, dss, ks, back);
        operand::store_product(in.dk, t, transpose(dss), qs, back);
      };
      operand::load_into(q.fill(), in.q, t);
      operand::load_into(k.fill(), in.k, t);
      if (options.rotate) {
        const auto& [cos, sin] = table();  // on their way beside the operands
        value::load_into(d_o.fill(), in.d_o, t);
        value::load_into(v.fill(), in.v, t);
        const auto rotated_q = operand::ring(cta, "rotated q"), rotated_k = operand::ring(cta, "rotated k");
        operand::rotate(q.drain(), rotated_q, cos, sin);
        operand::rotate(k.drain(), rotated_k, cos, sin);
        if (options.rotate_v) {
          const auto rotated_v = value::ring(cta, "rotated v");
          value::rotate(v.drain(), rotated_v, cos, sin);
          gradients(rotated_q.drain(), rotated_k.drain(), rotated_v.drain());
        } else {
          gradients(rotated_q.drain(), rotated_k.drain(), v.drain());
        }
      } else {
        value::load_into(d_o.fill(), in.d_o, t);
        value::load_into(v.fill(), in.v, t);
        table();
        gradients(q.drain(), k.drain(), v.drain());
      }
    };
    if (options.rotate_v) run(operand{}, back);
    else run(whole{}, as_they_are);
  });
}

}  // namespace tlx::kernels
