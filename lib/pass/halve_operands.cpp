// CTA pairs (cta.pair): one tcgen05.mma of the leader, the CTA of rank 0, makes the rows of both. Each CTA has its rows of the first operand and of the accumulator, and
// half of the second operand's N, which the tensor cores of both read. So the slots shrink, each CTA loads its half, and the roles that multiply run in the leader only.
#include <algorithm>
#include <set>

#include "agents.hpp"
#include "passes.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/shared_tile.hpp"

namespace tlx::pass {

namespace {

using ir::opcode;
using ir::value;

class halver {
 public:
  halver(ir::kernel& k, const std::vector<ir::op*>& products) : k_(k), all_(agents(k)), products_(products) {}

  void run() {
    for (ir::op* product : products_) {
      check_role(*product);
      if (product->has("block")) refuse_operand(*product, "block-scaled products are asked of a pair of CTAs", "let each CTA multiply for itself");
      check_accumulator(*product);
      check_own_rows(*product);
      halve(*product);
    }
    for (const agent& who : all_)
      if (who.role && who.role->has("leads")) check_alone(who);
  }

 private:
  [[noreturn]] void refuse(const char* id, const std::string& what, const ir::op& at, const std::string& because, const std::string& fix) {
    raise(user_error({.id = id, .what = what, .where = at.where, .because = because, .fix = {fix, "say cta.cluster(2) instead of cta.pair()"}, .context = cat("kernel \"", k_.name, "\"")}));
  }

  void check_role(ir::op& product) {
    if (!product.integer("ctas")) refuse("pair-role", "products of one CTA beside products of a pair", product, "all products of a kernel are made by one CTA or all by pairs", "say cta.pair() before the first product");
    const agent& who = agent_of(all_, product);
    if (!who.role || !who.single_lane)
      refuse("pair-role", "the products of a pair of CTAs stand in no role of one warp", product, "one thread of the pair starts them", "put them into a role of 1_warp that only multiplies");
    who.role->set("leads", std::int64_t{1});
  }

  // Only one of the CTAs runs the role: what it would do for its own CTA would not be done in the other.
  void check_alone(const agent& who) {
    ir::walk(*who.body, [&](ir::op& o) {
      if (!only_multiplies(o))
        refuse("pair-role", cat("role \"", who.name, "\" multiplies for a pair of CTAs and does more"), o, "it runs in one CTA of the pair, and the other would miss what it does besides", "move everything but the products into other roles");
    });
  }
  static bool only_multiplies(const ir::op& o) {
    switch (o.code) {
      case opcode::mma: case opcode::var_new: case opcode::var_set: return true;
      case opcode::tile_read: case opcode::acc_read: return false;
      default: return ir::row(o.code).effects != ir::effect::write;
    }
  }

  void check_accumulator(ir::op& product) {
    const value acc = product.operands[0];
    if (!ring_of(acc)) refuse("pair-accumulator", "a pair of CTAs multiplies into an accumulator outside of rings", product, "the other CTA is told by a ring when its rows are complete", "make the accumulator a part of a ring");
    if (acc->type.rows != 128)
      refuse("pair-accumulator", cat("an accumulator of ", acc->type.rows, " rows in each CTA of a pair"), product, "products of a pair have 256 rows, 128 in each CTA, in all lanes of tensor memory", "use tiles of 128 rows for each CTA");
  }

  [[noreturn]] void refuse_operand(const ir::op& at, const std::string& what, const std::string& fix) {
    refuse("pair-operand", what, at, "products of a pair read each CTA's own rows of a and its half of b, which bulk copies brought into rings", fix);
  }

  // Slots of a ring are given back to both CTAs by commits alone.
  ir::op& ring_read_by(ir::op& product, size_t operand) {
    ir::op* ring = ring_of(product.operands[operand]);
    if (!ring || !product.operands[operand]->owner->is(opcode::ring_drain)) refuse_operand(product, "an operand of a pair's product is no slot of a ring", "load it into a ring");
    for (ir::op* opened : users(k_, ring->result()))
      for (const auto& part : opened->results)
        for (ir::op* user : users(k_, part.get())) {
          const bool fits = opened->is(opcode::ring_drain) ? user->is(opcode::mma) : user->is(opcode::tile_load) && user->text("by") != "threads";
          if (!fits && !user->is(opcode::ring_close))
            refuse_operand(*user, cat("ring \"", ring->text("name"), "\" holds operands of a pair's products and is ", opened->is(opcode::ring_drain) ? "read by threads, too" : "not filled by bulk copies"),
                           "let bulk copies fill the ring, and products alone drain it");
        }
    return *ring;
  }

  template <class Body>
  void each_load(ir::op& ring, size_t part, Body&& body) {
    for (ir::op* fill : users(k_, ring.result()))
      if (fill->is(opcode::ring_fill))
        for (ir::op* load : users(k_, fill->result(part)))
          if (load->is(opcode::tile_load)) body(*load);
  }
  static size_t part_of(value slot) {
    const auto& all = slot->owner->results;
    return static_cast<size_t>(std::find_if(all.begin(), all.end(), [&](const auto& r) { return r.get() == slot; }) - all.begin());
  }

  void check_own_rows(ir::op& product) {
    ir::op& ring = ring_read_by(product, 1);
    each_load(ring, part_of(product.operands[1]), [&](ir::op& load) {
      if (load.integer("ctas", 1) > 1) refuse_operand(load, "the first operand of a pair's product is loaded for both CTAs", "load it with load: each CTA multiplies its own rows");
    });
  }

  void halve(ir::op& product) {
    ir::op& ring = ring_read_by(product, 2);
    const size_t part = part_of(product.operands[2]);
    const bool rows = product.integer("tb") != 0;  // stored N x K
    product.set("halved", std::int64_t{1});
    if (!halved_.insert({&ring, part}).second) return;
    each_load(ring, part, [&](ir::op& load) {
      if (load.integer("ctas", 1) != 2) refuse_operand(load, "the second operand of a pair's product is loaded for one CTA", "load it with load_for_cluster: each CTA keeps its half");
      halve_load(load, rows);
    });
    const auto narrow = [&](ir::type& t) {
      (rows ? t.rows : t.cols) /= 2;
      t.swizzle_bytes = tile::widest_swizzle(t.cols * tile::bits(t.element) / 8);
    };
    narrow(ring.result()->type.parts[part]);
    for (ir::op* opened : users(k_, ring.result())) narrow(opened->result(part)->type);
  }

  void halve_load(ir::op& load, bool rows) {
    const ir::type& t = load.operands[0]->type;
    const std::int64_t axis = load.integers("tile_axes")[rows ? 0 : 1];
    const int half = (rows ? t.rows : t.cols) / 2;
    if (axis < 0 || load.integer("jagged") || half % 8 != 0 || (!rows && half * tile::bits(t.element) / 8 % 32 != 0))
      refuse_operand(load, cat("a tile of ", t.rows, " x ", t.cols, load.integer("jagged") ? ", jagged," : "", " cannot be divided between the CTAs of a pair"), "use a multiple of 16 rows or columns, 32 bytes of a row in each half");
    ir::builder b = ir::builder::before(k_, load);
    value& first = load.operands[2 + static_cast<size_t>(axis)];
    first = b.add(first, b.mul(b.simple(opcode::cluster_rank, tile::element::s32), half));
    load.set("ctas", std::int64_t{1});
  }

  ir::kernel& k_;
  std::vector<agent> all_;
  const std::vector<ir::op*>& products_;
  std::set<std::pair<ir::op*, size_t>> halved_;
};

}  // namespace

void halve_operands(ir::kernel& k) {
  const std::vector<ir::op*> products = find_all(k.body, opcode::mma);
  if (std::any_of(products.begin(), products.end(), [](const ir::op* p) { return p->integer("ctas") == 2; })) halver(k, products).run();
}

}  // namespace tlx::pass
