// What the files of the C interface share: the handles, and the one place where exceptions end.
#pragma once
#include <new>
#include <string>
#include <vector>

#include "tlx/c.h"
#include "tlx/device/launcher.hpp"
#include "tlx/support/error.hpp"

struct tlx_machine {
  std::shared_ptr<tlx::device::machine> what;
};

struct tlx_kernel {
  std::shared_ptr<tlx::device::machine> machine;
  tlx::device::kernel description;
  std::unique_ptr<tlx::device::launcher> launcher;  // keeps the code

  tlx_kernel(std::shared_ptr<tlx::device::machine> on, tlx::device::kernel k, std::shared_ptr<tlx::device::module> loaded)
      : machine(std::move(on)), description(std::move(k)), launcher(tlx::device::make_launcher(*machine, description, std::move(loaded))) {}
};

namespace tlx::c {

/// Keeps text and id for tlx_last_error(); the status.
tlx_status fail(tlx_status status, const char* text, const char* id);

/// Raises user_error [null-argument].
void need(const void* pointer, const char* name);

/// A kernel loaded on the machine; `image` has its code.
tlx_kernel* loaded(tlx_machine& on, device::kernel description);

/// Runs one call of the interface: an exception becomes a status and a text.
template <class Call>
tlx_status guarded(Call&& call) noexcept {
  try {
    call();
    return TLX_OK;
  } catch (const user_error& e) {
    return fail(TLX_USER_ERROR, e.what(), e.id().c_str());
  } catch (const device_error& e) {
    return fail(TLX_DEVICE_ERROR, e.what(), e.id().c_str());
  } catch (const sim_error& e) {
    return fail(TLX_SIM_ERROR, e.what(), e.id().c_str());
  } catch (const error& e) {
    return fail(TLX_INTERNAL_ERROR, e.what(), e.id().c_str());
  } catch (const std::bad_alloc&) {
    return fail(TLX_INTERNAL_ERROR, "tlx internal error [host-memory]: no memory left in the process", "host-memory");
  } catch (const std::exception& e) {
    return fail(TLX_INTERNAL_ERROR, e.what(), "unexpected");
  } catch (...) {
    return fail(TLX_INTERNAL_ERROR, "tlx internal error [unexpected]: an exception that is no std::exception", "unexpected");
  }
}

}  // namespace tlx::c
