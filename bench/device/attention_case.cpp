#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>

#include "bench/device/cases.hpp"
#include "bench/device/measure.hpp"
#include "bench/device/streaming.hpp"
#include "tests/support/attention_reference.hpp"
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
  if (kind == batch_kind::few)
    for (int i = 0; i < 32; ++i) offsets.push_back(offsets.back() + 64 + static_cast<std::int32_t>(bits() % 193));
  else
    for (int i = 0; i < 1152; ++i) offsets.push_back(offsets.back() + (kind == batch_kind::whole ? 512 : 1 + static_cast<std::int32_t>(bits() % 1024)));
  return offsets;
}

class tensors {
 public:
  tensors(const setting& on, const attention_shape& shape) : on_(on), shape_(shape), offsets_(offsets_of(shape.batch)), tokens_(offsets_.back()) {
    offsets_on_ = device::buffer(on.gpu, offsets_.size() * 4);
    offsets_on_.write(offsets_.data(), offsets_.size() * 4);
    if (rotates()) make_tables();
    for (int set = 0; set < sets; ++set)
      for (int t = 0; t < inputs() + outputs(); ++t) {
        all_.emplace_back(on.gpu, bytes());
        if (t < inputs()) on.values.fill(on.gpu, all_.back().where(), bytes() / 2, first(set, t));
      }
  }
  static constexpr int sets = 2;
  int inputs() const { return shape_.backward ? 4 : 3; }
  int outputs() const { return shape_.backward ? 3 : 1; }
  std::int64_t tokens() const { return tokens_; }
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(tokens_ * heads * shape_.dimension) * 2; }
  device::address at(int set, int t) const { return buffer(set, t).where(); }
  std::vector<device::address> arrays(int set) const {
    std::vector<device::address> found;
    for (int t = 0; t < inputs() + outputs(); ++t) found.push_back(at(set, t));
    return found;
  }

  void run_tlx(int set, std::uint64_t stream) const {
    host::attention_problem p;
    p.token_count = tokens_;
    p.heads = heads;
    p.dimension = shape_.dimension;
    p.block = shape_.block;
    p.offsets = offsets_on_.where();
    p.batch = static_cast<std::int64_t>(offsets_.size()) - 1;
    p.stream = stream;
    if (rotates())
      p.rotary = {.cos = tables_on_[0].where(), .sin = tables_on_[1].where(), .rows = positions, .interleaved = shape_.rotary == rotation::neighbours, .applied = shape_.rotary == rotation::halves_applied};
    const auto tensor = [&](int t) { return host::tokens{at(set, t)}; };
    if (shape_.backward) host::block_attention_backward(on_.session, tensor(0), tensor(1), tensor(2), tensor(3), tensor(4), tensor(5), tensor(6), p);
    else host::block_attention(on_.session, tensor(0), tensor(1), tensor(2), tensor(3), p);
  }

  // Every element is written and finite; every 97th block agrees with float64.
  bool attention_right(const contender& one) const {
    const std::vector<std::vector<std::uint16_t>> got = results_of(one, outputs());
    for (const auto& result : got)
      for (const std::uint16_t v : result)
        if ((v & 0x7f80) == 0x7f80) return false;
    int seen = 0;
    for (std::size_t s = 0; s + 1 < offsets_.size(); ++s)
      for (std::int64_t from = offsets_[s]; from < offsets_[s + 1]; from += shape_.block)
        for (std::int64_t h = 0; h < heads; ++h)
          if (seen++ % 97 == 0 && !block_right(from, std::min<std::int64_t>(shape_.block, offsets_[s + 1] - from), h, from - offsets_[s], got)) return false;
    return true;
  }
  bool streaming_right(const contender& one) {
    if (mixed_.empty()) {
      mixed_ = on_.values.copy(bytes() / 2, first(0, 0));
      for (int t = 1; t < inputs(); ++t) {
        const std::vector<std::uint16_t> other = on_.values.copy(bytes() / 2, first(0, t));
        for (std::size_t i = 0; i < other.size(); ++i) mixed_[i] = static_cast<std::uint16_t>(mixed_[i] ^ other[i]);
      }
    }
    const std::vector<std::vector<std::uint16_t>> got = results_of(one, outputs());
    for (std::size_t w = 0; w < got.size(); ++w)
      for (std::size_t i = 0; i < mixed_.size(); i += 2) {
        std::uint32_t wanted, found;
        std::memcpy(&wanted, &mixed_[i], 4);
        std::memcpy(&found, &got[w][i], 4);
        if (found != (w ? wanted << w | wanted >> (32 - w) : wanted)) return false;
      }
    return true;
  }
  bool copy_right(const contender& one) const { return results_of(one, 1)[0] == on_.values.copy(bytes() / 2, first(0, 0)); }

 private:
  using rotation = attention_shape::rotation;
  bool rotates() const { return shape_.rotary != rotation::none; }
  static constexpr std::int64_t positions = 1024;  // the longest sequence
  void make_tables() {
    const int half = shape_.dimension / 2;
    for (std::int64_t row = 0; row < positions; ++row)
      for (int d = 0; d < half; ++d) {
        const double angle = static_cast<double>(row) * std::pow(10000.0, -static_cast<double>(d) / half);
        tables_[0].push_back(static_cast<float>(std::cos(angle)));
        tables_[1].push_back(static_cast<float>(std::sin(angle)));
      }
    for (int i : {0, 1}) {
      tables_on_[i] = device::buffer(on_.gpu, tables_[i].size() * 4);
      tables_on_[i].write(tables_[i].data(), tables_[i].size() * 4);
    }
  }
  static std::uint64_t first(int set, int t) { return 700001 * static_cast<std::uint64_t>(set) + 1234577 * static_cast<std::uint64_t>(t); }
  const device::buffer& buffer(int set, int t) const { return all_[static_cast<std::size_t>((inputs() + outputs()) * set + t)]; }

  std::vector<std::vector<std::uint16_t>> results_of(const contender& one, int count) const {
    for (int i = 0; i < count; ++i) on_.gpu.fill(at(0, inputs() + i), 0xff, bytes());
    one.launch(0, 0);
    on_.gpu.wait();
    std::vector<std::vector<std::uint16_t>> got;
    for (int i = 0; i < count; ++i) {
      got.emplace_back(bytes() / 2);
      buffer(0, inputs() + i).read(got.back().data(), bytes());
    }
    return got;
  }

  bool block_right(std::int64_t from, std::int64_t rows, std::int64_t head, std::int64_t position, const std::vector<std::vector<std::uint16_t>>& got) const {
    const problems::attention_rule rule{.type = bf16_element, .scale = 1 / std::sqrt(static_cast<double>(shape_.dimension))};
    const auto place = [&](std::int64_t i, std::int64_t d) { return static_cast<std::size_t>(((from + i) * heads + head) * shape_.dimension + d); };
    std::vector<problems::bounded_matrix> in;
    for (int t = 0; t < inputs(); ++t)
      in.emplace_back(rows, shape_.dimension, [&](std::int64_t i, std::int64_t d) { return on_.values.at(first(0, t), place(i, d)); });
    const auto table = [&](int which) { return [&, which](std::int64_t i, std::int64_t d) { return tables_[which][static_cast<std::size_t>((position + i) * (shape_.dimension / 2) + d)]; }; };
    const problems::rotary_rule turn{shape_.rotary == rotation::neighbours, table(0), table(1)};
    if (rotates() && shape_.rotary != rotation::halves_applied)
      for (std::size_t t : {0, 1}) in[t] = problems::rotated(in[t], turn, bf16_element);
    std::vector<problems::bounded_matrix> wanted =
        shape_.backward ? problems::block_gradients(rule, in[0], in[1], in[2], in[3]) : std::vector<problems::bounded_matrix>{problems::block_result(rule, in[0], in[1], in[2])};
    if (rotates() && shape_.backward)
      for (std::size_t w : {0, 1}) problems::rotate_back(wanted[w], turn);
    for (std::size_t w = 0; w < wanted.size(); ++w)
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t d = 0; d < shape_.dimension; ++d)
          if (!(std::abs(problems::decode(got[w][place(i, d)], bf16_element) - wanted[w].at(i, d)) <= wanted[w].tolerance(i, d, bf16_element))) return false;
    return true;
  }

  const setting& on_;
  attention_shape shape_;
  std::vector<std::int32_t> offsets_;
  std::int64_t tokens_;
  device::buffer offsets_on_;
  std::vector<device::buffer> all_;   // set by set: inputs, then results
  std::vector<float> tables_[2];      // cos, sin
  device::buffer tables_on_[2];
  std::vector<std::uint16_t> mixed_;  // what the streaming kernels write first
};

}  // namespace

namespace {
// Microseconds from the call to the end of one launch on an idle GPU.
double launch_to_finish(const setting& on, const contender& one) {
  runtime::stream stream(on.gpu);
  std::vector<double> us;
  for (int i = 0; i < 201; ++i) {
    stream.wait();
    const auto start = std::chrono::steady_clock::now();
    one.launch(i % tensors::sets, stream.handle());
    stream.wait();
    us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(us.begin(), us.begin() + 100, us.end());
  return us[100];
}
// A kernel that does nothing: what launching, and waiting for it, costs by itself.
contender nothing(const setting& on) {
  const std::shared_ptr<device::module> code = on.gpu.load({.ptx = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry nothing()\n{\nret;\n}\n", .cubin = {}});
  return {"nothing", [&on, code](int, std::uint64_t stream) { on.gpu.run(*code, "nothing", {.grid = {1, 1, 1}, .block = {32, 1, 1}, .stream = stream}); }};
}
}  // namespace

std::string attention_shape::name() const {
  constexpr const char* kinds[] = {"", "_whole", "_single", "_few"};
  constexpr const char* rotations[] = {"", "rotary_", "rotary_interleaved_", "rotary_applied_"};
  return cat("attention_", backward ? "backward_" : "", rotations[static_cast<int>(rotary)], block == 64 ? "" : cat("b", block, "_"), "d", dimension, kinds[static_cast<int>(batch)]);
}

std::vector<attention_shape> attention_shapes() {
  std::vector<attention_shape> all;
  for (const bool backward : {false, true})
    for (const batch_kind b : {batch_kind::jagged, batch_kind::whole, batch_kind::single})
      for (const int d : {64, 128}) all.push_back({d, b, backward});
  for (const bool backward : {false, true})
    for (const auto r : {attention_shape::rotation::halves, attention_shape::rotation::neighbours, attention_shape::rotation::halves_applied})
      for (const int d : {64, 128})
        if (backward || r != attention_shape::rotation::halves_applied) all.push_back({.dimension = d, .backward = backward, .rotary = r});
  for (const bool backward : {false, true}) {
    for (const int d : {96, 256}) all.push_back({d, batch_kind::jagged, backward});
    for (const int d : {64, 96, 128}) all.push_back({d, batch_kind::jagged, backward, 128});
    for (const int d : {64, 128}) all.push_back({d, batch_kind::jagged, backward, 256});
    for (const int d : {64, 128}) all.push_back({d, batch_kind::few, backward});
  }
  return all;
}

std::vector<row> measure_attention(const setting& on, const attention_shape& shape) {
  tensors data(on, shape);
  std::vector<contender> all;
  std::vector<bool> right;
  std::vector<double> bytes;
  const double array = static_cast<double>(data.bytes());

  all.push_back({"copy", [&](int set, std::uint64_t stream) { on.of.copy(data.at(set, data.inputs()), data.at(set, 0), data.bytes(), stream); }});
  right.push_back(data.copy_right(all.back()));
  bytes.push_back(2 * array);
  const double moved = (data.inputs() + data.outputs()) * array;
  for (const streaming_shape& s : streaming_shapes(data.inputs(), data.outputs())) {
    const std::shared_ptr<device::module> code = on.gpu.load({.ptx = streaming_ptx(s), .cubin = {}});
    all.push_back({s.name(), [&on, &data, s, code](int set, std::uint64_t stream) { on.gpu.run(*code, "stream", streaming_launch(s, data.arrays(set), data.bytes(), stream)); }});
    right.push_back(data.streaming_right(all.back()));
    bytes.push_back(moved);
  }
  all.push_back({"tlx", [&](int set, std::uint64_t stream) { data.run_tlx(set, stream); }});
  right.push_back(data.attention_right(all.back()));
  bytes.push_back(moved);

  conditions seen;
  const std::vector<timing> times = interleave(on.gpu, on.of, all, {.count = on.rounds, .sets = tensors::sets, .ms_each = 2}, 21, &seen);
  double roof = 1e300;
  for (std::size_t i = 1; i + 1 < all.size(); ++i)
    if (right[i]) roof = std::min(roof, times[i].ms_p50);
  std::vector<row> rows;
  for (std::size_t i = 0; i < all.size(); ++i) {
    row r{shape.name(), all[i].name, {{"tokens", data.tokens()}, {"heads", heads}, {"dimension", shape.dimension}}, times[i].ms_p50, times[i].ms_p99, 0, bytes[i] / times[i].ms_p50 / 1e6, right[i], ""};
    if (all[i].name == "tlx") r.note = cat(roof / times[i].ms_p50, " of the fastest streaming kernel; ", static_cast<int>(seen.sm_clock_mhz), " MHz");
    if (all[i].name == "tlx" && shape.batch == batch_kind::few) {
      const double us = launch_to_finish(on, all[i]);
      r.note += cat("; launch to finish ", us, " us, ", us / (roof * 1e3 + 5), " of streaming and 5 us; so does an empty kernel in ", launch_to_finish(on, nothing(on)), " us, streaming in ",
                    launch_to_finish(on, all[1]));
    }
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
