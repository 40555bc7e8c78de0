#include "tlx/dsl/registry.hpp"

#include "tlx/ir/text.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::dsl {

namespace {

std::vector<registered>& all() {
  static std::vector<registered> kernels;  // a function's: registrations run before main() in any order of files
  return kernels;
}

bool is_identifier(const std::string& s) {
  constexpr const char* letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  return !s.empty() && s.find_first_not_of(letters) == std::string::npos && s[0] > '9';
}

maker refusing(const diagnostic& why) {
  return [why](const std::string&, const std::string&) -> std::unique_ptr<ir::kernel> { raise(user_error(why)); };
}

}  // namespace

const std::vector<registered>& registered_kernels() { return all(); }

bool register_maker(std::string name, std::string configuration, maker make) {
  registered made{std::move(name), std::move(configuration), std::move(make)};
  const std::string full = made.full_name();
  if (!is_identifier(full))
    made.make = refusing({.id = "kernel-name-invalid", .what = cat("a kernel is registered as \"", full, "\""), .because = "the name is also the entry in PTX: letters, digits and _",
                          .fix = {"use an identifier for the name, and letters, digits and _ for a configuration"}});
  for (const registered& other : all())
    if (other.full_name() == full)
      made.make = refusing({.id = "kernel-registered-twice", .what = cat("two kernels are registered as \"", full, "\""), .because = "tools find kernels by name",
                            .fix = {"rename one of them, or give its configurations different names"}});
  all().push_back(std::move(made));
  return true;
}

int trace_to_text(size_t index, const char* target, tlx_registry_text text, void* user) {
  std::string out;
  int status = 0;
  try {
    if (index >= all().size() || !target || !text)
      raise(user_error({.id = "kernel-unknown", .what = cat("kernel number ", index, " of ", all().size(), " was asked for"), .because = "kernels are numbered from 0",
                        .fix = {"ask tlx_registry_count first, and give a target and a function that takes the text"}}));
    out = ir::print(*all()[index].trace(target));
  } catch (const user_error& e) {
    out = e.what();
    status = 1;
  } catch (const std::exception& e) {
    out = e.what();
    status = 2;
  }
  if (text) text(user, out.data(), out.size());
  return status;
}

}  // namespace tlx::dsl
