#include "tlx/host/gemm.hpp"

#include "host/families.hpp"
#include "tlx/dsl/activation.hpp"
#include "tlx/kernels/gemm.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::host {

namespace {

struct choice {
  int m = 128, n = 256;
  bool ta = false, tb = true, by_threads = false;
};

template <class Tile>
Tile activated(const Tile& x, activation a) {
  switch (a) {
    case activation::relu: return relu(x);
    case activation::gelu: return gelu(x);
    case activation::gelu_tanh: return gelu_tanh(x);
    case activation::silu: return silu(x);
    case activation::none: break;
  }
  return x;
}

struct epilogue {
  bool scale, bias, residual;
  activation activate;

  template <class Tile, class Arguments>
  auto operator()(const Tile& acc, const Arguments& in, const grid_box& t) const {
    const Tile scaled = scale ? acc * in.alpha : acc;
    const Tile biased = bias ? scaled + fetch<1, Tile::cols>(in.bias.at(t.col)) : scaled;
    const Tile active = activated(biased, activate);
    return residual ? active + cast<float>(fetch<Tile::rows, Tile::cols>(in.residual[t])) : active;
  }
};

template <class T, class Plan>
std::unique_ptr<ir::kernel> traced(const std::string& name, const std::string& target, const epilogue& finish) {
  return trace<kernels::gemm_arguments<T>>(name, target, [&](block& cta, const kernels::gemm_arguments<T>& in) { kernels::gemm<T, Plan>(cta, in, finish); });
}

template <class T, bool TA, bool TB>
std::unique_ptr<ir::kernel> with_layouts(const choice& c, const std::string& name, const std::string& target, const epilogue& finish) {
  if (c.by_threads) return traced<T, kernels::gemm_plan<128, 128, 64, 3, TA, TB, true>>(name, target, finish);
  if constexpr (!TA && TB) {
    if (c.n == 208) return traced<T, kernels::gemm_plan<128, 208, 64, 4, TA, TB>>(name, target, finish);
    if (c.n == 224) return traced<T, kernels::gemm_plan<128, 224, 64, 4, TA, TB>>(name, target, finish);
  }
  if (c.n == 128) return traced<T, kernels::gemm_plan<128, 128, 64, 5, TA, TB>>(name, target, finish);
  return traced<T, kernels::gemm_plan<128, 256, 64, 4, TA, TB>>(name, target, finish);
}

template <class T>
std::unique_ptr<ir::kernel> with_type(const choice& c, const std::string& name, const std::string& target, const epilogue& finish) {
  if (c.ta) return c.tb ? with_layouts<T, true, true>(c, name, target, finish) : with_layouts<T, true, false>(c, name, target, finish);
  return c.tb ? with_layouts<T, false, true>(c, name, target, finish) : with_layouts<T, false, false>(c, name, target, finish);
}

std::int64_t stride_of(const matrix& m) { return m.stride ? m.stride : m.column_major ? m.rows : m.cols; }

// The stored matrix as a view: rows are the slow axis in memory.
device::value view_of(const matrix& m) {
  const std::int64_t slow = m.column_major ? m.cols : m.rows, fast = m.column_major ? m.rows : m.cols;
  return device::view_value(m.data, {slow, fast}, {stride_of(m), 1});
}

bool bulk_copies_work(const matrix& m) {
  const bool one_row = (m.column_major ? m.cols : m.rows) <= 1;
  return m.data % 16 == 0 && (one_row || stride_of(m) % 8 == 0);
}

void check(const matrix& a, const matrix& b, const matrix& c, const gemm_options& how) {
  auto shape = [](const matrix& m) { return cat(m.rows, "x", m.cols); };
  for (const matrix* m : {&a, &b, &c})
    if (m->rows < 0 || m->cols < 0)
      raise(user_error({.id = "gemm-shape", .what = cat("a is ", shape(a), ", b is ", shape(b), ", c is ", shape(c)), .because = "extents are 0 or more",
                        .fix = {"check the extents"}}));
  if (a.cols != b.rows || a.rows != c.rows || b.cols != c.cols)
    raise(user_error({.id = "gemm-shape", .what = cat("a is ", shape(a), ", b is ", shape(b), ", c is ", shape(c)),
                      .because = "a is M x K, b is K x N and c is M x N", .fix = {"check the extents; a transposed matrix is column_major, with its own rows and cols"}}));
  if (c.column_major || how.residual.column_major)
    raise(user_error({.id = "gemm-shape", .what = "c or the residual is column-major", .because = "results are stored by rows",
                      .fix = {"compute the transposed product: c^T = b^T a^T"}}));
  if (how.residual.data && (how.residual.rows != c.rows || how.residual.cols != c.cols))
    raise(user_error({.id = "gemm-shape", .what = cat("the residual is ", shape(how.residual), ", c is ", shape(c)), .because = "they are added element by element",
                      .fix = {"give the residual the shape of c"}}));
  if (how.type != tile::element::bf16 && how.type != tile::element::f16)
    raise(user_error({.id = "gemm-type", .what = cat("gemm of ", tile::name(how.type)), .because = "this function multiplies bf16 and f16 matrices", .fix = {"use bf16 or f16"}}));
}

void check_strides(const matrix& c) {
  if (c.data && c.rows > 1 && c.stride > 0 && c.stride < c.cols)
    raise(user_error({.id = "gemm-shape", .what = cat("rows of c are ", c.stride, " elements apart and ", c.cols, " long"), .because = "rows of the result must not overlap",
                      .fix = {"give c a stride of at least its columns"}}));
}

bool made_for_wgmma(const session& with) { return with.on().about().target == "sm_90a"; }

// Clock cycles of a persistent kernel with tiles of 128 x `width`: full rounds of tiles over the processors, each 4096 multiply-adds a cycle and its
// start; measured within 1.5 % on an H200 (bench/LOG.md). Narrower tiles move more bytes, which costs clock: they must win by 2 %.
int best_width(const matrix& c, std::int64_t k, int processors) {
  const auto cycles = [&](int width) {
    const std::int64_t tiles = ((c.rows + 127) / 128) * ((c.cols + width - 1) / width);
    const std::int64_t rounds = (tiles + processors - 1) / processors;
    return static_cast<double>(rounds) * (static_cast<double>((k + 63) / 64) * 128 * width / 32 * 1.03 + 1000) + 5000;
  };
  int best = 256;
  for (const int width : {224, 208})
    if (cycles(width) < cycles(best) * (best == 256 ? 0.98 : 1)) best = width;
  return best;
}

choice choose(const session& with, const matrix& a, const matrix& b, const matrix& c) {
  choice made;
  made.ta = a.column_major;
  made.tb = b.column_major;
  // Bulk stores write whole 16-byte pieces, also behind the last column of a matrix that is a part of a wider one.
  made.by_threads = !(bulk_copies_work(a) && bulk_copies_work(b) && bulk_copies_work(c) && c.cols % 8 == 0);
  const int processors = with.on().about().processor_count;
  const std::int64_t wide = ((c.rows + 127) / 128) * ((c.cols + 255) / 256);
  if (made.by_threads || c.cols <= 128 || wide < processors / 2) made.n = 128;
  else if (!made.ta && made.tb && made_for_wgmma(with)) made.n = best_width(c, a.cols, processors);
  return made;
}

std::string name_of(const choice& c, const gemm_options& how) {
  constexpr const char* activations[] = {"", "_relu", "_gelu", "_gelu_tanh", "_silu"};
  // Appended, not printed to a stream: this is on the path of every launch.
  std::string name = "gemm_";
  name.reserve(64);
  name.append(tile::name(how.type)).append("_").append(std::to_string(c.m)).append("x").append(std::to_string(c.n));
  name.append(c.ta ? "_t" : "_n").append(c.tb ? "t" : "n").append(c.by_threads ? "_threads" : "").append(how.alpha != 1 ? "_alpha" : "").append(how.bias ? "_bias" : "");
  return name.append(activations[static_cast<int>(how.activate)]).append(how.residual.data ? "_residual" : "");
}

}  // namespace

std::string gemm_kernel_name(const session& with, const matrix& a, const matrix& b, const matrix& c, const gemm_options& how) {
  check(a, b, c, how);
  return name_of(choose(with, a, b, c), how);
}

void gemm(session& with, const matrix& a, const matrix& b, const matrix& c, const gemm_options& how) {
  check(a, b, c, how);
  check_strides(c);
  const choice chosen = choose(with, a, b, c);
  const epilogue finish{how.alpha != 1, how.bias != 0, how.residual.data != 0, how.activate};
  const std::string name = name_of(chosen, how);
  with.run(
      name,
      [&](const std::string& target) {
        return how.type == tile::element::bf16 ? with_type<bf16>(chosen, name, target, finish) : with_type<f16>(chosen, name, target, finish);
      },
      {view_of(a), view_of(b), view_of(c), device::view_value(how.bias, {how.bias ? c.cols : 0}), view_of(how.residual), device::scalar_value(how.alpha)}, how.stream);
}

std::vector<library_kernel> gemm_kernels() {
  std::vector<library_kernel> all;
  auto add = [&](const choice& c, tile::element type, const epilogue& finish) {
    gemm_options how;
    how.type = type;
    how.alpha = finish.scale ? 2 : 1;
    how.bias = finish.bias;
    how.residual.data = finish.residual;
    how.activate = finish.activate;
    const std::string name = name_of(c, how);
    all.push_back({name, [=](const std::string& target) {
                     return type == tile::element::bf16 ? with_type<bf16>(c, name, target, finish) : with_type<f16>(c, name, target, finish);
                   }});
  };
  for (const tile::element type : {tile::element::bf16, tile::element::f16})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        add({128, 256, ta, tb, false}, type, {false, false, false, activation::none});
        add({128, 128, ta, tb, false}, type, {false, false, false, activation::none});
        add({128, 128, ta, tb, true}, type, {false, false, false, activation::none});
        add({128, 256, ta, tb, false}, type, {true, false, false, activation::none});
      }
  for (const int width : {208, 224}) add({128, width, false, true, false}, tile::element::bf16, {false, false, false, activation::none});
  for (const activation a : {activation::none, activation::relu, activation::gelu, activation::gelu_tanh, activation::silu}) {
    add({128, 256, false, true, false}, tile::element::bf16, {false, true, false, a});
    add({128, 256, false, true, false}, tile::element::bf16, {false, true, true, a});
  }
  return all;
}

}  // namespace tlx::host
