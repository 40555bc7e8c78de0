// Batched products of any element types with known answers: float64 references by plain loops, derived tolerances, NaN around and in every result.
#pragma once
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/problems.hpp"
#include "tlx/host/gemm.hpp"

namespace tlx::problems {

/// Values of one element type as bytes.
inline double decoded(const std::byte* at, tile::element e) {
  const auto as = [&](auto zero) {
    decltype(zero) v;
    std::memcpy(&v, at, sizeof v);
    return static_cast<double>(v);
  };
  switch (e) {
    case tile::element::f32: case tile::element::tf32: return as(0.0f);
    case tile::element::f16: return as(f16());
    case tile::element::bf16: return as(bf16());
    case tile::element::e4m3: return as(e4m3());
    case tile::element::e5m2: return as(e5m2());
    default: return as(static_cast<signed char>(0));
  }
}
inline double encode(std::byte* to, tile::element e, double value) {
  const auto put = [&](auto v) { std::memcpy(to, &v, sizeof v); };
  switch (e) {
    case tile::element::f32: put(static_cast<float>(value)); break;
    case tile::element::tf32: put(tf32(value)); break;
    case tile::element::f16: put(f16(value)); break;
    case tile::element::bf16: put(bf16(value)); break;
    case tile::element::e4m3: put(e4m3(value)); break;
    case tile::element::e5m2: put(e5m2(value)); break;
    default: put(static_cast<signed char>(std::clamp(std::nearbyint(value), -128.0, 127.0)));
  }
  return decoded(to, e);
}
inline double roundoff_of(tile::element e) {
  return e == tile::element::f32 ? 0x1p-24 : e == tile::element::bf16 ? 0x1p-8 : e == tile::element::f16 ? 0x1p-11 : e == tile::element::e4m3 ? 0x1p-4 : 0x1p-3;
}

enum class factor_kind { none, one, each };

struct product_case {
  std::int64_t m = 0, n = 0, k = 0, batch = 1;
  host::gemm_options how = {};  // types, alpha, activation, low, high, promoted; addresses are the problem's own
  bool a_column_major = false, b_column_major = true;
  bool bias = false, residual = false, before = false;
  factor_kind scale_a = factor_kind::none, scale_b = factor_kind::none;
  std::int64_t pad = 0, batch_pad = 0, shift = 0;  // elements: in each stored row, after each matrix, before the first
};

class product_problem {
 public:
  product_problem(device::machine& m, const product_case& c, std::uint64_t seed = 1) : c_(c), machine_(&m), bits_(seed) {
    const host::gemm_options& o = c.how;
    type_a_ = o.type, type_b_ = o.type_b.value_or(o.type);
    type_c_ = o.type_c.value_or(tile::bits(type_a_) == 16 ? type_a_ : type_a_ == tile::element::tf32 ? tile::element::f32 : tile::element::bf16);
    a_ = stored(type_a_, c.m, c.k, c.a_column_major, true);
    b_ = stored(type_b_, c.k, c.n, c.b_column_major, true);
    out_ = stored(type_c_, c.m, c.n, false, false);
    if (c.residual) residual_ = stored(type_c_, c.m, c.n, false, true);
    if (c.before) before_ = stored(type_c_, c.m, c.n, false, false);
    if (c.bias) bias_ = vector(o.bias_by_row ? c.m : c.n);
    if (c.scale_a != factor_kind::none) scale_a_ = vector(c.scale_a == factor_kind::each ? c.m : 1);
    if (c.scale_b != factor_kind::none) scale_b_ = vector(c.scale_b == factor_kind::each ? c.n : 1);
  }

  host::gemm_options options() const {
    host::gemm_options o = c_.how;
    o.batch = c_.batch;
    if (c_.bias) o.bias = bias_.on.where();
    if (c_.residual) o.residual = residual_.described;
    if (c_.before) o.before = before_.described;
    o.scale_a = {scale_a_.on.size_bytes() ? scale_a_.on.where() : 0, c_.scale_a == factor_kind::each};
    o.scale_b = {scale_b_.on.size_bytes() ? scale_b_.on.where() : 0, c_.scale_b == factor_kind::each};
    return o;
  }
  void run(host::session& s) { host::gemm(s, a_.described, b_.described, out_.described, options()); }
  std::vector<host::gemm_estimate> schedules(const host::session& s) const { return host::gemm_schedules(s, a_.described, b_.described, out_.described, options()); }
  std::string kernel(const host::session& s) const { return host::gemm_kernel_name(s, a_.described, b_.described, out_.described, options()); }

  verdict check(std::int64_t step = 1) {
    machine_->wait();
    verdict v;
    const std::vector<std::byte> got = fetched(out_, v), got_before = c_.before ? fetched(before_, v) : std::vector<std::byte>();
    for (std::int64_t q = 0; q < c_.batch && v.ok; ++q)
      for (std::int64_t i = 0; i < c_.m && v.ok; i += step)
        for (std::int64_t j = 0; j < c_.n && v.ok; ++j) check_element(q, i, j, got, got_before, v);
    return v;
  }

 private:
  struct tensor {
    tile::element type = tile::element::bf16;
    std::int64_t slow = 0, fast = 0, stride = 0, apart = 0, first = 0;
    std::vector<std::byte> all;
    device::buffer on;
    host::matrix described;
    std::int64_t size() const { return tile::bits(type) / 8; }
    std::int64_t place(std::int64_t batch, std::int64_t row, std::int64_t col) const {
      return (first + batch * apart + (described.column_major ? col * stride + row : row * stride + col)) * size();
    }
    double at(std::int64_t batch, std::int64_t row, std::int64_t col) const { return decoded(all.data() + place(batch, row, col), type); }
  };
  struct floats {
    std::vector<float> values;
    device::buffer on;
    double at(std::int64_t i) const { return static_cast<double>(values[static_cast<std::size_t>(values.size() == 1 ? 0 : i)]); }
  };

  // 0xff in every byte is NaN in every float and -1 in s8.
  tensor stored(tile::element type, std::int64_t rows, std::int64_t cols, bool column_major, bool filled) {
    tensor t;
    t.type = type;
    t.slow = column_major ? cols : rows, t.fast = column_major ? rows : cols;
    t.stride = t.fast + c_.pad;
    t.apart = t.slow * t.stride + c_.batch_pad;
    t.first = 128 + c_.shift;
    t.all.assign(static_cast<std::size_t>((t.first + c_.batch * t.apart + 128) * t.size()), std::byte{0xff});
    t.described = {0, rows, cols, t.stride, column_major, t.apart};
    std::normal_distribution<double> normal(0, tile::is_integer(type) ? 40 : 1);
    if (filled)
      for (std::int64_t q = 0; q < c_.batch; ++q)
        for (std::int64_t i = 0; i < rows; ++i)
          for (std::int64_t j = 0; j < cols; ++j) encode(t.all.data() + t.place(q, i, j), type, normal(bits_));
    t.on = device::buffer(*machine_, t.all.size());
    t.on.write(t.all.data(), t.all.size());
    t.described.data = t.on.where() + static_cast<std::uint64_t>(t.first * t.size());
    return t;
  }
  floats vector(std::int64_t count) {
    floats f;
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < count; ++i) f.values.push_back(normal(bits_));
    f.on = device::buffer(*machine_, std::max<std::size_t>(f.values.size() * 4, 4));
    f.on.write(f.values.data(), f.values.size() * 4);
    return f;
  }

  std::vector<std::byte> fetched(const tensor& t, verdict& v) const {
    std::vector<std::byte> now(t.all.size());
    t.on.read(now.data(), now.size());
    std::vector<bool> mine(now.size());
    for (std::int64_t q = 0; q < c_.batch; ++q)
      for (std::int64_t i = 0; i < t.described.rows; ++i)
        for (std::int64_t j = 0; j < t.described.cols; ++j)
          for (std::int64_t byte = 0; byte < t.size(); ++byte) mine[static_cast<std::size_t>(t.place(q, i, j) + byte)] = true;
    for (std::size_t i = 0; i < now.size(); ++i)
      if (!mine[i] && now[i] != std::byte{0xff} && v.ok) v = {false, 0, cat("wrote outside a result, at byte ", i), 0};
    return now;
  }

  // Sums: truncating f32 steps of K (bf16, f16, tf32), exact integers, or Hopper's 8-bit sums of 13 fraction bits for each step of 32.
  double sum_error(double weight) const {
    const bool narrow = tile::bits(type_a_) == 8;
    if (tile::is_integer(type_a_)) return weight * 0x1p-24;
    if (!narrow) return (static_cast<double>(c_.k) / (type_a_ == tile::element::tf32 ? 8 : 16) + 2) * 0x1p-22 * weight;
    const double steps = c_.how.promoted ? 4 : static_cast<double>(c_.k) / 32;
    return (steps + 2) * 0x1p-13 * weight + 0x1p-20 * weight;
  }

  void check_element(std::int64_t q, std::int64_t i, std::int64_t j, const std::vector<std::byte>& got, const std::vector<std::byte>& got_before, verdict& v) const {
    double sum = 0, weight = 0;
    for (std::int64_t k = 0; k < c_.k; ++k) {
      const double p = a_.at(q, i, k) * b_.at(q, k, j);
      sum += p;
      weight += std::abs(p);
    }
    double factor = static_cast<double>(c_.how.alpha);
    if (c_.scale_a != factor_kind::none) factor *= scale_a_.at(i);
    if (c_.scale_b != factor_kind::none) factor *= scale_b_.at(j);
    const double bias = c_.bias ? bias_.at(c_.how.bias_by_row ? i : j) : 0;
    const double entering = sum * factor + bias;
    double expected = activate(entering, c_.how.activate);
    if (c_.residual) expected += residual_.at(q, i, j);
    if (c_.how.low) expected = std::max(expected, static_cast<double>(*c_.how.low));
    if (c_.how.high) expected = std::min(expected, static_cast<double>(*c_.how.high));
    // activations are Lipschitz with constant below 1.13; tanh.approx has relative error 2^-11, the others a few 2^-22
    const double approximate = (c_.how.activate == host::activation::gelu_tanh ? 0x1p-11 : 0x1p-20) * std::abs(entering);
    const double before = sum_error(weight) * std::abs(factor) + 0x1p-22 * (std::abs(sum * factor) + std::abs(bias));
    compare(got, out_, q, i, j, expected, 1.13 * before + approximate + 0x1p-22 * std::abs(expected), v);
    if (c_.before) compare(got_before, before_, q, i, j, entering, before, v);
  }
  void compare(const std::vector<std::byte>& got, const tensor& t, std::int64_t q, std::int64_t i, std::int64_t j, double expected, double tolerance, verdict& v) const {
    const double value = decoded(got.data() + t.place(q, i, j), t.type);
    const double allowed = tolerance + 1.01 * roundoff_of(t.type) * std::abs(expected) + (t.type == tile::element::f16 ? 0x1p-25 : 1e-30);
    ++v.checked;
    if (!(std::abs(value - expected) <= allowed) && v.ok)
      v = {false, 0, cat("batch ", q, " row ", i, " column ", j, ": ", value, ", expected ", expected, " within ", allowed), v.checked};
  }

  product_case c_;
  device::machine* machine_;
  std::mt19937_64 bits_;
  tile::element type_a_, type_b_, type_c_;
  tensor a_, b_, out_, residual_, before_;
  floats bias_, scale_a_, scale_b_;
};

}  // namespace tlx::problems
