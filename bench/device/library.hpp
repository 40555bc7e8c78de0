// A shared library opened at run time: the benchmarks need no toolkit to build, and say what is missing when they run.
#pragma once
#include <dlfcn.h>

#include <string>
#include <vector>

namespace tlx::bench {

class library {
 public:
  /// The first of `names` that opens; `opened()` is false when none does, and `why()` is what the loader said last.
  explicit library(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      if ((handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_GLOBAL))) return;
      if (const char* said = dlerror()) why_ = said;
    }
  }
  bool opened() const { return handle_ != nullptr; }
  const std::string& why() const { return why_; }

  /// Sets `function` to the symbol. False: absent.
  template <class F>
  bool find(F*& function, const char* name) const {
    function = reinterpret_cast<F*>(handle_ ? dlsym(handle_, name) : nullptr);
    return function != nullptr;
  }

 private:
  void* handle_ = nullptr;  // stays open: the CUDA libraries do not survive being closed
  std::string why_ = "no name given";
};

}  // namespace tlx::bench
