// Block attention: jagged sequences cut into blocks of 64, 128 or 256 tokens, each block attends inside itself. One tile per CTA, bound by the hardware.
#pragma once
#include <algorithm>
#include <limits>
#include <utility>

#include "tlx/dsl/kernel.hpp"

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
constexpr int attention_rotary_backward_ctas(int block, int dimension, bool tensor_memory, bool halves) {
  return std::max(1, attention_backward_ctas(block, dimension, tensor_memory) - (halves || dimension == 64));
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
  cta.per_processor(attention_rotary_backward_ctas(Block, D, cta.has_tensor_memory(), operand::halves));
  cta.tile(jagged<Block>(in.offsets, in.q), [&](const jagged_box& t) {
    const index angle = options.by_token ? t.row : t.position;
    const auto back = [&]<int N>(const auto& x, const auto& y, int first) {
      const auto cos = fetch<Block, N>(in.cos.at(angle, first)), sin = fetch<Block, N>(in.sin.at(angle, first));
      return std::pair(x * cos + y * sin, y * cos - x * sin);
    };
    const auto as_they_are = []<int N>(const auto& x, const auto& y, int) { return std::pair(x, y); };
    const auto run = [&](auto values, const auto& finish_dv) {  // values: how v and d_o lie in shared memory
      using value = decltype(values);
      const auto q = operand::ring(cta, "q"), k = operand::ring(cta, "k"), v = value::ring(cta, "v"), d_o = value::ring(cta, "do");
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
        const auto cos = fetch<Block, D / 2>(in.cos.at(angle, 0)), sin = fetch<Block, D / 2>(in.sin.at(angle, 0));  // on their way beside the operands
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
        gradients(q.drain(), k.drain(), v.drain());
      }
    };
    if (options.rotate_v) run(operand{}, back);
    else run(whole{}, as_they_are);
  });
}

}  // namespace tlx::kernels
