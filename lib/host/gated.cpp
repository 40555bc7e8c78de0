#include "tlx/host/gated.hpp"

#include "host/families.hpp"
#include "host/gemm_epilogue.hpp"
#include "host/matrices.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::host {

namespace {

struct gated_choice {
  tile::element type = tile::element::bf16;
  int n = 128;
  bool by_threads = false, bias_g = false, bias_u = false;
  activation activate = activation::silu;
};

std::string name_of(const gated_choice& c) {
  std::string name = "gated_";
  name.append(tile::name(c.type)).append(c.by_threads ? "_128x32_threads" : c.n == 112 ? "_128x112" : "_128x128").append(c.bias_g ? "_bias_g" : "").append(c.bias_u ? "_bias_u" : "");
  return name.append(c.activate == activation::none ? "_none" : suffix_of(c.activate));
}

template <class T, class Plan>
std::unique_ptr<ir::kernel> traced_gated(const gated_choice& c, const std::string& name, const std::string& target) {
  using arguments = kernels::gated_arguments<T>;
  return trace<arguments>(name, target, [&](block& cta, const arguments& all) {
    kernels::gated_gemm<Plan>(cta, all, [&](const auto& g, const auto& u, const arguments& in, const grid_box& t) {
      const auto gate = c.bias_g ? g + fetch<1, Plan::n>(in.bias_g.at(t.col)) : g;
      const auto up = c.bias_u ? u + fetch<1, Plan::n>(in.bias_u.at(t.col)) : u;
      return activated(gate, c.activate) * up;
    });
  });
}

template <class T>
std::unique_ptr<ir::kernel> traced_gated(const gated_choice& c, const std::string& name, const std::string& target) {
  if (c.by_threads) return traced_gated<T, kernels::gemm_plan<128, 32, 64, 3, false, true, true>>(c, name, target);  // loads take registers too
  if (c.n == 112) return traced_gated<T, kernels::gemm_plan<128, 112, 64, 4>>(c, name, target);
  return traced_gated<T, kernels::gemm_plan<128, 128, 64, 4>>(c, name, target);
}

std::unique_ptr<ir::kernel> trace_gated(const gated_choice& c, const std::string& name, const std::string& target) {
  return c.type == tile::element::bf16 ? traced_gated<bf16>(c, name, target) : traced_gated<f16>(c, name, target);
}

void check(const matrix& a, const matrix& g, const matrix& u, const matrix& c, const gated_options& how) {
  check_family("gated product", how.type, a.column_major, "g or u", g.column_major && u.column_major, c.column_major);
  const bool fits = g.rows == a.cols && u.rows == a.cols && g.cols == c.cols && u.cols == c.cols && a.rows == c.rows && a.rows >= 0 && a.cols >= 0 && c.cols >= 0;
  if (!fits)
    raise(user_error({.id = "gemm-shape", .what = cat("a is ", a.rows, "x", a.cols, ", g is ", g.rows, "x", g.cols, ", u is ", u.rows, "x", u.cols, ", c is ", c.rows, "x", c.cols),
                      .because = "a is M x K, g and u are K x N and c is M x N", .fix = {"check the extents; weights stored N x K are column_major, with rows K and cols N"}}));
}

// Rounds of the processors times what one takes: 112 columns where that fills a round which 128 would leave half empty. Equal: the wider, which moves fewer bytes.
int columns_of(const matrix& c, std::int64_t processors) {
  const auto rounds = [&](std::int64_t cols) { return ((c.rows + 127) / 128 * ((c.cols + cols - 1) / cols) + processors - 1) / processors; };
  return rounds(112) * 112 * 102 < rounds(128) * 128 * 100 ? 112 : 128;
}

}  // namespace

void gated_gemm(session& with, const matrix& a, const matrix& g, const matrix& u, const matrix& c, const gated_options& how) {
  check(a, g, u, c, how);
  gated_choice chosen{how.type, 128, false, how.bias_g != 0, how.bias_u != 0, how.activate};
  chosen.by_threads = !(bulk_copies_work(a, how.type) && bulk_copies_work(g, how.type) && bulk_copies_work(u, how.type) && bulk_copies_work(c, how.type) && c.cols % 8 == 0);
  if (!chosen.by_threads) chosen.n = columns_of(c, with.on().about().processor_count);
  const std::string name = name_of(chosen);
  const auto vector = [&](device::address data) { return device::view_value(data, {data ? c.cols : 0}); };
  with.run(
      name, [&](const std::string& target) { return trace_gated(chosen, name, target); },
      {view_of(a), view_of(g), view_of(u), view_of(c), vector(how.bias_g), vector(how.bias_u)}, how.stream);
}

void gated_mlp(session& with, const matrix& a, const matrix& g, const matrix& u, const matrix& down, const matrix& c, const gated_options& how, const gemm_options& last) {
  const std::int64_t width = (g.cols + 7) / 8 * 8;  // rows that bulk copies can address
  // A place of its own: the second product may use the session's workspace for its parts.
  const session::workspace lent = with.lend(static_cast<std::size_t>(std::max<std::int64_t>(1, a.rows * width)) * 2, how.stream, 1);
  const matrix hidden{lent.where, a.rows, g.cols, width};
  gated_gemm(with, a, g, u, hidden, how);
  gemm_options second = last;
  second.type = how.type;
  second.stream = how.stream;
  gemm(with, hidden, down, c, second);
}

std::vector<library_kernel> gated_kernels() {
  std::vector<library_kernel> all;
  for (const bool by_threads : {false, true}) {
    const gated_choice c{tile::element::bf16, 128, by_threads, by_threads, by_threads, activation::silu};
    all.push_back({name_of(c), [c](const std::string& target) { return trace_gated(c, name_of(c), target); }});
  }
  const gated_choice narrow{.n = 112};
  all.push_back({name_of(narrow), [narrow](const std::string& target) { return trace_gated(narrow, name_of(narrow), target); }});
  return all;
}

}  // namespace tlx::host
