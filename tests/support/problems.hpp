// Problems with known answers: random inputs, float64 references by plain loops, derived tolerances, guard bands. Used by tests, demo and benchmarks.
#pragma once
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tlx/device/device.hpp"
#include "tlx/host/gemm.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/element.hpp"

namespace tlx::problems {

inline double decode(std::uint16_t bits, tile::element e) {
  if (e == tile::element::bf16) {
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float f;
    std::memcpy(&f, &wide, 4);
    return static_cast<double>(f);
  }
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  if (exponent == 31) return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  return sign * (exponent ? std::ldexp(1024 + mantissa, exponent - 25) : std::ldexp(mantissa, -24));
}
/// Unit roundoff of a stored result: half an ulp, relative.
inline double roundoff(tile::element e) { return e == tile::element::bf16 ? 0x1p-8 : 0x1p-11; }
inline std::uint16_t nan_bits() { return 0x7fff; }  // NaN in bf16 and f16

/// Nearest even.
inline std::uint16_t encode(float x, tile::element e) {
  std::uint16_t bits;
  if (e == tile::element::bf16) {
    const bf16 r(x);
    std::memcpy(&bits, &r, 2);
  } else {
    const f16 r(x);
    std::memcpy(&bits, &r, 2);
  }
  return bits;
}

/// Calls `part(first, last)` for pieces of [0, count), `grain` long but for the last, on all cores. The pieces are the same for any number of cores.
template <class Part>
void in_pieces(std::size_t count, std::size_t grain, Part&& part) {
  const std::size_t pieces = (count + grain - 1) / grain;
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i; (i = next.fetch_add(1)) < pieces;) part(i * grain, std::min(count, (i + 1) * grain));
  };
  std::vector<std::thread> others;
  for (std::size_t t = 1; t < std::min<std::size_t>(pieces, std::thread::hardware_concurrency()); ++t) others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
}

/// Normal values of standard deviation `sigma` rounded to `e`. Each 65536 have a generator of their own, so that cores share the work and the values are the same for any number of them.
inline std::vector<std::uint16_t> random_values(std::size_t count, tile::element e, std::uint64_t seed, float sigma = 1) {
  std::vector<std::uint16_t> values(count);
  in_pieces(count, 65536, [&](std::size_t first, std::size_t last) {
    std::mt19937_64 bits(seed + first / 65536 * 0x9e3779b97f4a7c15u);
    std::normal_distribution<float> normal(0, sigma);
    for (std::size_t i = first; i < last; ++i) values[i] = encode(normal(bits), e);
  });
  return values;
}

struct verdict {
  bool ok = true;
  double rel_l2 = 0;
  std::string why;  // the first element that fails
  std::uint64_t checked = 0;
};

/// A 16-bit matrix inside a larger allocation: every byte outside of it is NaN and must stay.
struct guarded {
  std::int64_t rows, cols, stride, before;  // elements; `before` precede the first row
  std::vector<std::uint16_t> all;
  device::buffer on;

  guarded(device::machine& m, std::int64_t r, std::int64_t c, std::int64_t s, std::int64_t shift = 0)
      : rows(r), cols(c), stride(s), before(64 + shift), all(static_cast<std::size_t>(std::max<std::int64_t>(r, 0) * s + before + 64), nan_bits()), on(m, all.size() * 2) {}
  void put(const std::vector<std::uint16_t>& dense) {
    for (std::int64_t i = 0; i < rows; ++i)
      std::copy_n(dense.begin() + i * cols, cols, all.begin() + before + i * stride);
    upload();
  }
  void upload() { on.write(all.data(), all.size() * 2); }
  device::address data() const { return on.where() + static_cast<std::uint64_t>(before) * 2; }
  std::vector<std::uint16_t> fetch(verdict& v) {
    std::vector<std::uint16_t> now(all.size()), dense(static_cast<std::size_t>(rows * cols));
    on.read(now.data(), now.size() * 2);
    for (std::size_t i = 0; i < now.size(); ++i) {
      const std::int64_t at = static_cast<std::int64_t>(i) - before;
      const bool inside = at >= 0 && at < rows * stride && at % stride < cols;
      if (inside) dense[static_cast<std::size_t>(at / stride * cols + at % stride)] = now[i];
      else if (now[i] != nan_bits() && v.ok) v = {false, 0, cat("wrote outside the result, at element ", at, " (row ", at / stride, ", column ", at % stride, ")"), 0};
    }
    return dense;
  }
};

struct gemm_case {
  std::int64_t m = 0, n = 0, k = 0;
  tile::element type = tile::element::bf16;
  bool a_column_major = false, b_column_major = true;
  bool bias = false, residual = false;
  host::activation activate = host::activation::none;
  float alpha = 1;
  std::int64_t pad_a = 0, pad_b = 0, pad_c = 0;  // extra elements in each stored row
  std::int64_t shift = 0;                        // elements by which the base addresses are off
  std::int64_t sample_rows = 0;                  // rows of c that are checked, 0: all
  std::optional<host::gemm_schedule> schedule = {};  // none: the rule chooses
};

inline double activate(double x, host::activation a) {
  switch (a) {
    case host::activation::relu: return std::max(x, 0.0);
    case host::activation::gelu: return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5)));
    case host::activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(0.79788456080286536 * (x + 0.044715 * x * x * x)));
    case host::activation::silu: return x / (1 + std::exp(-x));
    case host::activation::none: break;
  }
  return x;
}

/// The inputs of a case on a machine, its result and its check.
class gemm_problem {
 public:
  gemm_problem(device::machine& m, const gemm_case& c, std::uint64_t seed = 1) : c_(c), machine_(&m) {
    const std::int64_t a_slow = c.a_column_major ? c.k : c.m, a_fast = c.a_column_major ? c.m : c.k;
    const std::int64_t b_slow = c.b_column_major ? c.n : c.k, b_fast = c.b_column_major ? c.k : c.n;
    a_values_ = random_values(static_cast<std::size_t>(c.m * c.k), c.type, seed);
    b_values_ = random_values(static_cast<std::size_t>(c.k * c.n), c.type, seed + 1);
    a_ = std::make_unique<guarded>(m, a_slow, a_fast, a_fast + c.pad_a, c.shift);
    b_ = std::make_unique<guarded>(m, b_slow, b_fast, b_fast + c.pad_b, c.shift);
    out_ = std::make_unique<guarded>(m, c.m, c.n, c.n + c.pad_c, c.shift);
    a_->put(a_values_);
    b_->put(b_values_);
    out_->upload();
    if (c.residual) {
      residual_values_ = random_values(static_cast<std::size_t>(c.m * c.n), c.type, seed + 2);
      residual_ = std::make_unique<guarded>(m, c.m, c.n, c.n, 0);
      residual_->put(residual_values_);
    }
    if (c.bias) {
      std::mt19937_64 bits(seed + 3);
      std::normal_distribution<float> normal;
      bias_values_.resize(static_cast<std::size_t>(c.n));
      for (float& v : bias_values_) v = normal(bits);
      bias_ = device::buffer(m, std::max<std::size_t>(bias_values_.size() * 4, 4));  // no byte more: reading on is found
      bias_.write(bias_values_.data(), bias_values_.size() * 4);
    }
  }

  host::matrix a() const { return {a_->data(), c_.m, c_.k, a_->stride, c_.a_column_major}; }
  host::matrix b() const { return {b_->data(), c_.k, c_.n, b_->stride, c_.b_column_major}; }
  host::matrix out() const { return {out_->data(), c_.m, c_.n, out_->stride, false}; }
  host::gemm_options options() const {
    host::gemm_options o;
    o.type = c_.type;
    o.alpha = c_.alpha;
    o.activate = c_.activate;
    o.schedule = c_.schedule;
    if (c_.bias) o.bias = bias_.where();
    if (c_.residual) o.residual = {residual_->data(), c_.m, c_.n, residual_->stride, false};
    return o;
  }
  void run(host::session& s) { host::gemm(s, a(), b(), out(), options()); }
  /// All elements of the result's memory, guards included.
  std::vector<std::uint16_t> result() const {
    std::vector<std::uint16_t> got(out_->all.size());
    out_->on.read(got.data(), got.size() * 2);
    return got;
  }

  verdict check() {
    machine_->wait();
    verdict v;
    const std::vector<std::uint16_t> got = out_->fetch(v);
    if (!v.ok) return v;
    double error = 0, size = 0;
    const std::int64_t step = c_.sample_rows && c_.m > c_.sample_rows ? c_.m / c_.sample_rows : 1;
    std::vector<double> sum(static_cast<std::size_t>(c_.n)), weight(sum.size());
    for (std::int64_t i = 0; i < c_.m; i += step) {
      std::fill(sum.begin(), sum.end(), 0.0);
      std::fill(weight.begin(), weight.end(), 0.0);
      for (std::int64_t k = 0; k < c_.k; ++k) {
        const double x = decode(a_values_[static_cast<std::size_t>(c_.a_column_major ? k * c_.m + i : i * c_.k + k)], c_.type);
        for (std::int64_t j = 0; j < c_.n; ++j) {
          const double p = x * decode(b_values_[static_cast<std::size_t>(c_.b_column_major ? j * c_.k + k : k * c_.n + j)], c_.type);
          sum[static_cast<std::size_t>(j)] += p;
          weight[static_cast<std::size_t>(j)] += std::abs(p);
        }
      }
      for (std::int64_t j = 0; j < c_.n; ++j) {
        const std::size_t at = static_cast<std::size_t>(i * c_.n + j);
        double before = sum[static_cast<std::size_t>(j)] * static_cast<double>(c_.alpha) + (c_.bias ? static_cast<double>(bias_values_[static_cast<std::size_t>(j)]) : 0);
        double expected = activate(before, c_.activate);
        if (c_.residual) expected += decode(residual_values_[at], c_.type);
        // f32 accumulation that truncates two bits below the ulp: at most 2^-22 of the sum of magnitudes for each step of 16; activations are
        // Lipschitz with constant below 1.13; tanh.approx has relative error 2^-11, the others a few 2^-22; one rounding to the stored type.
        const double steps = static_cast<double>(c_.k) / 16 + 2;
        const double approximate = c_.activate == host::activation::gelu_tanh ? 0x1p-11 * std::abs(before) : 0x1p-20 * std::abs(before);
        const double tolerance = 1.13 * steps * 0x1p-22 * weight[static_cast<std::size_t>(j)] * std::abs(static_cast<double>(c_.alpha)) + approximate +
                                 1.01 * roundoff(c_.type) * std::abs(expected) + 1e-30 + (c_.type == tile::element::f16 ? 0x1p-25 : 0);
        const double value = decode(got[at], c_.type);
        const double off = std::abs(value - expected);
        if (!(off <= tolerance) && v.ok)
          v = {false, 0, cat("row ", i, " column ", j, ": ", value, ", expected ", expected, " within ", tolerance), 0};
        error += off * off;
        size += expected * expected;
        ++v.checked;
      }
    }
    v.rel_l2 = size > 0 ? std::sqrt(error / size) : 0;
    return v;
  }

 private:
  gemm_case c_;
  device::machine* machine_;
  std::vector<std::uint16_t> a_values_, b_values_, residual_values_;
  std::vector<float> bias_values_;
  std::unique_ptr<guarded> a_, b_, out_, residual_;
  device::buffer bias_;
};

}  // namespace tlx::problems
