// Which of the kernels in a bundle a machine gets.
#include <algorithm>
#include <set>

#include "tlx/bundle/bundle.hpp"
#include "tlx/device/binder.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::bundle {

namespace {

std::string listed(const std::set<std::string>& words) { return join({words.begin(), words.end()}, ", "); }

}  // namespace

const entry& bundle::choose(const std::string& name, const std::string& configuration, const std::string& target) const {
  const auto first = std::lower_bound(entries().begin(), entries().end(), name, [](const entry& e, const std::string& n) { return e.name < n; });
  std::set<std::string> configurations, targets;
  for (auto e = first; e != entries().end() && e->name == name; ++e) configurations.insert(e->configuration);
  if (configurations.empty()) {
    std::set<std::string> names;
    for (const entry& e : entries()) names.insert(e.name);
    raise(user_error({.id = "bundle-kernel-missing", .what = cat("the bundle has no kernel \"", name, "\""), .because = "its kernels are: " + (names.empty() ? "none" : listed(names)),
                      .fix = {"use one of these names", "build the bundle with that kernel"}}));
  }
  const std::string& wanted = configuration.empty() && configurations.size() == 1 ? *configurations.begin() : configuration;
  const entry* found = nullptr;
  for (auto e = first; e != entries().end() && e->name == name; ++e) {
    if (e->configuration != wanted) continue;
    targets.insert(e->target);
    if (e->target == target) return *e;
    if (!found && device::target_runs_on(e->target, target)) found = &*e;
  }
  if (targets.empty())
    raise(user_error({.id = "bundle-configuration-missing", .what = cat("kernel \"", name, "\" has no configuration \"", wanted, "\" in the bundle"),
                      .because = "its configurations are: " + listed(configurations), .fix = {"name one of these", "build the bundle with that configuration"}}));
  if (!found)
    raise(user_error({.id = "bundle-target-missing", .what = cat("kernel \"", name, wanted.empty() ? "" : "_", wanted, "\" is not in the bundle for ", target),
                      .because = "it was built for: " + listed(targets), .fix = {cat("build the bundle with --arch ", target)}}));
  return *found;
}

}  // namespace tlx::bundle
