#include "tlx/host/attention.hpp"

#include <cmath>

#include "host/families.hpp"
#include "tlx/kernels/attention.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::host {

namespace {

// What is chosen from: blocks, head dimensions.
struct shape {
  int block, dimension;
};
constexpr shape shapes[] = {{64, 64}, {64, 96}, {64, 128}, {64, 256}, {128, 64}, {128, 96}, {128, 128}, {256, 64}, {256, 128}};
constexpr bool has_grouped_backward(const shape& s) { return s.block == 64 ? s.dimension <= 128 : s.block == 128 && s.dimension == 64; }

// Whether the backward pass of blocks of 256 on Hopper is the kernel that has a whole block in one CTA. ptxas spills 200 bytes of it with D = 128, which the library's tests refuse.
constexpr bool has_whole_blocks_backward(int dimension) { return dimension == 64; }

constexpr bool has_rotary(const shape& s) { return s.block == 64 && (s.dimension == 64 || s.dimension == 128); }

struct variant {
  tile::element type;
  shape of;
  bool backward;
  kernels::attention_options options = {};
  bool rotary = false, interleaved = false;

  std::string name() const {
    std::string n = cat("block_attention_", backward ? "backward_" : "", tile::name(type), of.block != 64 ? cat("_b", of.block) : "", "_d", of.dimension, options.causal ? "_causal" : "");
    if (rotary)
      n += cat("_rotary", options.by_token ? "_by_token" : "", interleaved ? "_interleaved" : "", options.rotate_v ? "_values" : "", backward && !options.rotate ? "_applied" : "");
    return n + (options.grouped ? "_grouped" : "");
  }
  std::unique_ptr<ir::kernel> trace(const std::string& target) const { return type == tile::element::bf16 ? with_type<bf16>(target) : with_type<f16>(target); }

 private:
  template <class T, int Block, int D>
  std::unique_ptr<ir::kernel> traced(const std::string& target) const {
    using namespace kernels;
    if constexpr (has_rotary({Block, D}))
      if (rotary) return interleaved ? traced_rotary<T, Block, D, rotary_pairs::neighbours>(target) : traced_rotary<T, Block, D, rotary_pairs::halves>(target);
    if constexpr (Block == 256) {
      if (backward)
        return tlx::trace<attention_backward_arguments<T>>(name(), target, [&](block& cta, const attention_backward_arguments<T>& in) {
          if (cta.has_tensor_memory() || !has_whole_blocks_backward(D)) block_attention_backward_by_parts<T, Block, 64, D>(cta, in, options);
          else block_attention_backward_in_walks<T, Block, D>(cta, in, options);
        });
      return tlx::trace<attention_arguments<T>>(name(), target, [&](block& cta, const attention_arguments<T>& in) {
        if (cta.has_tensor_memory()) block_attention_by_rows<T, Block, 64, D>(cta, in, options);
        else block_attention_by_halves<T, Block, D>(cta, in, options);
      });
    }
    else if (backward)
      return tlx::trace<attention_backward_arguments<T>>(name(), target, [&](block& cta, const attention_backward_arguments<T>& in) {
        if (options.grouped) block_attention_backward_grouped<T, Block, D>(cta, in, options);
        else if (Block == 128 && !cta.has_tensor_memory()) block_attention_backward_pipelined<T, Block, D>(cta, in, options);
        else block_attention_backward<T, Block, D>(cta, in, options);
      });
    else
      return tlx::trace<attention_arguments<T>>(name(), target, [&](block& cta, const attention_arguments<T>& in) { block_attention<T, Block, D>(cta, in, options); });
  }
  template <class T, int Block, int D, kernels::rotary_pairs Pairs>
  std::unique_ptr<ir::kernel> traced_rotary(const std::string& target) const {
    using namespace kernels;
    if (backward)
      return tlx::trace<attention_rotary_backward_arguments<T>>(
          name(), target, [&](block& cta, const attention_rotary_backward_arguments<T>& in) { block_attention_rotary_backward<T, Block, D, Pairs>(cta, in, options); });
    return tlx::trace<attention_rotary_arguments<T>>(name(), target, [&](block& cta, const attention_rotary_arguments<T>& in) { block_attention_rotary<T, Block, D, Pairs>(cta, in, options); });
  }
  template <class T, std::size_t I = 0>
  std::unique_ptr<ir::kernel> with_type(const std::string& target) const {
    if constexpr (I + 1 < std::size(shapes))
      if (shapes[I].block != of.block || shapes[I].dimension != of.dimension) return with_type<T, I + 1>(target);
    return traced<T, shapes[I].block, shapes[I].dimension>(target);
  }
};

variant variant_of(const attention_problem& what, bool backward) {
  if (what.type != tile::element::bf16 && what.type != tile::element::f16)
    raise(user_error({.id = "attention-type", .what = cat("block attention of ", tile::name(what.type)), .because = "this function works on bf16 and f16", .fix = {"use bf16 or f16"}}));
  const std::int64_t groups = what.key_heads ? what.key_heads : what.heads;
  if (what.heads % groups != 0)
    raise(user_error({.id = "attention-heads", .what = cat(what.heads, " heads of q for ", groups, " of k and v"), .because = "each head of k and v serves the same number of heads of q",
                      .fix = {"use a multiple"}}));
  if (backward && groups != what.heads && !has_grouped_backward({what.block, what.dimension}))
    raise(user_error({.id = "attention-heads", .what = cat("the backward pass of ", what.heads, " heads of q for ", groups, " of k and v, blocks of ", what.block, ", head dimension ", what.dimension),
                      .because = "two gradients stay in accumulators, and with these extents they leave no registers for the scores",
                      .fix = {"use blocks of 64 with 64, 96 or 128, or blocks of 128 with 64", "repeat k and v for each head of q and add up their gradients"}}));
  const bool rotary = what.rotary.cos || what.rotary.sin;
  if (rotary && ((backward && groups != what.heads) || !has_rotary({what.block, what.dimension})))
    raise(user_error({.id = "attention-rotary", .what = cat("rotary tables for the ", backward ? "backward" : "forward", " pass, ", what.heads, " heads of q for ", groups, " of k and v, blocks of ", what.block, ", head dimension ", what.dimension),
                      .because = "kernels that rotate are there for blocks of 64 with head dimension 64 or 128, the backward ones for as many heads of k and v as of q",
                      .fix = {"rotate q and k before the forward pass, and their gradients after another backward pass"}}));
  for (const shape& s : shapes)
    if (s.block == what.block && s.dimension == what.dimension)
      return {what.type, s, backward,
              {.causal = what.causal, .by_token = rotary && what.rotary.by_token, .rotate_v = rotary && what.rotary.values, .rotate = !(rotary && backward && what.rotary.applied), .grouped = groups != what.heads},
              rotary, rotary && what.rotary.interleaved};
  std::string known;
  for (const shape& s : shapes) known += cat(known.empty() ? "" : ", ", s.block, " x ", s.dimension);
  raise(user_error({.id = "attention-shape", .what = cat(backward ? "the backward pass of blocks of " : "blocks of ", what.block, " tokens with head dimension ", what.dimension),
                    .because = "a block's operands and scores must fit into one CTA, and each pair is a kernel of its own", .fix = {cat("use one of ", known)}}));
}

device::value view_of(const tokens& t, const attention_problem& what, std::int64_t heads) {
  const std::int64_t d = what.dimension, head_stride = t.head_stride ? t.head_stride : d;
  return device::view_value(t.data, {what.token_count, heads, d}, {t.token_stride ? t.token_stride : head_stride * heads, head_stride, 1});
}
device::value queries(const tokens& t, const attention_problem& what) { return view_of(t, what, what.heads); }
device::value keys(const tokens& t, const attention_problem& what) { return view_of(t, what, what.key_heads ? what.key_heads : what.heads); }

constexpr float log2e = 1.4426950408889634f;
float scale_of(const attention_problem& what) { return what.scale != 0 ? what.scale : 1.0f / std::sqrt(static_cast<float>(what.dimension)); }
bool is_empty(const attention_problem& what) { return what.token_count == 0 || what.heads == 0 || what.batch == 0; }

void add_tables(std::vector<device::value>& arguments, const variant& kernel, const attention_problem& what) {
  if (!kernel.rotary) return;
  for (const device::address table : {what.rotary.cos, what.rotary.sin}) arguments.push_back(device::view_value(table, {what.rotary.rows, what.dimension / 2}));
}
void run(session& with, const variant& kernel, const std::vector<device::value>& arguments, std::uint64_t stream) {
  with.run(kernel.name(), [&](const std::string& target) { return kernel.trace(target); }, arguments, stream);
}

}  // namespace

void block_attention(session& with, const tokens& q, const tokens& k, const tokens& v, const tokens& o, const attention_problem& what) {
  const variant kernel = variant_of(what, false);
  if (is_empty(what)) return;
  std::vector<device::value> arguments = {queries(q, what), keys(k, what), keys(v, what), queries(o, what), device::view_value(what.offsets, {what.batch + 1})};
  add_tables(arguments, kernel, what);
  arguments.push_back(device::scalar_value(scale_of(what) * log2e));
  run(with, kernel, arguments, what.stream);
}

void block_attention_backward(session& with, const tokens& q, const tokens& k, const tokens& v, const tokens& d_o, const tokens& dq, const tokens& dk, const tokens& dv,
                              const attention_problem& what) {
  const variant kernel = variant_of(what, true);
  if (is_empty(what)) return;
  const float scale = scale_of(what);
  std::vector<device::value> arguments =
      {queries(q, what), keys(k, what), keys(v, what), queries(d_o, what), queries(dq, what), keys(dk, what), keys(dv, what), device::view_value(what.offsets, {what.batch + 1})};
  add_tables(arguments, kernel, what);
  arguments.push_back(device::scalar_value(scale));
  arguments.push_back(device::scalar_value(scale * log2e));
  run(with, kernel, arguments, what.stream);
}

std::vector<library_kernel> attention_kernels() {
  std::vector<library_kernel> all;
  const auto add = [&](const variant& kernel) {
    all.push_back({kernel.name(), [=](const std::string& target) { return kernel.trace(target); },
                   attention_inputs{kernel.type, kernel.of.block, kernel.of.dimension, kernel.backward, kernel.options.causal, kernel.options.grouped, kernel.rotary}});
  };
  for (const bool backward : {false, true}) {
    for (const shape& s : shapes) add({tile::element::bf16, s, backward});
    for (const int dimension : {64, 128}) add({tile::element::f16, {64, dimension}, backward});
    add({tile::element::bf16, {64, 128}, backward, {.causal = true}});
  }
  for (const int dimension : {64, 128}) {
    for (const bool backward : {false, true}) add({tile::element::bf16, {64, dimension}, backward, {.grouped = true}});
    for (const bool backward : {false, true}) {
      for (const bool interleaved : {false, true}) add({tile::element::bf16, {64, dimension}, backward, {}, true, interleaved});
      add({tile::element::bf16, {64, dimension}, backward, {.rotate_v = true}, true, true});
    }
    add({tile::element::bf16, {64, dimension}, true, {.rotate = false}, true});
  }
  return all;
}

}  // namespace tlx::host
