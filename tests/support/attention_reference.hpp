// Block attention of one block in float64, with the error that each element may have, derived from the magnitudes that went into it.
#pragma once
#include <functional>
#include <limits>

#include "tests/support/problems.hpp"

namespace tlx::problems {

/// Values, and for each how far a result in the arithmetic of the kernels may be off before its last rounding.
struct bounded_matrix {
  std::int64_t rows, cols;
  std::vector<double> value, bound;

  bounded_matrix(std::int64_t r, std::int64_t c) : rows(r), cols(c), value(static_cast<std::size_t>(r * c)), bound(value.size()) {}
  template <class Element>
  bounded_matrix(std::int64_t r, std::int64_t c, Element&& element) : bounded_matrix(r, c) {
    for (std::int64_t i = 0; i < r; ++i)
      for (std::int64_t j = 0; j < c; ++j) at(i, j) = element(i, j);
  }
  double& at(std::int64_t i, std::int64_t j) { return value[static_cast<std::size_t>(i * cols + j)]; }
  double at(std::int64_t i, std::int64_t j) const { return value[static_cast<std::size_t>(i * cols + j)]; }
  double& off(std::int64_t i, std::int64_t j) { return bound[static_cast<std::size_t>(i * cols + j)]; }
  double off(std::int64_t i, std::int64_t j) const { return bound[static_cast<std::size_t>(i * cols + j)]; }
  bounded_matrix transposed() const {
    bounded_matrix t(cols, rows);
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < cols; ++j) {
        t.at(j, i) = at(i, j);
        t.off(j, i) = off(i, j);
      }
    return t;
  }
  void add(const bounded_matrix& other) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      value[i] += other.value[i];
      bound[i] += other.bound[i];
    }
  }
  /// Of an element that was rounded to `type` at the end.
  double tolerance(std::int64_t i, std::int64_t j, tile::element type) const { return off(i, j) + 1.01 * roundoff(type) * std::abs(at(i, j)) + 0x1p-24; }
};

/// a * b; the bounds are those of a times the magnitudes of b.
inline bounded_matrix product(const bounded_matrix& a, const bounded_matrix& b) {
  bounded_matrix m(a.rows, b.cols);
  for (std::int64_t i = 0; i < a.rows; ++i)
    for (std::int64_t k = 0; k < a.cols; ++k) {
      const double x = a.at(i, k), off = a.off(i, k);
      for (std::int64_t j = 0; j < b.cols; ++j) {
        m.at(i, j) += x * b.at(k, j);
        m.off(i, j) += off * std::abs(b.at(k, j));
      }
    }
  return m;
}

/// The pairs of columns that a rotary embedding turns together, and their angles: cos(i, pair), sin(i, pair).
struct rotary_rule {
  bool interleaved = false;  // pair d: columns 2d and 2d + 1; otherwise d and d + D / 2
  std::function<float(std::int64_t, std::int64_t)> cos, sin;
  std::int64_t first(std::int64_t pair) const { return interleaved ? 2 * pair : pair; }
  std::int64_t second(std::int64_t pair, std::int64_t columns) const { return interleaved ? 2 * pair + 1 : pair + columns / 2; }
};

/// What a kernel makes of x on its way to a product, to the bit: f32 with a rounding for each product and sum, then rounded to the type.
inline bounded_matrix rotated(const bounded_matrix& x, const rotary_rule& by, tile::element type) {
  bounded_matrix y(x.rows, x.cols);
  for (std::int64_t i = 0; i < x.rows; ++i)
    for (std::int64_t d = 0; d < x.cols / 2; ++d) {
      const std::int64_t one = by.first(d), two = by.second(d, x.cols);
      const float c = by.cos(i, d), s = by.sin(i, d), a = static_cast<float>(x.at(i, one)), b = static_cast<float>(x.at(i, two));
      const volatile float ac = a * c, bs = b * s, as = a * s, bc = b * c;  // volatile: no fused multiply-add
      y.at(i, one) = decode(encode(ac - bs, type), type);
      y.at(i, two) = decode(encode(as + bc, type), type);
    }
  return y;
}

/// g times the transpose of the rotation, in f32 with a rounding for each product and sum.
inline void rotate_back(bounded_matrix& g, const rotary_rule& by) {
  for (std::int64_t i = 0; i < g.rows; ++i)
    for (std::int64_t d = 0; d < g.cols / 2; ++d) {
      const std::int64_t one = by.first(d), two = by.second(d, g.cols);
      const double c = by.cos(i, d), s = by.sin(i, d), x = g.at(i, one), y = g.at(i, two), dx = g.off(i, one), dy = g.off(i, two);
      g.at(i, one) = x * c + y * s;
      g.at(i, two) = y * c - x * s;
      g.off(i, one) = dx * std::abs(c) + dy * std::abs(s) + 0x1p-22 * (std::abs(x * c) + std::abs(y * s));
      g.off(i, two) = dy * std::abs(c) + dx * std::abs(s) + 0x1p-22 * (std::abs(y * c) + std::abs(x * s));
    }
}

struct attention_rule {
  tile::element type = tile::element::bf16;
  double scale = 1;
  bool causal = false;
};

/// Of each row: how far, relative to itself, a probability in f32 may be off. The exponential and the sum have a few 2^-20; a score is a sum in f32 whose terms have
/// their magnitudes, and an error of it is one of the exponent.
inline std::vector<double> probability_slack(const attention_rule& rule, const bounded_matrix& q, const bounded_matrix& k) {
  std::vector<double> slack(static_cast<std::size_t>(q.rows));
  for (std::int64_t i = 0; i < q.rows; ++i) {
    double largest = 0;
    for (std::int64_t j = 0; j < (rule.causal ? i + 1 : k.rows); ++j) {
      double magnitude = 0;
      for (std::int64_t d = 0; d < q.cols; ++d) magnitude += std::abs(q.at(i, d) * k.at(j, d));
      largest = std::max(largest, magnitude * std::abs(rule.scale));
    }
    slack[static_cast<std::size_t>(i)] = 0x1p-17 + 0x1p-20 * largest;
  }
  return slack;
}

/// Softmax of scale * q k^T by rows. Bounds: rounded to the type once, and probability_slack().
inline bounded_matrix probabilities(const attention_rule& rule, const bounded_matrix& q, const bounded_matrix& k) {
  const std::vector<double> slack = probability_slack(rule, q, k);
  bounded_matrix p = product(q, k.transposed());
  for (std::int64_t i = 0; i < p.rows; ++i) {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::int64_t j = 0; j < p.cols; ++j) {
      p.at(i, j) = rule.causal && j > i ? -std::numeric_limits<double>::infinity() : p.at(i, j) * rule.scale;
      largest = std::max(largest, p.at(i, j));
    }
    for (std::int64_t j = 0; j < p.cols; ++j) sum += p.at(i, j) = std::exp(p.at(i, j) - largest);
    for (std::int64_t j = 0; j < p.cols; ++j) {
      p.at(i, j) /= sum;
      p.off(i, j) = (1.1 * roundoff(rule.type) + slack[static_cast<std::size_t>(i)]) * p.at(i, j) + (rule.type == tile::element::f16 ? 0x1p-25 : 0);
    }
  }
  return p;
}

inline bounded_matrix block_result(const attention_rule& rule, const bounded_matrix& q, const bounded_matrix& k, const bounded_matrix& v) { return product(probabilities(rule, q, k), v); }

/// dq, dk, dv for the gradient g of the result.
inline std::vector<bounded_matrix> block_gradients(const attention_rule& rule, const bounded_matrix& q, const bounded_matrix& k, const bounded_matrix& v, const bounded_matrix& g) {
  const std::vector<double> slack = probability_slack(rule, q, k);
  const bounded_matrix p = probabilities(rule, q, k);
  bounded_matrix magnitudes = g;
  for (std::size_t i = 0; i < g.value.size(); ++i) magnitudes.bound[i] = std::abs(g.value[i]);
  const bounded_matrix dp = product(magnitudes, v.transposed());
  bounded_matrix ds(p.rows, p.cols);
  for (std::int64_t i = 0; i < p.rows; ++i) {
    double sum = 0, size = 0;
    for (std::int64_t j = 0; j < p.cols; ++j) {
      sum += p.at(i, j) * dp.at(i, j);
      size += p.at(i, j) * dp.off(i, j);
    }
    for (std::int64_t j = 0; j < p.cols; ++j) {
      ds.at(i, j) = p.at(i, j) * (dp.at(i, j) - sum) * rule.scale;
      // f32 errors of p, of dp (accumulated, relative to its magnitudes) and of the row's sum; then one rounding to the type
      ds.off(i, j) = slack[static_cast<std::size_t>(i)] * p.at(i, j) * (dp.off(i, j) + size) * rule.scale + 1.1 * roundoff(rule.type) * std::abs(ds.at(i, j)) + (rule.type == tile::element::f16 ? 0x1p-25 : 0);
    }
  }
  return {product(ds, k), product(ds.transposed(), q), product(p.transposed(), g)};
}

}  // namespace tlx::problems
