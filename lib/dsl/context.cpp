#include "tlx/dsl/context.hpp"

#include "canonical.hpp"
#include "tlx/ir/verify.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::dsl {

context::context(std::string name, std::string target, location where) : kernel_(std::make_unique<ir::kernel>()) {
  kernel_->name = std::move(name);
  kernel_->target = std::move(target);
  kernel_->where = where;
  builders_.emplace_back(*kernel_, kernel_->body);
  builders_.back().locate(where);
}

context::~context() = default;

ir::value context::add_parameter(const std::string& name, const ir::type& t) {
  auto& arguments = kernel_->body.arguments;
  arguments.push_back(std::make_unique<ir::value_def>(ir::value_def{.type = t, .owner = nullptr, .scope = &kernel_->body, .name = name}));
  return arguments.back().get();
}

ir::value context::use(ir::value v, const context* home) const {
  const location here = builders_.back().located();
  if (v == nullptr || home == nullptr)
    raise(user_error({.id = "value-unbound", .what = "a value that was never given anything is used", .where = here,
                      .because = "values come from the kernel's arguments, from constants and from operations", .fix = {"use a field of the kernel's argument struct"}}));
  if (home != this)
    raise(user_error({.id = "value-of-another-kernel",
                      .what = cat("a value of kernel \"", home->kernel_->name, "\" is used in kernel \"", kernel_->name, "\""),
                      .where = here, .because = "a value lives in the kernel it was recorded in", .fix = {"pass it as an argument of the second kernel"}}));
  const ir::region* scope = v->owner ? v->owner->parent : v->scope;
  for (const ir::region* r = &builders_.back().where(); r != nullptr; r = r->parent ? r->parent->parent : nullptr)
    if (r == scope) return v;
  raise(user_error({.id = "value-escapes", .what = cat("a value made inside a loop, branch or role", v->name.empty() ? "" : " (\"" + v->name + "\")", " is used outside of it"),
                    .where = here, .because = "what is computed inside a loop, branch or role is gone after it",
                    .fix = {"carry it in a cell: auto x = cta.carry(first); ... x.set(value); ... x.get()", "hand it from role to role through a ring"},
                    .context = cat("kernel \"", kernel_->name, "\"")}));
}

std::unique_ptr<ir::kernel> context::finish() {
  if (kernel_->body.ops.empty())
    raise(user_error({.id = "nothing-recorded", .what = cat("kernel \"", kernel_->name, "\" does nothing"), .where = kernel_->where,
                      .because = "its body recorded no operation", .fix = {"load, compute and store something in the body"}}));
  canonicalise(*kernel_);
  ir::verify_or_raise(*kernel_, "trace");
  return std::move(kernel_);
}

}  // namespace tlx::dsl
