#include "tlx/dsl/context.hpp"

#include <algorithm>
#include <cctype>

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

namespace {
[[noreturn]] void unbound(location where) {
  raise(user_error({.id = "value-unbound", .what = "a value that was never given anything is used", .where = where,
                    .because = "values come from the kernel's arguments, from constants and from operations", .fix = {"use a field of the kernel's argument struct"}}));
}
}  // namespace

context& bound(context* home) {
  if (home == nullptr) unbound({});
  return *home;
}

void context::close(ir::op& opened) {
  if (opened.parent != &builders_.back().where()) closed_late_ = &opened;
  else at().make(ir::opcode::ring_close, {opened.result()});
  closed_.insert(&opened);
}

ir::value context::use(ir::value v, const context* home) const {
  const location here = builders_.back().located();
  if (v == nullptr || home == nullptr) unbound(here);
  if (home != this)
    raise(user_error({.id = "value-of-another-kernel",
                      .what = cat("a value of kernel \"", home->kernel_->name, "\" is used in kernel \"", kernel_->name, "\""),
                      .where = here, .because = "a value lives in the kernel it was recorded in", .fix = {"pass it as an argument of the second kernel"}}));
  if (v->owner && closed_.count(v->owner))
    raise(user_error({.id = "slot-closed", .what = cat("a part of a slot of ring \"", v->owner->operands[0]->owner->text("name"), "\" is used after the slot was closed"),
                      .where = here, .because = "a slot closes when its handle goes out of scope, and its memory is then handed on",
                      .fix = {"keep the handle: auto slot = ring.drain(); and take the parts from it"}, .context = cat("kernel \"", kernel_->name, "\"")}));
  const ir::region* scope = v->owner ? v->owner->parent : v->scope;
  for (const ir::region* r = &builders_.back().where(); r != nullptr; r = r->parent ? r->parent->parent : nullptr)
    if (r == scope) return v;
  const location made = v->owner ? v->owner->where : scope && scope->parent ? scope->parent->where : location{};  // an index of a loop: the loop's line
  raise(user_error({.id = "value-escapes", .what = cat("a value made inside a loop, branch or role", v->name.empty() ? "" : " (\"" + v->name + "\")", made.known() ? cat(" at ", to_string(made)) : "", " is used outside of it"),
                    .where = here, .because = "what is computed inside a loop, branch or role is gone after it",
                    .fix = {"carry it in a cell: auto x = cta.carry(first); ... x.set(value); ... x.get()", "hand it from role to role through a ring"},
                    .context = cat("kernel \"", kernel_->name, "\"")}));
}

std::unique_ptr<ir::kernel> context::finish() {
  if (kernel_->body.ops.empty())
    raise(user_error({.id = "nothing-recorded", .what = cat("kernel \"", kernel_->name, "\" does nothing"), .where = kernel_->where,
                      .because = "its body recorded no operation", .fix = {"load, compute and store something in the body"}}));
  const bool word = !kernel_->name.empty() && !std::isdigit(static_cast<unsigned char>(kernel_->name[0])) &&
                    std::all_of(kernel_->name.begin(), kernel_->name.end(), [](unsigned char c) { return std::isalnum(c) || c == '_'; });
  if (!word)
    raise(user_error({.id = "name-invalid", .what = cat("\"", kernel_->name, "\" cannot be the name of a kernel"), .where = kernel_->where,
                      .because = "the name becomes a symbol of the compiled code", .fix = {"use letters, digits and underscores, and no digit first"}}));
  if (closed_late_)
    raise(user_error({.id = "slot-outlives-region", .what = cat("a slot of ring \"", closed_late_->operands[0]->owner->text("name"), "\" is closed outside of the loop, branch or role that opened it"),
                      .where = closed_late_->where, .because = "every round must hand on the slot it opened", .fix = {"let the handle go out of scope where the slot was opened"},
                      .context = cat("kernel \"", kernel_->name, "\"")}));
  canonicalise(*kernel_);
  ir::verify_or_raise(*kernel_, "trace");
  return std::move(kernel_);
}

}  // namespace tlx::dsl
