#include "tlx/host/grouped.hpp"

#include "host/families.hpp"
#include "host/gemm_epilogue.hpp"
#include "host/matrices.hpp"
#include "tlx/kernels/grouped.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::host {

namespace {

struct grouped_choice {
  tile::element type = tile::element::bf16;
  int n = 256;
  bool by_threads = false, bias = false;
  activation activate = activation::none;
};

std::string name_of(const grouped_choice& c) {
  std::string name = "grouped_gemm_";
  name.append(tile::name(c.type)).append("_128x").append(std::to_string(c.n)).append(c.by_threads ? "_threads" : "").append(c.bias ? "_bias" : "");
  return name.append(suffix_of(c.activate));
}

template <class T, class Plan>
std::unique_ptr<ir::kernel> traced(const grouped_choice& c, const std::string& name, const std::string& target) {
  using arguments = kernels::grouped_arguments<T>;
  return trace<arguments>(name, target, [&](block& cta, const arguments& all) {
    kernels::grouped_gemm<T, Plan>(cta, all, [&](const auto& sums, const arguments& in, const group_box& t) {
      return activated(c.bias ? sums + fetch<1, Plan::n>(in.bias.at(t.group, t.col)) : sums, c.activate);
    });
  });
}

template <class T>
std::unique_ptr<ir::kernel> traced(const grouped_choice& c, const std::string& name, const std::string& target) {
  using kernels::gemm_plan;
  if (c.by_threads) return traced<T, gemm_plan<128, 128, 64, 3, false, true, true>>(c, name, target);
  if (c.n == 128) return traced<T, gemm_plan<128, 128, 64, 5>>(c, name, target);
  return traced<T, gemm_plan<128, 256, 64, 4>>(c, name, target);
}

std::unique_ptr<ir::kernel> trace_grouped(const grouped_choice& c, const std::string& name, const std::string& target) {
  return c.type == tile::element::bf16 ? traced<bf16>(c, name, target) : traced<f16>(c, name, target);
}

void check(const matrix& a, const matrix& b, const matrix& c, std::int64_t groups, const grouped_options& how) {
  check_family("grouped product", how.type, a.column_major, "b", b.column_major, c.column_major);
  if (b.rows != a.cols || b.cols != c.cols || a.rows != c.rows || a.rows < 0 || a.cols < 0 || c.cols < 0 || groups < 0)
    raise(user_error({.id = "gemm-shape", .what = cat("a is ", a.rows, "x", a.cols, ", each b is ", b.rows, "x", b.cols, ", c is ", c.rows, "x", c.cols, ", ", groups, " groups"),
                      .because = "a is M x K with the rows of all groups, each b is K x N and c is M x N", .fix = {"check the extents; weights stored N x K are column_major, with rows K and cols N"}}));
}

// As a batch also where there is one group: the kernel's view of b has rank 3.
device::value groups_of(const matrix& b, std::int64_t groups) { return device::view_value(b.data, {groups, slow_of(b), fast_of(b)}, {batch_stride_of(b), stride_of(b), 1}); }

}  // namespace

void grouped_gemm(session& with, const matrix& a, const matrix& b, const matrix& c, device::address offsets, std::int64_t groups, const grouped_options& how) {
  check(a, b, c, groups, how);
  if (groups == 0 || c.rows == 0) return;
  grouped_choice chosen{.type = how.type, .n = c.cols <= 128 ? 128 : 256, .bias = how.bias != 0, .activate = how.activate};
  chosen.by_threads = !(bulk_copies_work(a, how.type) && bulk_copies_work(b, how.type, groups) && bulk_copies_work(c, how.type) && c.cols % 8 == 0);
  if (chosen.by_threads) chosen.n = 128;
  const std::string name = name_of(chosen);
  with.run(
      name, [&](const std::string& target) { return trace_grouped(chosen, name, target); },
      {view_of(a), groups_of(b, groups), view_of(c), device::view_value(offsets, {groups + 1}), device::view_value(how.bias, {how.bias ? groups : 0, c.cols})}, how.stream);
}

std::vector<library_kernel> grouped_kernels() {
  std::vector<library_kernel> all;
  const auto add = [&](const grouped_choice& c) { all.push_back({name_of(c), [c](const std::string& target) { return trace_grouped(c, name_of(c), target); }}); };
  add({});
  add({.bias = true, .activate = activation::gelu});
  add({.n = 128, .activate = activation::silu});
  add({.n = 128, .by_threads = true, .bias = true});
  return all;
}

}  // namespace tlx::host
