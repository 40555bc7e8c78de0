#include "tlx/host/flash_attention.hpp"

#include <algorithm>
#include <cmath>

#include "host/families.hpp"
#include "tlx/kernels/flash_attention_one_walk.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::host {

namespace {

// Chosen by what was measured on Hopper and by what fits into registers: a warpgroup holds scores, exponentials and results of 64 rows there, and a thread a whole
// row of 128 on Blackwell.
template <int Keys> using hopper_plan = kernels::flash_plan<128, Keys, 2, 2>;
using blackwell_plan = kernels::flash_plan<128, 64, 3, 3>;
using dq_plan = kernels::flash_plan<128, 64, 3, 0>;
template <int Queries> using dkdv_plan = kernels::flash_plan<128, Queries, 3, 0>;
template <int Queries> using walk_plan = kernels::flash_walk_plan<128, Queries, 3, 2>;

enum class step { forward, zeros, delta, dkdv, dq, prepare, walk, finish };
constexpr const char* step_names[] = {"", "_without_keys", "_delta", "_dkdv", "_dq", "_prepare", "_walk", "_finish"};

struct variant {
  tile::element type;
  int dimension;
  bool jagged;
  kernels::flash_options options = {};
  step what = step::forward;

  std::string name() const {
    return cat("flash_attention", step_names[static_cast<int>(what)], "_", tile::name(type), "_d", dimension, jagged ? "_jagged" : "", options.left ? "_left" : "", options.right ? "_right" : "", options.soft_cap ? "_soft_cap" : "",
               options.slopes ? "_slopes" : "");
  }
  std::unique_ptr<ir::kernel> trace(const std::string& target) const { return type == tile::element::bf16 ? with_type<bf16>(target) : with_type<f16>(target); }

 private:
  template <class T> std::unique_ptr<ir::kernel> with_type(const std::string& target) const { return dimension == 64 ? with_dimension<T, 64>(target) : with_dimension<T, 128>(target); }
  template <class T, int D>
  std::unique_ptr<ir::kernel> with_dimension(const std::string& target) const {
    if (what == step::forward || what == step::zeros)
      return jagged ? forward<T, D, kernels::flash_jagged_arguments<T>>(target) : forward<T, D, kernels::flash_arguments<T>>(target);
    if constexpr (D == 128)
      if (what == step::prepare || what == step::walk || what == step::finish) return one_walk<T, D>(target);
    return jagged ? backward<T, D, kernels::flash_jagged_backward_arguments<T>>(target) : backward<T, D, kernels::flash_backward_arguments<T>>(target);
  }
  template <class T, int D, class Arguments>
  std::unique_ptr<ir::kernel> forward(const std::string& target) const {
    return tlx::trace<Arguments>(name(), target, [&](block& cta, const Arguments& in) {
      if (what == step::forward) attend<T, D>(cta, in);
      else kernels::flash_attention_without_keys<T, D>(cta, in);
    });
  }
  template <class T, int D, class Arguments>
  std::unique_ptr<ir::kernel> backward(const std::string& target) const {
    return tlx::trace<Arguments>(name(), target, [&](block& cta, const Arguments& in) {
      if (what == step::delta) kernels::flash_attention_delta<T, D>(cta, in);
      else if (what == step::dq) kernels::flash_attention_dq<T, D, dq_plan>(cta, in, options);
      else if (D == 64 && !cta.has_tensor_memory()) kernels::flash_attention_dkdv<T, D, dkdv_plan<64>>(cta, in, options);
      else kernels::flash_attention_dkdv<T, D, dkdv_plan<32>>(cta, in, options);
    });
  }
  template <class T, int D>
  std::unique_ptr<ir::kernel> one_walk(const std::string& target) const {
    using arguments = kernels::flash_one_walk_arguments<T>;
    return tlx::trace<arguments>(name(), target, [&](block& cta, const arguments& in) {
      if (what == step::prepare) kernels::flash_attention_prepare<T, D>(cta, in);
      else if (what == step::finish) kernels::flash_attention_finish<T, D>(cta, in);
      else if (cta.has_tensor_memory()) kernels::flash_attention_walk<T, D, walk_plan<32>>(cta, in, options);
      else kernels::flash_attention_walk<T, D, walk_plan<64>>(cta, in, options);
    });
  }
  // Masks and what is done to scores take registers, which wide blocks of keys leave none of.
  template <class T, int D, class Arguments>
  void attend(block& cta, const Arguments& in) const {
    const bool narrow = options.left || !options.plain();
    if (cta.has_tensor_memory()) return kernels::flash_attention<T, D, blackwell_plan>(cta, in, options);
    if constexpr (D == 128) {
      if (narrow) kernels::flash_attention<T, D, hopper_plan<96>>(cta, in, options);
      else kernels::flash_attention<T, D, hopper_plan<128>>(cta, in, options);
    } else {
      if (narrow) kernels::flash_attention<T, D, hopper_plan<128>>(cta, in, options);
      else if (options.right) kernels::flash_attention<T, D, hopper_plan<160>>(cta, in, options);
      else kernels::flash_attention<T, D, hopper_plan<192>>(cta, in, options);
    }
  }
};

std::int64_t key_heads(const flash_attention_problem& what) { return what.key_heads ? what.key_heads : what.heads; }

variant variant_of(const flash_attention_problem& what) {
  if (what.type != tile::element::bf16 && what.type != tile::element::f16)
    raise(user_error({.id = "flash-attention-type", .what = cat("attention of ", tile::name(what.type)), .because = "this function works on bf16 and f16", .fix = {"use bf16 or f16"}}));
  if (what.dimension != 64 && what.dimension != 128)
    raise(user_error({.id = "flash-attention-shape", .what = cat("attention with head dimension ", what.dimension), .because = "each head dimension is a kernel of its own", .fix = {"use 64 or 128"}}));
  if (key_heads(what) <= 0 || what.heads % key_heads(what) != 0)
    raise(user_error({.id = "flash-attention-heads", .what = cat(what.heads, " heads of q for ", key_heads(what), " of k and v"),
                      .because = "each head of k and v serves the same number of heads of q", .fix = {"use a multiple"}}));
  if (!(what.scale >= 0) || !(what.soft_cap >= 0) || (what.soft_cap > 0 && what.slopes))
    raise(user_error({.id = "flash-attention-scores", .what = cat("scale ", what.scale, ", soft_cap ", what.soft_cap, what.slopes ? ", slopes" : ""),
                      .because = "the largest score is found before it is scaled, so neither may be negative, and scores are either capped or lowered", .fix = {"negate q", "use soft_cap or slopes"}}));
  if (!what.query_offsets != !what.key_offsets)
    raise(user_error({.id = "flash-attention-offsets", .what = cat("offsets of ", what.query_offsets ? "queries" : "keys", " alone"),
                      .because = "both say where a sequence begins and how long it is", .fix = {"give both (they may be the same), or none"}}));
  if (what.sums_in_any_order && (what.dimension != 128 || what.query_offsets))
    raise(user_error({.id = "flash-attention-any-order", .what = cat("any_order() with ", what.query_offsets ? "sequences of any lengths" : cat("head dimension ", what.dimension)),
                      .because = "the walk that adds to dq in memory is there for batches with head dimension 128", .fix = {"leave any_order() out"}}));
  return {what.type, what.dimension, what.query_offsets != 0, {.right = what.right >= 0, .left = what.left >= 0, .soft_cap = what.soft_cap > 0, .slopes = what.slopes != 0}};
}

device::value view_of(const attended& t, const flash_attention_problem& what, std::int64_t tokens, std::int64_t heads) {
  const std::int64_t d = what.dimension, head_stride = t.head_stride ? t.head_stride : d, token_stride = t.token_stride ? t.token_stride : d * heads;
  if (what.query_offsets) return device::view_value(t.data, {tokens, heads, d}, {token_stride, head_stride, 1});
  return device::view_value(t.data, {what.batch, tokens, heads, d}, {t.batch_stride ? t.batch_stride : token_stride * tokens, token_stride, head_stride, 1});
}

constexpr float log2e = 1.4426950408889634f;
// Keys and values of a section's heads take at most half of L2.
constexpr std::int64_t section_bytes = std::int64_t{24} << 20;

std::int32_t bound(std::int64_t keys) { return static_cast<std::int32_t>(std::clamp<std::int64_t>(keys, 0, 1 << 30)); }

// Of what the options make of a score: the exponential's factor, and what is multiplied into the raw product before.
float scale_of(const flash_attention_problem& what) { return what.scale > 0 ? what.scale : 1.0f / std::sqrt(static_cast<float>(what.dimension)); }
float inner_scale(const flash_attention_problem& what) { return what.soft_cap > 0 ? scale_of(what) / what.soft_cap : scale_of(what); }
float exponent_of(const flash_attention_problem& what) { return (what.soft_cap > 0 ? what.soft_cap : what.slopes ? 1.0f : scale_of(what)) * log2e; }

// One number for each query of each head, or none.
device::value rows_of(device::address where, const flash_attention_problem& what) {
  const std::int64_t rows = where ? what.queries : 0;
  return what.query_offsets ? device::view_value(where, {what.heads, rows}) : device::view_value(where, {what.batch, what.heads, rows});
}

// What is the same at the end of all kernels' arguments.
void add_rest(std::vector<device::value>& arguments, const flash_attention_problem& what, bool backward) {
  arguments.push_back(device::view_value(what.slopes, {what.slopes ? what.heads : 0}));
  if (what.query_offsets)
    for (const device::address offsets : {what.query_offsets, what.key_offsets}) arguments.push_back(device::view_value(offsets, {what.batch + 1}));
  arguments.push_back(device::scalar_value(inner_scale(what)));
  arguments.push_back(device::scalar_value(exponent_of(what)));
  if (backward) arguments.push_back(device::scalar_value(scale_of(what)));
  arguments.push_back(device::scalar_value(bound(what.left)));
  arguments.push_back(device::scalar_value(bound(what.right)));
  if (what.query_offsets) return;
  // Tiles of a causal mask are of all lengths: the longest of all heads come first.
  const std::int64_t heads = std::max<std::int64_t>(1, what.batch * what.heads);
  if (what.right >= 0 && what.left < 0) return arguments.push_back(device::scalar_value(static_cast<std::int32_t>(heads)));
  const std::int64_t group = what.heads / key_heads(what), head_bytes = std::max<std::int64_t>(1, what.keys * what.dimension * 4 / group);
  arguments.push_back(device::scalar_value(static_cast<std::int32_t>(std::clamp<std::int64_t>(section_bytes / head_bytes, 1, heads))));
}

void run(session& with, const variant& kernel, const std::vector<device::value>& arguments, std::uint64_t stream) {
  with.run(kernel.name(), [&](const std::string& target) { return kernel.trace(target); }, arguments, stream);
}

// `to` and `lse` of queries that see nothing.
void write_zeros(session& with, variant kernel, const attended& to, device::address lse, const flash_attention_problem& what) {
  kernel.what = step::zeros;
  kernel.options = {};
  const device::value tensor = view_of(to, what, what.queries, what.heads);
  std::vector<device::value> arguments{tensor, tensor, tensor, tensor, rows_of(lse, what)};
  add_rest(arguments, what, false);
  run(with, kernel, arguments, what.stream);
}

void in_one_walk(session& with, variant kernel, const attended& q, const attended& k, const attended& v, const attended& o, const attended& d_o, device::address lse, const attended& dq,
                 const attended& dk, const attended& dv, const flash_attention_problem& what) {
  const std::int64_t padded = (what.queries + kernels::flash_padding - 1) / kernels::flash_padding * kernels::flash_padding, rows = what.batch * what.heads * padded;
  const session::workspace made = with.lend(static_cast<std::size_t>(rows * (what.dimension + 2)) * 4, what.stream);
  const auto numbers = [&](std::int64_t row) { return device::view_value(made.where + static_cast<device::address>(rows * row * 4), {what.batch, what.heads, padded}); };
  const device::value sums = device::view_value(made.where, {what.batch, what.heads, what.dimension, padded});
  const auto queries = [&](const attended& t) { return view_of(t, what, what.queries, what.heads); };
  const auto keys = [&](const attended& t) { return view_of(t, what, what.keys, key_heads(what)); };
  std::vector<device::value> arguments = {queries(q), keys(k), keys(v), queries(o), queries(d_o), rows_of(lse, what), numbers(what.dimension), numbers(what.dimension + 1), sums, queries(dq), keys(dk), keys(dv)};
  add_rest(arguments, what, true);
  for (const step next : {step::prepare, step::walk, step::finish}) {
    kernel.what = next;
    variant one = kernel;
    if (next != step::walk) one.options = {};
    run(with, one, arguments, what.stream);
  }
}

}  // namespace

void flash_attention(session& with, const attended& q, const attended& k, const attended& v, const attended& o, device::address lse, const flash_attention_problem& what) {
  const variant kernel = variant_of(what);
  if (what.batch <= 0 || what.heads <= 0 || what.queries <= 0) return;
  if (what.keys <= 0) return write_zeros(with, kernel, o, lse, what);
  std::vector<device::value> arguments = {view_of(q, what, what.queries, what.heads), view_of(k, what, what.keys, key_heads(what)), view_of(v, what, what.keys, key_heads(what)),
                                          view_of(o, what, what.queries, what.heads), rows_of(lse, what)};
  add_rest(arguments, what, false);
  run(with, kernel, arguments, what.stream);
}

void flash_attention_backward(session& with, const attended& q, const attended& k, const attended& v, const attended& o, const attended& d_o, device::address lse, const attended& dq,
                              const attended& dk, const attended& dv, const flash_attention_problem& what) {
  variant kernel = variant_of(what);
  if (what.batch <= 0 || what.heads <= 0) return;
  if (what.queries <= 0 || what.keys <= 0) {  // what nobody looked at has no gradient
    if (what.queries > 0) write_zeros(with, kernel, dq, 0, what);
    if (what.keys <= 0) return;
    flash_attention_problem turned = what;
    turned.queries = what.keys;
    turned.heads = turned.key_heads = key_heads(what);
    std::swap(turned.query_offsets, turned.key_offsets);
    for (const attended& t : {dk, dv}) write_zeros(with, kernel, t, 0, turned);
    return;
  }
  if (!lse)
    raise(user_error({.id = "flash-attention-lse", .what = "the backward pass without the logarithms of the rows' sums", .because = "probabilities are computed again from them",
                      .fix = {"give lse to the forward pass, and the same to the backward pass"}}));
  if (what.sums_in_any_order) return in_one_walk(with, kernel, q, k, v, o, d_o, lse, dq, dk, dv, what);
  const session::workspace delta = with.lend(static_cast<std::size_t>((what.query_offsets ? 1 : what.batch) * what.heads * what.queries) * 4, what.stream);
  const auto queries = [&](const attended& t) { return view_of(t, what, what.queries, what.heads); };
  const auto keys = [&](const attended& t) { return view_of(t, what, what.keys, key_heads(what)); };
  std::vector<device::value> arguments = {queries(q), keys(k), keys(v), queries(o), queries(d_o), rows_of(lse, what), rows_of(delta.where, what), queries(dq), keys(dk), keys(dv)};
  add_rest(arguments, what, true);
  for (const step next : {step::delta, step::dkdv, step::dq}) {
    variant one = kernel;
    one.what = next;
    if (next == step::delta) one.options = {};
    run(with, one, arguments, what.stream);
  }
}

std::vector<library_kernel> flash_attention_kernels() {
  std::vector<library_kernel> all;
  const auto add = [&](const variant& kernel) { all.push_back({kernel.name(), [=](const std::string& target) { return kernel.trace(target); }}); };
  for (const int dimension : {64, 128})
    for (const bool jagged : {false, true}) {
      add({tile::element::bf16, dimension, jagged});
      add({tile::element::bf16, dimension, jagged, {.right = true}});
    }
  add({tile::element::f16, 128, false});
  add({tile::element::bf16, 128, false, {.right = true, .left = true}});
  for (const bool jagged : {false, true}) add({tile::element::bf16, 128, jagged, {}, step::zeros});
  for (const step what : {step::delta, step::dkdv, step::dq})
    for (const int dimension : {64, 128})
      for (const bool jagged : {false, true}) {
        add({tile::element::bf16, dimension, jagged, {}, what});
        if (what != step::delta) add({tile::element::bf16, dimension, jagged, {.right = true}, what});
      }
  for (const step what : {step::prepare, step::walk, step::finish}) add({tile::element::bf16, 128, false, {}, what});
  add({tile::element::bf16, 128, false, {.right = true}, step::walk});
  add({tile::element::bf16, 128, false, {.soft_cap = true}});
  add({tile::element::bf16, 128, false, {.right = true, .slopes = true}});
  return all;
}

}  // namespace tlx::host
