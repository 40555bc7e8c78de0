// What a traced value belongs to: one kernel being recorded. Values carry it, so two kernels can be traced at once.
#pragma once
#include <memory>
#include <set>
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

  /// `v` itself when it may be used here. Raises user_error [value-unbound], [value-of-another-kernel], [value-escapes] or [slot-closed].
  ir::value use(ir::value v, const context* home) const;

  /// The end of a slot. Never throws: it runs in destructors; what is wrong is raised by finish().
  void close(ir::op& opened);

  /// True: loads and stores recorded from now on are ordinary ones by the role's threads, for rows that no bulk copy can address.
  bool by_threads = false;

  /// True: products recorded from now on are those of a pair of CTAs.
  bool pairs = false;

  /// Ends the recording: canonical order, verification. Raises user_error [nothing-recorded], [name-invalid] or [slot-outlives-region].
  std::unique_ptr<ir::kernel> finish();

 private:
  std::unique_ptr<ir::kernel> kernel_;
  std::vector<ir::builder> builders_;
  std::set<const ir::op*> closed_;        // the opening ops of slots that are closed
  const ir::op* closed_late_ = nullptr;   // a slot whose handle outlived the loop, branch or role it was opened in
};

/// The context of a value, or user_error [value-unbound] when it has none.
context& bound(context* home);

}  // namespace tlx::dsl
