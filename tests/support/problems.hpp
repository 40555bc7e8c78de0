// Problems with known answers: random inputs, float64 references by plain loops, derived tolerances, guard bands. Used by tests, demo and benchmarks.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tlx/device/device.hpp"
#include "tlx/host/attention.hpp"
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

/// Normal values of standard deviation `sigma` rounded to `e`.
inline std::vector<std::uint16_t> random_values(std::size_t count, tile::element e, std::uint64_t seed, float sigma = 1) {
  std::mt19937_64 bits(seed);
  std::normal_distribution<float> normal(0, sigma);
  std::vector<std::uint16_t> values(count);
  for (auto& v : values) {
    const float x = normal(bits);
    if (e == tile::element::bf16) {
      const bf16 r(x);
      std::memcpy(&v, &r, 2);
    } else {
      const f16 r(x);
      std::memcpy(&v, &r, 2);
    }
  }
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

struct attention_case {
  std::vector<int> lengths;
  std::int64_t heads = 2;
  int dimension = 64;
  tile::element type = tile::element::bf16;
  std::int64_t sample_tiles = 0;  // blocks that are checked, 0: all
  std::int64_t pad = 0;           // extra elements between tokens
  bool head_major = false;        // (head, token, dimension) in memory
  std::int64_t extra_tokens = 0;  // tokens that belong to no sequence: nobody may read or write them
  std::vector<int> poisoned = {}; // sequences whose inputs are NaN; their results are not looked at
  float sigma = 1;                // standard deviation of q, k and v
};

/// Block attention over jagged sequences. Everything around the sequences is NaN in every tensor and must not leak; nor may one sequence into another.
class attention_problem {
 public:
  attention_problem(device::machine& m, const attention_case& c, std::uint64_t seed = 1) : c_(c), machine_(&m) {
    offsets_.push_back(0);
    for (int l : c.lengths) offsets_.push_back(offsets_.back() + l);
    tokens_ = offsets_.back() + c.extra_tokens;
    head_stride_ = c.head_major ? (c.dimension + c.pad) * tokens_ : c.dimension;
    token_stride_ = c.head_major ? c.dimension + c.pad : c.dimension * c.heads + c.pad;
    const std::int64_t size = guard_ + std::max<std::int64_t>(0, tokens_ - 1) * token_stride_ + (c.heads - 1) * head_stride_ + c.dimension + guard_;
    for (int i = 0; i < 4; ++i) {
      all_[i].assign(static_cast<std::size_t>(size), nan_bits());
      if (i < 3) fill(all_[i], seed + static_cast<std::uint64_t>(i));
      on_[i] = device::buffer(m, all_[i].size() * 2);
      on_[i].write(all_[i].data(), all_[i].size() * 2);
    }
    offsets_on_ = device::buffer(m, offsets_.size() * 4);
    offsets_on_.write(offsets_.data(), offsets_.size() * 4);
  }

  void run(host::session& s, std::uint64_t stream = 0) {
    host::attention_problem p;
    p.type = c_.type;
    p.token_count = tokens_;
    p.heads = c_.heads;
    p.dimension = c_.dimension;
    p.offsets = offsets_on_.where();
    p.batch = static_cast<std::int64_t>(c_.lengths.size());
    p.stream = stream;
    auto tensor = [&](int i) { return host::tokens{on_[i].where() + static_cast<std::uint64_t>(guard_) * 2, token_stride_, head_stride_}; };
    host::block_attention(s, tensor(0), tensor(1), tensor(2), tensor(3), p);
  }
  std::int64_t tokens() const { return tokens_; }
  /// All elements of the result tensor's memory, guards included.
  std::vector<std::uint16_t> result() const {
    std::vector<std::uint16_t> got(all_[3].size());
    on_[3].read(got.data(), got.size() * 2);
    return got;
  }

  verdict check() {
    machine_->wait();
    verdict v;
    std::vector<std::uint16_t> got(all_[3].size());
    on_[3].read(got.data(), got.size() * 2);
    check_guards(got, v);
    if (!v.ok) return v;
    double error = 0, size = 0;
    std::int64_t tiles = 0, seen = 0;
    for (int l : c_.lengths) tiles += (l + 63) / 64 * c_.heads;
    const std::int64_t step = c_.sample_tiles && tiles > c_.sample_tiles ? tiles / c_.sample_tiles : 1;
    for (std::size_t s = 0; s < c_.lengths.size(); ++s)
      for (std::int64_t first = is_poisoned(s) ? offsets_[s + 1] : offsets_[s]; first < offsets_[s + 1]; first += 64)
        for (std::int64_t h = 0; h < c_.heads; ++h)
          if (seen++ % step == 0) check_block(first, std::min<std::int64_t>(64, offsets_[s + 1] - first), h, got, v, error, size);
    v.rel_l2 = size > 0 ? std::sqrt(error / size) : 0;
    return v;
  }

 private:
  static constexpr std::int64_t guard_ = 64;
  std::size_t place(std::int64_t token, std::int64_t head, int d) const { return static_cast<std::size_t>(guard_ + token * token_stride_ + head * head_stride_ + d); }
  bool is_poisoned(std::size_t sequence) const { return std::find(c_.poisoned.begin(), c_.poisoned.end(), static_cast<int>(sequence)) != c_.poisoned.end(); }
  void fill(std::vector<std::uint16_t>& tensor, std::uint64_t seed) {
    const std::int64_t width = c_.heads * c_.dimension;
    const std::vector<std::uint16_t> values = random_values(static_cast<std::size_t>(offsets_.back() * width), c_.type, seed, c_.sigma);
    for (std::size_t s = 0; s < c_.lengths.size(); ++s) {
      if (is_poisoned(s)) continue;
      for (std::int64_t t = offsets_[s]; t < offsets_[s + 1]; ++t)
        for (std::int64_t h = 0; h < c_.heads; ++h) std::copy_n(values.begin() + t * width + h * c_.dimension, c_.dimension, tensor.begin() + static_cast<std::ptrdiff_t>(place(t, h, 0)));
    }
  }
  void check_guards(const std::vector<std::uint16_t>& got, verdict& v) const {
    std::vector<bool> mine(got.size());
    for (std::int64_t t = 0; t < offsets_.back(); ++t)
      for (std::int64_t h = 0; h < c_.heads; ++h)
        for (int d = 0; d < c_.dimension; ++d) mine[place(t, h, d)] = true;
    for (std::size_t i = 0; i < got.size(); ++i)
      if (!mine[i] && got[i] != nan_bits() && v.ok) v = {false, 0, cat("wrote outside the result, at element ", static_cast<std::int64_t>(i) - guard_), 0};
  }
  double at(int tensor, std::int64_t token, std::int64_t head, int d) const {
    return decode(all_[tensor][place(token, head, d)], c_.type);
  }
  void check_block(std::int64_t first, std::int64_t rows, std::int64_t head, const std::vector<std::uint16_t>& got, verdict& v, double& error, double& size) {
    const double scale = 1.0 / std::sqrt(static_cast<double>(c_.dimension));
    std::vector<double> p(static_cast<std::size_t>(rows));
    for (std::int64_t i = 0; i < rows; ++i) {
      double largest = -std::numeric_limits<double>::infinity(), sum = 0;
      for (std::int64_t j = 0; j < rows; ++j) {
        double s = 0;
        for (int d = 0; d < c_.dimension; ++d) s += at(0, first + i, head, d) * at(1, first + j, head, d);
        p[static_cast<std::size_t>(j)] = s * scale;
        largest = std::max(largest, s * scale);
      }
      for (double& x : p) sum += x = std::exp(x - largest);
      for (int d = 0; d < c_.dimension; ++d) {
        double expected = 0, magnitude = 0;
        for (std::int64_t j = 0; j < rows; ++j) {
          const double term = p[static_cast<std::size_t>(j)] / sum * at(2, first + j, head, d);
          expected += term;
          magnitude += std::abs(term);
        }
        const double value = decode(got[place(first + i, head, d)], c_.type);
        // each probability is rounded to the type (relative roundoff), scores carry f32 error (a few 2^-20 in the exponent), the result is rounded
        const double tolerance = (1.1 * roundoff(c_.type) + 0x1p-17) * magnitude + 1.01 * roundoff(c_.type) * std::abs(expected) + 0x1p-24;
        const double off = std::abs(value - expected);
        if (!(off <= tolerance) && v.ok)
          v = {false, 0, cat("token ", first + i, " head ", head, " dimension ", d, ": ", value, ", expected ", expected, " within ", tolerance), 0};
        error += off * off;
        size += expected * expected;
        ++v.checked;
      }
    }
  }

  attention_case c_;
  device::machine* machine_;
  std::vector<std::int32_t> offsets_;
  std::int64_t tokens_ = 0, token_stride_ = 0, head_stride_ = 0;
  std::vector<std::uint16_t> all_[4];  // q, k, v and what o holds before
  device::buffer on_[4], offsets_on_;
};

}  // namespace tlx::problems
