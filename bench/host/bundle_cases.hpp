// What opening a bundle costs, and finding one kernel in it.
#pragma once

namespace tlx::bench {

void add_bundle_cases();

}  // namespace tlx::bench
