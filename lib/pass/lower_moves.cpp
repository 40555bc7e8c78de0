// One bulk tensor copy per chunk of a shared tile on the way in; on the way out each warp stages its own rows and copies them, so warps need not meet.
#include <algorithm>

#include "agents.hpp"
#include "passes.hpp"
#include "slots.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/fragments.hpp"

namespace tlx::pass {

namespace {

using ir::opcode;
using ir::value;

class lowerer {
 public:
  lowerer(ir::kernel& k, const agent& who) : k_(k), who_(who) {}

  void run() {
    for (ir::op* load : find_all(*who_.body, opcode::tile_load))
      if (load->text("by") == "threads") lower_load_by_threads(*load);
      else lower_load(*load);
    for (ir::op* read : find_all(*who_.body, opcode::tile_read)) {
      ir::builder b = ir::builder::before(k_, *read);
      value address = address_of(b, read->operands[0]);
      value tile = b.make(opcode::shared_read, {address}, {read->result()->type}, {{"swizzle", std::int64_t{read->operands[0]->type.swizzle_bytes}}}).result();
      ir::replace_uses(k_.body, read->result(), tile);
      ir::erase(*read);
    }
    for (ir::op* write : find_all(*who_.body, opcode::tile_write)) {
      ir::builder b = ir::builder::before(k_, *write);
      value address = address_of(b, write->operands[1]);
      b.make(opcode::shared_write, {write->operands[0], address}, {}, {{"swizzle", std::int64_t{write->operands[1]->type.swizzle_bytes}}});
      ir::erase(*write);
    }
    for (ir::op* clear : find_all(*who_.body, opcode::tile_clear)) lower_clear(*clear);
    bool staged = false;
    for (ir::op* store : find_all(*who_.body, opcode::tile_store)) {
      if (store->has("stage")) {
        lower_store(*store);
        staged = true;
      } else {
        store->code = opcode::global_store;
      }
    }
    if (staged) {  // shared memory must outlive the copies that read it
      ir::builder end(k_, *who_.body);
      end.locate(who_.role ? who_.role->where : k_.where);
      each_warp_elected(end, who_, [&](ir::builder& e) { e.make(opcode::tma_wait, {}, {}, {{"pending", std::int64_t{0}}, {"read", std::int64_t{1}}}); });
    }
  }

 private:
  int parameter(value view) const {
    for (size_t i = 0; i < k_.parameters().size(); ++i)
      if (k_.parameters()[i].get() == view) return static_cast<int>(i);
    raise(internal_error({.id = "view-not-a-parameter", .what = "a view that is no kernel parameter"}));
  }

  int map_of(value view, std::int64_t row_axis, std::int64_t col_axis, std::int64_t rows, std::int64_t cols, int swizzle, int promotion, std::int64_t depth = 1) {
    ir::tensor_map_use m{parameter(view), std::vector<std::int64_t>(static_cast<size_t>(view->type.rank), 1), swizzle, promotion};
    auto innermost_first = [&](std::int64_t axis) -> std::int64_t& { return m.box[static_cast<size_t>(view->type.rank - 1 - axis)]; };
    if (row_axis >= 0) innermost_first(row_axis) = rows;
    innermost_first(col_axis) = cols;
    if (depth > 1) innermost_first(0) = depth;
    return k_.find_map(m);
  }

  // coordinates of the box, innermost first, with the row and column moved
  static std::vector<value> coordinates(ir::builder& b, const ir::op& o, size_t first, value row_shift, std::int64_t col_shift) {
    const std::vector<std::int64_t> axes = o.integers("tile_axes");
    const int rank = o.operands[first - 1]->type.rank;
    std::vector<value> at;
    for (int axis = rank - 1; axis >= 0; --axis) {
      value c = o.operands[first + static_cast<size_t>(axis)];
      if (axis == axes[1]) c = b.add(c, col_shift);
      if (axis == axes[0] && row_shift) c = b.add(c, row_shift);
      at.push_back(c);
    }
    return at;
  }

  void check_shares(const ir::op& load, const tile::shared_tile& t, int ctas) {
    if (ctas == 1 || (t.rows % (8 * ctas) == 0 && load.integers("tile_axes")[0] >= 0 && !load.integer("jagged"))) return;
    raise(user_error({.id = "cluster-load", .what = cat("a tile of ", t.rows, " rows", load.integer("jagged") ? ", jagged," : "", " is loaded for a cluster of ", ctas), .where = load.where,
                      .because = "each CTA brings an equal share of the rows, in whole groups of eight", .fix = {cat("use a multiple of ", 8 * ctas, " rows"), "load it for one CTA, with load"},
                      .context = cat("kernel \"", k_.name, "\"")}));
  }

  void lower_load(ir::op& load) {
    ir::builder b = ir::builder::before(k_, load);
    const tile::shared_tile t = shared_tile_of(load.operands[0]->type);
    value address = load.operands[0]->owner->operands[0];
    value barrier = load.operands.back();
    value view = load.operands[1];
    const std::vector<std::int64_t> axes = load.integers("tile_axes");
    const int promotion = t.chunk_count() == 1 && load.integer("hint") ? 128 : 256;
    const int ctas = static_cast<int>(load.integer("ctas", 1)), depth = static_cast<int>(load.integer("depth", 1)), rows = t.rows / ctas / depth;  // units of scales: one box of them all
    check_shares(load, t, ctas);
    const int map = map_of(view, axes[0], axes[1], rows, t.chunk_cols(), t.swizzle_bytes, promotion, depth);
    elected(b, who_, [&](ir::builder& e) {
      value share = nullptr;
      if (ctas > 1) {
        share = e.mul(e.simple(opcode::cluster_rank, tile::element::s32), rows);
        address = e.add(address, e.mul(e.cast(share, tile::element::u32), t.chunk_width_bytes()));
      }
      for (int c = 0; c < t.chunk_count(); ++c) {
        std::vector<value> operands{e.add(address, c * t.chunk_bytes()), barrier};
        for (value v : coordinates(e, load, 2, share, c * t.chunk_cols())) operands.push_back(v);
        e.make(opcode::tma_load, operands, {}, {{"map", std::int64_t{map}}, {"hint", load.integer("hint")}, {"multicast", ctas > 1 ? (std::int64_t{1} << ctas) - 1 : std::int64_t{0}}, {"group", load.integer("group", 1)}});
      }
    });
    ir::erase(load);
  }

  // Rows at or beyond the first read as zero. Most tiles are whole: then nothing is done.
  void lower_clear(ir::op& clear) {
    ir::builder b = ir::builder::before(k_, clear);
    const ir::type& t = clear.operands[0]->type;
    value address = clear.operands[0]->owner->operands[0], first = clear.operands[1];
    b.when(b.compare("lt", first, b.integer(t.rows)), [&](ir::builder& z) {
      zero_rows(z, address, first, t, who_);
      z.make(opcode::fence_async);
      meet(z, who_);
    });
    ir::erase(clear);
  }

  // Ordinary loads into registers, then into the slot, a piece of a chunk at a time so that few registers are in flight.
  void lower_load_by_threads(ir::op& load) {
    ir::builder b = ir::builder::before(k_, load);
    const tile::shared_tile t = shared_tile_of(load.operands[0]->type);
    value address = load.operands[0]->owner->operands[0];
    const std::vector<std::int64_t> axes = load.integers("tile_axes");
    const int rows = std::min(t.rows, 32);
    const ir::type piece = ir::type::tile_of(t.type, rows, t.chunk_cols()).with_layout(tile::blocked(rows, t.chunk_cols(), who_.warps, 2));
    for (int c = 0; c < t.chunk_count(); ++c)
      b.for_each(b.integer(0), b.integer(t.rows), b.integer(rows), [&](ir::builder& each, value first) {
        std::vector<value> operands(load.operands.begin() + 1, load.operands.end());
        operands[1 + static_cast<size_t>(axes[1])] = each.add(operands[1 + static_cast<size_t>(axes[1])], c * t.chunk_cols());
        if (axes[0] >= 0) operands[1 + static_cast<size_t>(axes[0])] = each.add(operands[1 + static_cast<size_t>(axes[0])], first);
        if (load.integer("jagged")) operands.back() = each.sub(operands.back(), first);
        value loaded = each.make(opcode::global_load, operands, {piece}, {{"tile_axes", axes}, {"jagged", load.integer("jagged")}}).result();
        value place = each.add(each.add(address, c * t.chunk_bytes()), each.mul(each.cast(first, tile::element::u32), t.chunk_width_bytes()));
        each.make(opcode::shared_write, {loaded, place}, {}, {{"swizzle", std::int64_t{t.swizzle_bytes}}});
      });
    ir::erase(load);
  }

  void lower_store(ir::op& store) {
    ir::builder b = ir::builder::before(k_, store);
    if (store.integer("meet")) meet(b, who_);
    value tile_value = store.operands[0];
    const ir::type& t = tile_value->type;
    const tile::shared_tile slab = slab_tile_of(who_, t);
    value warp = b.simple(opcode::role_warp, tile::element::s32);
    value row = first_row_of(b, warp, who_, *t.layout);
    auto copy_out = [&](ir::builder& c) {
      value address = c.add(b_base(c, store), c.mul(c.cast(warp, tile::element::u32), store.integer("stage_per_warp")));
      if (store.integer("pending") >= 0) {  // an earlier store may still be read from here
        each_warp_elected(c, who_, [&](ir::builder& e) { e.make(opcode::tma_wait, {}, {}, {{"pending", store.integer("pending")}, {"read", std::int64_t{1}}}); });
        c.make(opcode::barrier_warp);
      }
      c.make(opcode::shared_write, {tile_value, address}, {},
             {{"swizzle", std::int64_t{slab.swizzle_bytes}}, {"slab", std::int64_t{1}}, {"slab_rows", std::int64_t{slab.rows}}});
      c.make(opcode::fence_async);
      c.make(opcode::barrier_warp);
      each_warp_elected(c, who_, [&](ir::builder& e) {
        const std::vector<std::int64_t> axes = store.integers("tile_axes");
        const int map = map_of(store.operands[1], axes[0], axes[1], slab.rows, slab.cols, slab.swizzle_bytes, 256);
        std::vector<value> operands{address};
        for (value v : coordinates(e, store, 2, row, 0)) operands.push_back(v);
        ir::op& copy = e.make(opcode::tma_store, operands, {}, {{"map", std::int64_t{map}}});
        if (store.integer("adds")) copy.set("adds", std::int64_t{1});
        e.make(opcode::tma_commit);
      });
    };
    if (store.integer("jagged")) {
      // a warp whose rows are all valid copies them; the others would write into the next sequence
      value whole = b.compare("ge", store.operands.back(), b.add(row, slab.rows));
      b.when(whole, copy_out, [&](ir::builder& e) {
        ir::cloner copies(e);
        ir::op& masked = copies.copy(store);
        masked.code = opcode::global_store;
      });
    } else {
      copy_out(b);
    }
    ir::erase(store);
  }
  static value b_base(ir::builder& b, const ir::op& store) { return b.simple(opcode::shared_base, tile::element::u32, {{"offset", store.integer("stage")}}); }

  ir::kernel& k_;
  const agent& who_;
};

}  // namespace

void lower_moves(ir::kernel& k) {
  for (const agent& who : agents(k)) lowerer(k, who).run();
}

}  // namespace tlx::pass
