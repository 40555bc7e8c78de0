// The C interface over device::machine. Each call is one lambda inside `guarded`, which turns exceptions into a status and a text.
#include "tlx/c.h"

#include <array>
#include <charconv>
#include <string>

#include "c/handles.hpp"
#include "tlx/device/binder.hpp"
#include "tlx/runtime/gpu.hpp"
#ifdef TLX_C_WITH_SIMULATOR
#include "tlx/sim/machine.hpp"
#endif
#include "tlx/support/text.hpp"
#include "tlx/version.hpp"

namespace {

using namespace tlx;
using namespace tlx::c;

struct failure {
  std::string text, id;
};
failure& last_failure() {
  static thread_local failure last;
  return last;
}

}  // namespace

namespace tlx::c {

tlx_status fail(tlx_status status, const char* text, const char* id) {
  try {
    last_failure().text = text;
    last_failure().id = id;
  } catch (...) {  // no memory even for the message: the status has to do
    last_failure().text.clear();
    last_failure().id.clear();
  }
  return status;
}

void need(const void* pointer, const char* name) {
  if (pointer) return;
  raise(user_error({.id = "null-argument", .what = cat("the argument \"", name, "\" is NULL"), .because = "only the calls that close or release take NULL", .fix = {"check the status of the call that should have made it"}}));
}

tlx_kernel* loaded(tlx_machine& on, device::kernel k) {
  if (!device::target_runs_on(k.target, on.what->about().target)) device::binder(k, on.what->about());  // raises, before the driver does
  std::shared_ptr<device::module> code = on.what->load(k.code);
  k.code.ptx.clear();
  k.code.cubin.clear();
  return new tlx_kernel(on.what, std::move(k), std::move(code));
}

}  // namespace tlx::c

namespace {

std::unique_ptr<device::machine> open_by_name(const std::string& name) {
  if (name == "gpu:current") return runtime::open_current();
  if (name.rfind("gpu:", 0) == 0) {
    int ordinal = -1;
    const auto [end, bad] = std::from_chars(name.data() + 4, name.data() + name.size(), ordinal);
    if (bad == std::errc() && end == name.data() + name.size()) return runtime::open(ordinal);
  }
#ifdef TLX_C_WITH_SIMULATOR
  if (name.rfind("sim:", 0) == 0) return sim::open(name.substr(4));
#endif
  raise(user_error({.id = "machine-unknown",
                    .what = "there is no machine \"" + name + "\"",
                    .because = "machines are gpu:N, gpu:current, and sim:TARGET where the simulator is built in",
                    .fix = {"use gpu:0 or sim:sm_90a"}}));
}

device::value_ref refer(const tlx_value& from) {
  if (from.scalar) return {.bytes = static_cast<const std::byte*>(from.scalar), .byte_count = static_cast<std::uint32_t>(from.scalar_bytes)};
  const auto rank = static_cast<std::uint32_t>(from.rank < 0 ? 0 : from.rank);
  if (rank > 0) need(from.extents, "extents");
  return {.base = from.address, .extents = from.extents, .strides = from.strides, .rank = rank, .stride_count = from.strides ? rank : 0};
}

}  // namespace

extern "C" {

const char* tlx_version(void) {
  static const std::string text(version_string);
  return text.c_str();
}
const char* tlx_last_error(void) { return last_failure().text.c_str(); }
const char* tlx_last_error_id(void) { return last_failure().id.c_str(); }

tlx_status tlx_open(const char* name, tlx_machine** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    need(name, "name");
    *out = new tlx_machine{open_by_name(name)};
  });
}

void tlx_close(tlx_machine* machine) { delete machine; }

tlx_status tlx_describe(const tlx_machine* machine, tlx_machine_info* out) {
  return guarded([&] {
    need(machine, "machine");
    need(out, "out");
    const device::properties& p = machine->what->about();
    *out = {p.name.c_str(), p.target.c_str(), p.processor_count, p.shared_bytes_per_block, p.memory_bytes};
  });
}

tlx_status tlx_allocate(tlx_machine* machine, size_t bytes, uint64_t* out) {
  return guarded([&] {
    need(machine, "machine");
    need(out, "out");
    *out = machine->what->allocate(bytes);
  });
}

tlx_status tlx_free(tlx_machine* machine, uint64_t address) {
  return guarded([&] {
    need(machine, "machine");
    machine->what->release(address);
  });
}

tlx_status tlx_write(tlx_machine* machine, uint64_t to, const void* from, size_t bytes) {
  return guarded([&] {
    need(machine, "machine");
    if (bytes > 0) need(from, "from");
    machine->what->write(to, from, bytes);
  });
}

tlx_status tlx_read(tlx_machine* machine, void* to, uint64_t from, size_t bytes) {
  return guarded([&] {
    need(machine, "machine");
    if (bytes > 0) need(to, "to");
    machine->what->read(to, from, bytes);
  });
}

tlx_status tlx_wait(tlx_machine* machine) {
  return guarded([&] {
    need(machine, "machine");
    machine->what->wait();
  });
}

tlx_status tlx_set_wait_limit(tlx_machine* machine, double seconds) {
  return guarded([&] {
    need(machine, "machine");
    runtime::set_wait_limit(*machine->what, seconds);
  });
}

tlx_status tlx_load(tlx_machine* machine, const char* manifest, size_t manifest_bytes, const void* code, size_t code_bytes, tlx_kernel** out) {
  return guarded([&] {
    need(out, "out");
    *out = nullptr;
    need(machine, "machine");
    need(manifest, "manifest");
    need(code, "code");
    device::kernel k = device::from_manifest(std::string(manifest, manifest_bytes));
    std::string bytes(static_cast<const char*>(code), code_bytes);
    (bytes.compare(0, 4, "\x7f" "ELF") == 0 ? k.code.cubin : k.code.ptx) = std::move(bytes);
    *out = loaded(*machine, std::move(k));
  });
}

void tlx_release(tlx_kernel* kernel) { delete kernel; }

const char* tlx_kernel_name(const tlx_kernel* kernel) { return kernel ? kernel->description.name.c_str() : ""; }
size_t tlx_parameter_count(const tlx_kernel* kernel) { return kernel ? kernel->description.parameters.size() : 0; }

tlx_status tlx_parameter(const tlx_kernel* kernel, size_t index, tlx_parameter_info* out) {
  return guarded([&] {
    need(kernel, "kernel");
    need(out, "out");
    const auto& all = kernel->description.parameters;
    if (index >= all.size()) {
      raise(user_error({.id = "parameter-index",
                        .what = cat("kernel \"", kernel->description.name, "\" has ", all.size(), " parameters, not ", index, " + 1"),
                        .because = "parameters are numbered from 0",
                        .fix = {"ask tlx_parameter_count first"}}));
    }
    const device::parameter& p = all[index];
    *out = {p.name.c_str(), p.element.c_str(), p.element_bits, p.what == device::parameter::kind::view ? 1 : 0, p.rank};
  });
}

tlx_status tlx_launch(tlx_kernel* kernel, const tlx_value* arguments, size_t count, uint64_t stream) {
  return guarded([&] {
    need(kernel, "kernel");
    if (count > 0) need(arguments, "arguments");
    std::array<device::value_ref, 24> few;
    std::vector<device::value_ref> many(count > few.size() ? count : 0);
    device::value_ref* const all = many.empty() ? few.data() : many.data();
    for (size_t i = 0; i < count; ++i) all[i] = refer(arguments[i]);
    kernel->launcher->launch(all, count, stream);
  });
}

}  // extern "C"
