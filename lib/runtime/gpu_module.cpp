#include "runtime/gpu_module.hpp"

#include <elf.h>

#include <cstring>

#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::runtime {

namespace {

std::string first_lines(const std::string& text, int lines) {
  size_t at = 0;
  while (lines-- > 0 && at != std::string::npos) at = text.find('\n', at + 1);
  return text.substr(0, at);
}

}  // namespace

bool is_whole_elf(const std::string& bytes) {
  Elf64_Ehdr head;
  if (bytes.size() < sizeof head) return false;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64) return false;
  const auto inside = [&](std::uint64_t offset, std::uint64_t size) { return offset <= bytes.size() && size <= bytes.size() - offset; };
  if (head.e_shentsize != sizeof(Elf64_Shdr) || !inside(head.e_shoff, std::uint64_t{head.e_shnum} * sizeof(Elf64_Shdr))) return false;
  for (unsigned i = 0; i < head.e_shnum; ++i) {
    Elf64_Shdr section;
    std::memcpy(&section, bytes.data() + head.e_shoff + i * sizeof section, sizeof section);
    if (section.sh_type != SHT_NOBITS && !inside(section.sh_offset, section.sh_size)) return false;
  }
  return inside(head.e_phoff, std::uint64_t{head.e_phnum} * head.e_phentsize);
}

gpu_module::gpu_module(std::shared_ptr<gpu_context> context, const device::image& code, const std::string& target) : context_(std::move(context)) {
  const bool binary = !code.cubin.empty();
  if (!binary && code.ptx.empty()) {
    raise(user_error({.id = "image-empty", .what = "the image holds neither a cubin nor PTX", .because = "a GPU loads one of the two", .fix = {"compile the kernel first"}}));
  }
  if (binary && !is_whole_elf(code.cubin)) {
    raise(user_error({.id = "image-malformed",
                      .what = cat("the cubin of ", code.cubin.size(), " bytes is no complete ELF file"),
                      .because = "the driver is not told its size and would read past the end",
                      .fix = {"assemble it again; compare the file's size with where it came from"}}));
  }
  // Whole-program load: linking (cuLink) would drop setmaxnreg and serialise wgmma.
  std::string info(1 << 16, '\0'), errors(1 << 16, '\0');
  const auto number = [](size_t n) { return reinterpret_cast<void*>(n); };
  int options[] = {cu::jit_info_log_buffer, cu::jit_info_log_bytes, cu::jit_error_log_buffer, cu::jit_error_log_bytes, cu::jit_log_verbose};
  void* values[] = {info.data(), number(info.size()), errors.data(), number(errors.size()), number(1)};
  const current scope(*context_);
  const driver& d = context_->d;
  const std::string& bytes = binary ? code.cubin : code.ptx;
  const cu::result result = d.module_load(&handle_, bytes.data(), 5, options, values);
  log_ = info.c_str();
  if (result == cu::success) {
    if (!code.watch.on()) return;
    try {
      watched_ = std::make_shared<watched>(d, handle_, code.watch);
      context_->watched_modules.add(watched_);
    } catch (...) {
      d.module_unload(handle_);
      throw;
    }
    return;
  }
  const std::string why = first_lines(errors.c_str(), 8);
  raise(device_error({.id = "module-rejected",
                      .what = cat("cuModuleLoadDataEx returned ", describe(d, result), " for ", binary ? "a cubin" : "PTX", " of ", bytes.size(), " bytes"),
                      .because = !why.empty()                              ? "the driver's assembler says: " + why
                                 : result == cu::error_no_binary_for_gpu   ? "the cubin is for another processor than " + target
                                                                           : "the driver gives no reason",
                      .fix = {cat("build the kernel for ", target, " with a toolkit not newer than the driver")}}));
}

gpu_module::~gpu_module() {
  quietly(*context_, [&](const driver& d) {
    watched_.reset();
    d.module_unload(handle_);  // fails only when the context is lost, and the module with it
  });
}

gpu_function& gpu_module::find(const std::string& entry) {
  std::lock_guard lock(guard_);
  for (const auto& f : functions_) {
    if (f->entry == entry) return *f;
  }
  const driver& d = context_->d;
  auto fresh = std::make_unique<gpu_function>();
  const cu::result code = d.module_function(&fresh->handle, handle_, entry.c_str());
  if (code == cu::error_not_found) {
    raise(user_error({.id = "entry-missing",
                      .what = cat("the module has no entry \"", entry, "\""),
                      .because = "entries are found by their exact PTX name",
                      .fix = {"compare with the .entry lines of the PTX"}}));
  }
  const std::string where = "kernel \"" + entry + "\"";
  check(d, code, "cuModuleGetFunction", where);
  fresh->entry = entry;
  fresh->interned_entry = intern_file(entry);
  int limit = 0;
  check(d, d.function_get(&fresh->static_shared_bytes, cu::function_shared_bytes, fresh->handle), "cuFuncGetAttribute", where);
  check(d, d.function_get(&fresh->max_threads, cu::function_max_threads, fresh->handle), "cuFuncGetAttribute", where);
  check(d, d.function_get(&limit, cu::function_max_dynamic_shared, fresh->handle), "cuFuncGetAttribute", where);
  fresh->dynamic_limit = limit;
  functions_.push_back(std::move(fresh));
  return *functions_.back();
}

}  // namespace tlx::runtime
