#include "tlx/host/attention.hpp"

#include <cmath>

#include "host/families.hpp"
#include "tlx/kernels/attention.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::host {

namespace {

template <class T, int D>
std::unique_ptr<ir::kernel> traced(const std::string& name, const std::string& target) {
  return trace<kernels::attention_arguments<T>>(name, target, [](block& cta, const kernels::attention_arguments<T>& in) { kernels::block_attention<T, D>(cta, in); });
}

template <class T>
std::unique_ptr<ir::kernel> with_type(int dimension, const std::string& name, const std::string& target) {
  return dimension == 64 ? traced<T, 64>(name, target) : traced<T, 128>(name, target);
}

std::string name_of(tile::element type, int dimension) { return std::string("block_attention_").append(tile::name(type)).append("_d").append(std::to_string(dimension)); }

}  // namespace

void block_attention(session& with, const tokens& q, const tokens& k, const tokens& v, const tokens& o, const attention_problem& what) {
  if (what.dimension != 64 && what.dimension != 128)
    raise(user_error({.id = "attention-dimension", .what = cat("head dimension ", what.dimension), .because = "block attention is built for 64 and 128", .fix = {"use 64 or 128"}}));
  if (what.type != tile::element::bf16 && what.type != tile::element::f16)
    raise(user_error({.id = "attention-type", .what = cat("block attention of ", tile::name(what.type)), .because = "this function works on bf16 and f16", .fix = {"use bf16 or f16"}}));
  const std::string name = name_of(what.type, what.dimension);
  const std::int64_t d = what.dimension;
  auto view = [&](const tokens& t) {
    const std::int64_t head_stride = t.head_stride ? t.head_stride : d;
    return device::view_value(t.data, {what.token_count, what.heads, d}, {t.token_stride ? t.token_stride : head_stride * what.heads, head_stride, 1});
  };
  const float scale = what.scale != 0 ? what.scale : 1.0f / std::sqrt(static_cast<float>(d));
  if (what.token_count == 0 || what.heads == 0 || what.batch == 0) return;
  with.run(
      name, [&](const std::string& target) { return what.type == tile::element::bf16 ? with_type<bf16>(what.dimension, name, target) : with_type<f16>(what.dimension, name, target); },
      {view(q), view(k), view(v), view(o), device::view_value(what.offsets, {what.batch + 1}), device::scalar_value(scale * 1.4426950408889634f)}, what.stream);
}

std::vector<library_kernel> attention_kernels() {
  std::vector<library_kernel> all;
  for (const tile::element type : {tile::element::bf16, tile::element::f16})
    for (const int dimension : {64, 128}) {
      const std::string name = name_of(type, dimension);
      all.push_back({name, [=](const std::string& target) {
                       return type == tile::element::bf16 ? with_type<bf16>(dimension, name, target) : with_type<f16>(dimension, name, target);
                     }});
    }
  return all;
}

}  // namespace tlx::host
