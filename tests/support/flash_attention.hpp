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
    for (int i = 0; i < 4; ++i) {
      tensors_.push_back(make(i == 1 || i == 2));
      if (i < 3) fill(tensors_.back(), seed + static_cast<std::uint64_t>(i), i > 0);
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
  }
  std::vector<std::uint16_t> result() const {
    std::vector<std::uint16_t> got(tensors_[3].all.size());
    tensors_[3].on.read(got.data(), got.size() * 2);
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
    v.rel_l2 = size > 0 ? std::sqrt(error / size) : 0;
    if (v.rel_l2 > 5.6e-3 && v.checked > 4096 && c_.soft_cap == 0 && v.ok) v = {false, v.rel_l2, cat(-20 * std::log10(v.rel_l2), " dB, less than 45"), v.checked};
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
    std::vector<double> p, off;
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

  flash_case c_;
  device::machine* machine_;
  bool jagged_ = false;
  std::vector<std::int32_t> q_offsets_, k_offsets_;
  std::vector<tensor> tensors_;  // q, k, v, o
  std::vector<float> lse_, slopes_;
  device::buffer lse_on_, offsets_on_[2], slopes_on_;
};

}  // namespace tlx::problems
