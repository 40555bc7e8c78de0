// The watch option and the table that names what a watched kernel can report.
#pragma once
#include "tlx/device/watch.hpp"
#include "tlx/jit/compile.hpp"

namespace tlx::jit {

/// The options themselves, or user_error [watch-limit-invalid].
watch_options checked(const watch_options& how, location where);

/// Sites and rings of a kernel that pass::watch has seen; empty for others.
device::watch_table watch_table_of(const ir::kernel& lowered);

}  // namespace tlx::jit
