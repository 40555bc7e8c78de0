// The errors of tlx: five parts (id, what with numbers, where, because, fix), three families, one place that throws.
#pragma once
#include <stdexcept>
#include <string>
#include <vector>

#include "tlx/support/location.hpp"

namespace tlx {

/// The five parts of a message. `id` is a kebab-case fact ("ring-never-drained"); docs/errors.md has an entry for each.
struct diagnostic {
  std::string id;
  std::string what;               // in the user's words, with the numbers; lower case, no final stop
  location where = {};
  std::string because = {};       // the rule that was broken
  std::vector<std::string> fix = {};  // one or two ways out
  std::string context = {};       // "kernel \"gemm\"", "ptx line 214": printed after the location
};

/// "tlx error [id]: what\n  at file:line in context\n  because ...\n  fix ...". `family` is "error", "device error", "sim error", ...
std::string to_string(const diagnostic& d, const std::string& family = "error");

class error : public std::runtime_error {
 public:
  error(diagnostic d, const std::string& family) : std::runtime_error(to_string(d, family)), parts_(std::move(d)) {}
  const diagnostic& parts() const { return parts_; }
  const std::string& id() const { return parts_.id; }

 private:
  diagnostic parts_;
};

struct user_error : error { explicit user_error(diagnostic d) : error(std::move(d), "error") {} };              // fix your kernel or call
struct device_error : error { explicit device_error(diagnostic d) : error(std::move(d), "device error") {} };   // fix the machine or the launch
struct sim_error : error { explicit sim_error(diagnostic d) : error(std::move(d), "sim error") {} };            // the simulator found a fault
struct internal_error : error { explicit internal_error(diagnostic d) : error(std::move(d), "internal error") {} };  // report it

/// Every error of tlx is thrown here, so that one breakpoint finds them all.
[[noreturn]] void raise(user_error e);
[[noreturn]] void raise(device_error e);
[[noreturn]] void raise(sim_error e);
[[noreturn]] void raise(internal_error e);

}  // namespace tlx
