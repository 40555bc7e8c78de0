// Attention of any number of queries to any number of keys: scores stay on the chip, the softmax is computed block of keys by block of keys (online).
// A loading role fills rings of keys and values; one role multiplies and exponentiates: the scores of a block are issued before the values of the block before
// it are multiplied, so that the exponentials of one block run beside the products of the other.
#pragma once
#include <limits>
#include <optional>
#include <string>

#include "tlx/dsl/kernel.hpp"

namespace tlx::kernels {

/// What is decided when the kernel is made. Row i of Sq queries stands at i + Sk - Sq among the Sk keys: the last query at the last key.
struct flash_options {
  bool right = false;     // a query sees at most `right` keys after its own place (causal: none)
  bool left = false;      // and at most `left` before it
  bool soft_cap = false;  // scores x become cap * tanh(x / cap)
  bool slopes = false;    // and are lowered by slope of the head * distance (ALiBi)
  bool plain() const { return !soft_cap && !slopes; }
};

/// q o: (batch, token, head, D), k v: (batch, token, key head, D); q's heads [i * g, (i + 1) * g) share key head i. lse: (batch, head, token), the logarithm of
/// each row's sum of exponentials, or of no extent. scale: of the scores; exponent: of what the options make of them, times log2(e). section: how many
/// heads' keys and values fit into L2.
template <class T>
struct flash_arguments {
  BOOST_HANA_DEFINE_STRUCT(flash_arguments, (view<T, 4>, q), (view<T, 4>, k), (view<T, 4>, v), (view<T, 4>, o), (view<float, 3>, lse), (view<float, 1>, slopes), (scalar<float>, scale),
                           (scalar<float>, exponent), (scalar<std::int32_t>, left), (scalar<std::int32_t>, right), (scalar<std::int32_t>, section));
};

/// Sequences one after the other: q o: (token, head, D), k v: (token, key head, D), lse: (head, token); q_offsets, k_offsets: batch + 1 token numbers each.
template <class T>
struct flash_jagged_arguments {
  BOOST_HANA_DEFINE_STRUCT(flash_jagged_arguments, (view<T, 3>, q), (view<T, 3>, k), (view<T, 3>, v), (view<T, 3>, o), (view<float, 2>, lse), (view<float, 1>, slopes),
                           (view<std::int32_t, 1>, q_offsets), (view<std::int32_t, 1>, k_offsets), (scalar<float>, scale), (scalar<float>, exponent), (scalar<std::int32_t>, left),
                           (scalar<std::int32_t>, right));
};

/// A tile of queries of one head. `row`: of the first one in its sequence; the sequence has `queries` and `keys`, and begins at the given tokens.
struct query_box {
  index batch, head, row, queries, keys, first_query, first_key;
};

/// Tiles of Rows queries, or OfKeys: of keys, with the heads of k (`row`, `head`: of the keys). The heads of a section are taken together, so that their keys and values stay in L2, and the last queries first: with a causal mask
/// they see the most keys, and what is left at the end is short. (The first keys are seen by the most queries.)
template <int Rows, bool OfKeys = false>
class flash_tiles {
 public:
  /// back_and_forth: the heads are one section, and every other round of a persistent kernel takes its tiles backwards: each CTA gets long ones and short ones.
  template <class Arguments>
  explicit flash_tiles(const Arguments& in, bool back_and_forth = false)
      : back_and_forth_(back_and_forth), section_(in.section), batch_(in.q.extent(0)), queries_(in.q.extent(1)), heads_((OfKeys ? in.k : in.q).extent(2)), keys_(in.k.extent(1)), blocks_(ceil_div(OfKeys ? keys_ : queries_, Rows)) {
    const std::string q = (OfKeys ? in.k : in.q).used()->name;
    count_formula_ = "(mul (mul " + q + ".0 " + q + ".2) (ceil_div " + q + ".1 " + std::to_string(Rows) + "))";
  }
  index count() const { return batch_ * heads_ * blocks_; }
  const std::string& count_formula() const { return count_formula_; }
  template <class Body>
  void visit(const index& number, Body&& body) const {
    const auto at = [&](const index& head, const index& block) {
      const index zero = constant(number.home(), 0);
      body(query_box{head / heads_, head % heads_, (OfKeys ? block : blocks_ - 1 - block) * Rows, queries_, keys_, zero, zero});
    };
    if (back_and_forth_) {
      const index all = batch_ * heads_, tile = turned(number);
      return at(tile % all, tile / all);
    }
    const index each = section_ * blocks_, first = number / each * section_, inside = number % each;
    const index width = min(batch_ * heads_ - first, section_);
    at(first + inside % width, inside / width);
  }

 private:
  index turned(const index& number) const {
    dsl::context& c = number.home();
    const index ctas(c, c.at().simple(ir::opcode::grid_size, tile::element::s32, {{"axis", std::int64_t{0}}}));
    const index round = number / ctas, first = round * ctas;
    return where(round % 2 == 1 && first + ctas <= count(), first + first + ctas - 1 - number, number);
  }
  bool back_and_forth_;
  index section_, batch_, queries_, heads_, keys_, blocks_;
  std::string count_formula_;
};

template <int Rows, bool OfKeys = false>
class flash_jagged_tiles {
 public:
  template <class Arguments>
  explicit flash_jagged_tiles(const Arguments& in) : all_(OfKeys ? in.k_offsets : in.q_offsets, OfKeys ? in.k : in.q), q_offsets_(in.q_offsets), k_offsets_(in.k_offsets) {}
  index count() const { return all_.count(); }
  const std::string& count_formula() const { return all_.count_formula(); }
  template <class Body>
  void visit(const index& tile, Body&& body) const {
    all_.visit(tile, [&](const jagged_box& t) {
      const auto between = [&](const view<std::int32_t, 1>& offsets, const index& first) { return element(offsets.at(t.sequence + 1)) - first; };
      const index other = element((OfKeys ? q_offsets_ : k_offsets_).at(t.sequence)), mine = t.row - t.position;
      const index first_query = OfKeys ? other : mine, first_key = OfKeys ? mine : other;
      body(query_box{t.sequence, t.head, t.position, between(q_offsets_, first_query), between(k_offsets_, first_key), first_query, first_key});
    });
  }

 private:
  jagged_tiles<Rows> all_;
  view<std::int32_t, 1> q_offsets_, k_offsets_;
};

/// Where a tile lies, for both kinds of arguments.
template <int Rows, class T> flash_tiles<Rows> query_tiles(const flash_arguments<T>& in) { return flash_tiles<Rows>(in); }
template <int Rows, class T> flash_jagged_tiles<Rows> query_tiles(const flash_jagged_arguments<T>& in) { return flash_jagged_tiles<Rows>(in); }
template <class T> box_of<T, 4> tokens_at(const view<T, 4>& v, const query_box& t, const index&, const index& token, const index& head) { return v.at(t.batch, token, head, 0).axes(1, 3); }
template <class T> box_of<T, 3> tokens_at(const view<T, 3>& v, const query_box&, const index& first, const index& token, const index& head) { return v.at(first + token, head, 0).axes(0, 2); }
inline box_of<float, 3> rows_at(const view<float, 3>& v, const query_box& t) { return v.at(t.batch, t.head, t.row).axes(2, -1); }
inline box_of<float, 2> rows_at(const view<float, 2>& v, const query_box& t) { return v.at(t.head, t.first_query + t.row).axes(1, -1); }
/// Rows of another sequence are not written.
template <class Box, class T> Box only_own(Box box, const query_box&, const flash_arguments<T>&) { return box; }
template <class Box, class T> Box only_own(Box box, const query_box& t, const flash_jagged_arguments<T>&) {
  box.valid_rows = (t.queries - t.row).used();
  return box;
}
template <class Arguments> inline constexpr bool is_jagged = false;
template <class T> inline constexpr bool is_jagged<flash_jagged_arguments<T>> = true;

/// The head of k and v for a head of q.
template <class Arguments>
index key_head_of(const Arguments& in, const index& head) {
  constexpr int axis = std::decay_t<decltype(in.q)>::rank - 2;
  return head / (in.q.extent(axis) / in.k.extent(axis));
}

/// The blocks of keys that a tile of queries looks at, the last one first: at least one, which may have no key that anybody sees.
template <int Rows, int Keys>
class key_blocks {
 public:
  template <class Arguments>
  key_blocks(const query_box& t, const Arguments& in, const flash_options& options)
      : options_(options), row_(t.row), keys_(t.keys), right_(t.row + t.keys - t.queries + in.right), left_(t.row + t.keys - t.queries - in.left),
        low_(options.left ? max(left_, 0) / Keys : constant(t.row.home(), 0)),
        last_(max(ceil_div(options.right ? max(min(t.keys, right_ + Rows), 0) : t.keys, Keys) - 1, low_)) {}
  index count() const { return max(last_ - low_ + 1, 1); }  // the maximum says it to guard-reads
  /// The first key of the i-th block.
  index key(const index& i) const { return (last_ - i) * Keys; }

  /// Scores without those of keys that a row does not see; `inner`: of a block before the last, which has all its keys.
  tile_of<float, Rows, Keys> seen(dsl::context& c, const tile_of<float, Rows, Keys>& x, const index& key) const {
    constexpr float none = -std::numeric_limits<float>::infinity();
    const auto column = col_index<1, Keys>(c);
    if (!options_.right && !options_.left) return where(column < keys_ - key, x, none);
    const auto row = row_index<Rows, 1>(c);
    const auto above = options_.right ? min(row + (right_ - key), keys_ - key - 1) : splat_of(c, keys_ - key - 1);
    const auto upper = where(column <= above, x, none);
    return options_.left ? where(column >= row + (left_ - key), upper, none) : upper;
  }
  /// Whether a block has keys that some row does not see.
  predicate at_edge(const index& key) const {
    const predicate end = key + Keys > keys_, upper = key + (Keys - 1) > right_, lower = key < left_ + (Rows - 1);
    const predicate bounded = options_.right && options_.left ? upper || lower : options_.right ? upper : options_.left ? lower : end;
    return options_.right || options_.left ? end || bounded : end;
  }
  /// Blocks in [first_whole(), end_of_whole()) have only keys that every row sees; the first of all is looked at apart.
  index first_whole() const {
    if (!options_.right) return constant(row_.home(), 1);
    return max(min(last_ + 1 - max(min(right_ + 1, keys_), 0) / Keys, count()), 1);
  }
  index end_of_whole() const {
    if (!options_.left) return count();
    return max(min(last_ + 1 - ceil_div(max(left_ + (Rows - 1), 0), Keys), count()), first_whole());
  }

 private:
  static tile_of<std::int32_t, Rows, 1> splat_of(dsl::context& c, const index& v) { return row_index<Rows, 1>(c) * 0 + v; }
  flash_options options_;
  index row_, keys_, right_, left_, low_, last_;  // right_, left_: what the first row sees
};

/// The other way round: the blocks of queries that look at a tile of keys, for each head that shares them; the first query first. At least one for each head.
template <int Keys, int Queries>
class query_blocks {
 public:
  template <class Arguments>
  query_blocks(const query_box& t, const Arguments& in, const flash_options& options)
      : options_(options), key_(t.row), queries_(t.queries), shift_(t.keys - t.queries), in_right_(in.right), in_left_(in.left),
        group_(in.q.extent(std::decay_t<decltype(in.q)>::rank - 2) / in.k.extent(std::decay_t<decltype(in.k)>::rank - 2)), first_head_(t.head * group_),
        low_(options.right ? max(min(t.row - shift_ - in_right_, t.queries - 1), 0) / Queries : constant(t.row.home(), 0)),
        each_(max(ceil_div(options.left ? min(t.queries, t.row + Keys - shift_ + in_left_) : t.queries, Queries) - low_, 1)) {}
  index count() const { return max(group_ * each_, 1); }
  index query(const index& i) const { return (low_ + i % each_) * Queries; }
  index head(const index& i) const { return first_head_ + i / each_; }

  /// Transposed scores, a key in each row, without those that a query does not see.
  tile_of<float, Keys, Queries> seen(dsl::context& c, const tile_of<float, Keys, Queries>& x, const index& query) const {
    constexpr float none = -std::numeric_limits<float>::infinity();
    const auto place = col_index<1, Queries>(c) + (query + shift_ - key_);  // of each query among the keys of this tile
    const auto key = row_index<Keys, 1>(c);
    const auto upper = options_.right ? where(key <= place + in_right_, x, none) : x;
    return options_.left ? where(key >= place - in_left_, upper, none) : upper;
  }
  predicate at_edge(const index& query) const {
    const predicate end = query + Queries > queries_;
    return options_.right || options_.left ? end || bounded(query) : end;
  }
  /// Whether some query of the block does not see some key of the tile.
  predicate bounded(const index& query) const {
    const predicate upper = key_ + (Keys - 1) > query + shift_ + in_right_, lower = key_ < query + (Queries - 1) + shift_ - in_left_;
    return options_.right && options_.left ? upper || lower : options_.right ? upper : lower;
  }

 private:
  flash_options options_;
  index key_, queries_, shift_, in_right_, in_left_, group_, first_head_, low_, each_;
};

/// Queries and keys of a tile, and slots of the rings.
template <int Rows, int Keys, int KeySlots, int ValueSlots>
struct flash_plan {
  static constexpr int rows = Rows, keys = Keys, key_slots = KeySlots, value_slots = ValueSlots;
};

/// o = softmax(scale * q k^T) v, lse.
template <class T, int D, class Plan, class Arguments>
void flash_attention(block& cta, const Arguments& in, const flash_options& options = {}) {
  using namespace literals;
  constexpr int Rows = Plan::rows, Keys = Plan::keys;
  constexpr float none = -std::numeric_limits<float>::infinity();
  constexpr float ln2 = 0.6931471805599453f;
  dsl::context& c = cta.home();
  auto tiles = cta.persistent(query_tiles<Rows>(in));
  auto q = cta.ring<1>("q", shared<T, Rows, D>);
  auto k = cta.ring<Plan::key_slots>("k", shared<T, Keys, D>);
  auto v = cta.ring<Plan::value_slots>("v", shared<T, Keys, D>);
  // A product takes its left operand from registers where accumulators are registers too; elsewhere it goes through shared memory.
  std::optional<ring_of<1, shared_spec<T, Rows, Keys>>> p;
  if (cta.has_tensor_memory()) p.emplace(cta.ring<1>("p", shared<T, Rows, Keys>));
  // Whoever sums a row's exponentials has all of the row: a warpgroup has 64 rows in registers, 128 in tensor memory.
  const warp_count attending{cta.has_tensor_memory() ? 4 : Rows / 16};

  cta.roles(tiles,
    role("load", 1_warp, [&](const query_box& t) {
      const key_blocks<Rows, Keys> blocks(t, in, options);
      const index key_head = key_head_of(in, t.head);
      load(q.fill(), tokens_at(in.q, t, t.first_query, t.row, t.head));
      for_each(blocks.count(), [&](const index& i) {
        load(k.fill(), tokens_at(in.k, t, t.first_key, blocks.key(i), key_head));
        load(v.fill(), tokens_at(in.v, t, t.first_key, blocks.key(i), key_head));
      });
    }),
    role("attend", attending, [&](const query_box& t) {
      const key_blocks<Rows, Keys> blocks(t, in, options);
      const index count = blocks.count();
      const auto score = [&](const tile_of<float, Rows, Keys>& x, const index& key) {
        if (options.plain()) return x;
        const auto scaled = x * in.scale;
        const auto capped = options.soft_cap ? tanh(scaled) : scaled;
        if (!options.slopes) return capped;
        const auto distance = abs(cast<float>(row_index<Rows, 1>(c) + (t.row + t.keys - t.queries - key) - col_index<1, Keys>(c)));
        return capped - distance * element(in.slopes.at(t.head));
      };
      auto largest = cta.carry(splat<float, Rows, 1>(c, none)), sum = cta.carry(splat<float, Rows, 1>(c, 0.0f));
      // What the sums and the result so far must be multiplied by, and the exponentials whose product with the values is due next.
      auto keep = cta.carry(splat<float, Rows, 1>(c, 0.0f));
      auto numerators = cta.carry(splat<float, Rows, Keys>(c, 0.0f));
      const auto exponentials = [&](const tile_of<float, Rows, Keys>& x) {
        const auto before = largest.get();
        const auto now = max(before, row_max(x));
        const auto shift = where(now > none, now * in.exponent, 0.0f);  // a row that has seen no key yet has no largest score
        const auto e = exp2(fma(x, in.exponent, -shift));
        keep.set(exp2(before * in.exponent - shift));
        sum.set(sum.get() * keep.get() + row_sum(e));
        largest.set(now);
        numerators.set(e);
      };
      auto o = cta.make(accumulator<float, Rows, D>);
      // The result so far at the scale of the newest exponentials, and these as an operand: both before the next scores take registers.
      const auto prepare = [&](const predicate& again) {
        const auto rescale = [&] { write(o, read(o) * keep.get()); };
        if (cta.has_tensor_memory()) when(again, rescale);
        else rescale();  // of whatever is in the registers: the first product overwrites it
        return cta.carry(cast<T>(numerators.get()));
      };
      const auto add_values = [&](const auto& values, const tile_cell<T, Rows, Keys>& factors, const predicate& again) {
        if (!p) return mma(o, factors.get(), values, accumulate(again));
        write(p->fill(), factors.get());
        mma(o, p->drain(), values, accumulate(again));
      };
      // What lies behind the last key is of another sequence, and 0 * NaN is NaN.
      const auto only_own_values = [&](const auto& values, const index& key) {
        if (is_jagged<Arguments>) clear_from(values, t.keys - key);
      };
      [&] {
        auto queries = q.drain();
        const index last = blocks.key(constant(c, 0));
        const auto x = [&] {
          auto keys = k.drain();
          auto s = mma(queries, transpose(keys));
          return read(s);
        }();
        exponentials(blocks.seen(c, score(x, last), last));
        const auto round = [&](const index& i, bool masked) {
          const index key = blocks.key(i);
          auto values = v.drain();
          only_own_values(values, key + Keys);
          const auto raw = [&] {
            const auto factors = prepare(i > 1);
            auto keys = k.drain();
            auto s = mma(queries, transpose(keys));
            add_values(values, factors, i > 1);  // of the block before, beside this block's exponentials
            return read(s);
          }();
          const auto scored = score(raw, key);
          exponentials(masked ? blocks.seen(c, scored, key) : scored);
        };
        // Three loops rather than a branch in one: the masks would stand between a product and the exponentials.
        const index whole = blocks.first_whole(), end = blocks.end_of_whole();
        if (options.right) for_each(range{constant(c, 1), whole}, [&](const index& i) { round(i, true); });
        for_each(range{whole, end}, [&](const index& i) { round(i, false); });
        if (options.left) for_each(range{end, count}, [&](const index& i) { round(i, true); });
      }();
      auto values = v.drain();
      only_own_values(values, blocks.key(count - 1));
      add_values(values, prepare(count > 1), count > 1);
      const auto total = sum.get();
      const auto norm = where(total > 0.0f, rcp(total), 0.0f);
      store(only_own(tokens_at(in.o, t, t.first_query, t.row, t.head), t, in), cast<T>(read(o) * norm));
      const auto top = largest.get();
      store(only_own(rows_at(in.lse, t), t, in), where(total > 0.0f, (top * in.exponent + log2(total)) * ln2, none));
    }));
}

/// The same where there is no key at all.
template <class T, int D, class Arguments>
void flash_attention_without_keys(block& cta, const Arguments& in) {
  constexpr int Rows = 64;
  dsl::context& c = cta.home();
  cta.warps({4});
  cta.tile(query_tiles<Rows>(in), [&](const query_box& t) {
    store(only_own(tokens_at(in.o, t, t.first_query, t.row, t.head), t, in), cast<T>(splat<float, Rows, D>(c, 0.0f)));
    store(only_own(rows_at(in.lse, t), t, in), splat<float, Rows, 1>(c, -std::numeric_limits<float>::infinity()));
  });
}

}  // namespace tlx::kernels
