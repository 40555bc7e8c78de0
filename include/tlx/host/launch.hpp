// Compile and launch a kernel of your own in one call: host::launch<arguments>(session, "name", body, {values}).
#pragma once
#include <functional>

#include "tlx/dsl/kernel.hpp"
#include "tlx/host/session.hpp"

namespace tlx::host {

/// Compiled at the first use of `name`, launched every time. The values stand in the order of the argument struct's fields.
template <class Arguments, class Body>
void launch(session& with, const std::string& name, Body&& body, const std::vector<device::value>& values, std::uint64_t stream = 0, location where = location::here()) {
  const auto make = [&](const std::string& target) { return trace<Arguments>(name, target, body, where); };
  with.run(name, std::cref(make), values, stream);  // by reference: a copy in a std::function would be allocated at every launch
}

}  // namespace tlx::host
