// A module loaded on a GPU, with the functions looked up so far.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/context.hpp"
#include "tlx/device/device.hpp"

namespace tlx::runtime {

struct gpu_function {
  std::string entry;
  const char* interned_entry = "";      // outlives the module: "the last launch was ..."
  cu::function handle = nullptr;
  int static_shared_bytes = 0;
  int max_threads = 0;                  // what its registers allow
  std::mutex limits_guard;
  std::atomic<int> dynamic_limit{0};    // dynamic shared bytes a launch may ask for so far
  std::atomic<bool> large_clusters{false};
};

class gpu_module final : public device::module {
 public:
  /// Raises user_error [image-empty] or [image-malformed], device_error [module-rejected] with the driver's log.
  gpu_module(std::shared_ptr<gpu_context> context, const device::image& code, const std::string& target);
  ~gpu_module() override;

  /// Raises user_error [entry-missing]. The context must be current.
  gpu_function& find(const std::string& entry);

  const gpu_context& context() const { return *context_; }
  const std::string& log() const { return log_; }
  watched* watch() const { return watched_.get(); }  // null: its kernels are not watched

 private:
  std::shared_ptr<gpu_context> context_;
  cu::module handle_ = nullptr;
  std::string log_;
  std::shared_ptr<watched> watched_;
  std::mutex guard_;
  std::vector<std::unique_ptr<gpu_function>> functions_;
  std::atomic<gpu_function*> recent_{nullptr};  // the last one found: a module seldom has another
};

/// Whether `bytes` is an ELF file that holds all it says it holds: the driver takes no size and would read past a truncated one.
bool is_whole_elf(const std::string& bytes);

}  // namespace tlx::runtime
