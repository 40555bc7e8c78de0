// Block attention: jagged sequences cut into blocks of 64, 128 or 256 tokens, each block attends inside itself. One tile per CTA, bound by the hardware.
#pragma once
#include <algorithm>
#include <limits>

#include "tlx/dsl/kernel.hpp"

namespace tlx::kernels {

/// What is decided when the kernel is made.
struct attention_options {
  bool causal = false;   // a token attends to those of its block that do not come after it
  bool by_token = false; // rotary tables have a row for each token, not for each position
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

/// As above, q and k rotated in the forward pass; cos, sin: (position in the sequence, D / 2), or (token, D / 2) with attention_options::by_token.
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

/// The columns of a box from `first` on.
template <class T>
box_of<T, 3> columns_from(const view<T, 3>& tensor, const jagged_box& t, int first) {
  box_of<T, 3> box = tensor.at(t.row, t.head, first).axes(0, 2);
  box.valid_rows = t.rows.used();
  return box;
}

/// block_attention_backward() of q and k that the forward pass has rotated, down to the gradients of what they were before: rotated back in float32, then
/// rounded once. Column i goes with column i + D / 2, so q and k are loaded as halves, and the two halves of a gradient lie in the same registers.
template <class T, int Block, int D>
void block_attention_rotary_backward(block& cta, const attention_rotary_backward_arguments<T>& in, const attention_options& options = {}) {
  constexpr int half = D / 2;
  cta.warps({Block / 16});
  cta.per_processor(std::max(attention_backward_ctas(Block, D, cta.has_tensor_memory()) - 1, 1));  // both halves of a gradient at once take registers
  constexpr auto operand = shared<T, Block, D>;
  constexpr auto part = shared<T, Block, half>;
  auto q0 = cta.ring<1>("q0", part), q1 = cta.ring<1>("q1", part), k0 = cta.ring<1>("k0", part), k1 = cta.ring<1>("k1", part);
  auto v = cta.ring<1>("v", operand), d_o = cta.ring<1>("do", operand);
  auto p = cta.ring<1>("p", shared<T, Block, Block>), ds = cta.ring<1>("ds", shared<T, Block, Block>);
  cta.tile(jagged<Block>(in.offsets, in.q), [&](const jagged_box& t) {
    load(q0.fill(), columns_from(in.q, t, 0), hint::evict_last);
    load(q1.fill(), columns_from(in.q, t, half), hint::evict_last);
    load(k0.fill(), columns_from(in.k, t, 0), hint::evict_last);
    load(k1.fill(), columns_from(in.k, t, half), hint::evict_last);
    load(d_o.fill(), in.d_o[t], hint::evict_last);
    load(v.fill(), in.v[t], hint::evict_last);
    auto q0s = q0.drain(), k0s = k0.drain(), q1s = q1.drain(), k1s = k1.drain();
    auto s = mma(q0s, transpose(k0s));
    mma(s, q1s, transpose(k1s), accumulate(true));
    auto gs = d_o.drain();
    auto dp = mma(gs, transpose(v.drain()));
    write_score_gradients<Block>(s, dp, p, ds, in, t, options.causal);
    auto dv = mma(transpose(p.drain()), gs);
    store(in.dv[t], cast<T>(read(dv)));
    auto dss = ds.drain();
    const index angle = options.by_token ? t.row : t.position;
    const auto rotate_back = [&](const view<T, 3>& to, const auto& low, const auto& high) {
      const auto cos = fetch<Block, half>(in.cos.at(angle, 0)), sin = fetch<Block, half>(in.sin.at(angle, 0));
      const auto x = read(low), y = read(high);
      store(columns_from(to, t, 0), cast<T>(x * cos + y * sin));
      store(columns_from(to, t, half), cast<T>(y * cos - x * sin));
    };
    auto dq0 = mma(dss, k0s), dq1 = mma(dss, k1s);
    rotate_back(in.dq, dq0, dq1);
    auto dk0 = mma(transpose(dss), q0s), dk1 = mma(transpose(dss), q1s);
    rotate_back(in.dk, dk0, dk1);
  });
}

}  // namespace tlx::kernels
