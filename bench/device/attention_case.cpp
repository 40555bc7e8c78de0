#include <cmath>
#include <memory>
#include <random>

#include "bench/device/cases.hpp"
#include "bench/device/measure.hpp"
#include "bench/device/streaming.hpp"
#include "tlx/host/attention.hpp"
#include "tlx/support/text.hpp"

namespace tlx::bench {

namespace {

constexpr auto bf16_element = tile::element::bf16;
constexpr std::int64_t heads = 4;

std::vector<std::int32_t> offsets_of(batch_kind kind) {
  if (kind == batch_kind::single) return {0, 1152 * 512};
  std::mt19937 bits(7);
  std::vector<std::int32_t> offsets{0};
  for (int i = 0; i < 1152; ++i) offsets.push_back(offsets.back() + (kind == batch_kind::whole ? 512 : 1 + static_cast<std::int32_t>(bits() % 1024)));
  return offsets;
}

class tensors {
 public:
  tensors(const setting& on, const attention_shape& shape) : on_(on), dimension_(shape.dimension), offsets_(offsets_of(shape.batch)), tokens_(offsets_.back()) {
    offsets_on_ = device::buffer(on.gpu, offsets_.size() * 4);
    offsets_on_.write(offsets_.data(), offsets_.size() * 4);
    for (int set = 0; set < sets; ++set) {
      for (int t = 0; t < 3; ++t) {
        in_.emplace_back(on.gpu, bytes());
        on.values.fill(on.gpu, in_.back().where(), bytes() / 2, first(set, t));
      }
      out_.emplace_back(on.gpu, bytes());
    }
  }
  static constexpr int sets = 2;
  std::int64_t tokens() const { return tokens_; }
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(tokens_ * heads * dimension_) * 2; }
  device::address in(int set, int t) const { return in_[static_cast<std::size_t>(3 * set + t)].where(); }
  device::address out(int set) const { return out_[static_cast<std::size_t>(set)].where(); }

  void run_tlx(int set, std::uint64_t stream) const {
    host::attention_problem p;
    p.token_count = tokens_;
    p.heads = heads;
    p.dimension = dimension_;
    p.offsets = offsets_on_.where();
    p.batch = static_cast<std::int64_t>(offsets_.size()) - 1;
    p.stream = stream;
    host::block_attention(on_.session, {in(set, 0)}, {in(set, 1)}, {in(set, 2)}, {out(set)}, p);
  }

  std::vector<std::uint16_t> result_of(const contender& one) const {
    on_.gpu.fill(out(0), 0xff, bytes());
    one.launch(0, 0);
    on_.gpu.wait();
    std::vector<std::uint16_t> got(bytes() / 2);
    out_[0].read(got.data(), bytes());
    return got;
  }
  // Every element is written and finite; every 97th block agrees with float64.
  bool attention_right(const contender& one) const {
    const std::vector<std::uint16_t> got = result_of(one);
    for (const std::uint16_t v : got)
      if ((v & 0x7f80) == 0x7f80) return false;
    int seen = 0;
    for (std::size_t s = 0; s + 1 < offsets_.size(); ++s)
      for (std::int64_t from = offsets_[s]; from < offsets_[s + 1]; from += 64)
        for (std::int64_t h = 0; h < heads; ++h)
          if (seen++ % 97 == 0 && !block_right(from, std::min<std::int64_t>(64, offsets_[s + 1] - from), h, got)) return false;
    return true;
  }
  bool streaming_right(const contender& one) {
    if (mixed_.empty()) {
      mixed_ = on_.values.copy(bytes() / 2, first(0, 0));
      for (int t : {1, 2}) {
        const std::vector<std::uint16_t> other = on_.values.copy(bytes() / 2, first(0, t));
        for (std::size_t i = 0; i < other.size(); ++i) mixed_[i] = static_cast<std::uint16_t>(mixed_[i] ^ other[i]);
      }
    }
    return result_of(one) == mixed_;
  }
  bool copy_right(const contender& one) const { return result_of(one) == on_.values.copy(bytes() / 2, first(0, 0)); }

 private:
  static std::uint64_t first(int set, int t) { return 700001 * static_cast<std::uint64_t>(set) + 1234577 * static_cast<std::uint64_t>(t); }
  double at(int t, std::int64_t token, std::int64_t head, int d) const { return on_.values.at(first(0, t), static_cast<std::uint64_t>((token * heads + head) * dimension_ + d)); }

  bool block_right(std::int64_t from, std::int64_t rows, std::int64_t head, const std::vector<std::uint16_t>& got) const {
    const double scale = 1 / std::sqrt(static_cast<double>(dimension_)), unit = problems::roundoff(bf16_element);
    std::vector<double> p(static_cast<std::size_t>(rows));
    for (std::int64_t i = 0; i < rows; ++i) {
      double largest = -1e300, sum = 0;
      for (std::int64_t j = 0; j < rows; ++j) {
        double s = 0;
        for (int d = 0; d < dimension_; ++d) s += at(0, from + i, head, d) * at(1, from + j, head, d);
        largest = std::max(largest, p[static_cast<std::size_t>(j)] = s * scale);
      }
      for (double& x : p) sum += x = std::exp(x - largest);
      for (int d = 0; d < dimension_; ++d) {
        double expected = 0, magnitude = 0;
        for (std::int64_t j = 0; j < rows; ++j) {
          const double term = p[static_cast<std::size_t>(j)] / sum * at(2, from + j, head, d);
          expected += term;
          magnitude += std::abs(term);
        }
        const double value = problems::decode(got[static_cast<std::size_t>(((from + i) * heads + head) * dimension_ + d)], bf16_element);
        if (!(std::abs(value - expected) <= (1.1 * unit + 0x1p-17) * magnitude + 1.01 * unit * std::abs(expected) + 0x1p-24)) return false;
      }
    }
    return true;
  }

  const setting& on_;
  int dimension_;
  std::vector<std::int32_t> offsets_;
  std::int64_t tokens_;
  device::buffer offsets_on_;
  std::vector<device::buffer> in_, out_;
  std::vector<std::uint16_t> mixed_;  // what the streaming kernels write
};

}  // namespace

std::string attention_shape::name() const {
  constexpr const char* kinds[] = {"", "_whole", "_single"};
  return cat("attention_d", dimension, kinds[static_cast<int>(batch)]);
}

std::vector<attention_shape> attention_shapes() {
  std::vector<attention_shape> all;
  for (const batch_kind b : {batch_kind::jagged, batch_kind::whole, batch_kind::single})
    for (const int d : {64, 128}) all.push_back({d, b});
  return all;
}

std::vector<row> measure_attention(const setting& on, const attention_shape& shape) {
  tensors data(on, shape);
  std::vector<contender> all;
  std::vector<bool> right;
  std::vector<double> bytes;
  const double array = static_cast<double>(data.bytes());

  all.push_back({"copy", [&](int set, std::uint64_t stream) { on.of.copy(data.out(set), data.in(set, 0), data.bytes(), stream); }});
  right.push_back(data.copy_right(all.back()));
  bytes.push_back(2 * array);
  for (const streaming_shape& s : streaming_shapes()) {
    const std::shared_ptr<device::module> code = on.gpu.load({.ptx = streaming_ptx(s), .cubin = {}});
    all.push_back({s.name(), [&on, &data, s, code](int set, std::uint64_t stream) {
                     on.gpu.run(*code, "stream", streaming_launch(s, data.in(set, 0), data.in(set, 1), data.in(set, 2), data.out(set), data.bytes(), stream));
                   }});
    right.push_back(data.streaming_right(all.back()));
    bytes.push_back(4 * array);
  }
  all.push_back({"tlx", [&](int set, std::uint64_t stream) { data.run_tlx(set, stream); }});
  right.push_back(data.attention_right(all.back()));
  bytes.push_back(4 * array);

  conditions seen;
  const std::vector<timing> times = interleave(on.gpu, on.of, all, {.count = on.rounds, .sets = tensors::sets, .ms_each = 2}, 21, &seen);
  double roof = 1e300;
  for (std::size_t i = 1; i + 1 < all.size(); ++i)
    if (right[i]) roof = std::min(roof, times[i].ms_p50);
  std::vector<row> rows;
  for (std::size_t i = 0; i < all.size(); ++i) {
    row r{shape.name(), all[i].name, {{"tokens", data.tokens()}, {"heads", heads}, {"dimension", shape.dimension}}, times[i].ms_p50, times[i].ms_p99, 0, bytes[i] / times[i].ms_p50 / 1e6, right[i], ""};
    if (all[i].name == "tlx") r.note = cat(roof / times[i].ms_p50, " of the fastest streaming kernel; ", static_cast<int>(seen.sm_clock_mhz), " MHz");
    print_row(r);
    rows.push_back(std::move(r));
  }
  return rows;
}

double copy_rate(const setting& on) {
  const std::size_t bytes = std::size_t{2} << 30;
  const device::buffer from(on.gpu, bytes), to(on.gpu, bytes);
  on.gpu.fill(from.where(), 0x3c, bytes);
  return 2.0 * static_cast<double>(bytes) / quick_ms(on.gpu, on.of, {"copy", [&](int, std::uint64_t stream) { on.of.copy(to.where(), from.where(), bytes, stream); }}, 1) / 1e6;
}

}  // namespace tlx::bench
