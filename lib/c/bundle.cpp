// Bundles through the C interface.
#include "tlx/bundle/bundle.hpp"

#include "c/handles.hpp"
#include "tlx/support/text.hpp"

struct tlx_bundle {
  tlx::bundle::bundle what;
};

using namespace tlx;
using namespace tlx::c;

extern "C" {

tlx_status tlx_bundle_open(const char* path, const char* sha256, tlx_bundle** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    need(path, "path");
    *out = new tlx_bundle{bundle::bundle::open(path, {.sha256 = sha256 ? sha256 : ""})};
  });
}

tlx_status tlx_bundle_open_memory(const void* bytes, size_t count, const char* sha256, tlx_bundle** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    need(bytes, "bytes");
    *out = new tlx_bundle{bundle::bundle::of_memory(bytes, count, {.sha256 = sha256 ? sha256 : ""})};
  });
}

void tlx_bundle_close(tlx_bundle* bundle) { delete bundle; }

tlx_status tlx_bundle_describe(const tlx_bundle* bundle, tlx_bundle_info* out) {
  return guarded([&] {
    need(bundle, "bundle");
    need(out, "out");
    const auto& b = bundle->what;
    *out = {b.about().name.c_str(), b.about().version.c_str(), b.sha256().c_str(), b.signature().empty() ? nullptr : b.signature().data(), b.signature().size(), b.entries().size()};
  });
}

tlx_status tlx_bundle_entry_at(const tlx_bundle* bundle, size_t index, tlx_bundle_entry* out) {
  return guarded([&] {
    need(bundle, "bundle");
    need(out, "out");
    const auto& all = bundle->what.entries();
    if (index >= all.size())
      raise(user_error({.id = "bundle-entry-index", .what = cat("the bundle has ", all.size(), " entries, not ", index, " + 1"), .because = "entries are numbered from 0",
                        .fix = {"ask tlx_bundle_describe first"}}));
    *out = {all[index].name.c_str(), all[index].configuration.c_str(), all[index].target.c_str()};
  });
}

tlx_status tlx_load_from(tlx_machine* machine, const tlx_bundle* bundle, const char* name, const char* configuration, tlx_kernel** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    need(machine, "machine");
    need(bundle, "bundle");
    need(name, "name");
    const auto& b = bundle->what;
    *out = loaded(*machine, b.load(b.choose(name, configuration ? configuration : "", machine->what->about().target)));
  });
}

}  // extern "C"
