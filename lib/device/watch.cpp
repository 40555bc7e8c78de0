// From the words of a kernel that gave up to an error that a person can use.
#include "tlx/device/watch.hpp"

#include <map>
#include <set>

#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::device {

namespace {

const watch_site* site_of(const watch_record& r, const watch_table& names) {
  return r.site >= 1 && r.site <= names.sites.size() ? &names.sites[r.site - 1] : nullptr;
}

std::string who(const watch_site* site) { return site && !site->role.empty() ? cat("role \"", site->role, "\"") : std::string("the CTA"); }

std::string cta_text(const watch_record& r) { return cat("CTA (", r.cta[0], ",", r.cta[1], ",", r.cta[2], ")"); }

// "for slot 2 of ring "ab" to be filled (phase 1)": the barrier by its place, since one wait serves all stages.
std::string awaited(const watch_record& r, const watch_site* site, const watch_table& names) {
  if (site && site->what == watch_site::kind::meet) return cat("at ", site->text, " for the other warps");
  const int place = static_cast<int>(r.place);
  for (const watch_ring& ring : names.rings) {
    if (place < ring.offset || place >= ring.offset + 8 * ring.stages) continue;
    const int stage = (place - ring.offset) / 8;
    const std::string of = cat(" of ring \"", ring.name, "\", stage ", stage, ", phase ", r.value);
    if (ring.side == "full") return "for the full barrier" + of;
    if (ring.side == "empty") return "for the empty barrier" + of;
    return cat("for the ", ring.side, " of \"", ring.name, "\", phase ", r.value);
  }
  return cat("for the mbarrier at shared offset ", place, ", phase ", r.value);
}

// What one record says, without its warp: the warps of a role mostly say the same.
std::string told(const watch_record& r, const watch_table& names) {
  const watch_site* site = site_of(r, names);
  if (r.why == watch_record::cause::requirement) return cat(who(site), ": \"", site ? site->text : "?", "\" does not hold in lane ", int{r.lane});
  return cat(who(site), " waits ", awaited(r, site, names));
}

location place_of(const watch_site* site) { return site && !site->file.empty() ? location{intern_file(site->file), site->line} : location{}; }

}  // namespace

void raise_gave_up(const std::string& kernel, const watch_table& names, const watch_records& records, std::uint64_t launches) {
  const watch_record& first = records[0];
  const watch_site* site = site_of(first, names);
  std::string context = cat("kernel \"", kernel, "\", ", cta_text(first), ", warp ", int{first.warp});
  std::map<std::string, std::set<int>> others;  // what, and where -> warps
  for (std::size_t i = 1; i < records.size(); ++i) {
    if (records[i].site == 0) continue;
    const location at = place_of(site_of(records[i], names));
    others[cat(told(records[i], names), at.known() ? ", at " + to_string(at) : std::string())].insert(records[i].warp);
  }
  if (!others.empty()) context += "; in the same CTA:";
  for (const auto& [line, warps] : others) {
    std::vector<std::string> numbers;
    for (const int w : warps) numbers.push_back(std::to_string(w));
    context += cat("\n    ", line, warps.size() == 1 ? ", warp " : ", warps ", join(numbers, " "));
  }
  const std::string lost = launches > 1 ? cat("; the results of its last ", launches, " launches are void") : std::string("; its results are void");
  if (first.why == watch_record::cause::requirement) {
    std::string what = cat(who(site), ": \"", site ? site->text : "?", "\" does not hold in lane ", int{first.lane});
    if (first.value != watch_no_value) what += cat(", value ", static_cast<std::int32_t>(first.value));
    if (first.place != watch_no_value) what += cat(", bound ", static_cast<std::int32_t>(first.place));
    raise(device_error({.id = "requirement-failed", .what = what + lost, .where = place_of(site), .because = "the kernel says require(condition, text) there, or its bounds are checked",
                        .fix = {"print() the values that the condition is made of", "run the kernel on the simulator"}, .context = context}));
  }
  raise(device_error({.id = "kernel-gave-up", .what = cat(who(site), " waited ", names.seconds, " s ", awaited(first, site, names), lost), .where = place_of(site),
                      .because = "every wait of a watched kernel has a time limit, and nobody arrived in time",
                      .fix = {"look at who else waits below, and for whom", "run the kernel on the simulator, which shows the pending arrivals and bytes", "raise TLX_WATCH if the kernel is only slow"},
                      .context = context}));
}

}  // namespace tlx::device
