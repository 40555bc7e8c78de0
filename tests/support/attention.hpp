// Block attention with known answers, forward and backward: jagged inputs among NaN, float64 references by plain loops, derived tolerances.
#pragma once
#include "tests/support/attention_reference.hpp"
#include "tlx/host/attention.hpp"

namespace tlx::problems {

struct attention_case {
  std::vector<int> lengths;
  std::int64_t heads = 2;
  std::int64_t key_heads = 0;     // 0: as many
  int dimension = 64, block = 64;
  bool causal = false;
  tile::element type = tile::element::bf16;
  std::int64_t sample_tiles = 0;  // blocks that are checked, 0: all
  std::int64_t pad = 0;           // extra elements between tokens
  bool head_major = false;        // (head, token, dimension) in memory
  std::int64_t extra_tokens = 0;  // tokens that belong to no sequence: nobody may read or write them
  std::vector<int> poisoned = {}; // sequences whose inputs are NaN; their results are not looked at
  float sigma = 1;                // standard deviation of the inputs
  bool backward = false;          // dq, dk, dv instead of o
  bool rotary = false;            // q and k are rotated, by position
  bool by_token = false;          // rotary: by token
  bool interleaved = false;       // rotary: columns 2i and 2i + 1
  bool values = false;            // rotary: v too
  bool applied = false;           // rotary, backward: q, k (and v) come rotated
};

/// Block attention over jagged sequences. Everything around the sequences is NaN in every tensor and must not leak; nor may one sequence into another.
class attention_problem {
 public:
  attention_problem(device::machine& m, const attention_case& c, std::uint64_t seed = 1) : c_(c), machine_(&m) {
    offsets_.push_back(0);
    for (int l : c.lengths) offsets_.push_back(offsets_.back() + l);
    tokens_ = offsets_.back() + c.extra_tokens;
    if (c_.key_heads == 0) c_.key_heads = c_.heads;
    for (int i = 0; i < inputs(); ++i) {
      tensors_.push_back(make(i == 1 || i == 2 ? c_.key_heads : c_.heads));
      fill(tensors_.back(), seed + static_cast<std::uint64_t>(i));
    }
    for (int i = 0; i < outputs(); ++i) tensors_.push_back(make(i > 0 ? c_.key_heads : c_.heads));
    for (tensor& t : tensors_) {
      t.on = device::buffer(m, t.all.size() * 2);
      t.on.write(t.all.data(), t.all.size() * 2);
    }
    if (c_.rotary) make_tables(m, seed);
    offsets_on_ = device::buffer(m, offsets_.size() * 4);
    offsets_on_.write(offsets_.data(), offsets_.size() * 4);
  }

  void run(host::session& s, std::uint64_t stream = 0) {
    host::attention_problem p;
    p.type = c_.type;
    p.token_count = tokens_;
    p.heads = c_.heads;
    p.key_heads = c_.key_heads;
    p.block = c_.block;
    p.causal = c_.causal;
    p.dimension = c_.dimension;
    p.offsets = offsets_on_.where();
    p.batch = static_cast<std::int64_t>(c_.lengths.size());
    p.stream = stream;
    if (c_.rotary) p.rotary = {tables_on_[0].where(), tables_on_[1].where(), table_rows_, c_.by_token, c_.interleaved, c_.values, c_.applied};
    auto at = [&](std::size_t i) { return host::tokens{tensors_[i].on.where() + static_cast<std::uint64_t>(guard_) * 2, tensors_[i].token_stride, tensors_[i].head_stride}; };
    if (c_.backward) host::block_attention_backward(s, at(0), at(1), at(2), at(3), at(4), at(5), at(6), p);
    else host::block_attention(s, at(0), at(1), at(2), at(3), p);
  }
  std::int64_t tokens() const { return tokens_; }
  /// Bytes that a pass must move: each input and each output once.
  double bytes() const {
    std::int64_t heads = 0;
    for (const tensor& t : tensors_) heads += t.heads;
    return 2.0 * static_cast<double>(heads * offsets_.back() * c_.dimension);
  }
  /// All elements of the results' memory, guards included.
  std::vector<std::uint16_t> result() const {
    std::vector<std::uint16_t> all;
    for (int i = 0; i < outputs(); ++i) {
      const std::vector<std::uint16_t> got = fetched(i);
      all.insert(all.end(), got.begin(), got.end());
    }
    return all;
  }

  struct largest { double fused = 0, apart = 0; };
  /// The largest errors of dq with operands that came rotated: as the kernel rotated it back, and as it is when `plain`, which has the same inputs and no rotary tables,
  /// writes it and somebody else rotates that back and rounds again. Both have run.
  largest rotary_errors(const attention_problem& plain) const {
    machine_->wait();
    const std::vector<std::uint16_t> ours = fetched(0), theirs = plain.fetched(0);
    largest found;
    for (std::size_t s = 0; s < c_.lengths.size(); ++s)
      for (std::int64_t first = offsets_[s]; first < offsets_[s + 1]; first += c_.block)
        for (std::int64_t h = 0; h < c_.heads; ++h) {
          const std::int64_t rows = std::min<std::int64_t>(c_.block, offsets_[s + 1] - first);
          const attention_rule rule{.type = c_.type, .scale = 1.0 / std::sqrt(static_cast<double>(c_.dimension)), .causal = c_.causal};
          const rotary_rule turn = angles_from(first - offsets_[s]);
          bounded_matrix wanted = block_gradients(rule, input(0, first, rows, h), input(1, first, rows, h), input(2, first, rows, h), input(3, first, rows, h))[0];
          rotate_back(wanted, turn);
          const auto at = [&](std::int64_t i, std::int64_t d) { return output(0).place(first + i, h, static_cast<int>(d)); };
          bounded_matrix apart(rows, c_.dimension, [&](std::int64_t i, std::int64_t d) { return decode(theirs[at(i, d)], c_.type); });
          rotate_back(apart, turn);
          for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t d = 0; d < c_.dimension; ++d) {
              found.fused = std::max(found.fused, std::abs(decode(ours[at(i, d)], c_.type) - wanted.at(i, d)));
              found.apart = std::max(found.apart, std::abs(decode(encode(static_cast<float>(apart.at(i, d)), c_.type), c_.type) - wanted.at(i, d)));
            }
        }
    return found;
  }

  verdict check() {
    machine_->wait();
    verdict v;
    std::vector<std::vector<std::uint16_t>> got;
    for (int i = 0; i < outputs(); ++i) {
      got.push_back(fetched(i));
      check_guards(output(i), got.back(), v);
    }
    if (!v.ok) return v;
    std::vector<score> scores(got.size());
    std::int64_t tiles = 0, seen = 0;
    for (int l : c_.lengths) tiles += (l + c_.block - 1) / c_.block * c_.key_heads;
    const std::int64_t step = c_.sample_tiles && tiles > c_.sample_tiles ? tiles / c_.sample_tiles : 1;
    for (std::size_t s = 0; s < c_.lengths.size(); ++s)
      for (std::int64_t first = is_poisoned(s) ? offsets_[s + 1] : offsets_[s]; first < offsets_[s + 1]; first += c_.block)
        for (std::int64_t h = 0; h < c_.key_heads; ++h)
          if (seen++ % step == 0) check_block(first, std::min<std::int64_t>(c_.block, offsets_[s + 1] - first), h, c_.by_token ? first : first - offsets_[s], got, v, scores);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const double relative = scores[i].size > 0 ? std::sqrt(scores[i].error / scores[i].size) : 0;
      v.rel_l2 = std::max(v.rel_l2, relative);
      // 45 dB, for each result by itself; one element alone has no average to speak of, nor have gradients where scores are so far apart that nearly all are zero
      const bool has_average = v.checked > 4096 && !(c_.backward && c_.sigma > 50);
      if (relative > 5.6e-3 && has_average && v.ok) v = {false, relative, cat(names()[i], ": ", -20 * std::log10(relative), " dB, less than 45"), v.checked};
    }
    return v;
  }

 private:
  static constexpr std::int64_t guard_ = 64;
  struct tensor {
    std::int64_t heads, token_stride, head_stride;
    std::vector<std::uint16_t> all;
    device::buffer on = {};
    std::size_t place(std::int64_t token, std::int64_t head, int d) const { return static_cast<std::size_t>(guard_ + token * token_stride + head * head_stride + d); }
  };
  struct score {
    double error = 0, size = 0;
  };

  int inputs() const { return c_.backward ? 4 : 3; }
  int outputs() const { return c_.backward ? 3 : 1; }
  const tensor& output(int i) const { return tensors_[static_cast<std::size_t>(inputs() + i)]; }
  std::vector<const char*> names() const { return c_.backward ? std::vector<const char*>{"dq", "dk", "dv"} : std::vector<const char*>{"o"}; }
  std::vector<std::uint16_t> fetched(int i) const {
    std::vector<std::uint16_t> got(output(i).all.size());
    output(i).on.read(got.data(), got.size() * 2);
    return got;
  }

  tensor make(std::int64_t heads) const {
    tensor t{heads, c_.head_major ? c_.dimension + c_.pad : c_.dimension * heads + c_.pad, c_.head_major ? (c_.dimension + c_.pad) * tokens_ : c_.dimension, {}};
    t.all.assign(static_cast<std::size_t>(guard_ + std::max<std::int64_t>(0, tokens_ - 1) * t.token_stride + (heads - 1) * t.head_stride + c_.dimension + guard_), nan_bits());
    return t;
  }
  bool is_poisoned(std::size_t sequence) const { return std::find(c_.poisoned.begin(), c_.poisoned.end(), static_cast<int>(sequence)) != c_.poisoned.end(); }
  void fill(tensor& t, std::uint64_t seed) const {
    const std::int64_t width = t.heads * c_.dimension;
    const std::vector<std::uint16_t> values = random_values(static_cast<std::size_t>(offsets_.back() * width), c_.type, seed, c_.sigma);
    in_pieces(c_.lengths.size(), 64, [&](std::size_t first, std::size_t last) {
      for (std::size_t s = first; s < last; ++s) {
        if (is_poisoned(s)) continue;
        for (std::int64_t i = offsets_[s]; i < offsets_[s + 1]; ++i)
          for (std::int64_t h = 0; h < t.heads; ++h) std::copy_n(values.begin() + i * width + h * c_.dimension, c_.dimension, t.all.begin() + static_cast<std::ptrdiff_t>(t.place(i, h, 0)));
      }
    });
  }
  void check_guards(const tensor& t, const std::vector<std::uint16_t>& got, verdict& v) const {
    std::vector<std::uint8_t> mine(got.size());
    in_pieces(static_cast<std::size_t>(offsets_.back()), 4096, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i)
        for (std::int64_t h = 0; h < t.heads; ++h) std::fill_n(mine.begin() + static_cast<std::ptrdiff_t>(t.place(static_cast<std::int64_t>(i), h, 0)), c_.dimension, std::uint8_t{1});
    });
    std::atomic<std::size_t> written{got.size()};  // the first element that is nobody's and no longer NaN
    in_pieces(got.size(), 1 << 20, [&](std::size_t first, std::size_t last) {
      for (std::size_t i = first; i < last; ++i) {
        if (mine[i] || got[i] == nan_bits()) continue;
        std::size_t known = written.load();
        while (i < known && !written.compare_exchange_weak(known, i)) {}
        return;
      }
    });
    if (written < got.size() && v.ok) v = {false, 0, cat("wrote outside the result, at element ", static_cast<std::int64_t>(written.load()) - guard_), 0};
  }

  bounded_matrix input(std::size_t which, std::int64_t first, std::int64_t rows, std::int64_t head) const {
    const tensor& t = tensors_[which];
    return bounded_matrix(rows, c_.dimension, [&](std::int64_t i, std::int64_t d) { return decode(t.all[t.place(first + i, head, static_cast<int>(d))], c_.type); });
  }
  // The last rows of the tables are the last that anybody may read: no guard behind them.
  void make_tables(device::machine& m, std::uint64_t seed) {
    table_rows_ = tokens_;
    if (!c_.by_token) table_rows_ = c_.lengths.empty() ? 0 : *std::max_element(c_.lengths.begin(), c_.lengths.end());
    const std::int64_t half = c_.dimension / 2;
    std::mt19937_64 bits(seed + 77);
    for (std::int64_t row = 0; row < table_rows_; ++row) {
      const double position = c_.by_token ? static_cast<double>(bits() % 5000) : static_cast<double>(row);
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = position * std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half));
        tables_[0].push_back(static_cast<float>(std::cos(angle)));
        tables_[1].push_back(static_cast<float>(std::sin(angle)));
      }
    }
    for (int i : {0, 1}) {
      tables_on_[i] = device::buffer(m, std::max<std::size_t>(tables_[i].size() * 4, 16));
      if (!tables_[i].empty()) tables_on_[i].write(tables_[i].data(), tables_[i].size() * 4);
    }
  }
  rotary_rule angles_from(std::int64_t row) const {
    const auto table = [this, row](int which) { return [this, row, which](std::int64_t i, std::int64_t d) { return tables_[which][static_cast<std::size_t>((row + i) * (c_.dimension / 2) + d)]; }; };
    return {c_.interleaved, table(0), table(1)};
  }

  // One block of one head of k and v, with all heads of q that share it.
  void check_block(std::int64_t first, std::int64_t rows, std::int64_t key_head, std::int64_t angle, const std::vector<std::vector<std::uint16_t>>& got, verdict& v, std::vector<score>& scores) const {
    const attention_rule rule{.type = c_.type, .scale = 1.0 / std::sqrt(static_cast<double>(c_.dimension)), .causal = c_.causal};
    const std::int64_t group = c_.heads / c_.key_heads;
    const rotary_rule turn = c_.rotary ? angles_from(angle) : rotary_rule{};
    const bool rotates = c_.rotary && !(c_.backward && c_.applied);
    const auto operand = [&](std::size_t which, std::int64_t head) {
      const bounded_matrix x = input(which, first, rows, head);
      return rotates && (which < 2 || c_.values) ? rotated(x, turn, c_.type) : x;
    };
    const bounded_matrix k = operand(1, key_head), w = operand(2, key_head);
    bounded_matrix dk(rows, c_.dimension), dv(rows, c_.dimension);
    for (std::int64_t h = key_head * group; h < (key_head + 1) * group; ++h) {
      const bounded_matrix q = operand(0, h);
      if (!c_.backward) {
        compare(0, first, h, block_result(rule, q, k, w), got[0], v, scores[0]);
        continue;
      }
      std::vector<bounded_matrix> gradients = block_gradients(rule, q, k, w, input(3, first, rows, h));
      if (c_.rotary)
        for (int i = 0; i < (c_.values ? 3 : 2); ++i) rotate_back(gradients[static_cast<size_t>(i)], turn);
      compare(0, first, h, gradients[0], got[0], v, scores[0]);
      dk.add(gradients[1]);
      dv.add(gradients[2]);
    }
    if (!c_.backward) return;
    compare(1, first, key_head, dk, got[1], v, scores[1]);
    compare(2, first, key_head, dv, got[2], v, scores[2]);
  }

  void compare(std::size_t which, std::int64_t first, std::int64_t head, const bounded_matrix& expected, const std::vector<std::uint16_t>& got, verdict& v, score& s) const {
    const tensor& t = output(static_cast<int>(which));
    for (std::int64_t i = 0; i < expected.rows; ++i)
      for (std::int64_t d = 0; d < expected.cols; ++d) {
        const double value = decode(got[t.place(first + i, head, static_cast<int>(d))], c_.type), wanted = expected.at(i, d), tolerance = expected.tolerance(i, d, c_.type);
        const double off = std::abs(value - wanted);
        if (!(off <= tolerance) && v.ok) v = {false, 0, cat(names()[which], ": token ", first + i, " head ", head, " dimension ", d, ": ", value, ", expected ", wanted, " within ", tolerance), 0};
        s.error += off * off;
        s.size += wanted * wanted;
        ++v.checked;
      }
  }

  attention_case c_;
  device::machine* machine_;
  std::vector<std::int32_t> offsets_;
  std::int64_t tokens_ = 0;
  std::vector<tensor> tensors_;  // inputs, then results
  device::buffer offsets_on_;
  std::int64_t table_rows_ = 0;
  std::vector<float> tables_[2];  // cos, sin
  device::buffer tables_on_[2];
};

}  // namespace tlx::problems
