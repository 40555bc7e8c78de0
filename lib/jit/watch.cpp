#include "jit/watch.hpp"

#include <cstdlib>

#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::jit {

namespace {

[[noreturn]] void invalid(const std::string& what, location where) {
  raise(user_error({.id = "watch-limit-invalid", .what = what, .where = where, .because = "a wait of a watched kernel may take 0.001 to 3600 seconds; 0 means not watched",
                    .fix = {"TLX_WATCH=2, or TLX_WATCH=2,bounds"}}));
}

const ir::op* role_around(const ir::op& o) {
  for (const ir::op* up = o.parent->parent; up; up = up->parent->parent)
    if (up->has("role")) return up;
  return nullptr;
}

}  // namespace

watch_options checked(const watch_options& how, location where) {
  if (how.seconds != 0 && !(how.seconds >= 0.001 && how.seconds <= 3600)) invalid(cat("a watch limit of ", how.seconds, " s"), where);
  return how;
}

watch_options watch_from_environment() {
  const char* value = std::getenv("TLX_WATCH");
  if (!value || !*value) return {};
  char* end = nullptr;
  watch_options how;
  how.seconds = std::strtod(value, &end);
  how.bounds = std::string(end) == ",bounds";
  if (end == value || (*end && !how.bounds)) invalid(cat("TLX_WATCH is \"", value, "\""), {});
  return checked(how, {});
}

device::watch_table watch_table_of(const ir::kernel& lowered) {
  device::watch_table table;
  ir::walk(lowered.body, [&](const ir::op& o) {
    if (o.is(ir::opcode::watch_exit)) table.seconds = static_cast<double>(o.integer("limit_ns")) * 1e-9;
    if (!o.has("site")) return;
    device::watch_site site;
    if (const ir::op* role = role_around(o)) site.role = role->text("role");
    if (o.is(ir::opcode::require)) {
      site.what = device::watch_site::kind::require;
      site.text = o.text("text");
    } else if (!o.is(ir::opcode::mbarrier_wait)) {
      site.what = device::watch_site::kind::meet;
      site.text = o.integer("threads") == 0 ? std::string("the barrier of the CTA") : cat("named barrier ", o.integer("id"));
    }
    if (o.where.known()) {
      site.file = o.where.file;
      site.line = o.where.line;
    }
    table.sites.push_back(std::move(site));
  });
  if (!table.on()) return {};
  for (const ir::place& p : lowered.places)
    if (p.is_barrier()) table.rings.push_back({p.ring, p.part, static_cast<int>(p.offset), p.stages});
  return table;
}

}  // namespace tlx::jit
