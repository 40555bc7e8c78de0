// Barriers, mbarriers, fences, warp-wide exchanges, register reallocation.
#include "sim/decode.hpp"
#include "sim/ops.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

void decode_cta_barrier(decoder& d) {
  instruction& o = d.out;
  d.take("cta");
  const int what = d.take_one({"sync", "arrive", "red"});
  if (what < 0) d.bad("needs .sync, .arrive or .red");
  d.take("aligned");
  o.run = op_cta_barrier;
  o.sub = static_cast<std::uint8_t>(what);
  std::size_t k = 0;
  if (what == 2) {
    o.flags = static_cast<std::uint8_t>(d.take_one({"popc", "and", "or"}) + 1);
    if (o.flags == 0) d.bad("no reduction");
    const scalar t = d.need_type();
    o.wide = t == scalar::pred;
    o.d = t == scalar::pred ? d.predicate_destination(d.operand(0).name) : d.destination(d.operand(0), t);
    k = 1;
    bool inverted = false;
    o.c = d.predicate_source(d.operand(d.count() - 1), inverted);
    o.mode.invert_c = inverted;
  }
  const std::size_t end = d.count() - (what == 2 ? 1 : 0);
  if (k >= end) { if (d.count() == 0 && what == 0) { o.a = d.constant(0, 32); return; } d.bad("no barrier"); }
  o.a = d.source(d.operand(k++), scalar::b32);
  if (k < end) o.b = d.source(d.operand(k++), scalar::b32);
  if (k != end) d.bad("too many operands");
  if (what == 1 && o.b == no_slot) d.bad("bar.arrive needs a thread count");
}

void mbarrier(decoder& d) {
  instruction& o = d.out;
  const int what = d.take_one({"init", "inval", "arrive", "arrive_drop", "expect_tx", "complete_tx", "test_wait", "try_wait", "pending_count"});
  if (what < 0) d.bad("unknown operation");
  const bool with_tx = (what == 2 || what == 3) && d.take("expect_tx");
  o.flags = static_cast<std::uint8_t>((with_tx ? 1 : 0) | (d.take("noComplete") ? 2 : 0) | (d.take("parity") ? 4 : 0));
  d.skip_memory_order();
  const space where = d.take_space(space::generic);
  d.skip_memory_order();
  if (d.memory_order & order_relaxed) o.flags |= 8;
  if (!d.take("b64")) d.bad("needs .b64");
  o.sub = static_cast<std::uint8_t>(what);
  o.run = what == 6 || what == 7 ? op_mbarrier_wait : op_mbarrier;
  if (what == 8) { d.operands(2, 2); o.b = d.source(d.operand(1), scalar::b64); o.d = d.destination(d.operand(0), scalar::b32); return; }
  const auto at = [&](const raw_operand& m) {
    const decoder::address a = d.memory(m, where);
    o.a = a.slot; o.wide_address = a.wide; o.imm = a.offset; o.where = a.where;
  };
  switch (what) {
    case 0: d.operands(2, 2); at(d.operand(0)); o.b = d.source(d.operand(1), scalar::b32); break;
    case 1: d.operands(1, 1); at(d.operand(0)); break;
    case 4: case 5: d.operands(2, 2); at(d.operand(0)); o.b = d.source(d.operand(1), scalar::b32); break;
    case 2: case 3: {
      std::size_t k = 0;
      if (d.operand(0).what != raw_operand::kind::memory) o.d = d.destination(d.operand(k++), scalar::b64);
      at(d.operand(k++));
      if (k < d.count()) o.b = d.source(d.operand(k++), scalar::b32);
      else if (with_tx) d.bad("no byte count");
      if (k != d.count()) d.bad("too many operands");
      break;
    }
    default: {
      d.operands(3, 4);
      o.d = d.predicate_destination(d.operand(0).what == raw_operand::kind::sink ? "_" : d.operand(0).name);
      at(d.operand(1));
      o.b = d.source(d.operand(2), o.flags & 4 ? scalar::b32 : scalar::b64);
      if (d.count() == 4) d.source(d.operand(3), scalar::b32);
      break;
    }
  }
}

void shuffle(decoder& d) {
  instruction& o = d.out;
  if (!d.take("sync")) d.refuse("shfl without .sync");
  o.sub = static_cast<std::uint8_t>(d.take_one({"up", "down", "bfly", "idx"}));
  if (o.sub > 3) d.bad("no direction");
  d.need_type();
  d.operands(5, 5);
  if (!d.operand(0).second.empty()) o.d2 = d.predicate_destination(d.operand(0).second);
  o.a = d.source(d.operand(1), scalar::b32);
  o.b = d.source(d.operand(2), scalar::b32);
  o.c = d.source(d.operand(3), scalar::b32);
  o.e = d.source(d.operand(4), scalar::b32);
  raw_operand first = d.operand(0);
  o.d = d.destination(first, scalar::b32);
  o.run = op_shuffle;
}

}  // namespace

bool decode_synchronisation(decoder& d) {
  const std::string_view n = d.words[0];
  instruction& o = d.out;
  if (n == "bar" || n == "barrier") {
    if (d.take("warp")) {
      if (!d.take("sync")) d.bad("needs .sync");
      d.operands(1, 1);
      o.e = d.source(d.operand(0), scalar::b32);
      o.run = op_warp_barrier;
      return true;
    }
    if (d.take("cluster")) {
      o.sub = static_cast<std::uint8_t>(d.take_one({"arrive", "wait"}));
      if (o.sub > 1) d.bad("needs .arrive or .wait");
      o.flags = d.take("relaxed") ? 1 : 0;
      d.take_one({"release", "acquire"});
      d.take("aligned");
      o.run = op_cluster_barrier;
      return true;
    }
    decode_cta_barrier(d);
    return true;
  }
  if (n == "mbarrier") { mbarrier(d); return true; }
  if (n == "fence" || n == "membar") {
    o.run = op_fence;
    if (d.take("proxy")) {
      static constexpr std::string_view proxies[] = {"alias", "async", "async.global", "async.shared::cta", "async.shared::cluster"};
      (void)proxies;
      if (d.take("alias")) o.sub = 1;
      else if (d.take("async")) {
        o.sub = 2;
        o.where = d.take_space(space::generic);
      } else if (d.take("async::generic")) {
        o.sub = 3;
        if (d.take("acquire")) o.flags = 1; else if (d.take("release")) o.flags = 2; else d.bad("needs .acquire or .release");
        for (std::size_t k = 1; k < d.words.size(); ++k) if (d.words[k].starts_with("sync_restrict::")) { d.used[k] = true; o.where = d.words[k] == "sync_restrict::shared::cta" ? space::shared : space::shared_cluster; }
        d.skip_memory_order();
      } else if (d.take("tensormap::generic")) {
        o.sub = 4;
        o.flags = d.take("acquire") ? 1 : 2;
        d.skip_memory_order();
        if (o.flags == 1) {
          d.operands(2, 2);
          const decoder::address a = d.memory(d.operand(0), space::generic);
          o.a = a.slot; o.wide_address = a.wide; o.imm = a.offset; o.where = a.where;
          if (d.immediate(d.operand(1)) != 128) d.bad("the size must be 128");
        }
      } else d.refuse("this proxy fence");
      return true;
    }
    if (d.take("mbarrier_init")) { o.sub = 5; d.skip_memory_order(); return true; }
    if (n == "membar") { if (d.take_one({"cta", "gl", "sys"}) < 0) d.bad("no level"); return true; }
    for (std::size_t k = 1; k < d.words.size(); ++k) if (d.words[k].starts_with("sync_restrict::")) d.used[k] = true;
    d.skip_memory_order();
    return true;
  }
  if (n == "shfl") { shuffle(d); return true; }
  if (n == "vote") {
    if (!d.take("sync")) d.refuse("vote without .sync");
    o.sub = static_cast<std::uint8_t>(d.take_one({"all", "any", "uni", "ballot"}));
    if (o.sub > 3) d.bad("no mode");
    const scalar t = d.need_type();
    d.operands(3, 3);
    bool inverted = false;
    o.a = d.predicate_source(d.operand(1), inverted);
    o.mode.invert_c = inverted;
    o.e = d.source(d.operand(2), scalar::b32);
    o.d = t == scalar::pred ? d.predicate_destination(d.operand(0).name) : d.destination(d.operand(0), scalar::b32);
    o.run = op_vote;
    return true;
  }
  if (n == "match") {
    o.sub = static_cast<std::uint8_t>(d.take_one({"any", "all"}));
    if (!d.take("sync")) d.bad("needs .sync");
    const scalar t = d.need_type();
    d.operands(3, 3);
    o.wide = bits_of(t) == 64;
    if (!d.operand(0).second.empty()) o.d2 = d.predicate_destination(d.operand(0).second);
    o.a = d.source(d.operand(1), t);
    o.e = d.source(d.operand(2), scalar::b32);
    o.d = d.destination(d.operand(0), scalar::b32);
    o.run = op_match;
    return true;
  }
  if (n == "redux") {
    if (!d.take("sync")) d.bad("needs .sync");
    o.sub = static_cast<std::uint8_t>(d.take_one({"add", "min", "max", "and", "or", "xor"}));
    o.mode.absolute = d.take("abs");
    o.mode.nan = d.take("NaN");
    const scalar t = d.need_type();
    if (is_float(t) && d.sm < 100) d.refuse("redux of f32 on this target");
    d.operands(3, 3);
    o.mode.from = t;
    o.a = d.source(d.operand(1), t);
    o.e = d.source(d.operand(2), scalar::b32);
    o.d = d.destination(d.operand(0), t);
    o.run = op_redux;
    return true;
  }
  if (n == "elect") {
    if (!d.take("sync")) d.bad("needs .sync");
    d.operands(2, 2);
    if (!d.operand(0).second.empty()) o.d2 = d.predicate_destination(d.operand(0).second);
    else d.bad("needs a predicate");
    o.e = d.source(d.operand(1), scalar::b32);
    raw_operand first = d.operand(0);
    if (first.name == "_") first.what = raw_operand::kind::sink;
    o.d = d.destination(first, scalar::b32);
    o.run = op_elect;
    return true;
  }
  if (n == "activemask") { d.need_type(); d.operands(1, 1); o.d = d.destination(d.operand(0), scalar::b32); o.run = op_active_mask; return true; }
  if (n == "setmaxnreg") {
    o.sub = static_cast<std::uint8_t>(d.take_one({"inc", "dec"}));
    if (!d.take("sync") || !d.take("aligned") || !d.take("u32")) d.bad("needs .sync.aligned.u32");
    d.operands(1, 1);
    o.imm = d.immediate(d.operand(0));
    if (o.imm < 24 || o.imm > 256 || o.imm % 8) d.bad(cat("register count ", o.imm, " is not a multiple of 8 in 24..256"));
    o.run = op_set_registers;
    return true;
  }
  return false;
}

}  // namespace tlx::sim
