// Block attention: jagged sequences cut into blocks of 64 or 128 tokens, each block attends inside itself. One tile per CTA, bound by the hardware.
#pragma once
#include <algorithm>
#include <limits>

#include "tlx/dsl/kernel.hpp"

namespace tlx::kernels {

/// What is decided when the kernel is made.
struct attention_options {
  bool causal = false;   // a token attends to those of its block that do not come after it
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
    auto probability = block_softmax<Block>(read(s) * in.scale_log2, t, options.causal);
    write(p.fill(), cast<T>(probability));
    auto g = read(dp);
    write(ds.fill(), cast<T>(probability * (g - row_sum(probability * g)) * in.scale));
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
      auto probability = block_softmax<Block>(read(s) * in.scale_log2, t, options.causal);
      write(p.fill(), cast<T>(probability));
      auto g = read(dp);
      write(ds.fill(), cast<T>(probability * (g - row_sum(probability * g)) * in.scale));
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

}  // namespace tlx::kernels
