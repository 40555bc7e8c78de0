// Which cuts there are for a product, and what each is expected to take. Cycles of a persistent kernel: full rounds of tiles over the processors, each its
// products and its start; within 1.5 % of what was measured on an H200 (bench/LOG.md). Bytes: every operand once from memory, and through L2 once for each
// tile, or for each cluster where its tiles share it; and what one processor takes in. The longest is the bound.
#include <algorithm>
#include <cstdio>

#include "host/gemm_plan.hpp"
#include "tlx/support/text.hpp"

namespace tlx::host {

namespace {

// Cycles and bytes a microsecond, of the whole chip but for `fill`, what one processor takes in. H200: measured (clock of large products under the power limit;
// L2 gives less while memory streams through it). B200: published, a prediction.
struct chip {
  bool wgmma;
  int processors;
  double products_clock, memory, l2, l2_streaming, fill;
};
chip chip_of(const std::string& target, int processors) {
  if (target == "sm_90a") return {true, processors, 1400, 4.27e6, 10.6e6, 7.0e6, 9e4};
  return {false, processors, 1350, 7.0e6, 20.5e6, 16e6, 70 * 1350};
}

std::int64_t pieces(std::int64_t whole, std::int64_t piece) { return (whole + piece - 1) / piece; }

// Clusters lie inside of a group of processors whose number fours do not divide: of 33 clusters of four an H200 holds 30.
int ctas_at_once(const chip& on, int cluster) { return cluster <= 1 ? on.processors : std::max(cluster, cluster == 2 ? on.processors / 2 * 2 : on.processors * 10 / 11 / cluster * cluster); }

// Cycles of one product of 64 rows, n columns and 32 bytes of K: the tensor cores', or those that reading both operands from shared memory takes.
double product_cycles(const chip& on, int n) { return on.wgmma ? std::max(n / 2.0, 16 + n / 4.0) : std::max(n / 4.0, 16 + n / 8.0); }

// Work of an epilogue on one element in cycles of a processor, of whose four schedulers each takes an instruction of 32 threads a cycle: what stands between the
// products of two tiles on Hopper, unless roles take turns. Loads of a matrix wait for memory, too.
double epilogue_cycles(const gemm_epilogue& f) {
  const double activation_of[] = {0, 1, 12, 7, 6};
  return ((f.bias ? 1 : 0) + activation_of[static_cast<int>(f.activate)] + (f.residual ? 8 : 0) + (f.before ? 3 : 0) + (f.clamp ? 2 : 0)) / 128;
}
bool is_heavy(const gemm_epilogue& f) { return f.residual || f.before || f.activate > activation::relu; }

gemm_estimate estimate(const gemm_choice& c, const gemm_extents& e, const chip& on) {
  gemm_estimate made;
  made.kernel = name_of(c);
  made.schedule = {c.swapped ? c.n : c.m, c.swapped ? c.m : c.n, c.cluster, c.parts, c.swapped, c.turns};
  const int rows = made.schedule.rows, cols = made.schedule.cols;
  const double size = tile::bits(c.a) / 8.0, bytes_of_k = static_cast<double>(std::max<std::int64_t>(e.k, 1)) * size / c.parts;
  const bool shares_rows = c.cluster > 1 && (c.swapped || c.n < 128);  // of a; otherwise columns of b
  const auto tiles_along = [&](std::int64_t extent, int each, bool neighbours) { return neighbours ? pieces(extent, each * c.cluster) * c.cluster : pieces(extent, each); };
  made.tiles = tiles_along(e.rows, rows, !shares_rows) * tiles_along(e.cols, cols, shares_rows) * c.parts;
  const bool pair = c.cluster == 2 && !on.wgmma && !is_for_few_rows(c);  // each takes in half of b's columns
  const int at_once = ctas_at_once(on, c.cluster);
  made.rounds = pieces(made.tiles, at_once);
  made.fill = made.tiles ? static_cast<double>(made.tiles) / static_cast<double>(made.rounds * std::max(on.processors, at_once)) : 0;
  const double steps = bytes_of_k / 32, cycles = c.m / 64.0 * product_cycles(on, c.n) * steps * 1.03;
  const double promoted = c.promoted ? c.m * c.n / 128.0 * bytes_of_k / 128 * 0.6 : 0;  // additions that are not hidden
  const double exposed = c.parts > 1 || c.turns || !on.wgmma || !is_heavy(c.finish) ? 0 : 1.2 * c.m * c.n * epilogue_cycles(c.finish);
  const double end = c.turns && made.rounds > 1 ? 400 : 1000;
  made.products_us = (static_cast<double>(made.rounds) * (cycles + promoted + exposed + end) + 5000) / on.products_clock;
  const double of_a = static_cast<double>(e.rows * e.k) * size, of_b = static_cast<double>(e.cols * e.k) * size, of_c = static_cast<double>(e.rows * e.cols) * tile::bits(c.c) / 8.0;
  const double sums = c.parts > 1 ? static_cast<double>(e.rows * e.cols) * 4 * c.parts : 0;
  made.memory_bytes = static_cast<std::int64_t>(of_a + of_b + of_c);
  made.l2_bytes = static_cast<std::int64_t>(static_cast<double>(made.tiles) * bytes_of_k * (rows / (shares_rows ? c.cluster : 1.0) + cols / (c.cluster > 1 && !shares_rows ? c.cluster : 1.0)) + of_c + 2 * sums);
  constexpr double start_us = 2.5, second_kernel_us = 5;
  made.memory_us = static_cast<double>(made.memory_bytes) / on.memory + start_us;
  made.l2_us = std::max(static_cast<double>(made.l2_bytes) / (is_for_few_rows(c) ? on.l2_streaming : c.turns ? on.l2 * 1.08 : on.l2), static_cast<double>(made.rounds) * (rows + cols / (pair ? 2.0 : 1.0)) * bytes_of_k / on.fill) + start_us;
  made.us = std::max({made.products_us, made.memory_us, made.l2_us});
  made.bound = made.us == made.products_us ? "products" : made.us == made.memory_us ? "memory" : "L2";
  if (c.parts > 1) made.us += second_kernel_us;
  if (is_for_few_rows(c) && !c.swapped) made.us *= 1 + 0.5 * static_cast<double>(rows - std::min<std::int64_t>(e.rows, rows)) / rows;  // copies of rows that are not there are slow
  return made;
}

class list {
 public:
  list(const gemm_choice& base, const gemm_extents& e, const chip& on) : base_(base), e_(e), on_(on) {}

  void add(const gemm_choice& c) {
    for (const gemm_offer& o : all_)
      if (o.choice.m == c.m && o.choice.n == c.n && o.choice.cluster == c.cluster && o.choice.parts == c.parts && o.choice.swapped == c.swapped && o.choice.turns == c.turns) return;
    all_.push_back({c, estimate(c, e_, on_)});
  }
  void add(int m, int n, int cluster = 1) {
    gemm_choice c = base_;
    c.m = m, c.n = n, c.cluster = cluster;
    add(c);
  }
  // Of equals the widest, which moves the fewest bytes. In short bursts narrower tiles gain what the rounds say; under the power limit they lose 2 to 3 % of the clock.
  std::vector<gemm_offer> best_first() {
    const auto weight = [](const gemm_offer& o) { return o.estimate.us * (o.choice.n < 256 && !is_for_few_rows(o.choice) ? 1.001 : 1); };
    std::stable_sort(all_.begin(), all_.end(), [&](const gemm_offer& x, const gemm_offer& y) { return weight(x) < weight(y); });
    return std::move(all_);
  }
  std::vector<gemm_offer> as_added() { return std::move(all_); }

 private:
  const gemm_choice& base_;
  const gemm_extents& e_;
  const chip& on_;
  std::vector<gemm_offer> all_;
};

// As many parts as leave no processor idle: memory is read at full speed when all of them read. Whole steps of K, and rows that a bulk copy can address.
int parts_of(const gemm_choice& made, const gemm_extents& e, int processors) {
  const std::int64_t tiles = pieces(e.cols, made.m) * pieces(e.rows, made.n);
  int best = 1;
  for (const int parts : {2, 3, 4, 6, 8})
    if (tiles * parts <= processors && e.k % parts == 0 && e.k / parts % 64 == 0 && e.k / parts >= 256) best = parts;
  return best;
}

void add_few_rows(list& all, const gemm_choice& base, const gemm_extents& e, const chip& on) {
  gemm_choice c = base;
  c.swapped = true;
  c.by_threads = false;  // the result goes out by threads anyway
  c.n = e.rows <= 16 ? 16 : e.rows <= 32 ? 32 : e.rows <= 64 ? 64 : 128;
  c.m = c.n <= 32 ? 64 : 128;
  c.parts = parts_of(c, e, on.processors);
  all.add(c);
  if (on.wgmma && c.n >= 64) {
    gemm_choice pair = c;
    pair.cluster = 2;
    all.add(pair);
  }
  c.parts = 1;
  all.add(c);
  if (!on.wgmma || base.by_threads) return;
  const int rows = e.rows <= 64 ? 64 : 128;
  all.add(rows, 64, 2);
  all.add(rows, 72, 4);
}

}  // namespace

std::vector<gemm_offer> offers_of(const gemm_choice& base, const gemm_extents& e, bool few_rows, bool residual_in_bulk, const std::string& target, int processors) {
  const chip on = chip_of(target, processors);
  list all(base, e, on);
  const bool wide_type = tile::bits(base.a) == 16, k_contiguous = !base.ta && base.tb;
  const std::int64_t columns = pieces(e.cols, 128);
  if (few_rows && e.rows > 0 && e.rows <= 128 && e.cols > 0 && e.k > 0 && (e.rows <= 64 || columns < processors)) {
    add_few_rows(all, base, e, on);
    if (!base.by_threads) all.add(128, 128), all.add(128, 256);
    return all.best_first();
  }
  if (base.batched || base.by_threads) {
    const int side = base.batched && !base.by_threads && wide_type && e.rows <= 64 && e.cols <= 64 ? 64 : 128;
    all.add(side, side);
    return all.as_added();
  }
  if (base.promoted) {
    all.add(128, 192);
    all.add(128, 176);
    all.add(128, 128);
    return all.best_first();
  }
  if (e.cols > 128) all.add(128, 256);
  all.add(128, 128);
  const bool narrow_floats = tile::bits(base.a) == 8 && !tile::is_integer(base.a);
  // What a pair takes in is a third less; where that is no bound, CTAs alone come first: they wait for nobody.
  if (!on.wgmma && ((wide_type && base.a == base.c) || (narrow_floats && k_contiguous)) && e.cols > 128) all.add(128, 256, 2);
  if (!on.wgmma && k_contiguous && wide_type && base.a == base.c) all.add(128, 128, 2);
  if (on.wgmma && k_contiguous && wide_type && base.a == base.c) all.add(128, 224), all.add(128, 208);
  // In turns the end of a tile, and what work there is at it, is done beside the products of the next. 128 columns ask more of L2 than long products have to give.
  gemm_choice turns = base;
  turns.m = 128, turns.n = 128, turns.turns = true;
  const bool can_turn = on.wgmma && k_contiguous && wide_type && base.a == base.c && e.cols > 128 && residual_in_bulk;
  const bool short_of_k = e.k <= (is_heavy(base.finish) ? 2048 : 1024) || (e.k <= 2048 && pieces(e.rows, 128) * columns <= 2 * processors);
  if (can_turn && short_of_k) all.add(turns);
  std::vector<gemm_offer> found = all.best_first();
  // For e4m3 measured, and no faster than CTAs alone (bench/LOG.md); bf16 waits for its measurement. There for whoever asks.
  if (on.wgmma && k_contiguous && e.cols > 128 && (narrow_floats || (wide_type && base.a == base.c))) {
    list pairs(base, e, on);
    pairs.add(128, 256, 2);
    if (can_turn && !short_of_k) pairs.add(turns);
    for (gemm_offer& o : pairs.as_added()) found.push_back(std::move(o));
  }
  return found;
}

std::string to_string(const gemm_estimate& e) {
  char numbers[256];
  std::snprintf(numbers, sizeof numbers, "%lld tiles in %lld rounds, %.0f %% full; products %.1f us, memory %.1f MB %.1f us, L2 %.1f MB %.1f us; %.1f us, bound by %s", static_cast<long long>(e.tiles),
                static_cast<long long>(e.rounds), e.fill * 100, e.products_us, static_cast<double>(e.memory_bytes) * 1e-6, e.memory_us, static_cast<double>(e.l2_bytes) * 1e-6, e.l2_us, e.us, e.bound);
  return cat(e.kernel, ": ", e.schedule.rows, "x", e.schedule.cols, e.schedule.cluster > 1 ? cat(", clusters of ", e.schedule.cluster) : std::string(),
             e.schedule.parts > 1 ? cat(", K in ", e.schedule.parts, " parts") : std::string(), e.schedule.swapped ? ", swapped" : "", e.schedule.in_turns ? ", in turns" : "", ": ", numbers);
}

}  // namespace tlx::host
