// The kernels of a bundle on one machine: chosen for it, loaded at their first use, launched.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tlx/bundle/bundle.hpp"
#include "tlx/device/launcher.hpp"

namespace tlx::bundle {

/// One kernel on one machine. Launches may come from any thread. Lives as long as its library.
class loaded_kernel {
 public:
  /// Checks the arguments and launches; asynchronous on a GPU. An empty grid is nothing to do. Raises what device::bind() and the machine raise.
  void launch(const std::vector<device::value>& arguments, std::uint64_t stream = 0);
  void launch(const device::value_ref* arguments, std::size_t count, std::uint64_t stream = 0);
  /// A struct that `tlxc build --header` wrote. Raises user_error [argument-struct-differs] when it is of another kernel, or of another version of it.
  template <class Arguments>
  void launch(const Arguments& in, std::uint64_t stream = 0) {
    check_signature(Arguments::tlx_kernel, Arguments::tlx_signature);
    const auto arguments = in.tlx_arguments();
    launch(arguments.data(), arguments.size(), stream);
  }
  const device::kernel& about() const;  // without its code

 private:
  friend class library;
  struct state;
  explicit loaded_kernel(std::unique_ptr<state> made);
  void check_signature(const char* kernel, const char* signature) const;
  std::shared_ptr<state> state_;
};

class library {
 public:
  /// `on` outlives the library.
  library(device::machine& on, bundle from);
  ~library();
  library(library&&) noexcept;
  library& operator=(library&&) noexcept;

  /// Found, read, checked and given to the machine at the first call. Keep the reference where launches must be cheap. For any number of threads.
  /// Raises what bundle::choose(), bundle::load() and the machine's load() raise.
  loaded_kernel& kernel(std::string_view name, std::string_view configuration = {});
  template <class Arguments>
  void launch(const Arguments& in, std::string_view configuration = {}, std::uint64_t stream = 0) {
    kernel(Arguments::tlx_kernel, configuration).launch(in, stream);
  }
  /// Loads every kernel that has code for this machine, so that no launch waits for a load; how many.
  std::size_t load_all();

  const bundle& from() const;
  device::machine& on() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace tlx::bundle
