// The only way to make ops. A builder appends at the end of a region, or inserts before an op; results get their types here. Its place is a number:
// what another builder inserts or erases before it in the same region moves it, so make a builder where it is used.
#pragma once
#include <initializer_list>
#include <string>
#include <vector>

#include "tlx/ir/kernel.hpp"

namespace tlx::ir {

class builder {
 public:
  builder(kernel& k, region& r) : kernel_(&k), region_(&r), at_(r.ops.size()) {}
  static builder before(kernel& k, op& o);
  static builder after(kernel& k, op& o);

  kernel& function() const { return *kernel_; }
  region& where() const { return *region_; }
  void move_to(region& r) { region_ = &r; at_ = r.ops.size(); }
  void locate(location l) { location_ = l; }
  location located() const { return location_; }

  /// The general door: every other function ends here.
  op& make(opcode code, std::vector<value> operands = {}, std::vector<type> results = {},
           std::vector<std::pair<std::string, attribute>> attributes = {});

  value integer(std::int64_t v, element e = element::s32);
  value boolean(bool v) { return integer(v, element::boolean); }
  value number(double v, element e = element::f32);
  value splat(double v, const type& t);
  value unary(opcode code, value a);
  value binary(opcode code, value a, value b);
  value compare(const char* is, value a, value b);
  value select(value c, value a, value b);
  value cast(value a, element to);
  value add(value a, value b) { return binary(opcode::add, a, b); }
  value sub(value a, value b) { return binary(opcode::sub, a, b); }
  value mul(value a, value b) { return binary(opcode::mul, a, b); }
  value div(value a, value b) { return binary(opcode::div, a, b); }
  value rem(value a, value b) { return binary(opcode::rem, a, b); }
  value add(value a, std::int64_t b) { return b == 0 ? a : add(a, integer(b, a->type.element)); }
  value mul(value a, std::int64_t b) { return b == 1 ? a : mul(a, integer(b, a->type.element)); }
  value ceil_div(value a, std::int64_t b);
  value simple(opcode code, element result, std::vector<std::pair<std::string, attribute>> attributes = {});  // no operands, scalar result

  value var(const type& cell, value first = nullptr, const std::string& name = {});
  value get(value cell);
  void set(value cell, value v);

  /// `body(builder&, index)`; the builder stands in the loop's region.
  template <class Body>
  op& for_each(value low, value high, value step, Body&& body) {
    op& loop = make(opcode::for_loop, {low, high, step});
    region& inner = add_region(loop);
    inner.arguments.push_back(std::make_unique<value_def>(value_def{.type = low->type, .scope = &inner, .name = "i"}));
    builder b = inside(inner);
    body(b, inner.arguments[0].get());
    return loop;
  }
  template <class Then>
  op& when(value condition, Then&& then) {
    op& branch = make(opcode::if_then, {condition});
    builder b = inside(add_region(branch));
    add_region(branch);
    then(b);
    return branch;
  }
  template <class Then, class Else>
  op& when(value condition, Then&& then, Else&& otherwise) {
    op& branch = make(opcode::if_then, {condition});
    region& first = add_region(branch);
    region& second = add_region(branch);
    builder b = inside(first);
    then(b);
    builder c = inside(second);
    otherwise(c);
    return branch;
  }

  static region& add_region(op& o);
  builder inside(region& r) const { builder b(*kernel_, r); b.location_ = location_; return b; }

 private:
  kernel* kernel_;
  region* region_;
  size_t at_;
  location location_;
};

/// Shape and element of an elementwise result; raises user_error [shape-mismatch] or [element-mismatch] at `where`.
type elementwise_type(const std::vector<value>& operands, location where);

/// Copies of ops with operands replaced by `map` where it has them (else kept).
class cloner {
 public:
  explicit cloner(builder& to) : to_(&to) {}
  void map(value from, value to) { pairs_.emplace_back(from, to); }
  value look_up(value v) const;
  op& copy(const op& o);              // the op, its regions, its results mapped
  void copy_all(const region& r) { for (const auto& o : r.ops) copy(*o); }

 private:
  builder* to_;
  std::vector<std::pair<value, value>> pairs_;
};

void replace_uses(region& in, value from, value to);
bool is_used(const region& in, value v);
void erase(op& o);  // from its region

}  // namespace tlx::ir
