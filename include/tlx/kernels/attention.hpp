// Block attention: jagged sequences cut into blocks of 64 tokens, each block attends inside itself. One tile per CTA, bound by the hardware.
#pragma once
#include <limits>

#include "tlx/dsl/kernel.hpp"

namespace tlx::kernels {

/// q k v o: (token, head, D); offsets: batch + 1 token numbers on the device; scale: of the scores, already times log2(e).
template <class T>
struct attention_arguments {
  BOOST_HANA_DEFINE_STRUCT(attention_arguments, (view<T, 3>, q), (view<T, 3>, k), (view<T, 3>, v), (view<T, 3>, o), (view<std::int32_t, 1>, offsets), (scalar<float>, scale_log2));
};

/// The whole score row of a token lies in one tile, so there is no loop over keys, no running maximum and no rescaling.
template <class T, int D>
void block_attention(block& cta, const attention_arguments<T>& in) {
  using namespace literals;
  constexpr int rows = 64;
  cta.warps(4_warps);
  // Bytes in flight decide: at least 128 KB of operands on each SM, in three pieces or more. Tensor memory allows fewer CTAs (512 columns).
  cta.per_processor(cta.has_tensor_memory() ? (D == 64 ? 4 : 2) : (D == 64 ? 6 : 4));
  auto q = cta.ring<1>("q", shared<T, rows, D>), k = cta.ring<1>("k", shared<T, rows, D>), v = cta.ring<1>("v", shared<T, rows, D>);
  cta.tile(jagged<rows>(in.offsets, in.q), [&](const jagged_box& t) {
    load(q.fill(), in.q[t], hint::evict_last);
    load(k.fill(), in.k[t], hint::evict_last);
    load(v.fill(), in.v[t], hint::evict_last);
    auto s = mma(q.drain(), transpose(k.drain()));
    auto x = where(t.key_mask<rows>(), read(s) * in.scale_log2, -std::numeric_limits<float>::infinity());
    auto e = exp2(x - row_max(x));
    auto p = cast<T>(e * rcp(row_sum(e)));
    auto o = mma(p, v.drain());
    store(in.o[t], cast<T>(read(o)));
  });
}

/// q k v do dq dk dv: (token, head, D), do: the gradient of o; offsets: as above; scale: of the scores; scale_log2: times log2(e).
template <class T>
struct attention_backward_arguments {
  BOOST_HANA_DEFINE_STRUCT(attention_backward_arguments, (view<T, 3>, q), (view<T, 3>, k), (view<T, 3>, v), (view<T, 3>, d_o), (view<T, 3>, dq), (view<T, 3>, dk), (view<T, 3>, dv),
                           (view<std::int32_t, 1>, offsets), (scalar<float>, scale), (scalar<float>, scale_log2));
};

/// The probabilities are computed again, and rowsum(p * dp) stands for rowsum(do * o), so neither o nor any row statistic is read. Each gradient tile has
/// one producer: no sums in memory, the same bits every time.
template <class T, int D>
void block_attention_backward(block& cta, const attention_backward_arguments<T>& in) {
  using namespace literals;
  constexpr int rows = 64;
  cta.warps(4_warps);
  cta.per_processor(cta.has_tensor_memory() ? 1 : (D == 64 ? 5 : 3));
  constexpr auto operand = shared<T, rows, D>;
  auto q = cta.ring<1>("q", operand), k = cta.ring<1>("k", operand), v = cta.ring<1>("v", operand), d_o = cta.ring<1>("do", operand);
  auto p = cta.ring<1>("p", shared<T, rows, rows>), ds = cta.ring<1>("ds", shared<T, rows, rows>);
  cta.tile(jagged<rows>(in.offsets, in.q), [&](const jagged_box& t) {
    load(q.fill(), in.q[t], hint::evict_last);
    load(k.fill(), in.k[t], hint::evict_last);
    load(d_o.fill(), in.d_o[t], hint::evict_last);
    load(v.fill(), in.v[t], hint::evict_last);
    auto qs = q.drain(), ks = k.drain();
    auto s = mma(qs, transpose(ks));
    auto gs = d_o.drain();
    auto dp = mma(gs, transpose(v.drain()));
    auto x = where(t.key_mask<rows>(), read(s) * in.scale_log2, -std::numeric_limits<float>::infinity());
    auto e = exp2(x - row_max(x));
    auto probability = e * rcp(row_sum(e));
    write(p.fill(), cast<T>(probability));
    auto g = read(dp);
    auto gradient = probability * (g - row_sum(probability * g)) * in.scale;
    write(ds.fill(), cast<T>(gradient));
    // One after another: a result leaves its registers before the next product wants as many.
    auto dv = mma(transpose(p.drain()), gs);
    store(in.dv[t], cast<T>(read(dv)));
    auto dss = ds.drain();
    auto dq = mma(dss, ks);
    store(in.dq[t], cast<T>(read(dq)));
    auto dk = mma(transpose(dss), qs);
    store(in.dk[t], cast<T>(read(dk)));
  });
}

}  // namespace tlx::kernels
