#include <map>
#include <set>

#include "agents.hpp"
#include "passes.hpp"
#include "slots.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/fragments.hpp"
#include "tlx/tile/matrix_descriptor.hpp"
#include "tlx/tile/mma_shape.hpp"
#include "tlx/tile/scaled_mma.hpp"

namespace tlx::pass {

namespace {

using ir::opcode;
using ir::value;

constexpr auto s64 = tile::element::s64;

// A shared tile seen as the M x K or K x N matrix that operand i stands for.
tile::matrix_operand seen(const ir::op& mma, size_t i, const tile::shared_tile& stored) {
  const bool a = i == 1;
  return {mma.integer(a ? "ta" : "tb") ? stored.transpose() : stored, a ? tile::operand_side::a : tile::operand_side::b};
}
// What lies in memory: strides are its own, whether all of its rows are multiplied or some.
tile::matrix_operand operand(const ir::op& mma, size_t i) { return seen(mma, i, stored_tile_of(mma.operands[i])); }
// What is multiplied of it.
tile::matrix_operand part(const ir::op& mma, size_t i) { return seen(mma, i, shared_tile_of(mma.operands[i]->type)); }

void check(const ir::kernel& k, const ir::op& mma, const char* rule) {
  if (!rule) return;
  raise(user_error({.id = "operand-refused", .what = "a tile cannot be an operand of this mma", .where = mma.where, .because = rule,
                    .fix = {"change the tile's shape or element type"}, .context = cat("kernel \"", k.name, "\"")}));
}

bool is_register(const ir::op& mma, size_t i) { return mma.operands[i]->type.is_tile(); }
tile::element element_of(const ir::op& mma, size_t i) { return mma.operands[i]->type.element; }

void check_wgmma(const ir::kernel& k, const ir::op& mma) {
  check(k, mma, tile::wgmma_shape_problem(element_of(mma, 0), element_of(mma, 1), element_of(mma, 2), mma.operands[0]->type.cols));
  if (is_register(mma, 1) && tile::bits(element_of(mma, 1)) != 16) check(k, mma, "a register operand of wgmma has 16-bit elements");
}

void check_tcgen05(const ir::kernel& k, const ir::op& mma, bool b_transposed) {
  const ir::type& acc = mma.operands[0]->type;
  const int ctas = static_cast<int>(mma.integer("ctas", 1));
  check(k, mma, tile::tcgen05_shape_problem(acc.element, element_of(mma, 1), element_of(mma, 2), ctas, acc.rows * ctas, acc.cols, b_transposed));
  if (tile::kind_of(element_of(mma, 1)) == tile::mma_kind::i8 && k.target != "sm_100a") check(k, mma, "integer products exist on sm_100a, not on its successors");
}

class lowerer {
 public:
  lowerer(ir::kernel& k, const agent& who) : k_(k), who_(who) {}

  void run() {
    if (has_tensor_memory(k_)) {
      for (ir::op* o : find_all(*who_.body, opcode::mma)) o->has("block") ? lower_scaled(*o) : lower_tcgen05(*o);
      for (ir::op* o : find_all(*who_.body, opcode::acc_read)) lower_tensor_read(*o);
      for (ir::op* o : find_all(*who_.body, opcode::acc_write)) lower_tensor_write(*o);
    } else {
      for (ir::op* o : find_all(*who_.body, opcode::acc_make)) make_registers(*o);
      for (ir::op* o : find_all(*who_.body, opcode::mma)) lower_wgmma(*o);
      for (ir::op* o : find_all(*who_.body, opcode::acc_read)) lower_register_read(*o);
      for (ir::op* o : find_all(*who_.body, opcode::acc_write)) lower_register_write(*o);
      for (ir::op* o : find_all(*who_.body, opcode::acc_make)) ir::erase(*o);
    }
  }

 private:
  value start(ir::builder& b, value address, std::uint64_t bits) {
    return b.make(opcode::descriptor, {address}, {ir::type::scalar(s64)}, {{"bits", static_cast<std::int64_t>(bits)}}).result();
  }
  value moved(ir::builder& b, value descriptor, int bytes) { return b.add(descriptor, bytes >> 4); }
  value keeps(ir::builder& b, const ir::op& mma) { return mma.operands.size() == 4 ? mma.operands[3] : b.boolean(false); }

  // --- wgmma

  void make_registers(ir::op& acc) {
    ir::builder b = ir::builder::before(k_, acc);
    const ir::type& t = acc.result()->type;
    ir::type registers = ir::type::tile_of(t.element, t.rows, t.cols).with_layout(tile::wgmma_accumulator(t.rows, t.cols, who_.warps));
    cells_[acc.result()] = b.var(registers, in_loop(acc) && takes_half(t) && waits_in_cells(acc.result()) ? b.splat(0.0, registers) : nullptr, "acc");
  }

  // Whether an accumulator and as much again are more than a consumer's registers; fewer are left alone, since zeros between two products can serialise them (C7515).
  bool takes_half(const ir::type& t) const { return t.rows * t.cols / (who_.warps * 32) > 96; }

  // Whether what is made of the accumulator stays in registers, unpacked, while other work is done. The first product of a tile overwrites the accumulator under a
  // predicate, which ptxas takes for a use of what was there: the registers would be live from one tile to the next, beside what was made of them. Zeros end that.
  bool waits_in_cells(value v) {
    for (ir::op* user : users(k_, v)) {
      if (user->is(opcode::var_new) || user->is(opcode::var_set)) {
        if (tile::bits(v->type.element) == 32 && v->type.cols > 1) return true;
      } else if (user->is(opcode::acc_read) || (user->code >= opcode::add && user->code <= opcode::cos)) {
        if (waits_in_cells(user->result())) return true;
      }
    }
    return false;
  }

  void lower_wgmma(ir::op& mma) {
    ir::builder b = ir::builder::before(k_, mma);
    const ir::type& acc = mma.operands[0]->type;
    const bool register_a = mma.operands[1]->type.is_tile();
    const tile::matrix_operand bm = operand(mma, 2);
    check(k_, mma, tile::broken_wgmma_rule(bm));
    check(k_, mma, tile::broken_wgmma_rule(part(mma, 2)));
    check_wgmma(k_, mma);
    const int group_rows = acc.rows / (who_.warps / 4);
    value a = mma.operands[1];
    tile::matrix_operand am = bm;
    if (!register_a) {
      am = operand(mma, 1);
      check(k_, mma, tile::broken_wgmma_rule(am));
      value address = address_of(b, mma.operands[1]);
      if (who_.warps > 4) {
        value group = b.div(b.simple(opcode::role_warp, tile::element::s32), b.integer(4));
        address = b.add(address, b.mul(b.cast(group, tile::element::u32), am.mn_offset(group_rows)));
      }
      a = start(b, address, tile::wgmma_descriptor_bits(am));
    }
    value bd = start(b, address_of(b, mma.operands[2]), tile::wgmma_descriptor_bits(bm));
    b.make(opcode::wgmma_fence);
    for (int row_block = 0; row_block < group_rows / 64; ++row_block)
      for (int step = 0; step < part(mma, 2).k_steps(); ++step) {
        value as = register_a ? a : moved(b, a, am.mn_offset(64 * row_block) + am.k_offset(step));
        b.make(opcode::wgmma_mma, {cells_.at(mma.operands[0]), as, moved(b, bd, bm.k_offset(step)), step == 0 ? keeps(b, mma) : b.boolean(true)}, {},
               {{"k", std::int64_t{bm.k_per_step()}}, {"element", std::string(tile::name(element_of(mma, 1)))}, {"element_b", std::string(tile::name(bm.tile.type))}, {"ta", std::int64_t{!register_a && am.is_transposed()}},
                {"tb", std::int64_t{bm.is_transposed()}}, {"row_block", std::int64_t{row_block}}, {"n", std::int64_t{acc.cols}}, {"step", std::int64_t{step}}});
      }
    b.make(opcode::wgmma_commit);
    ir::erase(mma);
  }

  void lower_register_read(ir::op& read) {
    ir::builder b = ir::builder::before(k_, read);
    value cell = cells_.at(read.operands[0]);
    value whole = read_before(read, cell);
    if (!whole) {
      b.make(opcode::wgmma_wait, {cell}, {}, {{"pending", newer_groups(read, cell)}});
      whole = b.get(cell);
    }
    value part = whole;
    if (read.result()->type.cols != whole->type.cols)
      part = b.make(opcode::slice, {whole}, {read.result()->type}, {{"column", read.integer("column")}}).result();
    if (read.operands.size() == 2) part = b.select(read.operands[1], part, b.splat(0.0, ir::type::scalar(part->type.element)));
    ir::replace_uses(k_.body, read.result(), part);
    ir::erase(read);
  }

  void lower_register_write(ir::op& write) {
    ir::builder b = ir::builder::before(k_, write);
    value cell = cells_.at(write.operands[0]);
    if (!read_before(write, cell)) b.make(opcode::wgmma_wait, {cell}, {}, {{"pending", newer_groups(write, cell)}});
    b.set(cell, write.operands[1]);
    ir::erase(write);
  }

  // Groups committed after the product that wrote the accumulator: they may stay in flight. 0 where the order is not plain.
  static std::int64_t newer_groups(const ir::op& read, value cell) {
    std::int64_t commits = 0;
    bool plain = false;
    for (const auto& o : read.parent->ops) {
      if (o.get() == &read) break;
      if (o->is(opcode::wgmma_mma) && o->operands[0] == cell) {
        commits = 0;
        plain = true;
      }
      if (o->is(opcode::wgmma_commit)) ++commits;
      for (const auto& inner : o->regions)
        ir::walk(*inner, [&](const ir::op& other) { plain = plain && !other.is(opcode::wgmma_mma); });
    }
    return plain ? commits - 1 : 0;  // one of them is its own
  }

  // What an earlier read of the same region got, if nothing has written the accumulator since.
  value read_before(const ir::op& read, value cell) {
    value found = nullptr;
    for (const auto& o : read.parent->ops) {
      if (o.get() == &read) break;
      if (o->is(opcode::var_get) && o->operands[0] == cell) found = o->result();
      auto look = [&](const ir::op& other) {
        if (other.is(opcode::wgmma_mma) && other.operands[0] == cell) found = nullptr;
        if (other.is(opcode::acc_write) && cells_.at(other.operands[0]) == cell) found = nullptr;
      };
      look(*o);
      for (const auto& inner : o->regions) ir::walk(*inner, look);
    }
    return found;
  }

  // --- tcgen05

  void lower_tcgen05(ir::op& mma) {
    ir::builder b = ir::builder::before(k_, mma);
    const ir::type& acc = mma.operands[0]->type;
    const tile::matrix_operand bm = operand(mma, 2);
    check(k_, mma, tile::broken_rule(bm));
    check(k_, mma, tile::broken_rule(part(mma, 2)));
    check_tcgen05(k_, mma, bm.is_transposed());
    tile::matrix_operand am;
    value a_address;
    if (mma.operands[1]->type.is_tile()) {
      const ir::type& t = mma.operands[1]->type;
      am = {tile::make_shared_tile(t.element, t.rows, t.cols), tile::operand_side::a};
      a_address = b.simple(opcode::shared_base, tile::element::u32, {{"offset", mma.integer("scratch")}});
      if (mma.integer("meet")) meet(b, who_);
      b.make(opcode::shared_write, {mma.operands[1], a_address}, {}, {{"swizzle", std::int64_t{am.tile.swizzle_bytes}}});
      b.make(opcode::fence_async);
      meet(b, who_);
    } else {
      am = operand(mma, 1);
      a_address = address_of(b, mma.operands[1]);
    }
    check(k_, mma, tile::broken_rule(am));
    const std::int64_t ctas = mma.integer("ctas", 1);
    const std::uint32_t idesc = tile::tcgen05_idesc({.d = acc.element, .a = am.tile.type, .b = bm.tile.type, .m = acc.rows * static_cast<int>(ctas), .n = acc.cols, .a_transposed = am.is_transposed(), .b_transposed = bm.is_transposed()});
    const std::string kind(tile::name(*tile::kind_of(am.tile.type)));
    value d = mma.operands[0]->owner->operands[0];
    elected(b, who_, [&](ir::builder& e) {
      value a = start(e, a_address, tile::tcgen05_descriptor_bits(am)), bd = start(e, address_of(e, mma.operands[2]), tile::tcgen05_descriptor_bits(bm));
      for (int step = 0; step < part(mma, 2).k_steps(); ++step)
        e.make(opcode::tcgen05_mma, {d, moved(e, a, am.k_offset(step)), moved(e, bd, bm.k_offset(step)), step == 0 ? keeps(e, mma) : e.boolean(true)}, {},
               {{"kind", kind}, {"idesc", static_cast<std::int64_t>(idesc)}, {"group", ctas}});
      if (mma.has("commit"))
        e.make(opcode::tcgen05_commit, {e.simple(opcode::shared_base, tile::element::u32, {{"offset", mma.integer("commit")}})}, {}, {{"group", std::int64_t{1}}});
    });
    ir::erase(mma);
  }

  // --- tcgen05 with block scales

  // Units of 512 bytes, of `rows` rows: those of the same four scales side by side, since a product takes its scales from columns that follow each other.
  void copy_scales(ir::builder& e, value shared, value to, int rows, int units_of_k) {
    const int units_of_rows = rows / tile::scale_unit_rows;
    value unit = start(e, address_of(e, shared), tile::scale_unit_descriptor_bits());
    for (int k = 0; k < units_of_k; ++k)
      for (int r = 0; r < units_of_rows; ++r)
        e.make(opcode::tcgen05_copy, {e.add(to, (k * units_of_rows + r) * tile::scale_unit_columns), moved(e, unit, (r * units_of_k + k) * tile::scale_unit_bytes)});
  }

  void lower_scaled(ir::op& mma) {
    ir::builder b = ir::builder::before(k_, mma);
    const ir::type& acc = mma.operands[0]->type;
    const tile::matrix_operand am = operand(mma, 1), bm = operand(mma, 2);
    check(k_, mma, tile::broken_rule(am));
    check(k_, mma, tile::broken_rule(bm));
    const tile::element scale = element_of(mma, 4);
    const auto kind = tile::scaled_kind_of(am.tile.type, bm.tile.type, scale);
    if (!kind) check(k_, mma, "operands are e4m3 or e5m2 with ue8m0 scales, or both e2m1x2 with ue8m0 or ue4m3 scales");
    const int units_of_k = mma.operands[4]->type.rows / 32, scales = units_of_k * tile::scale_unit_scales, each = tile::scales_per_instruction(*kind);
    check(k_, mma, tile::scaled_shape_problem(*kind, acc.rows, acc.cols, am.k_extent() * tile::numbers_in(am.tile.type), scales));
    value d = mma.operands[0]->owner->operands[0], scales_a = mma.operands[6];
    elected(b, who_, [&](ir::builder& e) {
      value scales_b = e.add(scales_a, tile::scale_columns(acc.rows, scales));
      copy_scales(e, mma.operands[4], scales_a, acc.rows, units_of_k);
      copy_scales(e, mma.operands[5], scales_b, acc.cols, units_of_k);
      value a = start(e, address_of(e, mma.operands[1]), tile::tcgen05_descriptor_bits(am)), bd = start(e, address_of(e, mma.operands[2]), tile::tcgen05_descriptor_bits(bm));
      for (int step = 0; step < bm.k_steps(); ++step) {
        const int unit = step * each / tile::scale_unit_scales, id = step * each % tile::scale_unit_scales;
        const std::uint32_t idesc = tile::scaled_idesc({.a = am.tile.type, .b = bm.tile.type, .scale = scale, .m = acc.rows, .n = acc.cols, .id_a = id, .id_b = id});
        e.make(opcode::tcgen05_scaled,
               {d, moved(e, a, am.k_offset(step)), moved(e, bd, bm.k_offset(step)), e.add(scales_a, unit * acc.rows / 32), e.add(scales_b, unit * acc.cols / 32), step == 0 ? mma.operands[3] : e.boolean(true)}, {},
               {{"kind", std::string(tile::name(*kind))}, {"block", mma.integer("block")}, {"idesc", static_cast<std::int64_t>(idesc)}});
      }
    });
    ir::erase(mma);
  }

  static const char* access_shape(const ir::type& t) { return t.layout->at(0, 1) == tile::coordinate{0, 2} ? "16x256b" : "32x32b"; }

  void lower_tensor_read(ir::op& read) {
    ir::builder b = ir::builder::before(k_, read);
    const value address = tensor_address(b, read);
    const ir::type& t = read.result()->type;
    auto load = [&](ir::builder& at) {
      value loaded = at.make(opcode::tmem_load, {address}, {t}, {{"shape", std::string(access_shape(t))}}).result();
      return at.make(opcode::tmem_wait_load, {loaded}, {t}).result();
    };
    value ready;
    if (read.operands.size() == 2) {  // columns that no MMA wrote are not even touched
      value cell = b.var(t);
      b.when(read.operands[1], [&](ir::builder& some) { some.set(cell, load(some)); }, [&](ir::builder& none) { none.set(cell, none.splat(0.0, t)); });
      ready = b.get(cell);
    } else {
      ready = load(b);
    }
    ir::replace_uses(k_.body, read.result(), ready);
    ir::erase(read);
  }

  value tensor_address(ir::builder& b, const ir::op& o) {
    value address = b.add(o.operands[0]->owner->operands[0], o.integer("column"));
    value warp = b.binary(opcode::bit_and, b.simple(opcode::role_warp, tile::element::s32), b.integer(3));
    return b.add(address, b.binary(opcode::shl, b.cast(warp, tile::element::u32), b.integer(21, tile::element::u32)));
  }

  // The next product waits for all warps (insert-barriers), so each has only its own stores to wait for.
  void lower_tensor_write(ir::op& write) {
    ir::builder b = ir::builder::before(k_, write);
    b.make(opcode::tmem_store, {write.operands[1], tensor_address(b, write)}, {}, {{"shape", std::string(access_shape(write.operands[1]->type))}});
    b.make(opcode::tmem_wait_store);
    ir::erase(write);
  }

  ir::kernel& k_;
  const agent& who_;
  std::map<value, value> cells_;
};

}  // namespace

void lower_mma(ir::kernel& k) {
  for (const agent& who : agents(k)) lowerer(k, who).run();
}

}  // namespace tlx::pass
