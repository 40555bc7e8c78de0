#include <cmath>
#include <cstring>
#include <memory>
#include <optional>
#include <random>

#include "bench/device/cases.hpp"
#include "bench/device/measure.hpp"
#include "tlx/host/gemm.hpp"
#include "tlx/support/text.hpp"

namespace tlx::bench {

namespace {

using problems::decode;
constexpr auto bf16_element = tile::element::bf16;

// Input sets of one shape, several times the L2 together, and the result that all implementations write.
class operands {
 public:
  operands(const setting& on, const gemm_shape& s) : on_(on), s_(s) {
    const std::int64_t width = s.e4m3 ? 1 : 2, set_bytes = s.batch * (width * (s.m * s.k + s.n * s.k) + 2 * s.m * s.n);
    sets_ = static_cast<int>(std::clamp<std::int64_t>((std::int64_t{256} << 20) / set_bytes + 1, 2, 8));
    if (s.e4m3) make_narrow_values();
    for (int i = 0; i < sets_; ++i) {
      fill(a_.emplace_back(on.gpu, static_cast<std::size_t>(width * s.batch * s.m * s.k)), s.batch * s.m * s.k, first_a(i));
      fill(b_.emplace_back(on.gpu, static_cast<std::size_t>(width * s.batch * s.n * s.k)), s.batch * s.n * s.k, first_b(i));
      c_.emplace_back(on.gpu, bytes(s.batch * s.m * s.n));
    }
    if (s.bias_gelu) {  // the same values in both types
      bias_.resize(static_cast<std::size_t>(s.n));
      std::vector<std::uint16_t> narrow(bias_.size());
      for (std::size_t j = 0; j < bias_.size(); ++j) {
        narrow[j] = on.values.bits(99, j);
        bias_[j] = static_cast<float>(on.values.at(99, j));
      }
      bias_f32_ = device::buffer(on.gpu, bias_.size() * 4);
      bias_f32_.write(bias_.data(), bias_.size() * 4);
      bias_bf16_ = device::buffer(on.gpu, narrow.size() * 2);
      bias_bf16_.write(narrow.data(), narrow.size() * 2);
    }
  }
  int sets() const { return sets_; }

  product for_cublas(int set) const {
    const auto i = static_cast<std::size_t>(set);
    return {s_.m, s_.n, s_.k, a_[i].where(), b_[i].where(), c_[i].where(), s_.bias_gelu ? bias_bf16_.where() : 0, s_.bias_gelu, s_.batch,
            s_.e4m3 ? scales_.where() : 0, s_.e4m3 ? scales_.where() + 16 : 0, s_.promoted};
  }
  host::gemm_options options() const {
    host::gemm_options how;
    if (s_.bias_gelu) how.bias = bias_f32_.where(), how.activate = host::activation::gelu_tanh;
    how.batch = s_.batch;
    if (s_.e4m3) {
      how.type = tile::element::e4m3;
      how.scale_a.data = scales_.where();
      how.scale_b.data = scales_.where() + 16;
      how.promoted = s_.promoted;
    }
    return how;
  }
  void run_tlx(int set, std::uint64_t stream, const std::optional<host::gemm_schedule>& schedule = {}) const {
    const auto i = static_cast<std::size_t>(set);
    host::gemm_options how = options();
    how.stream = stream;
    how.schedule = schedule;
    host::gemm(on_.session, a(i), b(i), c(i), how);
  }
  std::vector<host::gemm_estimate> schedules() const { return host::gemm_schedules(on_.session, a(0), b(0), c(0), options()); }

  // Poisons the result, runs once, compares sampled elements with float64 and all of them with the first implementation that was right.
  bool right(const contender& one) {
    const std::int64_t rows = s_.batch * s_.m;
    on_.gpu.fill(c_[0].where(), 0xff, bytes(rows * s_.n));
    one.launch(0, 0);
    on_.gpu.wait();
    std::vector<std::uint16_t> got(static_cast<std::size_t>(rows * s_.n));
    c_[0].read(got.data(), got.size() * 2);
    std::mt19937_64 pick(s_.m * 31 + s_.n);
    for (int sample = 0; sample < 512; ++sample) {
      const auto i = static_cast<std::int64_t>(pick() % static_cast<std::uint64_t>(rows)), j = static_cast<std::int64_t>(pick() % static_cast<std::uint64_t>(s_.n));
      if (!element_right(i, j, decode(got[static_cast<std::size_t>(i * s_.n + j)], bf16_element))) return false;
    }
    if (first_.empty()) {
      for (const std::uint16_t v : got)
        if (std::isnan(decode(v, bf16_element))) return false;
      first_ = std::move(got);
      return true;
    }
    double off = 0, size = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double x = decode(got[i], bf16_element), y = decode(first_[i], bf16_element);
      off += (x - y) * (x - y);
      size += y * y;
    }
    return off <= (s_.e4m3 ? 400e-6 : 25e-6) * size;  // two roundings to bf16 differ by 2e-3 of the norm at most; NaN fails
  }

 private:
  host::matrix a(std::size_t i) const { return {a_[i].where(), s_.m, s_.k, 0, false}; }
  host::matrix b(std::size_t i) const { return {b_[i].where(), s_.k, s_.n, 0, true}; }
  host::matrix c(std::size_t i) const { return {c_[i].where(), s_.m, s_.n, 0, false}; }
  static std::size_t bytes(std::int64_t elements) { return static_cast<std::size_t>(elements) * 2; }
  static std::uint64_t first_a(int set) { return 1000003 * static_cast<std::uint64_t>(set); }
  static std::uint64_t first_b(int set) { return 1000003 * static_cast<std::uint64_t>(set) + 555557; }

  bool element_right(std::int64_t i, std::int64_t j, double value) const {
    double sum = 0, weight = 0;
    for (std::int64_t k = 0; k < s_.k; ++k) {
      const double x = input(first_a(0), i * s_.k + k) * input(first_b(0), (i / s_.m * s_.n + j) * s_.k + k);
      sum += x;
      weight += std::abs(x);
    }
    double expected = sum;
    if (s_.bias_gelu) {
      const double before = sum + static_cast<double>(bias_[static_cast<std::size_t>(j)]);
      expected = problems::activate(before, host::activation::gelu_tanh);
      weight += std::abs(before) * 0x1p-10 / (static_cast<double>(s_.k) * 0x1p-26);  // tanh.approx: relative error 2^-11
    }
    // truncated f32 sums in steps of 16, then one rounding to bf16; fast 8-bit sums lose up to 2^-13 of each step of 32, at random
    const double narrow = s_.e4m3 ? std::sqrt(static_cast<double>(s_.k) / 32) * 0x1p-13 * std::sqrt(static_cast<double>(s_.k)) * 8 : 0;
    const double tolerance = narrow + static_cast<double>(s_.k) * 0x1p-26 * weight * 1.13 + 1.01 * problems::roundoff(bf16_element) * std::abs(expected) + 1e-6;
    return std::abs(value - expected) <= tolerance;
  }

  // The pool's values in e4m3, and the two scales of 1: what they cost is what is measured.
  void make_narrow_values() {
    for (std::uint64_t i = 0; i < narrow_period; ++i) narrow_.push_back(e4m3(on_.values.at(0, i)));
    std::vector<float> ones(8, 1.0f);
    scales_ = device::buffer(on_.gpu, ones.size() * 4);
    scales_.write(ones.data(), ones.size() * 4);
  }
  void fill(device::buffer& to, std::int64_t count, std::uint64_t first) {
    if (!s_.e4m3) return on_.values.fill(on_.gpu, to.where(), static_cast<std::uint64_t>(count), first);
    for (std::uint64_t done = 0, from = first % narrow_period; done < static_cast<std::uint64_t>(count); from = 0) {
      const std::uint64_t now = std::min(static_cast<std::uint64_t>(count) - done, narrow_period - from);
      on_.gpu.write(to.where() + done, narrow_.data() + from, now);
      done += now;
    }
  }
  double input(std::uint64_t first, std::int64_t i) const {
    if (!s_.e4m3) return on_.values.at(first, static_cast<std::uint64_t>(i));
    return static_cast<double>(static_cast<float>(narrow_[(first + static_cast<std::uint64_t>(i)) % narrow_period]));
  }

  static constexpr std::uint64_t narrow_period = 1048573;  // prime
  const setting& on_;
  gemm_shape s_;
  std::vector<e4m3> narrow_;
  device::buffer scales_;
  int sets_ = 1;
  std::vector<device::buffer> a_, b_, c_;
  std::vector<float> bias_;
  device::buffer bias_f32_, bias_bf16_;
  std::vector<std::uint16_t> first_;
};

struct best_of {
  int index = -1, count = 0;
};

// The fastest of cuBLASLt's candidates: all interleaved for a few rounds.
best_of fastest(const setting& on, cublas::plan& plan, const operands& data) {
  std::vector<contender> all;
  for (int i = 0; i < plan.candidates(); ++i)
    all.push_back({cat("candidate ", i), [&plan, &data, i](int set, std::uint64_t stream) { plan.run(i, data.for_cublas(set), stream); }});
  if (all.empty()) return {};
  const std::vector<timing> times = interleave(on.gpu, on.of, all, {.count = 7, .sets = data.sets(), .ms_each = 1, .warm_up_ms = 20}, 5);
  best_of best{0, plan.candidates()};
  for (std::size_t i = 1; i < times.size(); ++i)
    if (times[i].ms_p50 < times[static_cast<std::size_t>(best.index)].ms_p50) best.index = static_cast<int>(i);
  return best;
}

}  // namespace

std::string gemm_shape::name() const { return cat(e4m3 ? promoted ? "gemm_e4m3_promoted_" : "gemm_e4m3_" : bias_gelu ? "gemm_bias_gelu_" : batch > 1 ? "gemm_batched_" : "gemm_", batch > 1 ? cat(batch, "x") : "", m, "x", n, "x", k); }

std::vector<gemm_shape> gemm_shapes() {
  return {{4096, 4096, 4096}, {8192, 8192, 8192}, {2048, 2048, 2048}, {8192, 8192, 512}, {4096, 11008, 4096}, {16384, 16384, 16384}, {8192, 28672, 8192}, {8192, 8192, 28672},
          {4000, 4000, 4000}, {4096, 4096, 4096, true}, {8192, 8192, 8192, true},
          {16, 8192, 8192}, {64, 8192, 8192}, {128, 8192, 8192}, {512, 8192, 8192}, {64, 64, 64, false, 4096},
          {4096, 4096, 4096, false, 1, true}, {8192, 8192, 8192, false, 1, true}, {4096, 4096, 4096, false, 1, true, true}, {8192, 8192, 8192, false, 1, true, true},
          {8192, 28672, 8192, false, 1, true}, {8192, 28672, 8192, false, 1, true, true}};
}

std::vector<row> measure_gemm(const setting& on, const gemm_shape& shape) {
  operands data(on, shape);
  std::vector<contender> all;
  std::vector<std::string> notes;
  std::unique_ptr<cublas::plan> plan;
  if (on.peer) {
    plan = on.peer->prepare(data.for_cublas(0), 16);
    const bool plain = !shape.bias_gelu && !shape.e4m3 && shape.batch == 1;
    if (!plain) all.push_back({"cublaslt", [&](int set, std::uint64_t stream) { plan->run(0, data.for_cublas(set), stream); }});
    else all.push_back({"cublas", [&](int set, std::uint64_t stream) { on.peer->gemm_ex(data.for_cublas(set), stream); }});
    notes.push_back("its own choice");
    const best_of best = fastest(on, *plan, data);
    if (best.index >= 0) {
      all.push_back({"cublaslt_best", [&plan, &data, i = best.index](int set, std::uint64_t stream) { plan->run(i, data.for_cublas(set), stream); }});
      notes.push_back(cat("candidate ", best.index, " of ", best.count));
    }
  }
  const std::size_t peers = all.size();
  all.push_back({"tlx", [&](int set, std::uint64_t stream) { data.run_tlx(set, stream); }});
  notes.push_back("");
  if (on.schedules)
    for (const host::gemm_estimate& e : data.schedules()) {
      const host::gemm_schedule& s = e.schedule;
      all.push_back({cat("tlx ", s.rows, "x", s.cols, s.cluster > 1 ? cat(" c", s.cluster) : std::string(), s.parts > 1 ? cat(" p", s.parts) : std::string(), s.swapped ? " swapped" : "", s.in_turns ? " turns" : ""),
                     [&data, s](int set, std::uint64_t stream) { data.run_tlx(set, stream, s); }});
      notes.push_back(cat("expected ", e.us, " us, bound by ", e.bound));
    }

  std::vector<bool> right;
  for (const contender& c : all) right.push_back(data.right(c));
  std::vector<row> rows;
  const double flops = 2.0 * static_cast<double>(shape.batch * shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
  const auto add = [&](const std::vector<timing>& times, const std::string& suffix, const conditions& seen) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      row r{shape.name() + suffix, all[i].name, {{"m", shape.m}, {"n", shape.n}, {"k", shape.k}}, times[i].ms_p50, times[i].ms_p99, flops / times[i].ms_p50 / 1e9, 0, right[i], notes[i]};
      if (all[i].name == "tlx") {
        r.note = cat(static_cast<int>(seen.sm_clock_mhz), " MHz, ", static_cast<int>(seen.power_watts), " W");
        if (on.peer) r.note += cat("; ", times[0].ms_p50 / times[i].ms_p50, " x ", all[0].name, ", ", times[peers - 1].ms_p50 / times[i].ms_p50, " x ", all[peers - 1].name);
      }
      print_row(r);
      rows.push_back(std::move(r));
    }
  };
  conditions seen;
  const std::vector<timing> burst = interleave(on.gpu, on.of, all, {.count = on.rounds, .sets = data.sets()}, 11, &seen);
  add(burst, "", seen);
  if (on.sustained && shape.m * shape.n * shape.k >= std::int64_t{4096} * 4096 * 4096 && !shape.bias_gelu && !shape.e4m3) {
    const std::vector<timing> times = interleave(on.gpu, on.of, all, {.count = 5, .sets = data.sets(), .ms_each = 250, .warm_up_ms = 500}, 12, &seen);
    add(times, "_sustained", seen);
  }
  return rows;
}

double cublas_rate(const setting& on) {
  if (!on.peer) return 0;
  operands data(on, {8192, 8192, 8192});
  const double ms = quick_ms(on.gpu, on.of, {"cublas", [&](int set, std::uint64_t stream) { on.peer->gemm_ex(data.for_cublas(set), stream); }}, data.sets());
  return 2.0 * 8192 * 8192 * 8192 / ms / 1e9;
}

}  // namespace tlx::bench
