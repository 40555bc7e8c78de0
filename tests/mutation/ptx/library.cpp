// Every kernel of the library's list, on inputs made from its parameters.
#include "subject.hpp"
#include "tests/mutation/inputs.hpp"
#include "tlx/host/library.hpp"
#include "tlx/jit/compile.hpp"

namespace mutation {

using namespace tlx;

std::vector<subject> library(const std::string& target, const wanted& is_wanted, std::int64_t extent) {
  std::vector<subject> all;
  for (const host::library_kernel& each : host::library_kernels()) {
    if (!is_wanted(each.name)) continue;
    const std::unique_ptr<ir::kernel> traced = each.trace(target);
    const device::kernel k = jit::compile(*traced, {.assemble = false, .use_cache = false});
    auto on = std::make_shared<recorder>(target);
    std::vector<device::buffer> held;
    const std::vector<device::value> values = tlx::mutation::put(tlx::mutation::inputs_of(*traced, extent), *on, held);
    const auto code = on->load(k.code);
    on->run(*code, k.entry, device::bind(k, values, on->about()));
    all.push_back({each.name, target, on, std::move(on->launches.front()), true});
    on->launches.clear();
  }
  return all;
}

}  // namespace mutation
