// From the words of a kernel that gave up to an error that a person can use.
#include "tlx/device/watch.hpp"

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

location place_of(const watch_site* site) { return site && !site->file.empty() ? location{intern_file(site->file), site->line} : location{}; }

}  // namespace

std::string describe(const watch_record& r, const watch_table& names) {
  const watch_site* site = site_of(r, names);
  std::string text = who(site);
  if (r.why == watch_record::cause::requirement) text += cat(": requirement \"", site ? site->text : "?", "\" failed, lane ", int{r.lane});
  else text += cat(" waits ", awaited(r, site, names));
  text += cat(", warp ", int{r.warp}, ", ", cta_text(r));
  if (site && !site->file.empty()) text += cat(", at ", site->file, ":", site->line);
  return text;
}

void raise_gave_up(const std::string& kernel, const watch_table& names, const watch_records& records, std::uint64_t launches) {
  const watch_record& first = records[0];
  const watch_site* site = site_of(first, names);
  std::string context = cat("kernel \"", kernel, "\", ", cta_text(first), ", warp ", int{first.warp});
  std::vector<std::string> others;
  for (std::size_t i = 1; i < records.size(); ++i) {
    if (records[i].site == 0) continue;
    std::string line = describe(records[i], names);
    if (others.empty() || others.back() != line) others.push_back(std::move(line));
  }
  if (!others.empty()) context += cat("; when it gave up, also:\n    ", join(others, "\n    "));
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
