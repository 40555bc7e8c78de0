#include "tlx/host/attention.hpp"

#include <cmath>

#include "host/families.hpp"
#include "tlx/kernels/attention.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::host {

namespace {

template <class T, int D>
std::unique_ptr<ir::kernel> traced(const std::string& name, const std::string& target, bool backward) {
  using namespace kernels;
  if (backward) return trace<attention_backward_arguments<T>>(name, target, [](block& cta, const attention_backward_arguments<T>& in) { block_attention_backward<T, D>(cta, in); });
  return trace<attention_arguments<T>>(name, target, [](block& cta, const attention_arguments<T>& in) { block_attention<T, D>(cta, in); });
}

template <class T>
std::unique_ptr<ir::kernel> with_type(int dimension, const std::string& name, const std::string& target, bool backward) {
  return dimension == 64 ? traced<T, 64>(name, target, backward) : traced<T, 128>(name, target, backward);
}

struct variant {
  tile::element type;
  int dimension;
  bool backward;
  std::string name() const { return cat("block_attention_", backward ? "backward_" : "", tile::name(type), "_d", dimension); }
  std::unique_ptr<ir::kernel> trace(const std::string& target) const {
    return type == tile::element::bf16 ? with_type<bf16>(dimension, name(), target, backward) : with_type<f16>(dimension, name(), target, backward);
  }
};

variant variant_of(const attention_problem& what, bool backward) {
  if (what.dimension != 64 && what.dimension != 128)
    raise(user_error({.id = "attention-dimension", .what = cat("head dimension ", what.dimension), .because = "block attention is built for 64 and 128", .fix = {"use 64 or 128"}}));
  if (what.type != tile::element::bf16 && what.type != tile::element::f16)
    raise(user_error({.id = "attention-type", .what = cat("block attention of ", tile::name(what.type)), .because = "this function works on bf16 and f16", .fix = {"use bf16 or f16"}}));
  return {what.type, what.dimension, backward};
}

device::value view_of(const tokens& t, const attention_problem& what) {
  const std::int64_t d = what.dimension, head_stride = t.head_stride ? t.head_stride : d;
  return device::view_value(t.data, {what.token_count, what.heads, d}, {t.token_stride ? t.token_stride : head_stride * what.heads, head_stride, 1});
}

constexpr float log2e = 1.4426950408889634f;
float scale_of(const attention_problem& what) { return what.scale != 0 ? what.scale : 1.0f / std::sqrt(static_cast<float>(what.dimension)); }
bool is_empty(const attention_problem& what) { return what.token_count == 0 || what.heads == 0 || what.batch == 0; }

void run(session& with, const variant& kernel, const std::vector<device::value>& arguments, std::uint64_t stream) {
  with.run(kernel.name(), [&](const std::string& target) { return kernel.trace(target); }, arguments, stream);
}

}  // namespace

void block_attention(session& with, const tokens& q, const tokens& k, const tokens& v, const tokens& o, const attention_problem& what) {
  const variant kernel = variant_of(what, false);
  if (is_empty(what)) return;
  run(with, kernel,
      {view_of(q, what), view_of(k, what), view_of(v, what), view_of(o, what), device::view_value(what.offsets, {what.batch + 1}), device::scalar_value(scale_of(what) * log2e)}, what.stream);
}

void block_attention_backward(session& with, const tokens& q, const tokens& k, const tokens& v, const tokens& d_o, const tokens& dq, const tokens& dk, const tokens& dv,
                              const attention_problem& what) {
  const variant kernel = variant_of(what, true);
  if (is_empty(what)) return;
  const float scale = scale_of(what);
  run(with, kernel,
      {view_of(q, what), view_of(k, what), view_of(v, what), view_of(d_o, what), view_of(dq, what), view_of(dk, what), view_of(dv, what), device::view_value(what.offsets, {what.batch + 1}),
       device::scalar_value(scale), device::scalar_value(scale * log2e)},
      what.stream);
}

std::vector<library_kernel> attention_kernels() {
  std::vector<library_kernel> all;
  for (const bool backward : {false, true})
    for (const tile::element type : {tile::element::bf16, tile::element::f16})
      for (const int dimension : {64, 128}) {
        const variant kernel{type, dimension, backward};
        all.push_back({kernel.name(), [=](const std::string& target) { return kernel.trace(target); }});
      }
  return all;
}

}  // namespace tlx::host
