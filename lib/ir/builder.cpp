#include "tlx/ir/builder.hpp"

#include <algorithm>

#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::ir {

namespace {
size_t index_of(const op& o) {
  const auto& ops = o.parent->ops;
  return static_cast<size_t>(std::find_if(ops.begin(), ops.end(), [&](const auto& p) { return p.get() == &o; }) - ops.begin());
}
}  // namespace

builder builder::before(kernel& k, op& o) {
  builder b(k, *o.parent);
  b.at_ = index_of(o);
  b.location_ = o.where;
  return b;
}

builder builder::after(kernel& k, op& o) {
  builder b = before(k, o);
  ++b.at_;
  return b;
}

op& builder::make(opcode code, std::vector<value> operands, std::vector<type> results, std::vector<std::pair<std::string, attribute>> attributes) {
  auto made = std::make_unique<op>();
  made->code = code;
  made->operands = std::move(operands);
  made->attributes = std::move(attributes);
  made->where = location_;
  made->parent = region_;
  for (type& t : results) made->results.push_back(std::make_unique<value_def>(value_def{.type = std::move(t), .owner = made.get(), .scope = nullptr, .name = {}}));
  op& reference = *made;
  region_->ops.insert(region_->ops.begin() + static_cast<std::ptrdiff_t>(at_), std::move(made));
  ++at_;
  return reference;
}

region& builder::add_region(op& o) {
  o.regions.push_back(std::make_unique<region>());
  o.regions.back()->parent = &o;
  return *o.regions.back();
}

value builder::integer(std::int64_t v, element e) { return make(opcode::constant, {}, {type::scalar(e)}, {{"value", v}}).result(); }
value builder::number(double v, element e) { return make(opcode::constant, {}, {type::scalar(e)}, {{"value", v}}).result(); }

value builder::splat(double v, const type& t) {
  if (tile::is_float(t.element)) return make(opcode::constant, {}, {t}, {{"value", v}}).result();
  return make(opcode::constant, {}, {t}, {{"value", static_cast<std::int64_t>(v)}}).result();
}

type elementwise_type(const std::vector<value>& operands, location where) {
  const value_def* shaped = nullptr;
  for (value v : operands) {
    if (!v->type.is_scalar() && !v->type.is_tile())
      raise(user_error({.id = "not-arithmetic", .what = cat("arithmetic on a value of type ", to_string(v->type)), .where = where,
                        .because = "only scalars and register tiles have elementwise operations",
                        .fix = {"read the shared tile or accumulator into registers first"}}));
    if (!v->type.is_tile()) continue;
    if (shaped && (shaped->type.rows != v->type.rows || shaped->type.cols != v->type.cols))
      raise(user_error({.id = "shape-mismatch",
                        .what = cat("elementwise operation on tiles of ", shaped->type.rows, "x", shaped->type.cols, " and ", v->type.rows, "x", v->type.cols),
                        .where = where,
                        .because = "both tiles must have one shape",
                        .fix = {"broadcast the row or column vector to the tile's shape, or slice the larger one"}}));
    if (!shaped) shaped = v;
  }
  return shaped ? shaped->type : operands.front()->type;
}

value builder::unary(opcode code, value a) { return make(code, {a}, {elementwise_type({a}, location_)}).result(); }

namespace {
void same_element(value a, value b, location where) {
  if (a->type.element != b->type.element)
    raise(user_error({.id = "element-mismatch", .what = cat("operands are ", to_string(a->type), " and ", to_string(b->type)), .where = where,
                      .because = "there is no implicit conversion between element types inside a kernel", .fix = {"cast one side"}}));
}
}  // namespace

value builder::binary(opcode code, value a, value b) {
  same_element(a, b, location_);
  return make(code, {a, b}, {elementwise_type({a, b}, location_)}).result();
}

value builder::compare(const char* is, value a, value b) {
  same_element(a, b, location_);
  return make(opcode::compare, {a, b}, {elementwise_type({a, b}, location_).with_element(element::boolean)}, {{"is", std::string(is)}}).result();
}

value builder::select(value c, value a, value b) {
  same_element(a, b, location_);
  type t = elementwise_type({c, a, b}, location_).with_element(a->type.element);
  return make(opcode::select, {c, a, b}, {t}).result();
}

value builder::cast(value a, element to) {
  if (a->type.element == to) return a;
  return make(opcode::cast, {a}, {a->type.with_element(to)}).result();
}

value builder::ceil_div(value a, std::int64_t b) { return div(add(a, b - 1), integer(b, a->type.element)); }

value builder::simple(opcode code, element result, std::vector<std::pair<std::string, attribute>> attributes) {
  return make(code, {}, {type::scalar(result)}, std::move(attributes)).result();
}

value builder::var(const type& cell, value first, const std::string& name) {
  std::vector<value> operands;
  if (first) operands.push_back(first);
  value v = make(opcode::var_new, operands, {type::var_of(cell)}).result();
  v->name = name;
  return v;
}

value builder::get(value cell) { return make(opcode::var_get, {cell}, {cell->type.parts[0]}).result(); }
void builder::set(value cell, value v) { make(opcode::var_set, {cell, v}); }

value cloner::look_up(value v) const {
  for (auto it = pairs_.rbegin(); it != pairs_.rend(); ++it)
    if (it->first == v) return it->second;
  return v;
}

op& cloner::copy(const op& o) {
  std::vector<value> operands;
  for (value v : o.operands) operands.push_back(look_up(v));
  std::vector<type> results;
  for (const auto& r : o.results) results.push_back(r->type);
  const location keep = to_->located();
  to_->locate(o.where);
  op& made = to_->make(o.code, operands, results, o.attributes);
  to_->locate(keep);
  for (size_t i = 0; i < o.results.size(); ++i) {
    made.results[i]->name = o.results[i]->name;
    map(o.results[i].get(), made.results[i].get());
  }
  for (const auto& inner : o.regions) {
    region& r = builder::add_region(made);
    for (const auto& a : inner->arguments) {
      r.arguments.push_back(std::make_unique<value_def>(value_def{.type = a->type, .owner = nullptr, .scope = &r, .name = a->name}));
      map(a.get(), r.arguments.back().get());
    }
    builder b = to_->inside(r);
    builder* outer = to_;
    to_ = &b;
    copy_all(*inner);
    to_ = outer;
  }
  return made;
}

void replace_uses(region& in, value from, value to) {
  walk(in, [&](op& o) { std::replace(o.operands.begin(), o.operands.end(), from, to); });
}

bool is_used(const region& in, value v) {
  bool used = false;
  walk(in, [&](const op& o) { used = used || std::find(o.operands.begin(), o.operands.end(), v) != o.operands.end(); });
  return used;
}

void erase(op& o) { o.parent->ops.erase(o.parent->ops.begin() + static_cast<std::ptrdiff_t>(index_of(o))); }

int kernel::find_map(const tensor_map_use& m) {
  for (size_t i = 0; i < maps.size(); ++i)
    if (maps[i] == m) return static_cast<int>(i);
  maps.push_back(m);
  return static_cast<int>(maps.size()) - 1;
}

const place* kernel::barrier_at(std::int64_t offset) const {
  for (const place& p : places)
    if (p.is_barrier() && offset >= p.offset && offset < p.offset + p.bytes * p.stages) return &p;
  return nullptr;
}

std::unique_ptr<kernel> clone(const kernel& k) {
  auto copy = std::make_unique<kernel>();
  copy->name = k.name;
  copy->target = k.target;
  copy->where = k.where;
  copy->warps = k.warps;
  copy->blocks_per_processor = k.blocks_per_processor;
  copy->shared_bytes = k.shared_bytes;
  copy->maps = k.maps;
  copy->places = k.places;
  for (int i = 0; i < 3; ++i) {
    copy->cluster[i] = k.cluster[i];
    copy->grid[i] = k.grid[i];
  }
  builder b(*copy, copy->body);
  cloner c(b);
  for (const auto& a : k.body.arguments) {
    copy->body.arguments.push_back(std::make_unique<value_def>(value_def{.type = a->type, .owner = nullptr, .scope = &copy->body, .name = a->name}));
    c.map(a.get(), copy->body.arguments.back().get());
  }
  c.copy_all(k.body);
  return copy;
}

}  // namespace tlx::ir
