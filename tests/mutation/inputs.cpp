#include "inputs.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>

#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/element.hpp"

namespace tlx::mutation {

namespace {
constexpr std::int64_t batches = 2;

/// Of attention kernels, from names like block_attention_bf16_d128; `without` where the name has none.
std::int64_t number_in(const std::string& name, const char* before, std::int64_t without) {
  for (std::size_t at = name.find(before); at != std::string::npos; at = name.find(before, at + 1))
    if (const std::size_t digit = at + std::string_view(before).size(); digit < name.size() && name[digit] >= '0' && name[digit] <= '9') return std::stol(name.substr(digit));
  return without;
}
bool has(const std::string& name, const char* part) { return name.find(part) != std::string::npos; }

/// What a kernel's parameters are told by its name and theirs: the extents of each view, and which rows belong to nobody and are NaN.
struct problem {
  enum class family { matrices, block_attention, attention, grouped_products } of = family::matrices;
  sizes size;
  std::int64_t dimension = 64, heads = 2, key_heads = 2, whole_row = 0, scale_units = 0;  // whole_row: one tile has all columns of c
  bool a_transposed = false, b_transposed = true, by_row = false;
  bool in_one_walk = false;  // dq is added up in memory: of two tiles of keys at most, whose order the sums do not show
  std::vector<std::int32_t> offsets, key_offsets;  // of jagged kernels
  std::int64_t more_keys = 72;                     // than size.k
  std::size_t nan_sequence = 1;                    // NaN, as is what lies behind the last
  bool jagged() const { return !offsets.empty(); }

  problem(const ir::kernel& k, const sizes& size_) : size(size_), dimension(number_in(k.name, "_d", 64)) {
    const auto any = [&](auto&& is) { return std::any_of(k.parameters().begin(), k.parameters().end(), [&](const auto& p) { return is(*p); }); };
    const bool tables = any([](const ir::value_def& p) { return is_table(p); });
    if (k.name.rfind("flash_attention", 0) == 0) {
      of = family::attention;
      key_heads = 1;
      in_one_walk = any([](const ir::value_def& p) { return p.name == "sums"; });
      if (dimension == 64 && !has(k.name, "attention_d")) more_keys = 152;  // blocks of 192 keys
      // Queries and keys differ in number; sequences have more blocks of keys than a ring has slots, and the loop over them goes round more than once.
      // The last one is as much longer as the sizes ask for more than 264: other numbers of rounds.
      const auto more = [](std::int64_t extent) { return static_cast<std::int32_t>(std::max<std::int64_t>(0, extent - 264)); };
      if (tables) offsets = {0, 40, 45, 182 + more(size.m)}, key_offsets = {0, 100, 105, (has(k.name, "attention_d") ? 340 : 520) + more(size.k)};
    } else if (tables && any([](const ir::value_def& p) { return p.name == "b" && p.type.rank == 3; })) {
      of = family::grouped_products;
      offsets = {3, 40, 40, 45, 190};  // rows before the first, a group of none, one of several tiles
    } else if (tables) {
      of = family::block_attention;
      if (has(k.name, "_grouped")) heads = 4;
      const std::int64_t block = number_in(k.name, "_b", 64);
      // A whole block, parts of one, and more than one: 40, 5, 59 and 96 tokens where a block has 64.
      offsets = {0, 40, 45, 104, 200};
      if (block == 128) offsets = {0, 80, 85, 290};
      if (block >= 256) offsets = {0, 5, 305}, nan_sequence = 0, heads /= 2, key_heads = 1;
      // Blocks that end in their first half have a way of their own: both ways one after the other and twice in a row, their last rows of keys used, the first tile of either.
      if (block >= 256 && !has(k.name, "_backward")) {
        offsets = {0, 5, 305, 423, 573, 883};
        if (size.m < 128) offsets = {0, 256, 261}, nan_sequence = 1;
      }
      key_offsets = offsets;
    } else {
      if (k.name.rfind("gemm_normed", 0) == 0) whole_row = number_in(k.name, "_64x", 128) - 8;
      // Stored M x K and K x N unless the name says otherwise: nt means that b is N x K.
      for (const char* letters : {"_nn", "_nt", "_tn", "_tt"})
        if (const std::size_t at = k.name.find(letters); at != std::string::npos && (at + 3 == k.name.size() || k.name[at + 3] == '_')) a_transposed = letters[1] == 't', b_transposed = letters[2] == 't';
      by_row = has(k.name, "_by_row");
      if (k.name.rfind("scaled_gemm", 0) == 0) {  // 32 bytes of each row are numbers of whole blocks, one scale of e4m3, four of NVFP4
        size.k = (size.k + 31) / 32 * 32;
        scale_units = (size.k / 32 * (has(k.name, "ue4m3") ? 4 : has(k.name, "e2m1") ? 2 : 1) + 3) / 4;
      }
    }
  }

  static bool is_table(const ir::value_def& p) { return p.type.is(ir::type::kind::view) && p.type.rank == 1 && tile::is_integer(p.type.element); }
  const std::vector<std::int32_t>& table(const ir::value_def& p) const { return p.name == "k_offsets" ? key_offsets : offsets; }
  static bool of_keys(const ir::value_def& p) { return p.name == "k" || p.name == "v" || p.name == "dk" || p.name == "dv"; }
  std::int64_t tokens(const ir::value_def& p) const {
    if (jagged()) return (of_keys(p) ? key_offsets : offsets).back() + 6;
    const std::int64_t keys = size.k + more_keys;
    return of_keys(p) ? in_one_walk ? std::min<std::int64_t>(keys, 256) : keys : size.m;
  }
  /// By the axis of a view whose rows are tokens or rows of groups; -1: none.
  int row_axis(const ir::value_def& p) const {
    if (!jagged() || p.type.rank < 2 || p.name == "cos" || p.name == "sin" || p.name == "bias") return -1;
    if (of == family::grouped_products) return p.name == "a" ? 0 : -1;
    return p.type.rank == 3 ? 0 : 1;  // lse and the like: (head, token)
  }
  bool belongs_to_nobody(const ir::value_def& p, std::int64_t row) const {
    const std::vector<std::int32_t>& all = of_keys(p) ? key_offsets : offsets;
    if (of == family::grouped_products) return row >= all.back();
    return (row >= all[nan_sequence] && row < all[nan_sequence + 1]) || row >= all.back();
  }

  std::vector<std::int64_t> extents(const ir::value_def& p) const {
    const int rank = p.type.rank;
    if (of == family::grouped_products) {
      const std::int64_t groups = static_cast<std::int64_t>(offsets.size()) - 1, rows = offsets.back() + 6;
      if (p.name == "b") return {groups, size.n, size.k};
      return p.name == "bias" ? std::vector{groups, size.n} : std::vector{rows, p.name == "a" ? size.k : size.n};
    }
    if (of == family::attention || of == family::block_attention) {
      if (p.name == "cos" || p.name == "sin") return {tokens(p), dimension / 2};
      if (p.name == "slopes") return {heads};
      const std::int64_t own_heads = of_keys(p) ? key_heads : heads;
      const std::int64_t padded = (size.m + 63) / 64 * 64;
      if (in_one_walk && (p.name == "level" || p.name == "delta")) return {batches, heads, padded};
      if (p.name == "sums") return {batches, heads, dimension, padded};
      if (p.name == "lse" || p.name == "delta") return rank == 3 ? std::vector{batches, own_heads, tokens(p)} : std::vector{own_heads, tokens(p)};
      if (rank == 4) return {batches, tokens(p), own_heads, dimension};
      if (rank == 3) return {tokens(p), own_heads, dimension};
    }
    if (p.name == "scales_a" || p.name == "scales_b") return {((p.name == "scales_a" ? size.m : size.n) + 127) / 128, scale_units * 32, 16};
    const std::int64_t m = size.m, n = whole_row ? whole_row : size.n;
    if (rank == 1) return {p.name == "scale_a" || by_row ? m : n};
    const bool is_a = p.name == "a", is_b = p.name == "b" || p.name == "g" || p.name == "u";
    std::vector<std::int64_t> all = is_a ? std::vector{m, size.k} : is_b ? std::vector{size.k, n} : std::vector{m, n};
    if ((is_a && a_transposed) || (is_b && b_transposed)) std::swap(all[0], all[1]);
    if (rank == 3) all.insert(all.begin(), batches);
    return all;
  }

  /// Softmax over scores that are not all decided by one key; a window that leaves whole blocks of keys.
  float factor(const ir::value_def& p) const { return of == family::matrices || of == family::grouped_products ? 0.5F : p.name == "gradient_scale" ? 0.5F : 0.11F; }
  std::int32_t count(const ir::value_def& p) const { return p.name == "left" ? 300 : p.name == "right" ? 3 : p.name == "section" ? 2 : 1; }
};

template <class T>
void append(std::vector<std::byte>& to, T value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), from, from + sizeof value);
}

/// `value` as an element (in an integer's gap stands a number, as good as any other); the program stops at one that it does not know, since bytes of another size would be another pattern.
void append(std::vector<std::byte>& to, tile::element e, float value) {
  switch (e) {
    case tile::element::bf16: return append(to, bf16(value));
    case tile::element::f16: return append(to, f16(value));
    case tile::element::f32: return append(to, value);
    case tile::element::tf32: return append(to, tf32(value).value);
    case tile::element::e4m3: return append(to, e4m3(value));
    case tile::element::e5m2: return append(to, e5m2(value));
    case tile::element::s8: return append(to, static_cast<signed char>(std::isnan(value) ? 77 : std::clamp(32 * value, -128.0F, 127.0F)));
    case tile::element::ue8m0: return append(to, ue8m0(std::abs(value)));
    case tile::element::ue4m3: return append(to, ue4m3(std::abs(value)));
    case tile::element::e2m1x2: return append(to, e2m1x2(e2m1(value), e2m1(3 * value)));
    default: raise(internal_error({.id = "mutation-subject-wrong", .what = cat("no inputs of element type ", tile::name(e))}));
  }
}
}  // namespace

std::vector<input> inputs_of(const ir::kernel& k, const sizes& size) {
  std::vector<input> all;
  std::mt19937 bits(7);
  std::normal_distribution<float> normal;
  const problem of(k, size);
  for (const auto& p : k.parameters()) {
    input in;
    in.view = p->type.is(ir::type::kind::view);
    const tile::element e = p->type.element;
    if (!in.view) {
      tile::is_integer(e) ? append(in.bytes, of.count(*p)) : append(in.bytes, e, of.factor(*p));
    } else if (problem::is_table(*p)) {
      in.extents = {static_cast<std::int64_t>(of.table(*p).size())};
      in.strides = {1};
      for (const std::int32_t o : of.table(*p)) append(in.bytes, o);
    } else {
      in.extents = of.extents(*p);
      in.strides.assign(in.extents.size(), 1);
      const std::size_t rank = in.extents.size();
      const bool gaps = rank > 1 && of.of == problem::family::matrices;  // at most 16 bytes behind each row, so that rows begin at multiples of 16
      const std::int64_t aligned = 128 / tile::bits(e), columns = in.extents[rank - 1], row = gaps ? (columns / aligned + 1) * aligned : columns;
      for (std::size_t axis = rank - 1; axis-- > 0;) in.strides[axis] = axis + 2 == rank ? row : in.strides[axis + 1] * in.extents[axis + 1];
      const int by = of.row_axis(*p);
      const auto is_nan = [&](std::int64_t i) {
        if (gaps && i % row >= columns) return true;
        if (by < 0) return false;
        const std::size_t axis = static_cast<std::size_t>(by);
        return of.belongs_to_nobody(*p, i / in.strides[axis] % in.extents[axis]);
      };
      const float by_much = p->name == "slopes" ? 0.02F : p->name == "sums" ? 0.0F : 1.0F;  // a slope times the longest distance stays small; sums begin at zero
      // Nothing behind the last element, so that what is read there is out of bounds.
      const std::int64_t count = in.strides[0] * in.extents[0] - (row - columns);
      for (std::int64_t i = 0; i < count; ++i) append(in.bytes, e, is_nan(i) ? std::nanf("") : by_much * normal(bits));
    }
    all.push_back(std::move(in));
  }
  return all;
}

std::vector<device::value> put(const std::vector<input>& inputs, device::machine& m, std::vector<device::buffer>& on) {
  std::vector<device::value> values;
  for (const input& in : inputs) {
    if (!in.view) {
      values.push_back({.bytes = in.bytes});
      continue;
    }
    on.emplace_back(m, in.bytes.size());
    on.back().write(in.bytes.data(), in.bytes.size());
    values.push_back(device::view_value(on.back().where(), in.extents, in.strides));
  }
  return values;
}

}  // namespace tlx::mutation
