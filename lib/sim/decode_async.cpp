// Asynchronous copies: cp.async, bulk and tensor copies, st.async, red.async, tensor-map edits, launch control.
#include "sim/async.hpp"
#include "sim/decode.hpp"
#include "sim/ops.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

const std::initializer_list<std::string_view> reduction_names = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};

reduce_type reduction_type(decoder& d) {
  const scalar t = d.need_type();
  switch (t) {
    case scalar::u32: return reduce_type::u32;
    case scalar::s32: return reduce_type::s32;
    case scalar::u64: return reduce_type::u64;
    case scalar::s64: return reduce_type::s64;
    case scalar::f16: return reduce_type::f16;
    case scalar::bf16: return reduce_type::bf16;
    case scalar::f32: return reduce_type::f32;
    case scalar::f64: return reduce_type::f64;
    case scalar::b32: return reduce_type::b32;
    case scalar::b64: return reduce_type::b64;
    default: d.refuse("this reduction type");
  }
}

operand_address address_of(decoder& d, const raw_operand& o, space where) {
  const decoder::address a = d.memory(o, where);
  return {a.slot, a.wide, a.offset, a.where};
}

/// The bulk family. words[1..] hold async, bulk and what follows.
void bulk(decoder& d, bool reduce) {
  auto x = std::make_shared<copy_detail>();
  const bool tensor = d.take("tensor");
  int rank = 0;
  if (tensor) { rank = d.take_one({"1d", "2d", "3d", "4d", "5d"}) + 1; if (rank == 0) d.bad("no dimension"); }
  // Destination space, then source space.
  std::vector<space> spaces;
  for (std::size_t k = 1; k < d.words.size(); ++k) {
    if (d.used[k]) continue;
    const std::string_view w = d.words[k];
    const space s = w == "global" ? space::global : w == "shared::cta" ? space::shared : w == "shared::cluster" ? space::shared_cluster : space::generic;
    if (s != space::generic) { spaces.push_back(s); d.used[k] = true; }
  }
  if (spaces.size() != 2) d.bad("needs a destination and a source space");
  x->to = spaces[0];
  x->from = spaces[1];
  const int mode = d.take_one({"tile", "tile::gather4", "tile::scatter4", "im2col", "im2col_no_offs", "im2col::w", "im2col::w::128"});
  if (mode >= 3) d.refuse("im2col mode");
  x->rows4 = mode == 1 || mode == 2;
  x->tensor_rank = rank;
  const bool to_barrier = d.take("mbarrier::complete_tx::bytes"), to_group = d.take("bulk_group");
  if (to_barrier == to_group) d.bad("needs one completion mechanism");
  x->to_barrier = to_barrier;
  x->multicast = d.take("multicast::cluster");
  const bool hint = d.take("L2::cache_hint");
  x->cta_group = d.take("cta_group::2") ? 2 : 1;
  d.take("cta_group::1");
  const bool bytemask = d.take("cp_mask");
  x->reduce = reduce;
  if (reduce) {
    d.take("noftz");
    const int op = d.take_one(reduction_names);
    if (op < 0) d.bad("no reduction");
    x->op = static_cast<reduce_op>(op);
    if (!tensor) x->type = reduction_type(d);
  }
  std::size_t k = 0;
  const auto tensor_operand = [&](const raw_operand& o) {
    if (o.what != raw_operand::kind::memory || o.items.size() != 1 || o.items[0].what != raw_operand::kind::vector) d.bad("needs [map, {coordinates}]");
    raw_operand base = o;
    base.items.clear();
    x->map = address_of(d, base, space::generic);
    const std::size_t wanted = x->rows4 ? 5 : static_cast<std::size_t>(rank);
    if (o.items[0].items.size() != wanted) d.bad(cat("needs ", wanted, " coordinates"));
    for (const raw_operand& c : o.items[0].items) x->coordinates.push_back(d.source(c, scalar::b32));
  };
  const bool load = x->to == space::shared || x->to == space::shared_cluster;
  if (load) {
    x->destination = address_of(d, d.operand(k++), x->to);
    if (tensor) tensor_operand(d.operand(k++));
    else { x->source = address_of(d, d.operand(k++), x->from); x->size = d.source(d.operand(k++), scalar::b32); }
    if (!to_barrier) d.bad("a copy to shared memory completes on an mbarrier");
    x->barrier = address_of(d, d.operand(k++), x->to == space::shared ? space::shared : space::shared_cluster);
    if (x->multicast) x->mask = d.source(d.operand(k++), scalar::b16);
  } else {
    if (to_barrier) d.bad("a copy to global memory completes in a bulk group");
    if (x->multicast) d.bad("multicast to global memory");
    if (tensor) { tensor_operand(d.operand(k++)); x->source = address_of(d, d.operand(k++), space::shared); }
    else { x->destination = address_of(d, d.operand(k++), space::global); x->source = address_of(d, d.operand(k++), space::shared); x->size = d.source(d.operand(k++), scalar::b32); }
  }
  if (hint) d.source(d.operand(k++), scalar::b64);
  if (bytemask) x->byte_mask = d.source(d.operand(k++), scalar::b16);
  if (k != d.count()) d.bad("wrong number of operands");
  if (x->from == space::shared && x->to == space::shared_cluster && tensor) d.bad("tensor copies go to or from global memory");
  d.out.run = tensor ? op_tensor_copy : op_bulk_copy;
  d.detail(x);
}

void copy_async(decoder& d) {
  instruction& o = d.out;
  if (d.take("commit_group")) { o.run = op_copy_async_group; o.sub = 0; d.operands(0, 0); return; }
  if (d.take("wait_group")) { o.run = op_copy_async_group; o.sub = 1; d.operands(1, 1); o.imm = d.immediate(d.operand(0)); return; }
  if (d.take("wait_all")) { o.run = op_copy_async_group; o.sub = 2; d.operands(0, 0); return; }
  if (d.take("mbarrier")) {
    if (!d.take("arrive")) d.bad("needs .arrive");
    o.flags = d.take("noinc") ? 1 : 0;
    const space s = d.take_space(space::generic);
    if (!d.take("b64")) d.bad("needs .b64");
    d.operands(1, 1);
    const decoder::address a = d.memory(d.operand(0), s);
    o.a = a.slot; o.wide_address = a.wide; o.imm = a.offset; o.where = a.where;
    o.run = op_copy_async_arrive;
    return;
  }
  d.skip_cache_words();
  auto x = std::make_shared<copy_detail>();
  if (d.take_space(space::generic) != space::shared || d.take_space(space::generic) != space::global) d.bad("needs .shared.global");
  const bool hint = [&] { for (const std::string_view w : d.words) if (w == "L2::cache_hint") return true; return false; }();
  d.operands(3, 5);
  x->destination = address_of(d, d.operand(0), space::shared);
  x->source = address_of(d, d.operand(1), space::global);
  o.imm = d.immediate(d.operand(2));
  if (o.imm != 4 && o.imm != 8 && o.imm != 16) d.bad("copies 4, 8 or 16 bytes");
  std::size_t k = 3;
  if (d.count() > k + (hint ? 1 : 0)) {
    const raw_operand& v = d.operand(k++);
    std::uint32_t slot = 0;
    const register_class* c = v.what == raw_operand::kind::name ? d.class_of(v.name, slot) : nullptr;
    if (c && c->predicate) { bool inverted = false; o.c = d.predicate_source(v, inverted); o.mode.invert_c = inverted; }
    else o.b = d.source(v, scalar::b32);
  }
  if (hint) d.source(d.operand(k++), scalar::b64);
  o.run = op_copy_async;
  d.detail(x);
}

}  // namespace

bool decode_async(decoder& d) {
  const std::string_view n = d.words[0];
  instruction& o = d.out;
  if (n == "cp") {
    const bool reduce = d.take("reduce");
    if (!d.take("async")) d.refuse("cp without .async");
    if (!d.take("bulk")) { if (reduce) d.bad("needs .bulk"); copy_async(d); return true; }
    if (d.take("commit_group")) { o.run = op_bulk_group; o.sub = 0; d.operands(0, 0); return true; }
    if (d.take("wait_group")) { o.run = op_bulk_group; o.sub = d.take("read") ? 2 : 1; d.operands(1, 1); o.imm = d.immediate(d.operand(0)); return true; }
    if (d.take("prefetch")) { for (std::size_t k = 1; k < d.words.size(); ++k) d.used[k] = true; o.run = op_nothing; return true; }
    bulk(d, reduce);
    return true;
  }
  if (n == "st" || n == "red") {
    if (!d.take("async")) return false;
    auto x = std::make_shared<copy_detail>();
    d.skip_memory_order();
    x->to = d.take_space(space::generic);
    d.skip_memory_order();
    if (!d.take("mbarrier::complete_tx::bytes")) d.refuse("this completion");
    if (n == "red") { x->reduce = true; const int op = d.take_one(reduction_names); if (op < 0) d.bad("no reduction"); x->op = static_cast<reduce_op>(op); }
    const int vector = d.take_one({"v2", "v4"});
    const scalar t = n == "red" ? scalar_of(d.words.back()) : d.need_type();
    if (n == "red") x->type = reduction_type(d);
    d.operands(3, 3);
    x->destination = address_of(d, d.operand(0), space::shared_cluster);
    x->barrier = address_of(d, d.operand(2), space::shared_cluster);
    const raw_operand& v = d.operand(1);
    const std::size_t count = vector < 0 ? 1 : std::size_t{2} << vector;
    if (count > 1 && (v.what != raw_operand::kind::vector || v.items.size() != count)) d.bad("the vector has the wrong length");
    if (count == 1) x->coordinates.push_back(d.source(v, t)); else for (const raw_operand& item : v.items) x->coordinates.push_back(d.source(item, t));
    o.bytes = static_cast<std::uint8_t>(bits_of(t) / 8);
    o.run = op_store_async;
    d.detail(x);
    return true;
  }
  if (n == "tensormap") {
    auto x = std::make_shared<copy_detail>();
    if (d.take("replace")) {
      if (!d.take("tile")) d.refuse("this map form");
      const int field = d.take_one({"global_address", "rank", "box_dim", "global_dim", "global_stride", "element_stride", "elemtype", "interleave_layout", "swizzle_mode", "swizzle_atomicity", "fill_mode"});
      if (field < 0) d.bad("no field");
      const space s = d.take_space(space::generic);
      d.take("b1024");
      const scalar t = d.need_type();
      x->field = static_cast<map_field>(field);
      x->destination = address_of(d, d.operand(0), s);
      std::size_t k = 1;
      if (field >= 2 && field <= 5) x->ordinal = static_cast<int>(d.immediate(d.operand(k++)));
      x->size = d.source(d.operand(k++), t);
      if (k != d.count()) d.bad("wrong number of operands");
      o.wide = bits_of(t) == 64;
      o.run = op_tensormap_replace;
      d.detail(x);
      return true;
    }
    if (d.take("cp_fenceproxy")) {
      for (std::size_t k = 1; k < d.words.size(); ++k) d.used[k] = true;
      d.operands(3, 3);
      x->destination = address_of(d, d.operand(0), space::global);
      x->source = address_of(d, d.operand(1), space::shared);
      if (d.immediate(d.operand(2)) != 128) d.bad("the size must be 128");
      o.run = op_tensormap_copy;
      d.detail(x);
      return true;
    }
    return false;
  }
  if (n == "clusterlaunchcontrol") {
    if (d.sm < 100) d.refuse("launch control on this target");
    if (d.take("try_cancel")) {
      auto x = std::make_shared<copy_detail>();
      d.take("async");
      const space s = d.take_space(space::generic);
      if (!d.take("mbarrier::complete_tx::bytes")) d.bad("needs .mbarrier::complete_tx::bytes");
      x->multicast = d.take("multicast::cluster::all");
      if (!d.take("b128")) d.bad("needs .b128");
      d.operands(2, 2);
      x->destination = address_of(d, d.operand(0), s);
      x->barrier = address_of(d, d.operand(1), s);
      o.run = op_launch_cancel;
      d.detail(x);
      return true;
    }
    if (d.take("query_cancel")) {
      const int what = d.take_one({"is_canceled", "get_first_ctaid", "get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"});
      if (what < 0) d.bad("no question");
      o.sub = static_cast<std::uint8_t>(what);
      d.take("v4"); d.take("b32"); d.take("pred");
      if (!d.take("b128")) d.bad("needs .b128");
      d.operands(2, 2);
      o.a = d.source(d.operand(1), scalar::b128);
      if (what == 0) o.d = d.predicate_destination(d.operand(0).name);
      else if (what == 1) {
        const raw_operand& v = d.operand(0);
        if (v.what != raw_operand::kind::vector || v.items.size() != 4) d.bad("needs a vector of four");
        std::vector<std::uint32_t> list;
        for (const raw_operand& item : v.items) list.push_back(d.destination(item, scalar::b32));
        o.list = d.add_list(list);
        o.list_count = 4;
      } else o.d = d.destination(d.operand(0), scalar::b32);
      o.run = op_launch_query;
      return true;
    }
    return false;
  }
  return false;
}

}  // namespace tlx::sim
