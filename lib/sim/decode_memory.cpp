// Loads, stores, atomics, address conversions.
#include "sim/decode.hpp"
#include "sim/ops.hpp"
#include "sim/units/tensor_map.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

std::vector<raw_operand> elements(const raw_operand& o) {
  if (o.what == raw_operand::kind::vector) return o.items;
  return {o};
}

void load_store(decoder& d, bool load) {
  instruction& o = d.out;
  d.take("nc");
  d.skip_memory_order();
  o.flags = d.memory_order;
  d.skip_cache_words();
  const space where = d.take_space(space::generic);
  d.skip_cache_words();
  if (d.take("unified")) { }
  const int vector = d.take_one({"v2", "v4", "v8"});
  const scalar t = d.need_type();
  const std::size_t n = vector < 0 ? 1 : std::size_t{2} << vector;
  d.operands(2, 3);  // a cache policy may follow
  const raw_operand& value = d.operand(load ? 0 : 1);
  const raw_operand& place = d.operand(load ? 1 : 0);
  const decoder::address a = d.memory(place, where);
  o.a = a.slot; o.wide_address = a.wide; o.imm = a.offset; o.where = a.where;
  o.bytes = static_cast<std::uint8_t>(bits_of(t) / 8);
  o.count = static_cast<std::uint8_t>(n);
  o.sign_extend = is_signed(t);
  if (a.where == space::shared || a.where == space::shared_cluster || a.where == space::generic) d.p.smallest_shared_access = std::min<std::uint32_t>(d.p.smallest_shared_access, o.bytes);
  o.wide = bits_of(t) == 64;
  const std::vector<raw_operand> items = elements(value);
  if (items.size() != n) d.bad("the vector has the wrong length");
  std::vector<std::uint32_t> list;
  for (const raw_operand& item : items) list.push_back(load ? d.destination(item, t, true) : d.source(item, t, true));
  o.list = d.add_list(list);
  o.list_count = static_cast<std::uint32_t>(n);
  o.run = load ? op_load : op_store;
}

void atomic(decoder& d, bool result) {
  instruction& o = d.out;
  d.skip_memory_order();
  const space where = d.take_space(space::generic);
  d.skip_memory_order();
  d.skip_cache_words();
  d.take("noftz");
  const int op = d.take_one({"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"});
  if (op < 0) d.bad("no operation");
  d.take("noftz");
  const int vector = d.take_one({"v2", "v4", "v8"});
  const scalar t = d.need_type();
  const std::size_t n = vector < 0 ? 1 : std::size_t{2} << vector;
  const std::size_t first = result ? 1 : 0;
  const decoder::address a = d.memory(d.operand(first), where);
  o.a = a.slot; o.wide_address = a.wide; o.imm = a.offset; o.where = a.where;
  o.sub = static_cast<std::uint8_t>(op);
  o.bytes = static_cast<std::uint8_t>(bits_of(t) / 8);
  o.count = static_cast<std::uint8_t>(n);
  o.wide = bits_of(t) == 64;
  o.mode.from = t;
  o.flags = static_cast<std::uint8_t>(d.memory_order | order_strong);
  if (a.where != space::global) d.p.smallest_shared_access = std::min<std::uint32_t>(d.p.smallest_shared_access, o.bytes);
  const std::vector<raw_operand> values = elements(d.operand(first + 1));
  if (values.size() != n) d.bad("the vector has the wrong length");
  std::vector<std::uint32_t> list;
  for (const raw_operand& v : values) list.push_back(d.source(v, t));
  if (op == 9) o.c = d.source(d.operand(first + 2), t);
  o.list2 = d.add_list(list);
  o.list2_count = static_cast<std::uint32_t>(n);
  list.clear();
  if (result) {
    const std::vector<raw_operand> out = elements(d.operand(0));
    if (out.size() != n) d.bad("the vector has the wrong length");
    for (const raw_operand& r : out) list.push_back(d.destination(r, t));
  }
  o.list = d.add_list(list);
  o.list_count = static_cast<std::uint32_t>(list.size());
  const bool logic = op >= 5 && op <= 7;
  if (op < 8 && bits_of(t) == 128) d.refuse("this operation on 128 bits");
  if (!logic && op < 5 && (t == scalar::b32 || t == scalar::b64 || t == scalar::b16)) d.bad("this operation needs a number type");
  o.run = op_atomic;
}

}  // namespace

bool decode_memory(decoder& d) {
  const std::string_view n = d.words[0];
  instruction& o = d.out;
  if (n == "ld" || n == "ldu") { load_store(d, true); return true; }
  if (n == "st") {
    for (const std::string_view w : d.words) if (w == "async") return false;
    if (d.take("bulk")) {
      d.skip_memory_order();
      const decoder::address a = d.memory(d.operand(0), d.take_space(space::generic));
      d.operands(3, 3);
      o.a = a.slot; o.wide_address = a.wide; o.imm = a.offset; o.where = a.where;
      o.b = d.source(d.operand(1), scalar::b64);
      if (d.immediate(d.operand(2)) != 0) d.bad("st.bulk stores zeros only");
      o.run = op_store_bulk;
      return true;
    }
    load_store(d, false);
    return true;
  }
  if (n == "atom") { atomic(d, true); return true; }
  if (n == "red") {
    for (const std::string_view w : d.words) if (w == "async") return false;
    atomic(d, false);
    return true;
  }
  if (n == "cvta") {
    const bool to = d.take("to");
    const space s = d.take_space(space::generic);
    if (s == space::generic) d.bad("no state space");
    if (bits_of(d.need_type()) != 64) d.refuse("32-bit generic addresses");
    d.operands(2, 2);
    o.a = d.source(d.operand(1), scalar::u64);
    o.d = d.destination(d.operand(0), scalar::u64);
    const std::uint64_t base = s == space::shared || s == space::shared_cluster ? shared_window : s == space::local ? local_window : s == space::param ? param_window : 0;
    o.b = d.constant(base, 64);
    o.alu = find_fast(to ? alu::sub : alu::add, scalar::u64);
    return true;
  }
  if (n == "isspacep") {
    o.where = d.take_space(space::generic);
    d.operands(2, 2);
    o.a = d.source(d.operand(1), scalar::u64);
    o.d = d.predicate_destination(d.operand(0).name);
    o.run = op_is_space;
    return true;
  }
  if (n == "mapa") {
    const space s = d.take_space(space::generic);
    const scalar t = d.need_type();
    d.operands(3, 3);
    o.where = s;
    o.wide = bits_of(t) == 64;
    o.a = d.source(d.operand(1), t);
    o.b = d.source(d.operand(2), scalar::u32);
    o.d = d.destination(d.operand(0), t);
    o.run = op_map_address;
    return true;
  }
  if (n == "getctarank") {
    const space s = d.take_space(space::generic);
    const scalar t = d.need_type();
    d.operands(2, 2);
    o.where = s;
    o.wide = bits_of(t) == 64;
    o.a = d.source(d.operand(1), t);
    o.d = d.destination(d.operand(0), scalar::u32);
    o.run = op_rank_of_address;
    return true;
  }
  return false;
}

}  // namespace tlx::sim
