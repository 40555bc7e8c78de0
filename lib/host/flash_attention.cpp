#include "tlx/host/flash_attention.hpp"

#include <algorithm>
#include <cmath>

#include "host/families.hpp"
#include "tlx/kernels/flash_attention.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::host {

namespace {

template <int D>
using plan_of = std::conditional_t<D == 128, kernels::flash_plan<128, 128, 2, 2>, kernels::flash_plan<128, 128, 3, 3>>;

struct variant {
  tile::element type;
  int dimension;
  bool jagged;
  kernels::flash_options options = {};
  bool keys = true;

  std::string name() const {
    return cat("flash_attention_", tile::name(type), "_d", dimension, jagged ? "_jagged" : "", options.left ? "_left" : "", options.right ? "_right" : "", options.soft_cap ? "_soft_cap" : "",
               options.slopes ? "_slopes" : "", keys ? "" : "_without_keys");
  }
  std::unique_ptr<ir::kernel> trace(const std::string& target) const { return type == tile::element::bf16 ? with_type<bf16>(target) : with_type<f16>(target); }

 private:
  template <class T> std::unique_ptr<ir::kernel> with_type(const std::string& target) const { return dimension == 64 ? with_dimension<T, 64>(target) : with_dimension<T, 128>(target); }
  template <class T, int D>
  std::unique_ptr<ir::kernel> with_dimension(const std::string& target) const {
    return jagged ? with_arguments<T, D, kernels::flash_jagged_arguments<T>>(target) : with_arguments<T, D, kernels::flash_arguments<T>>(target);
  }
  template <class T, int D, class Arguments>
  std::unique_ptr<ir::kernel> with_arguments(const std::string& target) const {
    return tlx::trace<Arguments>(name(), target, [&](block& cta, const Arguments& in) {
      if (keys) kernels::flash_attention<T, D, plan_of<D>>(cta, in, options);
      else kernels::flash_attention_without_keys<T, D>(cta, in);
    });
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
  if (what.keys <= 0) return {what.type, what.dimension, what.query_offsets != 0, {}, false};
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

}  // namespace

void flash_attention(session& with, const attended& q, const attended& k, const attended& v, const attended& o, device::address lse, const flash_attention_problem& what) {
  const variant kernel = variant_of(what);
  if (what.batch <= 0 || what.heads <= 0 || what.queries <= 0) return;
  const float scale = what.scale > 0 ? what.scale : 1.0f / std::sqrt(static_cast<float>(what.dimension));
  // What the exponential multiplies: raw scores, capped ones in units of the cap, or lowered ones.
  const float exponent = (what.soft_cap > 0 ? what.soft_cap : what.slopes ? 1.0f : scale) * log2e;
  std::vector<device::value> arguments = {view_of(q, what, what.queries, what.heads), view_of(k, what, what.keys, key_heads(what)), view_of(v, what, what.keys, key_heads(what)),
                                          view_of(o, what, what.queries, what.heads)};
  const std::int64_t rows = lse ? what.queries : 0;
  if (kernel.jagged) arguments.push_back(device::view_value(lse, {what.heads, rows}));
  else arguments.push_back(device::view_value(lse, {what.batch, what.heads, rows}));
  arguments.push_back(device::view_value(what.slopes, {what.slopes ? what.heads : 0}));
  if (kernel.jagged)
    for (const device::address offsets : {what.query_offsets, what.key_offsets}) arguments.push_back(device::view_value(offsets, {what.batch + 1}));
  arguments.push_back(device::scalar_value(what.soft_cap > 0 ? scale / what.soft_cap : scale));
  arguments.push_back(device::scalar_value(exponent));
  arguments.push_back(device::scalar_value(bound(what.left)));
  arguments.push_back(device::scalar_value(bound(what.right)));
  if (!kernel.jagged) {
    const std::int64_t group = what.heads / key_heads(what), head_bytes = std::max<std::int64_t>(1, what.keys * what.dimension * 4 / group);
    arguments.push_back(device::scalar_value(static_cast<std::int32_t>(std::clamp<std::int64_t>(section_bytes / head_bytes, 1, what.batch * what.heads))));
  }
  with.run(kernel.name(), [&](const std::string& target) { return kernel.trace(target); }, arguments, what.stream);
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
  add({tile::element::bf16, 128, false, {}, false});
  add({tile::element::bf16, 128, false, {.soft_cap = true}});
  add({tile::element::bf16, 128, false, {.right = true, .slopes = true}});
  return all;
}

}  // namespace tlx::host
