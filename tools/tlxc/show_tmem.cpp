// The columns of tensor memory that a kernel's accumulators take.
#include <cstdio>
#include <filesystem>

#include "plan.hpp"
#include "show.hpp"
#include "source.hpp"
#include "svg.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/tensor_memory.hpp"

namespace tlxc {

using tlx::cat;

namespace {

void draw(const kernel_plan& p, const std::string& path) {
  svg picture;
  const double scale = 1.5, height = 128;
  picture.text(0, 14, cat(p.name, " for ", p.target, ": tensor memory, 128 lanes x 512 columns"), 14);
  picture.text(0, 32, cat("allocated: ", p.tensor_allocated, " columns"), 11);
  const double top = 60;
  picture.box(0, top, 512 * scale, height, "#f4f4f4", "#345");
  picture.box(0, top, static_cast<double>(p.tensor_allocated) * scale, height, "#e3e9f1", "#345");
  for (int c = 0; c <= 512; c += 64) picture.text(c * scale, top - 5, cat(c), 9, "middle", "#666");
  int i = 0;
  for (const memory_piece& m : p.tensor) {
    int stages = 1;
    for (const ring_plan& r : p.rings)
      if (r.column == m.offset) stages = r.stages;
    const double each = static_cast<double>(m.bytes) / stages * scale, x = static_cast<double>(m.offset) * scale;
    for (int s = 0; s < stages; ++s) {
      picture.box(x + s * each, top, each, height, colour(205 + 137.5 * i, 0.55, s % 2 ? 0.82 : 0.75), "#345");
      picture.text(x + (s + 0.5) * each, top + height / 2, stages > 1 ? cat(m.what, " [", s, "]") : m.what, 11, "middle");
    }
    ++i;
  }
  picture.write(path);
}

[[noreturn]] void none(const std::string& what, const std::string& because) {
  raise(tlx::user_error({.id = "no-tensor-memory", .what = what, .because = because, .fix = {"choose --target sm_100a, sm_103a or sm_100f", "choose a kernel that accumulates"}}));
}

}  // namespace

int show_tensor_memory(const arguments& given, const std::string& kernel) {
  const bool file = std::filesystem::is_regular_file(kernel);
  const auto k = kernel_named(kernel, given.text("--target", file ? "" : "sm_100a"), given);
  if (k->target.rfind("sm_10", 0) != 0) none(cat(k->target, " has no tensor memory"), "its accumulators are registers");
  const kernel_plan p = plan_of(*k);
  if (p.tensor.empty()) none(cat("kernel \"", p.name, "\" keeps nothing in tensor memory"), "it has no accumulator");
  std::printf("kernel %s for %s\n", p.name.c_str(), p.target.c_str());
  for (const memory_piece& m : p.tensor) std::printf("  columns %3jd..%3jd  %s\n", static_cast<intmax_t>(m.offset), static_cast<intmax_t>(m.offset + m.bytes - 1), m.what.c_str());
  std::printf("allocated: %jd of %d columns\n", static_cast<intmax_t>(p.tensor_allocated), tlx::tile::tensor_memory_columns);
  if (given.has("--svg")) draw(p, given.text("--svg"));
  return 0;
}

}  // namespace tlxc
