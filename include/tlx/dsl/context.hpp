// What a traced value belongs to: one kernel being recorded. Values carry it, so two kernels can be traced at once.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tlx/ir/builder.hpp"
#include "tlx/support/location.hpp"

namespace tlx::dsl {

class context {
 public:
  context(std::string name, std::string target, location where);
  ~context();

  ir::kernel& kernel() { return *kernel_; }
  ir::builder& at() { return builders_.back(); }
  /// Records at `where` from now on (operators have no location of their own and take the last one).
  ir::builder& at(location where) {
    builders_.back().locate(where);
    return builders_.back();
  }

  /// Records into a region while `inside` runs.
  template <class Body>
  void within(ir::region& r, Body&& inside) {
    builders_.push_back(builders_.back().inside(r));
    struct leave {
      std::vector<ir::builder>* stack;
      ~leave() { stack->pop_back(); }
    } guard{&builders_};
    inside();
  }

  ir::value add_parameter(const std::string& name, const ir::type& t);

  /// `v` itself when it may be used here. Raises user_error [value-of-another-kernel] or [value-escapes].
  ir::value use(ir::value v, const context* home) const;

  /// True: loads and stores recorded from now on are ordinary ones by the role's threads, for rows that no bulk copy can address.
  bool by_threads = false;

  /// Ends the recording: canonical order, verification. Raises user_error [nothing-recorded].
  std::unique_ptr<ir::kernel> finish();

 private:
  std::unique_ptr<ir::kernel> kernel_;
  std::vector<ir::builder> builders_;
};

}  // namespace tlx::dsl
