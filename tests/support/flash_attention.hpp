// Attention of queries to keys with known answers: inputs among NaN, float64 references by plain loops, derived tolerances.
#pragma once
#include <numeric>

#include "tests/support/attention_reference.hpp"
#include "tlx/host/flash_attention.hpp"

namespace tlx::problems {

struct flash_case {
  std::int64_t batch = 1, heads = 1, key_heads = 0, queries = 0, keys = 0;  // key_heads 0: as many
  int dimension = 128;
  std::int64_t left = -1, right = -1;
  tile::element type = tile::element::bf16;
  std::vector<int> lengths = {}, key_lengths = {};  // sequences one after the other, in place of batch, queries and keys
  std::vector<int> poisoned = {};                   // of those, which have NaN inputs; their results are not looked at
  std::int64_t pad = 0;                             // extra elements between tokens
  bool head_major = false;                          // (batch, head, token, dimension) in memory
  float sigma = 1, soft_cap = 0;
  bool slopes = false, lse = true;
  std::int64_t sample_rows = 0;                     // rows of a head that are checked, 0: all
  bool backward = false;                            // dq, dk and dv too
  bool any_order = false;                           // in one walk
};

/// One sequence of one head: its numbers among all.
struct flash_place {
  std::int64_t first_query, queries, first_key, keys, head, key_head;
};

class flash_problem {
 public:
  flash_problem(device::machine& m, const flash_case& c, std::uint64_t seed = 1) : c_(c), machine_(&m) {
    jagged_ = !c.lengths.empty() || !c.key_lengths.empty();
    if (c_.key_heads == 0) c_.key_heads = c_.heads;
    if (!jagged_) {
      c_.lengths.assign(static_cast<std::size_t>(c.batch), static_cast<int>(c.queries));
      c_.key_lengths.assign(static_cast<std::size_t>(c.batch), static_cast<int>(c.keys));
    }
    if (c_.key_lengths.empty()) c_.key_lengths = c_.lengths;
    const auto sums = [](const std::vector<int>& lengths) {
      std::vector<std::int32_t> all{0};
      for (int l : lengths) all.push_back(all.back() + l);
      return all;
    };
    q_offsets_ = sums(c_.lengths);
    k_offsets_ = sums(c_.key_lengths);
    for (int i = 0; i < (c.backward ? 8 : 4); ++i) {
      const bool keys = i == 1 || i == 2 || i > 5;
      tensors_.push_back(make(keys));
      if (i < 3 || i == 4) fill(tensors_.back(), seed + static_cast<std::uint64_t>(i), keys);
    }
    for (tensor& t : tensors_) {
      t.on = device::buffer(m, t.all.size() * 2);
      t.on.write(t.all.data(), t.all.size() * 2);
    }
    lse_.assign(static_cast<std::size_t>(2 * guard_ + c_.heads * q_offsets_.back()), std::numeric_limits<float>::quiet_NaN());
    lse_on_ = device::buffer(m, lse_.size() * 4);
    lse_on_.write(lse_.data(), lse_.size() * 4);
    for (int i : {0, 1}) {
      const auto& offsets = i ? k_offsets_ : q_offsets_;
      offsets_on_[i] = device::buffer(m, offsets.size() * 4);
      offsets_on_[i].write(offsets.data(), offsets.size() * 4);
    }
    for (std::int64_t h = 0; h < c_.heads; ++h) slopes_.push_back(std::ldexp(1.0F, -static_cast<int>(h) - 2));
    slopes_on_ = device::buffer(m, slopes_.size() * 4);
    slopes_on_.write(slopes_.data(), slopes_.size() * 4);
  }

  void run(host::session& s, std::uint64_t stream = 0) {
    const host::flash_attention_problem p = asked(stream);
    host::flash_attention(s, at(0), at(1), at(2), at(3), c_.lse ? lse_on_.where() + guard_ * 4 : 0, p);
    if (c_.backward) host::flash_attention_backward(s, at(0), at(1), at(2), at(3), at(4), lse_on_.where() + guard_ * 4, at(5), at(6), at(7), p);
  }
  /// All elements of a result's memory, guards included: o, or dq, dk and dv from 5 on.
  std::vector<std::uint16_t> result(std::size_t which = 3) const {
    std::vector<std::uint16_t> got(tensors_[which].all.size());
    tensors_[which].on.read(got.data(), got.size() * 2);
    return got;
  }

  verdict check() {
    machine_->wait();
    verdict v;
    const std::vector<std::uint16_t> got = result();
    check_guards(tensors_[3], got, v);
    std::vector<float> lse(lse_.size());
    lse_on_.read(lse.data(), lse.size() * 4);
    for (std::size_t i = 0; i < lse.size(); ++i)
      if (const bool mine = c_.lse && i >= guard_ && i < lse.size() - guard_; !mine && !std::isnan(lse[i]) && v.ok) v = {false, 0, cat("wrote outside of lse, at ", i), 0};
    double error = 0, size = 0;
    each_place([&](const flash_place& w) {
      const std::int64_t step = c_.sample_rows && w.queries > c_.sample_rows ? w.queries / c_.sample_rows : 1;
      for (std::int64_t i = 0; i < w.queries; i += step) check_row(w, i, got, lse, v, error, size);
    });
    judge("o", error, size, v);
    if (c_.backward) check_gradients(v);
    return v;
  }

 private:
  static constexpr std::size_t guard_ = 64;
  struct tensor {
    bool keys;
    std::int64_t heads, batch_stride, token_stride, head_stride;
    std::vector<std::uint16_t> all;
    device::buffer on = {};
  };

  tensor make(bool keys) const {
    const std::vector<std::int32_t>& offsets = keys ? k_offsets_ : q_offsets_;
    const std::int64_t heads = keys ? c_.key_heads : c_.heads, tokens = jagged_ ? offsets.back() : (keys ? c_.keys : c_.queries), batch = jagged_ ? 1 : c_.batch;
    tensor t{keys, heads, 0, c_.head_major ? c_.dimension + c_.pad : c_.dimension * heads + c_.pad, c_.head_major ? (c_.dimension + c_.pad) * tokens : c_.dimension, {}};
    t.batch_stride = c_.head_major ? t.head_stride * heads : t.token_stride * tokens;
    t.all.assign(static_cast<std::size_t>(2 * guard_ + t.batch_stride * batch), nan_bits());
    return t;
  }
  // `token`: counted over all sequences.
  std::size_t place(const tensor& t, std::int64_t token, std::int64_t head, std::int64_t d) const {
    const std::int64_t each = t.keys ? c_.keys : c_.queries, b = jagged_ || each == 0 ? 0 : token / each;
    return guard_ + static_cast<std::size_t>(b * t.batch_stride + (token - b * (jagged_ ? 0 : each)) * t.token_stride + head * t.head_stride + d);
  }
  bool is_poisoned(std::size_t sequence) const { return std::find(c_.poisoned.begin(), c_.poisoned.end(), static_cast<int>(sequence)) != c_.poisoned.end(); }
  void fill(tensor& t, std::uint64_t seed, bool keys) const {
    const std::vector<std::int32_t>& offsets = keys ? k_offsets_ : q_offsets_;
    const std::vector<std::uint16_t> values = random_values(static_cast<std::size_t>(offsets.back() * t.heads * c_.dimension), c_.type, seed, c_.sigma);
    std::size_t next = 0;
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s)
      for (std::int64_t i = offsets[s]; i < offsets[s + 1]; ++i)
        for (std::int64_t h = 0; h < t.heads; ++h)
          for (int d = 0; d < c_.dimension; ++d, ++next)
            if (!is_poisoned(s)) t.all[place(t, i, h, d)] = values[next];
  }
  void judge(const char* name, double error, double size, verdict& v) const {
    const double relative = size > 0 ? std::sqrt(error / size) : 0;
    v.rel_l2 = std::max(v.rel_l2, relative);
    // 45 dB; few elements have no average to speak of, and where one key takes all the probability, gradients are differences of nearly the same numbers
    if (relative > 5.6e-3 && v.checked > 4096 && c_.soft_cap == 0 && (c_.sigma <= 2 || *name == 'o') && v.ok) v = {false, relative, cat(name, ": ", -20 * std::log10(relative), " dB, less than 45"), v.checked};
  }
  void check_guards(const tensor& t, const std::vector<std::uint16_t>& got, verdict& v) const {
    std::vector<bool> mine(got.size());
    for (std::int64_t i = 0; i < (t.keys ? k_offsets_ : q_offsets_).back(); ++i)
      for (std::int64_t h = 0; h < t.heads; ++h)
        for (int d = 0; d < c_.dimension; ++d) mine[place(t, i, h, d)] = true;
    for (std::size_t i = 0; i < got.size(); ++i)
      if (!mine[i] && got[i] != nan_bits() && v.ok) v = {false, 0, cat("wrote outside the result, at element ", i), 0};
  }

  host::flash_attention_problem asked(std::uint64_t stream) const {
    host::flash_attention_problem p;
    p.type = c_.type;
    p.batch = static_cast<std::int64_t>(c_.lengths.size());
    p.heads = c_.heads;
    p.key_heads = c_.key_heads;
    p.queries = jagged_ ? q_offsets_.back() : c_.queries;
    p.keys = jagged_ ? k_offsets_.back() : c_.keys;
    p.dimension = c_.dimension;
    p.left = c_.left;
    p.right = c_.right;
    p.soft_cap = c_.soft_cap;
    p.stream = stream;
    if (c_.any_order) p.any_order();
    if (c_.slopes) p.slopes = slopes_on_.where();
    if (jagged_) {
      p.query_offsets = offsets_on_[0].where();
      p.key_offsets = offsets_on_[1].where();
    }
    return p;
  }
  host::attended at(std::size_t i) const {
    const tensor& t = tensors_[i];
    return {t.on.where() + guard_ * 2, t.batch_stride, t.token_stride, t.head_stride};
  }

  template <class Body>
  void each_place(Body&& body) const {
    for (std::size_t s = 0; s < c_.lengths.size(); ++s)
      for (std::int64_t h = 0; h < c_.heads && !is_poisoned(s); ++h)
        body(flash_place{q_offsets_[s], c_.lengths[s], k_offsets_[s], c_.key_lengths[s], h, h / (c_.heads / c_.key_heads)});
  }
  double value(std::size_t which, std::int64_t token, std::int64_t head, std::int64_t d) const { return decode(tensors_[which].all[place(tensors_[which], token, head, d)], c_.type); }

  // Probabilities of one row with the error that each may have, and the logarithm of their sum.
  struct row {
    std::vector<double> p, off, capped = {};
    double lse = -std::numeric_limits<double>::infinity(), lse_off = 0;
  };
  row probabilities_of(const flash_place& w, std::int64_t i) const {
    row r{std::vector<double>(static_cast<std::size_t>(w.keys)), std::vector<double>(static_cast<std::size_t>(w.keys))};
    const double scale = 1.0 / std::sqrt(static_cast<double>(c_.dimension));
    double largest = -std::numeric_limits<double>::infinity(), sum = 0, score_off = 0;
    for (std::int64_t j = 0; j < w.keys; ++j) {
      const std::int64_t distance = j - (i + w.keys - w.queries);
      double x = 0, magnitude = 0;
      for (int d = 0; d < c_.dimension; ++d) {
        const double part = value(0, w.first_query + i, w.head, d) * value(1, w.first_key + j, w.key_head, d) * scale;
        x += part;
        magnitude += std::abs(part);
      }
      if (c_.soft_cap > 0) x = static_cast<double>(c_.soft_cap) * std::tanh(x / static_cast<double>(c_.soft_cap));
      if (c_.slopes) x -= static_cast<double>(slopes_[static_cast<std::size_t>(w.head)]) * std::abs(static_cast<double>(distance));
      const bool seen = (c_.right < 0 || distance <= c_.right) && (c_.left < 0 || -distance <= c_.left);
      r.capped.push_back(x);
      r.p[static_cast<std::size_t>(j)] = seen ? x : -std::numeric_limits<double>::infinity();
      largest = std::max(largest, r.p[static_cast<std::size_t>(j)]);
      // a sum in f32; tanh.approx has 2^-11 of the cap
      if (seen) score_off = std::max(score_off, 0x1p-21 * (magnitude + std::abs(x)) + (c_.soft_cap > 0 ? 0x1.1p-11 * static_cast<double>(c_.soft_cap) : 0));
    }
    if (largest == -std::numeric_limits<double>::infinity()) {
      std::fill(r.p.begin(), r.p.end(), 0.0);
      return r;
    }
    for (double& p : r.p) sum += p = std::exp(p - largest);
    for (std::size_t j = 0; j < r.p.size(); ++j) {
      r.p[j] /= sum;
      r.off[j] = (1.1 * roundoff(c_.type) + 0x1p-17 + 2 * score_off) * r.p[j] + (c_.type == tile::element::f16 ? 0x1p-25 : 0);
    }
    r.lse = largest + std::log(sum);
    r.lse_off = 0x1p-20 * (1 + std::abs(r.lse)) + 2 * score_off;
    return r;
  }

  void check_row(const flash_place& w, std::int64_t i, const std::vector<std::uint16_t>& got, const std::vector<float>& lse, verdict& v, double& error, double& size) const {
    const row r = probabilities_of(w, i);
    if (c_.lse) {
      // (batch, head, query), or (head, query) of all
      const std::int64_t at = jagged_ ? w.head * q_offsets_.back() + w.first_query + i : (w.first_query / std::max<std::int64_t>(c_.queries, 1) * c_.heads + w.head) * c_.queries + i;
      const double found = static_cast<double>(lse[guard_ + static_cast<std::size_t>(at)]);
      const bool same = std::isinf(r.lse) ? found == r.lse : std::abs(found - r.lse) <= r.lse_off;
      if (!same && v.ok) v = {false, 0, cat("lse of query ", i, " head ", w.head, ": ", found, ", expected ", r.lse, " within ", r.lse_off), 0};
    }
    for (int d = 0; d < c_.dimension; ++d) {
      double wanted = 0, off = 0;
      for (std::int64_t j = 0; j < w.keys; ++j) {
        const double x = value(2, w.first_key + j, w.key_head, d);
        wanted += r.p[static_cast<std::size_t>(j)] * x;
        off += r.off[static_cast<std::size_t>(j)] * std::abs(x);
      }
      const double found = decode(got[place(tensors_[3], w.first_query + i, w.head, d)], c_.type), tolerance = off + 1.01 * roundoff(c_.type) * std::abs(wanted) + 0x1p-24;
      if (!(std::abs(found - wanted) <= tolerance) && v.ok)
        v = {false, 0, cat("o: query ", i, " of ", w.queries, " head ", w.head, " dimension ", d, ": ", found, ", expected ", wanted, " within ", tolerance), 0};
      error += (found - wanted) * (found - wanted);
      size += wanted * wanted;
      ++v.checked;
    }
  }

  // Gradients of one sequence with the error that each may have.
  void check_gradients(verdict& v) const {
    std::vector<std::vector<std::uint16_t>> got;
    for (std::size_t i : {5, 6, 7}) {
      got.push_back(result(i));
      check_guards(tensors_[i], got.back(), v);
    }
    double error[3] = {}, size[3] = {};
    const auto compare = [&](int which, std::int64_t token, std::int64_t head, const bounded_matrix& wanted, std::int64_t i, const char* name) {
      for (int d = 0; d < c_.dimension; ++d) {
        const double found = decode(got[static_cast<std::size_t>(which)][place(tensors_[static_cast<std::size_t>(5 + which)], token, head, d)], c_.type), off = std::abs(found - wanted.at(i, d));
        const double tolerance = wanted.tolerance(i, d, c_.type);
        if (!(off <= tolerance) && v.ok) v = {false, 0, cat(name, ": token ", i, " head ", head, " dimension ", d, ": ", found, ", expected ", wanted.at(i, d), " within ", tolerance), 0};
        error[which] += off * off;
        size[which] += wanted.at(i, d) * wanted.at(i, d);
        ++v.checked;
      }
    };
    std::vector<bounded_matrix> sums;  // dk, dv of the key head in turn
    each_place([&](const flash_place& w) {
      const std::int64_t group = c_.heads / c_.key_heads;
      if (w.head % group == 0) sums.assign(2, bounded_matrix(w.keys, c_.dimension));
      bounded_matrix dq(w.queries, c_.dimension);
      for (std::int64_t i = 0; i < w.queries; ++i) add_row(w, i, dq, sums[0], sums[1]);
      for (std::int64_t i = 0; i < w.queries; ++i) compare(0, w.first_query + i, w.head, dq, i, "dq");
      if (w.head % group + 1 < group) return;
      for (std::int64_t j = 0; j < w.keys; ++j) compare(1, w.first_key + j, w.key_head, sums[0], j, "dk");
      for (std::int64_t j = 0; j < w.keys; ++j) compare(2, w.first_key + j, w.key_head, sums[1], j, "dv");
    });
    const char* names[] = {"dq", "dk", "dv"};
    for (int i = 0; i < 3; ++i) judge(names[i], error[i], size[i], v);
  }

  // What one query adds to the gradients.
  void add_row(const flash_place& w, std::int64_t i, bounded_matrix& dq, bounded_matrix& dk, bounded_matrix& dv) const {
    const row r = probabilities_of(w, i);
    const double scale = 1.0 / std::sqrt(static_cast<double>(c_.dimension)), u = roundoff(c_.type), tiny = c_.type == tile::element::f16 ? 0x1p-25 : 0;
    const auto n = static_cast<std::size_t>(w.keys);
    std::vector<double> g(static_cast<std::size_t>(c_.dimension)), dp(n), size(n);
    double delta = 0, delta_size = 0, delta_off = 0;
    for (int d = 0; d < c_.dimension; ++d) {
      g[static_cast<std::size_t>(d)] = value(4, w.first_query + i, w.head, d);
      double o = 0, off = 0, magnitude = 0;
      for (std::size_t j = 0; j < n; ++j) {
        const double x = value(2, w.first_key + static_cast<std::int64_t>(j), w.key_head, d), both = g[static_cast<std::size_t>(d)] * x;
        o += r.p[j] * x;
        off += r.off[j] * std::abs(x);
        magnitude += r.p[j] * std::abs(x);
        dp[j] += both;
        size[j] += std::abs(both);
      }
      delta += g[static_cast<std::size_t>(d)] * o;
      delta_size += std::abs(g[static_cast<std::size_t>(d)]) * magnitude;
      delta_off += std::abs(g[static_cast<std::size_t>(d)]) * (off + 1.01 * u * std::abs(o) + tiny);  // delta is made of the rounded o
    }
    for (std::size_t j = 0; j < n; ++j) {
      if (r.p[j] == 0) continue;
      const std::int64_t token = w.first_key + static_cast<std::int64_t>(j), at = static_cast<std::int64_t>(j);
      const double slack = 0x1p-17 + 2 * r.lse_off;  // of a probability in f32
      double inner = r.p[j] * (dp[j] - delta), off = slack * r.p[j] * (size[j] + delta_size) + r.p[j] * delta_off;
      if (c_.soft_cap > 0) {
        const double t = r.capped[j] / static_cast<double>(c_.soft_cap);
        inner *= 1 - t * t;
        off += 0x1p-9 * r.p[j] * (size[j] + delta_size);  // tanh.approx
      }
      off = (off + 1.1 * u * std::abs(inner) + tiny) * scale;
      const double ds = inner * scale, p_off = (1.1 * u + slack) * r.p[j] + tiny;
      for (int d = 0; d < c_.dimension; ++d) {
        const double x = g[static_cast<std::size_t>(d)], q = value(0, w.first_query + i, w.head, d), k = value(1, token, w.key_head, d);
        dv.at(at, d) += r.p[j] * x;
        dv.off(at, d) += p_off * std::abs(x);
        dk.at(at, d) += ds * q;
        dk.off(at, d) += off * std::abs(q);
        dq.at(i, d) += ds * k;
        dq.off(i, d) += off * std::abs(k);
      }
    }
  }

  flash_case c_;
  device::machine* machine_;
  bool jagged_ = false;
  std::vector<std::int32_t> q_offsets_, k_offsets_;
  std::vector<tensor> tensors_;  // q, k, v, o; do, dq, dk, dv
  std::vector<float> lse_, slopes_;
  device::buffer lse_on_, offsets_on_[2], slopes_on_;
};

}  // namespace tlx::problems
