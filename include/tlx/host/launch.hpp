// Compile and launch a kernel of your own in one call: host::launch<arguments>(session, "name", body, {values}).
#pragma once
#include "tlx/dsl/kernel.hpp"
#include "tlx/host/session.hpp"

namespace tlx::host {

/// Compiled at the first use of `name`, launched every time. The values stand in the order of the argument struct's fields.
template <class Arguments, class Body>
void launch(session& with, const std::string& name, Body&& body, const std::vector<device::value>& values, std::uint64_t stream = 0, location where = location::here()) {
  with.run(name, [&](const std::string& target) { return trace<Arguments>(name, target, body, where); }, values, stream);
}

}  // namespace tlx::host
