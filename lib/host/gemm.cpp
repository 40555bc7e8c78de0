#include "tlx/host/gemm.hpp"

#include <cstring>
#include <functional>
#include <iterator>
#include <limits>

#include "host/families.hpp"
#include "host/gemm_plan.hpp"
#include "host/matrices.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::host {

namespace {

using tile::element;

struct types {
  element a, b, c;
};
types types_of(const gemm_options& how) {
  const bool wide = tile::bits(how.type) == 16;
  return {how.type, how.type_b.value_or(how.type), how.type_c.value_or(wide ? how.type : how.type == element::tf32 ? element::f32 : element::bf16)};
}

bool is_8bit_float(element e) { return e == element::e4m3 || e == element::e5m2; }

void check_types(const types& t) {
  const bool multiplied = t.a == t.b ? t.a == element::bf16 || t.a == element::f16 || t.a == element::tf32 || t.a == element::s8 || is_8bit_float(t.a) : is_8bit_float(t.a) && is_8bit_float(t.b);
  if (!multiplied)
    raise(user_error({.id = "gemm-type", .what = cat("gemm of ", tile::name(t.a), " and ", tile::name(t.b)),
                      .because = "both operands are bf16, f16, tf32 or s8, or each is e4m3 or e5m2", .fix = {"use one of these types"}}));
  const bool stored = t.c == element::f32 || (tile::bits(t.a) == 16 ? t.c == t.a : t.c == element::bf16 || t.c == element::f16);
  if (!stored)
    raise(user_error({.id = "gemm-type", .what = cat("gemm of ", tile::name(t.a), " into ", tile::name(t.c)),
                      .because = "products of a 16-bit type are stored in that type or f32, all others in f32, bf16 or f16", .fix = {"leave type_c to the default, or use f32"}}));
}

void check_layouts(const types& t, const matrix& a, const matrix& b) {
  if (tile::bits(t.a) == 16 || (!a.column_major && b.column_major)) return;
  raise(user_error({.id = "gemm-layout", .what = cat("gemm of ", tile::name(t.a), " with ", a.column_major ? "a column-major" : "b row-major"),
                    .because = "the tensor cores read tf32 and 8-bit operands with K contiguous only (wgmma transposes 16-bit operands, no others)",
                    .fix = {"store a by rows and b by columns, as weights of N x K are", "transpose the operand first"}}));
}

void check_like_c(const matrix& m, const char* name, const matrix& c) {
  if (!m.data) return;
  if (m.column_major)
    raise(user_error({.id = "gemm-shape", .what = cat("c or ", name, " is column-major"), .because = "results are stored by rows", .fix = {"compute the transposed product: c^T = b^T a^T"}}));
  if (m.rows != c.rows || m.cols != c.cols)
    raise(user_error({.id = "gemm-shape", .what = cat(name, " is ", m.rows, "x", m.cols, ", c is ", c.rows, "x", c.cols), .because = "they go together element by element",
                      .fix = {cat("give ", name, " the shape of c")}}));
}

void check(const matrix& a, const matrix& b, const matrix& c, const gemm_options& how) {
  auto shape = [](const matrix& m) { return cat(m.rows, "x", m.cols); };
  for (const matrix* m : {&a, &b, &c})
    if (m->rows < 0 || m->cols < 0 || how.batch < 0)
      raise(user_error({.id = "gemm-shape", .what = cat("a is ", shape(a), ", b is ", shape(b), ", c is ", shape(c), ", batch ", how.batch), .because = "extents are 0 or more",
                        .fix = {"check the extents"}}));
  if (a.cols != b.rows || a.rows != c.rows || b.cols != c.cols)
    raise(user_error({.id = "gemm-shape", .what = cat("a is ", shape(a), ", b is ", shape(b), ", c is ", shape(c)),
                      .because = "a is M x K, b is K x N and c is M x N", .fix = {"check the extents; a transposed matrix is column_major, with its own rows and cols"}}));
  if (c.column_major)
    raise(user_error({.id = "gemm-shape", .what = "c or the residual is column-major", .because = "results are stored by rows",
                      .fix = {"compute the transposed product: c^T = b^T a^T"}}));
  check_like_c(how.residual, "the residual", c);
  check_like_c(how.before, "before", c);
  check_types(types_of(how));
  check_layouts(types_of(how), a, b);
}

void check_strides(const matrix& c, std::int64_t batch) {
  if (c.data && c.rows > 1 && c.stride > 0 && c.stride < c.cols)
    raise(user_error({.id = "gemm-shape", .what = cat("rows of c are ", c.stride, " elements apart and ", c.cols, " long"), .because = "rows of the result must not overlap",
                      .fix = {"give c a stride of at least its columns"}}));
  const std::int64_t apart = batch_stride_of(c), rows_of_other_batches = std::max<std::int64_t>(c.rows - 1, 0) * stride_of(c) + c.cols;
  const bool between_rows = apart >= c.cols && apart * batch <= stride_of(c);  // interleaved: row by row of all matrices
  if (c.data && batch > 1 && apart < rows_of_other_batches && !between_rows)
    raise(user_error({.id = "gemm-shape", .what = cat("the matrices of c are ", apart, " elements apart and ", rows_of_other_batches, " long"), .because = "results must not overlap",
                      .fix = {"give c a batch_stride of at least its rows times its stride"}}));
}

bool made_for_wgmma(const session& with) { return with.on().about().target == "sm_90a"; }

factor factor_of(const scale& s) { return !s.data ? factor::none : s.each ? factor::each : factor::one; }

// What a call asks for, before it is cut.
gemm_choice wanted(const session& with, const matrix& a, const matrix& b, const matrix& c, const gemm_options& how) {
  const types t = types_of(how);
  gemm_choice made;
  made.a = t.a, made.b = t.b, made.c = t.c;
  made.ta = a.column_major;
  made.tb = b.column_major;
  made.batched = how.batch != 1;
  // Bulk stores write whole 16-byte pieces, also behind the last column of a matrix that is a part of a wider one.
  const auto stores_in_bulk = [&](const matrix& m) { return !m.data || (bulk_copies_work(m, t.c, how.batch) && m.cols * tile::bits(t.c) % 128 == 0); };
  made.by_threads = !(bulk_copies_work(a, t.a, how.batch) && bulk_copies_work(b, t.b, how.batch) && stores_in_bulk(c) && stores_in_bulk(how.before));
  made.promoted = how.promoted && is_8bit_float(t.a) && made_for_wgmma(with) && !made.by_threads && !made.batched;
  made.finish = {.scale = how.alpha != 1, .bias = how.bias != 0, .bias_by_row = how.bias && how.bias_by_row, .residual = how.residual.data != 0, .activate = how.activate,
                 .scale_a = factor_of(how.scale_a), .scale_b = factor_of(how.scale_b), .clamp = how.low || how.high, .before = how.before.data != 0};
  return made;
}

std::vector<gemm_offer> offers_of(const session& with, const matrix& a, const matrix& b, const matrix& c, const gemm_options& how) {
  const gemm_choice base = wanted(with, a, b, c, how);
  const bool few_rows = !base.batched && !base.ta && base.tb && tile::bits(base.a) == 16 && bulk_copies_work(a, base.a, 1) && bulk_copies_work(b, base.b, 1);
  const bool residual_in_bulk = !how.residual.data || bulk_copies_work(how.residual, base.c, how.batch);
  return offers_of(base, {c.rows, c.cols, a.cols}, few_rows, residual_in_bulk, with.on().about().target, with.on().about().processor_count);
}

gemm_choice choose(const session& with, const matrix& a, const matrix& b, const matrix& c, const gemm_options& how) {
  const std::vector<gemm_offer> all = offers_of(with, a, b, c, how);
  if (!how.schedule) return all.front().choice;
  std::vector<std::string> names;
  for (const gemm_offer& o : all) {
    if (o.estimate.schedule == *how.schedule) return o.choice;
    const gemm_schedule& s = o.estimate.schedule;
    names.push_back(cat("{", s.rows, ", ", s.cols, ", ", s.cluster, ", ", s.parts, s.swapped ? ", true" : s.in_turns ? ", false" : "", s.in_turns ? ", true}" : "}"));
  }
  const gemm_schedule& s = *how.schedule;
  raise(user_error({.id = "gemm-schedule", .what = cat("no kernel for this product with tiles of ", s.rows, "x", s.cols, ", clusters of ", s.cluster, " and ", s.parts, s.parts == 1 ? " part" : " parts", s.swapped ? ", swapped" : "", s.in_turns ? ", in turns" : ""),
                    .because = cat("there are {rows, cols, cluster, parts, swapped, in_turns}: ", join(names, ", ")), .fix = {"use one of gemm_schedules()", "leave schedule out"}}));
}

device::value vector_of(device::address data, std::int64_t count) { return device::view_value(data, {data ? count : 0}); }

}  // namespace

namespace {

// Appended, not printed to a stream: names are on the path of every launch.
void append_epilogue(std::string& name, const gemm_epilogue& f) {
  constexpr const char *of_a[] = {"", "_scale_a_one", "_scale_a_each"}, *of_b[] = {"", "_scale_b_one", "_scale_b_each"};
  name.append(f.scale ? "_alpha" : "").append(of_a[static_cast<int>(f.scale_a)]).append(of_b[static_cast<int>(f.scale_b)]).append(f.bias ? "_bias" : "").append(f.bias_by_row ? "_by_row" : "");
  name.append(f.before ? "_before" : "").append(suffix_of(f.activate)).append(f.residual ? "_residual" : "").append(f.clamp ? "_clamp" : "");
}

}  // namespace

std::string name_of(const gemm_choice& c) {
  const element usual = tile::bits(c.a) == 16 ? c.a : c.a == element::tf32 ? element::f32 : element::bf16;
  std::string name = "gemm_";
  name.reserve(64);
  name.append(tile::name(c.a));
  if (c.b != c.a) name.append("_").append(tile::name(c.b));
  if (c.c != usual && c.parts == 1) name.append("_to_").append(tile::name(c.c));
  name.append(c.batched ? "_batched_" : "_").append(std::to_string(c.m)).append("x").append(std::to_string(c.n));
  name.append(c.ta ? "_t" : "_n").append(c.tb ? "t" : "n").append(c.by_threads ? "_threads" : "").append(c.promoted ? "_promoted" : "").append(c.swapped ? "_swapped" : "").append(c.turns ? "_turns" : "");
  if (c.cluster > 1) name.append("_cluster").append(std::to_string(c.cluster));
  if (c.parts > 1) name.append("_parts");
  else append_epilogue(name, c.finish);
  return name;
}

std::string sum_name_of(const gemm_choice& c) {
  std::string name = "sum_parts_";
  name.append(tile::name(c.c)).append("_").append(std::to_string(c.parts));
  append_epilogue(name, c.finish);
  return name;
}

void no_kernel(const gemm_choice& c) {
  raise(internal_error({.id = "gemm-no-kernel", .what = cat("no kernel \"", name_of(c), "\""), .because = "the choice of a GEMM and the families of its kernels differ"}));
}

std::unique_ptr<ir::kernel> trace_gemm(const gemm_choice& c, const std::string& name, const std::string& target) {
  if (is_for_few_rows(c)) return trace_gemm_swapped(c, name, target);
  if (c.a == element::bf16) return trace_gemm_bf16(c, name, target);
  if (c.a == element::f16) return trace_gemm_f16(c, name, target);
  return trace_gemm_narrow(c, name, target);
}

std::string gemm_kernel_name(const session& with, const matrix& a, const matrix& b, const matrix& c, const gemm_options& how) {
  check(a, b, c, how);
  return name_of(choose(with, a, b, c, how));
}

std::vector<gemm_estimate> gemm_schedules(const session& with, const matrix& a, const matrix& b, const matrix& c, const gemm_options& how) {
  check(a, b, c, how);
  std::vector<gemm_estimate> all;
  for (gemm_offer& o : offers_of(with, a, b, c, how)) all.push_back(std::move(o.estimate));
  return all;
}

namespace {

std::vector<device::value> followed_by(std::vector<device::value> first, const std::vector<device::value>& rest) {
  first.insert(first.end(), rest.begin(), rest.end());
  return first;
}

// Part p multiplies columns [p, p + 1) * K / parts of a and b: a batch whose matrices lie beside each other.
void run_in_parts(session& with, const gemm_choice& chosen, const matrix& a, const matrix& b, const matrix& c, const std::vector<device::value>& epilogue, std::uint64_t stream) {
  const std::int64_t parts = chosen.parts, k = a.cols / parts;
  const session::workspace lent = with.lend(static_cast<std::size_t>(parts * c.rows * c.cols) * 4, stream);
  const device::value of_parts = device::view_value(lent.where, {parts, c.rows, c.cols}, {c.rows * c.cols, c.cols, 1}), none = device::view_value(0, {0, 0, 0}), no_vector = device::view_value(0, {0});
  const std::string name = name_of(chosen), sum_name = sum_name_of(chosen);
  with.run(
      name, [&](const std::string& target) { return trace_gemm(chosen, name, target); },
      {device::view_value(b.data, {parts, c.cols, k}, {k, stride_of(b), 1}), device::view_value(a.data, {parts, c.rows, k}, {k, stride_of(a), 1}), of_parts, no_vector, none, device::scalar_value(1.0f),
       no_vector, no_vector, none, device::scalar_value(0.0f), device::scalar_value(0.0f)},
      stream);
  with.run(sum_name, [&](const std::string& target) { return trace_sum(chosen, sum_name, target); }, followed_by({of_parts, view_of(c, 1)}, epilogue), stream);
}

// Everything that decides about kernel and views: all but addresses, whose alignment counts, and factors.
struct call_shape {
  std::uint64_t session = 0;
  matrix a, b, c;
  gemm_options how;
  bool operator==(const call_shape&) const = default;
};

call_shape shape_of(const session& with, const matrix& a, const matrix& b, const matrix& c, const gemm_options& how) {
  call_shape s{with.number(), a, b, c, how};
  for (device::address* at : {&s.a.data, &s.b.data, &s.c.data, &s.how.bias, &s.how.residual.data, &s.how.before.data, &s.how.scale_a.data, &s.how.scale_b.data})
    *at = *at == 0 ? 0 : *at % 16 == 0 ? 16 : 1;
  s.how.alpha = how.alpha != 1 ? 2 : 1;
  if (how.low) s.how.low = 0;
  if (how.high) s.how.high = 0;
  s.how.stream = 0;
  return s;
}

// A call of that shape, checked, with the kernel chosen for it.
struct prepared_call {
  call_shape shape;
  gemm_choice chosen;
  std::string name;
  std::vector<device::value> values;  // in the order of the argument struct
};

void prepare(prepared_call& call, const session& with, const matrix& a, const matrix& b, const matrix& c, const gemm_options& how) {
  call.shape = {};
  check(a, b, c, how);
  check_strides(c, how.batch);
  call.chosen = choose(with, a, b, c, how);
  call.name = name_of(call.chosen);
  call.values = {view_of(call.chosen.swapped ? b : a, how.batch), view_of(call.chosen.swapped ? a : b, how.batch), view_of(c, how.batch), vector_of(how.bias, how.bias_by_row ? c.rows : c.cols),
                 view_of(how.residual, how.batch), device::scalar_value(how.alpha), vector_of(how.scale_a.data, how.scale_a.each ? c.rows : 1),
                 vector_of(how.scale_b.data, how.scale_b.each ? c.cols : 1), view_of(how.before, how.batch), device::scalar_value(0.0f), device::scalar_value(0.0f)};
  call.shape = shape_of(with, a, b, c, how);
}

void give_values(prepared_call& call, const matrix& a, const matrix& b, const matrix& c, const gemm_options& how) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const bool swapped = call.chosen.swapped;
  const device::address bases[] = {swapped ? b.data : a.data, swapped ? a.data : b.data, c.data, how.bias, how.residual.data, 0, how.scale_a.data, how.scale_b.data, how.before.data};
  for (size_t i = 0; i < std::size(bases); ++i)
    if (i != 5) call.values[i].base = bases[i];
  const auto scalar = [&](size_t i, float v) { std::memcpy(call.values[i].bytes.data(), &v, sizeof v); };
  scalar(5, how.alpha);
  scalar(9, how.low.value_or(-infinity));
  scalar(10, how.high.value_or(infinity));
}

}  // namespace

void gemm(session& with, const matrix& a, const matrix& b, const matrix& c, const gemm_options& how) {
  // Programs repeat shapes: a thread's last calls stay prepared, and such a call allocates nothing.
  static thread_local prepared_call recent[4];
  static thread_local unsigned oldest = 0;
  const call_shape shape = shape_of(with, a, b, c, how);
  prepared_call* call = nullptr;
  for (prepared_call& r : recent)
    if (r.shape == shape) {
      call = &r;
      break;
    }
  if (!call) {
    call = &recent[oldest++ % 4];
    prepare(*call, with, a, b, c, how);
  }
  if (how.batch == 0) return;
  give_values(*call, a, b, c, how);
  if (call->chosen.parts > 1) return run_in_parts(with, call->chosen, a, b, c, {call->values.begin() + 3, call->values.end()}, how.stream);
  const auto make = [&](const std::string& target) { return trace_gemm(call->chosen, call->name, target); };
  with.run(call->name, std::cref(make), call->values, how.stream);
}

std::vector<library_kernel> gemm_kernels() {
  std::vector<library_kernel> all;
  const auto add = [&](const gemm_choice& c) {
    const std::string name = name_of(c);
    const gemm_epilogue& f = c.finish;
    const bool plain = tile::bits(c.a) == 16 && c.a == c.b && c.a == c.c && !c.batched && !c.swapped && f.scale_a == factor::none && f.scale_b == factor::none && !f.before && !f.clamp && !f.bias_by_row;
    library_kernel made{name, [c, name](const std::string& target) { return trace_gemm(c, name, target); }};
    if (plain) made.inputs = gemm_inputs{c.a, c.ta, c.tb, f.scale, f.bias, f.residual, f.activate};
    all.push_back(std::move(made));
  };
  const auto add_16bit = [&](element type, int m, int n, bool ta, bool tb, bool by_threads, const gemm_epilogue& finish) {
    add({.a = type, .b = type, .c = type, .m = m, .n = n, .ta = ta, .tb = tb, .by_threads = by_threads, .finish = finish});
  };
  for (const element type : {element::bf16, element::f16})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        add_16bit(type, 128, 256, ta, tb, false, {});
        add_16bit(type, 128, 128, ta, tb, false, {});
        add_16bit(type, 128, 128, ta, tb, true, {});
        add_16bit(type, 128, 256, ta, tb, false, {.scale = true});
      }
  for (const int width : {208, 224}) add_16bit(element::bf16, 128, width, false, true, false, {});
  for (const activation a : {activation::none, activation::relu, activation::gelu, activation::gelu_tanh, activation::silu}) {
    add_16bit(element::bf16, 128, 256, false, true, false, {.bias = true, .activate = a});
    add_16bit(element::bf16, 128, 256, false, true, false, {.bias = true, .residual = true, .activate = a});
  }
  for (const int width : {128, 256}) add({.n = width, .cluster = 2});
  add({.a = element::f16, .b = element::f16, .c = element::f16, .cluster = 2});
  add({.cluster = 2, .finish = {.bias = true, .residual = true, .activate = activation::silu}});
  add({.a = element::e4m3, .b = element::e4m3, .cluster = 2, .finish = {.scale_a = factor::each, .scale_b = factor::each}});
  add({.n = 128, .turns = true});
  for (const activation a : {activation::none, activation::relu, activation::gelu, activation::gelu_tanh, activation::silu})
    for (const bool residual : {false, true}) add({.n = 128, .turns = true, .finish = {.bias = true, .residual = residual, .activate = a}});
  for (const element type : {element::e4m3, element::tf32})
    add({.a = type, .b = type, .c = type == element::tf32 ? element::f32 : element::bf16, .finish = {.scale_a = factor::each, .scale_b = factor::each}});
  for (const int width : {128, 176, 192})
    add({.a = element::e4m3, .b = element::e4m3, .c = element::bf16, .n = width, .promoted = true, .finish = {.scale_a = factor::one, .scale_b = factor::one}});
  add({.m = 64, .n = 64, .batched = true});
  for (const int rows : {16, 128}) add({.m = rows == 16 ? 64 : 128, .n = rows, .swapped = true, .finish = {.bias = true}});
  add({.m = 64, .n = 72, .cluster = 4, .finish = {.bias = true}});
  add({.m = 128, .n = 64, .cluster = 2, .finish = {.bias = true}});
  const gemm_choice divided{.m = 128, .n = 64, .swapped = true, .parts = 2, .finish = {.bias = true}};
  add(divided);
  all.push_back({sum_name_of(divided), [divided](const std::string& target) { return trace_sum(divided, sum_name_of(divided), target); }});
  return all;
}

}  // namespace tlx::host
