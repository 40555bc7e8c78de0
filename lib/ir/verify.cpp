#include "tlx/ir/verify.hpp"

#include <algorithm>
#include <set>

#include "tlx/ir/text.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::ir {

namespace {

class checker {
 public:
  explicit checker(std::vector<problem>& found) : found_(&found) {}

  void check_region(const region& r, std::set<const value_def*> visible) {
    for (const auto& a : r.arguments) visible.insert(a.get());
    for (const auto& o : r.ops) {
      for (value v : o->operands)
        if (!visible.count(v)) say(*o, "uses a value that is not defined before it in this region or an enclosing one");
      if (check_counts(*o)) check_types(*o);
      for (const auto& inner : o->regions) {
        if (inner->parent != o.get()) say(*o, "region with a wrong parent");
        check_region(*inner, visible);
      }
      if (o->parent != &r) say(*o, "wrong parent region");
      for (const auto& result : o->results) visible.insert(result.get());
    }
  }

 private:
  void say(const op& o, std::string what) { found_->push_back({&o, std::move(what)}); }

  // False: the rules about types would look at operands that are not there.
  bool check_counts(const op& o) {
    const op_row& expected = row(o.code);
    const size_t before = found_->size();
    if (expected.operands >= 0 && static_cast<int>(o.operands.size()) != expected.operands)
      say(o, cat("expects ", expected.operands, " operands, has ", o.operands.size()));
    if (expected.results >= 0 && static_cast<int>(o.results.size()) != expected.results)
      say(o, cat("expects ", expected.results, " results, has ", o.results.size()));
    if (static_cast<int>(o.regions.size()) != expected.regions) say(o, cat("expects ", expected.regions, " regions, has ", o.regions.size()));
    return found_->size() == before;
  }

  static bool elementwise(opcode c) {
    return (c >= opcode::add && c <= opcode::cos);
  }

  void check_elementwise(const op& o) {
    if (o.operands.empty() || o.results.size() != 1) return;
    const type& r = o.result()->type;
    for (value v : o.operands) {
      if (!v->type.is_scalar() && !v->type.is_tile()) say(o, cat("operand of type ", to_string(v->type), " in arithmetic"));
      if (v->type.is_tile() && (!r.is_tile() || v->type.rows != r.rows || v->type.cols != r.cols))
        say(o, cat("operand is ", to_string(v->type), ", result ", to_string(r)));
      if (v->type.is_tile() && r.is_tile() && v->type.layout && r.layout && !(*v->type.layout == *r.layout)) say(o, "operand and result have different layouts");
    }
    const bool converts = o.is(opcode::cast) || o.is(opcode::bitcast) || o.is(opcode::compare);
    const size_t first = o.is(opcode::select) ? 1 : 0;
    if (!converts)
      for (size_t i = first; i < o.operands.size(); ++i)
        if (o.operands[i]->type.element != r.element) say(o, cat("operand ", i, " is ", to_string(o.operands[i]->type), ", result ", to_string(r)));
    if (o.is(opcode::compare) && r.element != element::boolean) say(o, "a comparison gives bool");
    if (o.is(opcode::select) && o.operands.size() == 3 && o.operands[0]->type.element != element::boolean) say(o, "the condition of select must be bool");
  }

  void check_types(const op& o) {
    if (elementwise(o.code)) return check_elementwise(o);
    auto boolean = [&](size_t i) {
      if (i < o.operands.size() && !(o.operands[i]->type == type::scalar(element::boolean))) say(o, "the condition must be a bool scalar");
    };
    switch (o.code) {
      case opcode::if_then: boolean(0); break;
      case opcode::yield: boolean(0); break;
      case opcode::require:
        if (o.operands.empty() || o.operands.size() > 3) say(o, "needs a bool and optionally a value and its bound");
        boolean(0);
        for (size_t i = 1; i < o.operands.size(); ++i)
          if (!(o.operands[i]->type == type::scalar(element::s32))) say(o, "a value or bound to show must be an s32 scalar");
        break;
      case opcode::for_loop:
        for (value v : o.operands)
          if (!v->type.is_scalar() || !tile::is_integer(v->type.element)) say(o, "loop bounds must be integer scalars");
        for (value v : o.operands)
          if (v->type.element != o.operands[0]->type.element) say(o, "loop bounds must have one type");
        if (o.regions[0]->arguments.size() != 1) say(o, "a loop has one index");
        else if (!(o.regions[0]->arguments[0]->type == o.operands[0]->type)) say(o, "the index has another type than the bounds");
        break;
      case opcode::while_loop:
        if (o.regions[0]->ops.empty() || !o.regions[0]->ops.back()->is(opcode::yield)) say(o, "the first region must end with yield");
        break;
      case opcode::constant:
        if (!o.has("value")) say(o, "a constant needs a value");
        break;
      case opcode::var_new:
        if (o.operands.size() > 1) say(o, "a cell has one first value");
        else if (!o.result()->type.is(type::kind::var)) say(o, "the result must be a cell");
        else if (o.operands.size() == 1 && !(o.operands[0]->type == o.result()->type.parts[0])) say(o, cat("the cell holds ", to_string(o.result()->type.parts[0])));
        break;
      case opcode::var_get:
      case opcode::var_set:
        if (o.operands.empty() || !o.operands[0]->type.is(type::kind::var)) {
          say(o, "needs a cell");
        } else if (const type& cell = o.operands[0]->type.parts[0]; !(cell == (o.is(opcode::var_get) ? o.result()->type : o.operands.back()->type))) {
          say(o, cat("the cell holds ", to_string(cell)));
        }
        break;
      case opcode::ring_fill:
      case opcode::ring_drain:
        if (o.operands.empty() || !o.operands[0]->type.is(type::kind::ring)) {
          say(o, "needs a ring");
        } else if (o.operands[0]->type.parts.size() != o.results.size()) {
          say(o, cat("the ring has ", o.operands[0]->type.parts.size(), " parts, the slot ", o.results.size()));
        } else {
          for (size_t i = 0; i < o.results.size(); ++i)
            if (!(o.results[i]->type == o.operands[0]->type.parts[i])) say(o, cat("part ", i, " is ", to_string(o.operands[0]->type.parts[i])));
        }
        break;
      case opcode::tile_load:
      case opcode::tile_store:
      case opcode::global_store: {
        const size_t jagged = static_cast<size_t>(o.integer("jagged") + o.integer("barrier"));
        if (o.operands.size() < 2 || !o.operands[1]->type.is(type::kind::view)) say(o, "the second operand must be a view");
        else if (o.is(opcode::tile_load) && !o.operands[0]->type.is(type::kind::shared)) say(o, "the first operand must be a shared tile");
        else if (o.is(opcode::tile_store) && !o.operands[0]->type.is_tile()) say(o, "the first operand must be a tile");
        else if (o.operands[0]->type.element != o.operands[1]->type.element)
          say(o, cat("the tile is ", to_string(o.operands[0]->type), ", the view ", to_string(o.operands[1]->type)));
        else if (o.operands.size() != 2 + static_cast<size_t>(o.operands[1]->type.rank) + jagged)
          say(o, cat("a view of rank ", o.operands[1]->type.rank, " needs as many coordinates, has ", o.operands.size() - 2 - jagged));
        break;
      }
      case opcode::global_load: {
        const size_t jagged = static_cast<size_t>(o.integer("jagged"));
        if (o.operands.empty() || !o.operands[0]->type.is(type::kind::view)) say(o, "the first operand must be a view");
        else if (o.operands.size() != 1 + static_cast<size_t>(o.operands[0]->type.rank) + jagged)
          say(o, cat("a view of rank ", o.operands[0]->type.rank, " needs as many coordinates, has ", o.operands.size() - 1 - jagged));
        break;
      }
      case opcode::tile_read:
      case opcode::tile_write: {
        const type& shared = o.operands.back()->type;
        const type& held = o.is(opcode::tile_read) ? o.result()->type : o.operands[0]->type;
        if (!shared.is(type::kind::shared) || !held.is_tile()) say(o, "needs a shared tile and a register tile");
        else if (const bool along = o.is(opcode::tile_read) && shared.cols == 1 && held.rows == 1;  // a vector, read as a row
                 shared.rows != (along ? held.cols : held.rows) || shared.cols != (along ? 1 : held.cols) || shared.element != held.element) say(o, cat(to_string(shared), " and ", to_string(held), " differ"));
        break;
      }
      case opcode::shared_view:
        if (const bool some = o.operands.size() == 2; o.operands.empty() || o.operands.size() > 2 || o.operands[0]->type.is(type::kind::shared) != some)
          say(o, "needs an address, or a shared tile and a row");
        else if (const type &from = o.operands[0]->type, &part = o.result()->type;
                 some && (from.element != part.element || from.cols != part.cols || from.swizzle_bytes != part.swizzle_bytes || part.rows > from.rows || !(o.operands[1]->type == type::scalar(element::s32))))
          say(o, cat(to_string(part), " of ", to_string(from)));
        break;
      case opcode::acc_read:
        if (o.operands.empty() || o.operands.size() > 2 || !o.operands[0]->type.is(type::kind::acc)) say(o, "needs an accumulator and optionally a bool");
        else if (!o.result()->type.is_tile() || o.result()->type.rows != o.operands[0]->type.rows || o.result()->type.element != o.operands[0]->type.element ||
                 o.integer("column") < 0 || o.integer("column") + o.result()->type.cols > o.operands[0]->type.cols)
          say(o, cat("reads ", to_string(o.result()->type), " from column ", o.integer("column"), " of ", to_string(o.operands[0]->type)));
        boolean(1);
        break;
      case opcode::acc_write:
        if (!o.operands[0]->type.is(type::kind::acc) || !o.operands[1]->type.is_tile()) say(o, "needs an accumulator and a register tile");
        else if (o.operands[1]->type.rows != o.operands[0]->type.rows || o.operands[1]->type.element != o.operands[0]->type.element || o.integer("column") < 0 ||
                 o.integer("column") + o.operands[1]->type.cols > o.operands[0]->type.cols)
          say(o, cat("writes ", to_string(o.operands[1]->type), " to column ", o.integer("column"), " of ", to_string(o.operands[0]->type)));
        break;
      case opcode::tile_clear:
        if (!o.operands[0]->type.is(type::kind::shared) || !(o.operands[1]->type == type::scalar(element::s32))) say(o, "needs a shared tile and a row");
        break;
      case opcode::mma:
        if (o.has("block") ? o.operands.size() < 6 : o.operands.size() < 3 || o.operands.size() > 4) say(o, o.has("block") ? "acc, a, b, accumulate and two tiles of scales" : "acc, a, b and optionally accumulate");
        else if (o.has("block") && (!o.operands[4]->type.is(type::kind::shared) || !o.operands[5]->type.is(type::kind::shared))) say(o, "scales lie in shared memory");
        else if (!o.operands[0]->type.is(type::kind::acc)) say(o, "the first operand must be an accumulator");
        else check_product(o);
        boolean(3);
        break;
      case opcode::reduce:
        if (o.operands.size() == 1 && o.results.size() == 1) {
          const type& a = o.operands[0]->type;
          const type& r = o.result()->type;
          const bool columns = o.integer("axis") == 1;
          if (r.rows != (columns ? a.rows : 1) || r.cols != (columns ? 1 : a.cols)) say(o, "the result must be one vector of the other axis");
        }
        break;
      case opcode::broadcast:
        if (o.operands.size() == 1 && o.results.size() == 1) {
          const type& a = o.operands[0]->type;
          const type& r = o.result()->type;
          if (!((a.rows == r.rows && a.cols == 1) || (a.cols == r.cols && a.rows == 1))) say(o, cat(to_string(a), " cannot be repeated to ", to_string(r)));
        }
        break;
      case opcode::every_other:
        if (o.operands.size() == 1 && o.results.size() == 1) {
          const type& a = o.operands[0]->type;
          const type& r = o.result()->type;
          if (!a.is_tile() || !r.is_tile() || a.rows != r.rows || a.cols != 2 * r.cols || a.element != r.element) say(o, "the result has the rows of the tile and half of its columns");
          if (o.integer("first") != 0 && o.integer("first") != 1) say(o, "starts with column 0 or 1");
        }
        break;
      case opcode::interleave:
        if (o.operands.size() == 2 && o.results.size() == 1)
          for (value v : o.operands)
            if (!v->type.is_tile() || v->type.rows != o.result()->type.rows || 2 * v->type.cols != o.result()->type.cols || v->type.element != o.result()->type.element)
              say(o, "both tiles have the result's rows and half of its columns");
        break;
      default: break;
    }
  }

  void check_product(const op& o) {
    const type &acc = o.operands[0]->type, &a = o.operands[1]->type, &b = o.operands[2]->type;
    if (!a.is(type::kind::shared) && !a.is_tile()) return say(o, "a must be a shared tile or a tile");
    if (!b.is(type::kind::shared)) return say(o, "b must be a shared tile");
    const bool ta = o.integer("ta") != 0, tb = o.integer("tb") != 0;
    const int m = ta ? a.cols : a.rows, ka = ta ? a.rows : a.cols, kb = tb ? b.cols : b.rows, n = (tb ? b.rows : b.cols) * (o.integer("halved") != 0 ? 2 : 1);
    if (m != acc.rows || n != acc.cols || ka != kb) say(o, cat(m, "x", ka, " times ", kb, "x", n, " into ", acc.rows, "x", acc.cols));
  }

  std::vector<problem>* found_;
};

// What a pass has removed for good, in the order of the passes.
constexpr std::pair<std::string_view, std::string_view> removed[] = {
    {"insert-barriers", "ring.make"}, {"insert-barriers", "ring.fill"}, {"insert-barriers", "ring.drain"}, {"insert-barriers", "ring.close"},
    {"lower-moves", "tile.load"},     {"lower-moves", "tile.store"},    {"lower-moves", "tile.read"},      {"lower-moves", "tile.write"},
    {"lower-mma", "mma"},             {"lower-mma", "acc.make"},        {"lower-mma", "acc.read"},         {"split-roles", "role"},
    {"split-roles", "role_warp"},     {"simplify", ""}};

void check_stage(const kernel& k, const std::string& after, std::vector<problem>& found) {
  const bool known = std::any_of(std::begin(removed), std::end(removed), [&](const auto& r) { return r.first == after; });
  if (!known) return;
  bool passed = false;
  for (const auto& [pass, text] : removed) {
    if (passed && pass != after) break;
    passed = passed || pass == after;
    walk(k.body, [&, gone = text, by = pass](const op& o) {
      if (row(o.code).text == gone) found.push_back({&o, cat("is gone after ", by)});
    });
  }
}

}  // namespace

std::vector<problem> verify(const kernel& k) {
  std::vector<problem> found;
  checker(found).check_region(k.body, {});
  return found;
}

void verify_or_raise(const kernel& k, const std::string& after) {
  std::vector<problem> found = verify(k);
  check_stage(k, after, found);
  if (found.empty()) return;
  std::string listing;
  for (const problem& p : found) listing += cat("\n    ", print(*p.at), "      ^ ", p.what);
  raise(internal_error({.id = "ir-invalid", .what = cat(found.size(), found.size() == 1 ? " problem" : " problems", " in kernel \"", k.name, "\"", listing),
                        .because = "an invariant of the IR is broken", .fix = {"report this with the output of `tlxc print`"}, .context = "after " + after}));
}

}  // namespace tlx::ir
