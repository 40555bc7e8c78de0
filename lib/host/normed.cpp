#include "tlx/host/normed.hpp"

#include "host/families.hpp"
#include "host/gemm_epilogue.hpp"
#include "host/matrices.hpp"
#include "tlx/kernels/normed.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::host {

namespace {

constexpr std::int64_t widest_row = 512;

struct normed_choice {
  bool rows_of_c = false;  // normed on their way out
  tile::element type = tile::element::bf16;
  int n = 256;         // columns of a tile; of both halves together where rows of c are normed
  bool pairs = false;  // of CTAs that read b once, where rows of c are normed
  bool turns = false;  // four warps multiply a tile while four others finish the one before, where rows of a are normed
  bool by_threads = false, bias = false, residual = false, gain = false, before = false;
  activation activate = activation::none;
};

std::string name_of(const normed_choice& c) {
  std::string name = c.rows_of_c ? "gemm_normed_" : "normed_gemm_";
  name.append(tile::name(c.type)).append(c.rows_of_c ? "_64x" : "_128x").append(std::to_string(c.n)).append(c.pairs ? "_cluster2" : "").append(c.turns ? "_turns" : "").append(c.by_threads ? "_threads" : "").append(c.bias ? "_bias" : "");
  return name.append(suffix_of(c.activate)).append(c.residual ? "_residual" : "").append(c.before ? "_before" : "").append(c.gain ? "_gain" : "");
}

/// activation(x + bias) + residual.
struct normed_epilogue {
  normed_choice what;
  template <class Tile, class Arguments>
  Tile operator()(const Tile& x, const Arguments& in, const grid_box& t) const {
    const Tile biased = what.bias ? x + fetch<1, Tile::cols>(in.bias.at(t.col)) : x;
    const Tile active = activated(biased, what.activate);
    return what.residual ? active + kernels::detail::as_float(fetch<Tile::rows, Tile::cols>(in.residual[t])) : active;
  }
};

template <class T, class Plan>
std::unique_ptr<ir::kernel> traced_in(const normed_choice& c, const std::string& name, const std::string& target) {
  using arguments = kernels::normed_arguments<T>;
  return trace<arguments>(name, target, [&](block& cta, const arguments& in) { kernels::normed_gemm<T, Plan>(cta, in, normed_epilogue{c}); });
}
template <class T, class Plan, int Width = 64>
std::unique_ptr<ir::kernel> traced_out(const normed_choice& c, const std::string& name, const std::string& target) {
  using arguments = kernels::normed_arguments<T>;
  return trace<arguments>(name, target, [&](block& cta, const arguments& in) {
    normed_choice without = c;
    without.residual = false;  // the kernel adds it
    kernels::gemm_normed<T, Plan, Width>(
        cta, in, c.residual, normed_epilogue{without},
        [&](const auto& x, const arguments& all, const grid_box& t) {
          if (c.before) store(all.before[t], cast<T>(x));
        },
        [&](const auto& x, const arguments& all, const grid_box& t) { return c.gain ? x * fetch<1, std::decay_t<decltype(x)>::cols>(all.gain.at(t.col)) : x; });
  });
}

template <class T>
std::unique_ptr<ir::kernel> traced(const normed_choice& c, const std::string& name, const std::string& target) {
  using kernels::gemm_plan;
  const bool has_tensor_memory = target.rfind("sm_10", 0) == 0;
  if (!c.rows_of_c) {
    if (c.by_threads) return traced_in<T, gemm_plan<128, 128, 64, 3, false, true, true>>(c, name, target);
    if (c.turns) return traced_in<T, kernels::in_turns<gemm_plan<128, 128, 64, 5>>>(c, name, target);
    if (c.n == 128) return traced_in<T, gemm_plan<128, 128, 64, 5>>(c, name, target);
    if (has_tensor_memory) return traced_in<T, gemm_plan<128, 256, 64, 3>>(c, name, target);  // factors go from role to role through shared memory
    return traced_in<T, gemm_plan<128, 256, 64, 4>>(c, name, target);
  }
  // Narrower pieces where addresses or a second result take registers beside them.
  const bool narrow = has_tensor_memory && c.before;
  if (c.by_threads) {
    if (c.n == 128) return traced_out<T, gemm_plan<64, 64, 64, 3, false, true, true>, 32>(c, name, target);
    return traced_out<T, gemm_plan<64, 256, 32, 3, false, true, true>, 32>(c, name, target);
  }
  if (c.n == 128) return traced_out<T, gemm_plan<64, 64, 64, 6>>(c, name, target);
  if (c.n == 256) return traced_out<T, gemm_plan<64, 128, 64, 4>>(c, name, target);
  // Half a row of 128 bytes a stage: four or five stages instead of two, and room for the result and the residual.
  if (narrow) return traced_out<T, gemm_plan<64, 256, 32, 4>, 32>(c, name, target);
  if (c.pairs && c.residual) return traced_out<T, kernels::clustered<gemm_plan<64, 256, 32, 4>, 2>>(c, name, target);
  if (c.pairs) return traced_out<T, kernels::clustered<gemm_plan<64, 256, 32, 5>, 2>>(c, name, target);
  if (c.residual) return traced_out<T, gemm_plan<64, 256, 32, 4>>(c, name, target);
  return traced_out<T, gemm_plan<64, 256, 32, 5>>(c, name, target);
}

std::unique_ptr<ir::kernel> trace_normed(const normed_choice& c, const std::string& name, const std::string& target) {
  return c.type == tile::element::bf16 ? traced<bf16>(c, name, target) : traced<f16>(c, name, target);
}

void check_like_c(const matrix& m, const char* name, const matrix& c) {
  if (m.data && (m.column_major || m.rows != c.rows || m.cols != c.cols))
    raise(user_error({.id = "gemm-shape", .what = cat(name, " is ", m.rows, "x", m.cols, m.column_major ? ", column-major" : "", ", c is ", c.rows, "x", c.cols, " by rows"),
                      .because = "they go together element by element", .fix = {cat("give ", name, " the shape and the order of c")}}));
}

void check(const matrix& a, const matrix& b, const matrix& c, const normed_options& how) {
  check_family("normed product", how.type, a.column_major, "b", b.column_major, c.column_major);
  if (b.rows != a.cols || b.cols != c.cols || a.rows != c.rows || a.rows < 0 || a.cols < 0 || c.cols < 0)
    raise(user_error({.id = "gemm-shape", .what = cat("a is ", a.rows, "x", a.cols, ", b is ", b.rows, "x", b.cols, ", c is ", c.rows, "x", c.cols),
                      .because = "a is M x K, b is K x N and c is M x N", .fix = {"check the extents; weights stored N x K are column_major, with rows K and cols N"}}));
  check_like_c(how.residual, "the residual", c);
  check_like_c(how.before, "before", c);
}

/// Roles in turns over runs of tiles: where K is short the end of a tile is much of the work. Every CTA reads all of the weights, so they should stay in L2; a residual
/// would be fetched as the accumulators lie, 4 bytes a thread. With few columns the squares are added up for every fourth tile, and a long activation beside them gains
/// nothing over the 128 x 256 tile (65536 x 512 x 512, gelu: 0.089 ms and 0.087).
bool takes_turns(const matrix& a, const matrix& c, activation activate, bool residual, const device::properties& on) {
  constexpr std::int64_t longest = 2048, bytes_in_l2 = std::int64_t{24} << 20;
  const std::int64_t across = (c.cols + 127) / 128, tiles = (c.rows + 127) / 128 * across;
  return on.target == "sm_90a" && !residual && !(activate == activation::gelu && across < 8) && c.cols > 128 && a.cols <= longest && 2 * a.cols * c.cols <= bytes_in_l2 && tiles >= on.processor_count;
}

void run(session& with, normed_choice chosen, const matrix& a, const matrix& b, const matrix& c, const normed_options& how) {
  chosen.type = how.type, chosen.activate = how.activate;
  chosen.bias = how.bias != 0, chosen.residual = how.residual.data != 0, chosen.gain = how.gain != 0, chosen.before = how.before.data != 0;
  // Bulk stores write whole 16-byte pieces, also behind the last column of a matrix that is a part of a wider one.
  const auto stores_in_bulk = [&](const matrix& m) { return !m.data || (bulk_copies_work(m, how.type) && m.cols % 8 == 0); };
  chosen.by_threads = !(bulk_copies_work(a, how.type) && bulk_copies_work(b, how.type) && (!chosen.rows_of_c || !how.residual.data || bulk_copies_work(how.residual, how.type)) && stores_in_bulk(c) && stores_in_bulk(how.before));
  chosen.pairs = chosen.rows_of_c && chosen.n == 512 && !chosen.by_threads && with.on().about().target == "sm_90a" && (c.rows + 63) / 64 >= with.on().about().processor_count / 2;
  if (!chosen.rows_of_c && !chosen.by_threads && takes_turns(a, c, chosen.activate, chosen.residual, with.on().about())) chosen.turns = true, chosen.n = 128;
  if (chosen.by_threads) chosen.n = !chosen.rows_of_c || c.cols <= 128 ? 128 : 512;
  const std::string name = name_of(chosen);
  const auto vector = [&](device::address data) { return device::view_value(data, {data ? c.cols : 0}); };
  with.run(
      name, [&](const std::string& target) { return trace_normed(chosen, name, target); },
      {view_of(a), view_of(b), view_of(c), vector(how.bias), view_of(how.residual), view_of(how.before), vector(how.gain), device::scalar_value(how.epsilon)}, how.stream);
}

}  // namespace

void normed_gemm(session& with, const matrix& a, const matrix& b, const matrix& c, const normed_options& how) {
  check(a, b, c, how);
  if (how.gain || how.before.data)
    raise(user_error({.id = "gemm-gain", .what = cat("normed_gemm was given ", how.gain ? "a gain" : "a place for what enters the norm"), .because = "the norm is of a: its gain multiplies columns of a, which rows of b can do once and for all",
                      .fix = {"multiply row k of b by the gain of column k when the weights are loaded", "leave it out"}}));
  const std::int64_t tiles = ((c.rows + 127) / 128) * ((c.cols + 255) / 256);
  run(with, {.n = c.cols <= 128 || tiles < with.on().about().processor_count / 2 ? 128 : 256}, a, b, c, how);
}

void gemm_normed(session& with, const matrix& a, const matrix& b, const matrix& c, const normed_options& how) {
  check(a, b, c, how);
  if (c.cols > widest_row)
    raise(user_error({.id = "gemm-width", .what = cat("rows of c have ", c.cols, " elements"), .because = cat("a row is normed by one CTA, whose accumulators hold ", widest_row, " columns"),
                      .fix = {"call gemm, and norm its result on the way into the next product: normed_gemm"}}));
  run(with, {.rows_of_c = true, .n = c.cols <= 128 ? 128 : c.cols <= 256 ? 256 : 512}, a, b, c, how);
}

std::vector<library_kernel> normed_kernels() {
  std::vector<library_kernel> all;
  const auto add = [&](const normed_choice& c) { all.push_back({name_of(c), [c](const std::string& target) { return trace_normed(c, name_of(c), target); }}); };
  add({.activate = activation::gelu});
  add({.bias = true, .activate = activation::gelu_tanh});
  add({.n = 128});
  add({.n = 128, .activate = activation::gelu});
  add({.n = 128, .bias = true, .residual = true});
  add({.n = 128, .turns = true, .activate = activation::gelu});
  add({.n = 128, .turns = true, .bias = true, .activate = activation::gelu_tanh});
  add({.n = 128, .by_threads = true, .bias = true});
  for (const int n : {128, 256, 512}) add({.rows_of_c = true, .n = n, .bias = true, .residual = n == 512, .gain = true, .before = n == 512});
  add({.rows_of_c = true, .n = 512, .pairs = true, .bias = true, .gain = true});
  add({.rows_of_c = true, .n = 512, .pairs = true, .bias = true, .residual = true, .gain = true, .before = true});
  add({.rows_of_c = true, .n = 512, .by_threads = true, .bias = true, .gain = true});
  return all;
}

}  // namespace tlx::host
