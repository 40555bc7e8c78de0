#include "tlx/host/scaled.hpp"

#include "host/families.hpp"
#include "host/gemm_epilogue.hpp"
#include "host/matrices.hpp"
#include "tlx/kernels/scaled.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/scaled_mma.hpp"

namespace tlx::host {

namespace {

using tile::element;

struct scaled_choice {
  element a = element::e4m3, b = element::e4m3, scales = element::ue8m0, c = element::bf16;
  int n = 128;
  bool alpha = false, bias = false, by_threads = false;
  activation activate = activation::none;
};

std::string name_of(const scaled_choice& c) {
  std::string name = "scaled_gemm_";
  name.append(tile::name(c.a));
  if (c.b != c.a) name.append("_").append(tile::name(c.b));
  name.append("_").append(tile::name(c.scales));
  if (c.c != element::bf16) name.append("_to_").append(tile::name(c.c));
  name.append("_128x").append(std::to_string(c.n)).append(c.by_threads ? "_threads" : "").append(c.alpha ? "_alpha" : "").append(c.bias ? "_bias" : "");
  return name.append(suffix_of(c.activate));
}

template <class A, class B, class S, class C, class Plan>
std::unique_ptr<ir::kernel> traced(const scaled_choice& c, const std::string& name, const std::string& target) {
  using arguments = kernels::scaled_arguments<A, B, S, C>;
  return trace<arguments>(name, target, [&](block& cta, const arguments& all) {
    kernels::scaled_gemm<Plan>(cta, all, [&](const auto& sums, const arguments& in, const grid_box& t) {
      const auto multiplied = c.alpha ? sums * in.alpha : sums;
      return activated(c.bias ? multiplied + fetch<1, Plan::n>(in.bias.at(t.col)) : multiplied, c.activate);
    });
  });
}

template <class A, class B, class S, class C>
std::unique_ptr<ir::kernel> traced(const scaled_choice& c, const std::string& name, const std::string& target) {
  using kernels::scaled_plan;
  if (c.by_threads) return traced<A, B, S, C, scaled_plan<128, 5, true>>(c, name, target);
  if (c.n == 128) return traced<A, B, S, C, scaled_plan<128, 5>>(c, name, target);
  return traced<A, B, S, C, scaled_plan<256, 3>>(c, name, target);
}

template <class A, class B, class S>
std::unique_ptr<ir::kernel> with_result(const scaled_choice& c, const std::string& name, const std::string& target) {
  if (c.c == element::f32) return traced<A, B, S, float>(c, name, target);
  return c.c == element::f16 ? traced<A, B, S, f16>(c, name, target) : traced<A, B, S, bf16>(c, name, target);
}

std::unique_ptr<ir::kernel> trace_scaled(const scaled_choice& c, const std::string& name, const std::string& target) {
  if (c.a == element::e2m1x2) return c.scales == element::ue4m3 ? with_result<e2m1x2, e2m1x2, ue4m3>(c, name, target) : with_result<e2m1x2, e2m1x2, ue8m0>(c, name, target);
  if (c.a == element::e4m3) return c.b == element::e4m3 ? with_result<e4m3, e4m3, ue8m0>(c, name, target) : with_result<e4m3, e5m2, ue8m0>(c, name, target);
  return c.b == element::e4m3 ? with_result<e5m2, e4m3, ue8m0>(c, name, target) : with_result<e5m2, e5m2, ue8m0>(c, name, target);
}

element stored_as(element e) { return e == element::e2m1 ? element::e2m1x2 : e; }

// A matrix of e2m1 as one of bytes: K is its fast axis.
matrix in_bytes(matrix m, element e) {
  if (e != element::e2m1) return m;
  (m.column_major ? m.rows : m.cols) /= 2;
  m.stride /= 2;
  return m;
}

void check(const session& with, const matrix& a, const matrix& b, const matrix& c, const scaled_options& how) {
  const element type_b = how.type_b.value_or(how.type);
  const auto kind = tile::scaled_kind_of(stored_as(how.type), stored_as(type_b), how.scales);
  const bool stored = how.type_c == element::bf16 || how.type_c == element::f16 || how.type_c == element::f32;
  if (!kind || !stored || how.type == element::e2m1x2 || type_b == element::e2m1x2)
    raise(user_error({.id = "gemm-type", .what = cat("block-scaled gemm of ", tile::name(how.type), " and ", tile::name(type_b), " with scales of ", tile::name(how.scales), " into ", tile::name(how.type_c)),
                      .because = "operands are e4m3 or e5m2 with ue8m0 scales, or both e2m1 with ue8m0 or ue4m3 scales; results are bf16, f16 or f32", .fix = {"use one of these"}}));
  if (a.column_major || !b.column_major || c.column_major)
    raise(user_error({.id = "gemm-layout", .what = cat("a block-scaled gemm with ", a.column_major ? "a column-major" : c.column_major ? "c column-major" : "b row-major"),
                      .because = "its kernel reads both operands with K contiguous, as the blocks of the scales are, and stores by rows", .fix = {"store a by rows and b as N x K (column_major)"}}));
  if (a.cols != b.rows || a.rows != c.rows || b.cols != c.cols || a.rows < 0 || a.cols < 0 || c.cols < 0)
    raise(user_error({.id = "gemm-shape", .what = cat("a is ", a.rows, "x", a.cols, ", b is ", b.rows, "x", b.cols, ", c is ", c.rows, "x", c.cols), .because = "a is M x K, b is K x N and c is M x N",
                      .fix = {"check the extents; e2m1 are counted one by one, also where two share a byte"}}));
  if (a.cols % tile::scale_block(*kind) != 0)
    raise(user_error({.id = "gemm-scales", .what = cat("K is ", a.cols, ", blocks have ", tile::scale_block(*kind)), .because = "each scale belongs to a whole block of K", .fix = {"pad a and b with zeros to a multiple of the block"}}));
  for (const matrix* m : {&a, &b})
    if (const element e = m == &a ? how.type : type_b; !bulk_copies_work(in_bytes(*m, e), stored_as(e)) || (e == element::e2m1 && m->stride % 2 != 0))
      raise(user_error({.id = "gemm-layout", .what = cat("rows of ", m == &a ? "a" : "b", " that start at no multiples of 16 bytes"), .because = "operands of block-scaled products travel by bulk copies only",
                        .fix = {"align the matrix, and give it a stride of a multiple of 16 bytes"}}));
  if (with.on().about().target == "sm_90a")
    raise(user_error({.id = "scaled-product-missing", .what = "a block-scaled gemm on sm_90a", .because = "wgmma has no block scales; they came with tcgen05", .fix = {"run it on sm_100a or sm_103a", "use gemm(), with one scale for each row"}}));
}

device::value scales_of(device::address at, std::int64_t rows, std::int64_t k, element type) {
  const std::int64_t units_of_k = scale_bytes(1, k, type) / 512;
  return device::view_value(at, {(rows + 127) / 128, units_of_k * 32, 16}, {units_of_k * 512, 16, 1});
}

}  // namespace

void scaled_gemm(session& with, const matrix& a, device::address scales_a, const matrix& b, device::address scales_b, const matrix& c, const scaled_options& how) {
  check(with, a, b, c, how);
  if (c.rows == 0 || c.cols == 0) return;
  const element type_b = how.type_b.value_or(how.type);
  scaled_choice chosen{.a = stored_as(how.type), .b = stored_as(type_b), .scales = how.scales, .c = how.type_c, .alpha = how.alpha != 1, .bias = how.bias != 0, .activate = how.activate};
  chosen.by_threads = !(bulk_copies_work(c, how.type_c) && c.cols * tile::bits(how.type_c) % 128 == 0);
  // Two accumulators of 128 columns hide the epilogue; one of 256 moves a quarter fewer bytes. Long products of many tiles take the latter.
  const std::int64_t wide_tiles = (c.rows + 127) / 128 * ((c.cols + 255) / 256);
  if (!chosen.by_threads && a.cols >= 4096 && wide_tiles >= with.on().about().processor_count) chosen.n = 256;
  const std::string name = name_of(chosen);
  with.run(
      name, [&](const std::string& target) { return trace_scaled(chosen, name, target); },
      {view_of(in_bytes(a, how.type)), scales_of(scales_a, a.rows, a.cols, how.scales), view_of(in_bytes(b, type_b)), scales_of(scales_b, b.cols, a.cols, how.scales), view_of(c),
       device::view_value(how.bias, {how.bias ? c.cols : 0}), device::scalar_value(how.alpha)},
      how.stream);
}

std::vector<library_kernel> scaled_kernels() {
  std::vector<library_kernel> all;
  const auto add = [&](const scaled_choice& c) { all.push_back({name_of(c), [c](const std::string& target) { return trace_scaled(c, name_of(c), target); }}); };
  add({});
  add({.n = 256, .alpha = true, .bias = true});
  add({.b = element::e5m2, .c = element::f32, .bias = true, .by_threads = true});
  add({.a = element::e2m1x2, .b = element::e2m1x2, .scales = element::ue4m3, .alpha = true});
  add({.a = element::e2m1x2, .b = element::e2m1x2, .scales = element::ue4m3, .n = 256, .bias = true});
  add({.a = element::e2m1x2, .b = element::e2m1x2, .c = element::f16, .bias = true, .activate = activation::silu});
  return all;
}

}  // namespace tlx::host
