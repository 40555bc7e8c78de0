// Layouts flow from the ops that prescribe one (accumulator reads, register operands) along elementwise ops to those that adopt any (loads, constants,
// indices, broadcasts). What nobody prescribes is spread for coalesced access.
#include <algorithm>
#include <optional>

#include "agents.hpp"
#include "passes.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/fragments.hpp"
#include "tlx/tile/layout_ops.hpp"

namespace tlx::pass {

namespace {

bool elementwise(const ir::op& o) { return o.code >= ir::opcode::add && o.code <= ir::opcode::cos; }

class assigner {
 public:
  assigner(ir::kernel& k, const agent& who) : k_(k), who_(who) {}

  void run() {
    ir::walk(*who_.body, [&](ir::op& o) {
      if (o.is(ir::opcode::role) && !who_.role) return;
      prescribe(o);
      for (const auto& r : o.results)
        if (r->type.is_tile()) tiles_.push_back(r.get());
    });
    spread();
    // Whole tiles before vectors: a vector then follows the tile that it is repeated over or reduced from, and nothing has to be converted.
    const auto size = [](ir::value v) { return v->type.rows * v->type.cols; };
    std::stable_sort(tiles_.begin(), tiles_.end(), [&](ir::value a, ir::value b) { return size(a) > size(b); });
    for (ir::value v : tiles_) {
      if (v->type.layout) continue;
      v->type = v->type.with_layout(runs_down(v) ? tile::wgmma_accumulator(v->type.rows, v->type.cols, who_.warps)
                                                 : tile::blocked(v->type.rows, v->type.cols, who_.warps, std::max(1, 128 / tile::bits(v->type.element))));
      spread();
    }
    convert_where_needed();
  }

 private:
  void give(ir::value v, const tile::layout& l) {
    if (!v->type.is_tile() || v->type.layout) return;
    v->type = v->type.with_layout(l);
    changed_ = true;
  }

  // A tile that is fetched with its rows along the view's innermost axis: eight lanes, then, along the rows are the 32 bytes of a sector, and a warp still owns whole rows.
  bool runs_down(ir::value v) const {
    if (!v->owner || !v->owner->is(ir::opcode::global_load) || v->type.cols % 8 != 0 || who_.warps % 4 != 0 || v->type.rows % (16 * who_.warps) != 0) return false;
    const std::vector<std::int64_t> axes = v->owner->integers("tile_axes");
    return axes.size() == 2 && axes[0] == v->owner->operands[0]->type.rank - 1;
  }

  // Numbers of warps that wgmma can give these rows to; a kernel has at most 32.
  static std::string fitting_warps(int rows, int cols) {
    if (cols % 8 != 0) return cat("use a multiple of 8 columns, ", (cols + 7) / 8 * 8, " instead of ", cols);
    if (rows % 64 != 0) return cat("use a multiple of 64 rows, ", (rows + 63) / 64 * 64, " instead of ", rows, ", and 4 warps");
    std::string all;
    for (int groups = 1; groups <= 8; ++groups)
      if (rows / 64 % groups == 0) all += cat(all.empty() ? "" : " or ", 4 * groups);
    return cat("use ", all, " warps for ", rows, " rows");
  }

  // A vector that is used beside an accumulator lies as the accumulator's rows do. What it is reduced from, if anything will do, lies as an accumulator of its own
  // width would: then nothing is converted, in a loop every round.
  void give_what_reduces_to(ir::op& reduce) {
    const ir::type& t = reduce.operands[0]->type;
    if (who_.warps % 4 != 0) return;
    std::optional<tile::layout> as_read;
    if (!has_tensor_memory(k_)) {
      if (t.rows % (64 * (who_.warps / 4)) == 0 && t.cols % 8 == 0) as_read = tile::wgmma_accumulator(t.rows, t.cols, who_.warps);
    } else if (who_.warps == 4 && t.rows == 128) {
      as_read = tile::tmem_rows_32x32b(t.rows, t.cols, who_.warps);
    } else if (who_.warps == 4 && t.rows == 64 && t.cols % 8 == 0) {
      as_read = tile::tmem_16x256b(t.rows, t.cols, who_.warps);
    }
    if (as_read && tile::reduced(*as_read, gone(reduce)) == *reduce.result()->type.layout) give(reduce.operands[0], *as_read);
  }

  tile::layout accumulator_layout(const ir::op& o, int rows, int cols) {
    const int warps = who_.warps;
    const std::string context = cat("kernel \"", k_.name, "\"");
    if (has_tensor_memory(k_)) {
      if (warps % 4 != 0 || (rows != 64 && rows != 128))
        raise(user_error({.id = "accumulator-shape", .what = cat("an accumulator of ", rows, " rows is read by ", warps, " warps"), .where = o.where,
                          .because = "tensor memory is read by whole warpgroups, 64 or 128 rows at a time", .fix = {"use 64 or 128 rows and 4 warps"}, .context = context}));
      // Outside of roles whoever reads may reduce rows, and a reduction stays inside a warp.
      if (rows == 128 && warps == 8 && !who_.role) return tile::tmem_16x256b_by_rows(cols);
      return rows == 64 ? tile::tmem_16x256b(rows, cols, warps) : tile::tmem_rows_32x32b(rows, cols, warps);
    }
    if (warps % 4 != 0 || rows % (64 * (warps / 4)) != 0 || cols % 8 != 0)
      raise(user_error({.id = "accumulator-shape", .what = cat("an accumulator of ", rows, "x", cols, " is shared by ", warps, " warps"), .where = o.where,
                        .because = "wgmma gives each warpgroup (4 warps) a multiple of 64 rows, and columns come in eights",
                        .fix = {fitting_warps(rows, cols)}, .context = context}));
    return tile::wgmma_accumulator(rows, cols, warps);
  }

  void prescribe(ir::op& o) {
    if (o.is(ir::opcode::acc_read)) {
      const ir::type& t = o.result()->type;
      o.result()->type = t.with_layout(accumulator_layout(o, t.rows, t.cols));
    }
    if (o.is(ir::opcode::acc_write)) {
      const ir::type& t = o.operands[1]->type;
      give(o.operands[1], accumulator_layout(o, t.rows, t.cols));
    }
  }

  void spread() {
    do {
      changed_ = false;
      ir::walk(*who_.body, [&](ir::op& o) {
        if (elementwise(o) && o.result()->type.is_tile()) {
          const tile::layout* known = o.result()->type.layout.get();
          for (ir::value v : o.operands)
            if (!known && v->type.is_tile()) known = v->type.layout.get();
          if (!known) return;
          const tile::layout l = *known;
          give(o.result(), l);
          for (ir::value v : o.operands) give(v, l);
        } else if (o.is(ir::opcode::reduce)) {
          if (const auto& l = o.operands[0]->type.layout) give(o.result(), tile::reduced(*l, gone(o)));
          else if (o.result()->type.layout) give_what_reduces_to(o);
        } else if (o.is(ir::opcode::broadcast)) {
          if (const auto& l = o.result()->type.layout) give(o.operands[0], tile::reduced(*l, o.operands[0]->type.cols == 1 ? tile::axis::cols : tile::axis::rows));
        } else if (o.is(ir::opcode::every_other)) {
          halve(o.operands[0], o.result());
        } else if (o.is(ir::opcode::interleave)) {
          for (ir::value half : o.operands) halve(o.result(), half);
        } else if (o.is(ir::opcode::var_get) || o.is(ir::opcode::var_set) || o.is(ir::opcode::var_new)) {
          carry(o);
        }
      });
    } while (changed_);
  }

  // A tile and one that has every other column of it.
  void halve(ir::value whole, ir::value half) {
    if (const auto l = half->type.layout) give(whole, tile::doubled_columns(*l));
    else if (const auto w = whole->type.layout; w && tile::pairs_columns(*w)) give(half, tile::halved_columns(*w));
  }

  // A cell of a tile has one layout: that of the first value set.
  void carry(ir::op& o) {
    ir::value cell = o.is(ir::opcode::var_new) ? o.result() : o.operands[0];
    ir::type& held = cell->type.parts[0];
    if (!held.is_tile()) return;
    ir::value v = o.is(ir::opcode::var_get) ? o.result() : o.operands.empty() ? nullptr : o.operands.back();
    if (!v || v == cell) return;
    if (v->type.layout && !held.layout) {
      held = held.with_layout(*v->type.layout);
      changed_ = true;
    }
    if (held.layout) give(v, *held.layout);
  }

  static tile::axis gone(const ir::op& reduce) { return reduce.integer("axis") == 1 ? tile::axis::cols : tile::axis::rows; }

  ir::value converted(ir::op& user, ir::value v, const tile::layout& to) {
    if (*v->type.layout == to) return v;
    ir::builder b = ir::builder::before(k_, user);
    return b.make(ir::opcode::convert, {v}, {v->type.with_layout(to)}).result();
  }

  // `o` leaves its result as `made`; whoever was laid out for something else gets it converted.
  void make_instead(ir::op& o, const tile::layout& made) {
    const ir::type wanted = o.result()->type;
    if (*wanted.layout == made) return;
    o.result()->type = wanted.with_layout(made);
    ir::value moved = ir::builder::after(k_, o).make(ir::opcode::convert, {o.result()}, {wanted}).result();
    ir::replace_uses(k_.body, o.result(), moved);
    moved->owner->operands[0] = o.result();
  }

  void convert_where_needed() {
    std::vector<ir::op*> all;
    ir::walk(*who_.body, [&](ir::op& o) { all.push_back(&o); });
    for (ir::op* o : all) {
      if (elementwise(*o) && o->result()->type.is_tile()) {
        for (ir::value& v : o->operands)
          if (v->type.is_tile()) v = converted(*o, v, *o->result()->type.layout);
      } else if (o->is(ir::opcode::every_other)) {
        o->operands[0] = converted(*o, o->operands[0], tile::doubled_columns(*o->result()->type.layout));
      } else if (o->is(ir::opcode::interleave)) {
        for (ir::value& v : o->operands) v = converted(*o, v, *o->operands[0]->type.layout);
        make_instead(*o, tile::doubled_columns(*o->operands[0]->type.layout));
      } else if (o->is(ir::opcode::reduce)) {
        // A vector whose users were laid out before what it is reduced from.
        make_instead(*o, tile::reduced(*o->operands[0]->type.layout, gone(*o)));
      } else if (o->is(ir::opcode::broadcast)) {
        const tile::layout need = tile::reduced(*o->result()->type.layout, o->operands[0]->type.cols == 1 ? tile::axis::cols : tile::axis::rows);
        if (!tile::broadcastable(*o->operands[0]->type.layout, *o->result()->type.layout)) o->operands[0] = converted(*o, o->operands[0], need);
      } else if (o->is(ir::opcode::mma) && o->operands[1]->type.is_tile() && !has_tensor_memory(k_)) {
        const ir::type& a = o->operands[1]->type;
        o->operands[1] = converted(*o, o->operands[1], tile::wgmma_a_operand_16bit(a.rows, a.cols, who_.warps));
      } else if (o->is(ir::opcode::acc_write)) {
        const ir::type& t = o->operands[1]->type;
        o->operands[1] = converted(*o, o->operands[1], accumulator_layout(*o, t.rows, t.cols));
      } else if (o->is(ir::opcode::var_new) && !o->operands.empty() && o->operands[0]->type.is_tile()) {
        o->operands[0] = converted(*o, o->operands[0], *o->result()->type.parts[0].layout);
      } else if (o->is(ir::opcode::var_set) && o->operands[1]->type.is_tile()) {
        o->operands[1] = converted(*o, o->operands[1], *o->operands[0]->type.parts[0].layout);
      }
    }
  }

  ir::kernel& k_;
  const agent& who_;
  std::vector<ir::value> tiles_;
  bool changed_ = false;
};

}  // namespace

void assign_layouts(ir::kernel& k) {
  for (const agent& who : agents(k)) assigner(k, who).run();
}

}  // namespace tlx::pass
