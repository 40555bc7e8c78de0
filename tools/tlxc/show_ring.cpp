// A kernel's pipeline: roles, the rings between them, barriers, and the plan of shared memory.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "plan.hpp"
#include "show.hpp"
#include "source.hpp"
#include "svg.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/limits.hpp"

namespace tlxc {

using tlx::cat;

namespace {

std::string who(const std::vector<user>& all) {
  std::vector<std::string> names;
  for (const user& u : all) names.push_back(u.how.empty() ? u.role : cat(u.role, " (", u.how, ")"));
  return names.empty() ? "nobody" : tlx::join(names, ", ");
}

std::string arrivals(std::int64_t n) { return cat(n, n == 1 ? " arrival" : " arrivals"); }

void print(const kernel_plan& p, int limit) {
  std::printf("kernel %s for %s, %d warps\n", p.name.c_str(), p.target.c_str(), p.warps);
  for (const role_plan& r : p.roles) std::printf("role   %-12s %d %s%s\n", r.name.c_str(), r.warps, r.warps == 1 ? "warp" : "warps", r.registers ? cat(", ", r.registers, " registers a thread").c_str() : "");
  for (const ring_plan& r : p.rings) {
    std::printf("\nring   %s: %d %s of %s\n", r.name.c_str(), r.stages, r.stages == 1 ? "stage" : "stages", r.parts.c_str());
    if (r.offset >= 0)
      std::printf("       shared memory %jd..%jd, %jd bytes a stage\n", static_cast<intmax_t>(r.offset), static_cast<intmax_t>(r.offset + r.stage_bytes * r.stages - 1), static_cast<intmax_t>(r.stage_bytes));
    if (r.column >= 0) std::printf("       tensor memory columns %jd..%jd, %jd a stage\n", static_cast<intmax_t>(r.column), static_cast<intmax_t>(r.column + r.columns * r.stages - 1), static_cast<intmax_t>(r.columns));
    std::printf("       filled by %s; full at byte %jd, %s a phase\n", who(r.filled).c_str(), static_cast<intmax_t>(r.full.offset), arrivals(r.full.count).c_str());
    if (r.empty.offset >= 0) std::printf("       drained by %s; empty at byte %jd, %s a phase\n", who(r.drained).c_str(), static_cast<intmax_t>(r.empty.offset), arrivals(r.empty.count).c_str());
    else std::printf("       drained by %s; used once, so nobody waits for it to be free\n", who(r.drained).c_str());
  }
  std::printf("\nshared memory: %jd of %d bytes\n", static_cast<intmax_t>(p.shared_bytes), limit);
  std::int64_t at = 0;
  for (const memory_piece& m : p.shared) {
    if (m.offset > at) std::printf("  %8jd %8jd  (free)\n", static_cast<intmax_t>(at), static_cast<intmax_t>(m.offset - at));
    std::printf("  %8jd %8jd  %s\n", static_cast<intmax_t>(m.offset), static_cast<intmax_t>(m.bytes), m.what.c_str());
    at = m.offset + m.bytes;
  }
}

std::string tint(size_t i, double lightness) { return colour(std::fmod(static_cast<double>(i) * 137.5 + 205, 360), 0.55, lightness); }

// Roles in a row above, each ring below on a line of its own between who fills and who drains it, then the bar of shared memory.
void draw(const kernel_plan& p, int limit, const std::string& path) {
  svg picture;
  std::vector<role_plan> roles = p.roles;
  if (roles.empty()) roles.push_back({"the CTA", p.warps, 0});
  const double role_width = 190, gap = 120, top = 36, line = 112;
  std::map<std::string, double> centre;
  const double bottom = top + 62 + line * static_cast<double>(p.rings.size());
  picture.text(0, 14, cat(p.name, " for ", p.target), 15);
  for (size_t i = 0; i < roles.size(); ++i) {
    const double x = static_cast<double>(i) * (role_width + gap);
    centre[roles[i].name] = x + role_width / 2;
    picture.line(x + role_width / 2, top + 44, x + role_width / 2, bottom - 14, "#bbb");
    picture.box(x, top, role_width, 44, "#eef2f7", "#345");
    picture.text(x + role_width / 2, top + 18, roles[i].name, 13, "middle");
    picture.text(x + role_width / 2, top + 35, cat(roles[i].warps, roles[i].warps == 1 ? " warp" : " warps", roles[i].registers ? cat(", ", roles[i].registers, " registers") : ""), 11, "middle", "#444");
  }
  for (size_t i = 0; i < p.rings.size(); ++i) {
    const ring_plan& r = p.rings[i];
    const double y = top + 74 + line * static_cast<double>(i);
    const auto at = [&](const std::vector<user>& u) { return !u.empty() && centre.count(u[0].role) ? centre[u[0].role] : role_width / 2; };
    const double from = at(r.filled), to = at(r.drained), stage = std::min(34.0, 180.0 / r.stages), width = stage * r.stages;
    const double middle = from == to ? from + role_width / 2 + gap / 2 + width / 2 : (from + to) / 2, x = middle - width / 2;
    picture.text(middle, y + 4, cat(r.name, ": ", r.stages, " x ", r.offset >= 0 ? cat(r.stage_bytes, " bytes") : cat(r.columns, " columns")), 12, "middle");
    for (int s = 0; s < r.stages; ++s) picture.box(x + s * stage, y + 12, stage, 26, tint(i, 0.8), "#345", cat("stage ", s));
    for (int s = 0; s < r.stages; ++s) picture.text(x + (s + 0.5) * stage, y + 29, cat(s), 10, "middle");
    const bool back = from > to;
    picture.line(from, y + 25, back ? x + width : x, y + 25, "#17603a", true);
    if (from == to) picture.line(x, y + 32, to, y + 32, "#8a4b12", true);
    else picture.line(back ? x : x + width, y + 25, to, y + 25, "#8a4b12", true);
    picture.text(middle, y + 53, cat("filled by ", who(r.filled), ", full: ", arrivals(r.full.count)), 10, "middle", "#17603a");
    picture.text(middle, y + 67, r.empty.offset >= 0 ? cat("drained by ", who(r.drained), ", empty: ", arrivals(r.empty.count)) : cat("drained by ", who(r.drained), ", used once"), 10, "middle", "#8a4b12");
  }
  const double bar = std::max(700.0, static_cast<double>(roles.size()) * (role_width + gap) - gap), y = bottom + 14, scale = bar / limit;
  picture.text(0, y, cat("shared memory: ", p.shared_bytes, " of ", limit, " bytes"), 12);
  picture.box(0, y + 8, bar, 26, "#f4f4f4", "#345");
  double row = y + 54;
  for (size_t i = 0; i < p.shared.size(); ++i) {
    const memory_piece& m = p.shared[i];
    picture.box(static_cast<double>(m.offset) * scale, y + 8, std::max(0.6, static_cast<double>(m.bytes) * scale), 26, tint(i, 0.72), "#345", cat(m.what, ": ", m.bytes));
    picture.box(0, row - 9, 10, 10, tint(i, 0.72));
    picture.text(16, row, cat(m.what, ": ", m.bytes, " bytes at ", m.offset), 11);
    row += 16;
  }
  picture.write(path);
}

}  // namespace

int show_ring(const arguments& given, const std::string& kernel) {
  const auto k = kernel_named(kernel, given.text("--target"), given);
  const kernel_plan plan = plan_of(*k);
  const int limit = tlx::tile::target_limits(k->target)->shared_bytes_per_cta;
  print(plan, limit);
  if (given.has("--svg")) draw(plan, limit, given.text("--svg"));
  return 0;
}

}  // namespace tlxc
