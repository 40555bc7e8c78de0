// Which arithmetic instructions exist, with which modifiers and operands.
#include <algorithm>

#include "sim/decode.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

bool integer_type(scalar t) { return t >= scalar::u8 && t <= scalar::s64; }
scalar untyped(int bits) { return bits == 16 ? scalar::b16 : bits == 32 ? scalar::b32 : bits == 64 ? scalar::b64 : bits == 8 ? scalar::b8 : scalar::b128; }

void choose(decoder& d, alu op, scalar t) {
  d.out.alu = find_rare(op, t, d.out.mode);
  if (!d.out.alu) d.refuse("this type or modifier");
}
/// The fast function when the modifiers allow it, else the general one.
void choose_fast(decoder& d, alu op, scalar t, bool plain, compare how = compare::eq) {
  if (plain) d.out.alu = find_fast(op, t, scalar::none, how, d.out.mode.ftz);
  if (!d.out.alu) choose(d, op, t);
}

void two(decoder& d, scalar t) {
  d.operands(3, 3);
  d.out.a = d.source(d.operand(1), t);
  d.out.b = d.source(d.operand(2), t);
  d.out.d = d.destination(d.operand(0), t);
}
void one(decoder& d, scalar t, scalar result) {
  d.operands(2, 2);
  d.out.a = d.source(d.operand(1), t);
  d.out.d = d.destination(d.operand(0), result);
}
void three(decoder& d, scalar t, scalar c, scalar result) {
  d.operands(4, 4);
  d.out.a = d.source(d.operand(1), t);
  d.out.b = d.source(d.operand(2), t);
  d.out.c = d.source(d.operand(3), c);
  d.out.d = d.destination(d.operand(0), result);
}

scalar wider(decoder& d, scalar t) {
  switch (t) {
    case scalar::u16: return scalar::u32;
    case scalar::s16: return scalar::s32;
    case scalar::u32: return scalar::u64;
    case scalar::s32: return scalar::s64;
    default: d.bad("no wider type");
  }
}

std::uint32_t carry_flag(decoder& d) {
  if (d.carry_slot == no_slot) d.carry_slot = d.new_slot(32);
  return d.carry_slot;
}

/// add, sub, mul, fma of floats
void float_arithmetic(decoder& d, alu op, scalar t) {
  arithmetic_mode& m = d.out.mode;
  bool rounded = false;
  m.how = d.take_rounding(rounded);
  m.ftz = d.take("ftz");
  m.sat = d.take("sat");
  m.relu = d.take("relu");
  m.satfinite = false;
  d.take("noftz");
  if (d.take("oob")) d.refuse("modifier \".oob\"");
  const bool plain = m.how == rounding::rn && !m.sat && !m.relu;
  if (op == alu::fma) three(d, t, t, t); else two(d, t);
  choose_fast(d, op, t, plain);
}

/// add, sub, fma .f32 with f16 or bf16 factors: they are widened, which is exact, and the f32 instruction rounds once.
void mixed_arithmetic(decoder& d, alu op, scalar t) {
  if (d.sm < 100) d.refuse("mixed precision on this target");
  if (op == alu::mul) d.bad("mul of mixed types");
  d.take(d.words.back());
  if (!d.take("f32")) d.bad("no type");
  arithmetic_mode& m = d.out.mode;
  bool rounded = false;
  m.how = d.take_rounding(rounded);
  m.sat = d.take("sat");
  const auto widened = [&](const raw_operand& from) {
    instruction w = d.out;
    w.mode = {};
    w.mode.to = scalar::f32;
    w.mode.from = t;
    w.a = d.source(from, t);
    w.d = d.temporary(32);
    w.alu = find_rare(alu::cvt, scalar::f32, w.mode);
    d.p.code.push_back(w);
    return w.d;
  };
  const std::size_t inputs = op == alu::fma ? 3 : 2;
  d.operands(inputs + 1, inputs + 1);
  d.out.a = widened(d.operand(1));
  d.out.b = inputs == 3 ? widened(d.operand(2)) : d.source(d.operand(2), scalar::f32);
  if (inputs == 3) d.out.c = d.source(d.operand(3), scalar::f32);
  d.out.d = d.destination(d.operand(0), scalar::f32);
  choose(d, op, scalar::f32);
}

const std::pair<std::string_view, compare> compare_names[] = {
    {"eq", compare::eq}, {"ne", compare::ne}, {"lt", compare::lt}, {"le", compare::le}, {"gt", compare::gt}, {"ge", compare::ge}, {"equ", compare::equ}, {"neu", compare::neu},
    {"ltu", compare::ltu}, {"leu", compare::leu}, {"gtu", compare::gtu}, {"geu", compare::geu}, {"num", compare::num}, {"nan", compare::nan}, {"lo", compare::lo},
    {"ls", compare::ls}, {"hi", compare::hi}, {"hs", compare::hs}};
compare take_compare(decoder& d) {
  for (const auto& [name, how] : compare_names) if (d.take(name)) return how;
  d.bad("no comparison");
}

void comparison(decoder& d, bool set) {
  arithmetic_mode& m = d.out.mode;
  const compare how = take_compare(d);
  m.combine = static_cast<std::uint8_t>(d.take_one({"and", "or", "xor"}) + 1);
  m.ftz = d.take("ftz");
  scalar result = scalar::none;
  if (set) result = d.need_type();
  const scalar t = d.need_type();
  m.kind = static_cast<std::uint8_t>(how);
  m.from = t;
  const std::size_t inputs = m.combine ? 4 : 3;
  d.operands(inputs, inputs);
  d.out.a = d.source(d.operand(1), t);
  d.out.b = d.source(d.operand(2), t);
  if (m.combine) d.out.c = d.predicate_source(d.operand(3), m.invert_c);
  if (set) {
    m.to = result;
    d.out.d = d.destination(d.operand(0), result);
    choose(d, alu::set, t);
    return;
  }
  d.out.d = d.predicate_destination(d.operand(0).what == raw_operand::kind::sink ? "_" : d.operand(0).name);
  if (!d.operand(0).second.empty()) d.out.d2 = d.predicate_destination(d.operand(0).second);
  choose_fast(d, alu::setp, t, true, how);
}

void conversion(decoder& d) {
  arithmetic_mode& m = d.out.mode;
  const int integral = d.take_one({"rni", "rzi", "rmi", "rpi"});
  bool rounded = false;
  m.how = d.take_rounding(rounded);
  if (integral >= 0) { constexpr rounding order[] = {rounding::rn, rounding::rz, rounding::rm, rounding::rp}; m.how = order[integral]; m.kind = 1; }
  m.ftz = d.take("ftz");
  m.sat = d.take("sat");
  m.relu = d.take("relu");
  m.satfinite = d.take("satfinite");
  if (d.take("scaled::n2::ue8m0")) d.refuse("scaled conversion");
  scalar to = d.need_type(), from = d.need_type();
  m.to = to;
  m.from = from;
  const bool plain_float = m.how == rounding::rn && integral < 0 && !m.ftz && !m.sat && !m.relu && !m.satfinite;
  const auto is_pack4 = [](scalar t) { return t >= scalar::e4m3x4 && t <= scalar::e2m1x4; };
  const bool two_sources = from == scalar::f32 && (to == scalar::f16x2 || to == scalar::bf16x2 || (to >= scalar::e4m3x2 && to <= scalar::ue8m0x2));
  const auto width8_destination = [&](const raw_operand& o) { return d.destination(o, to == scalar::e2m1x2 ? scalar::b8 : untyped(bits_of(to)), to == scalar::e2m1x2); };
  if (is_pack4(to)) {
    d.operands(3, 3);
    if (m.how != rounding::rs) d.bad("needs .rs");
    const raw_operand& v = d.operand(1);
    if (v.what != raw_operand::kind::vector || v.items.size() != 4) d.bad("needs a vector of four");
    d.out.a = d.source(v.items[0], from); d.out.b = d.source(v.items[1], from); d.out.c = d.source(v.items[2], from); d.out.e = d.source(v.items[3], from);
    d.out.d2 = d.source(d.operand(2), scalar::b32);
    d.out.d = d.destination(d.operand(0), untyped(bits_of(to)));
    choose(d, alu::cvt, to);
    return;
  }
  if (two_sources) {
    const bool random = m.how == rounding::rs;
    d.operands(random ? 4 : 3, random ? 4 : 3);
    d.out.a = d.source(d.operand(1), from);
    d.out.b = d.source(d.operand(2), from);
    if (random) d.out.d2 = d.source(d.operand(3), scalar::b32);
    d.out.d = width8_destination(d.operand(0));
    if ((to == scalar::f16x2 || to == scalar::bf16x2) && plain_float) d.out.alu = find_fast(alu::cvt, to, from);
    if (!d.out.alu) choose(d, alu::cvt, to);
    return;
  }
  d.operands(2, 2);
  const bool both_integers = integer_type(to) && integer_type(from);
  const bool packed = bits_of(from) == 8 && !integer_type(from);
  d.out.a = d.source(d.operand(1), packed ? scalar::b8 : from, true);
  d.out.d = d.destination(d.operand(0), (to >= scalar::e4m3x2 && to <= scalar::e2m1x4) ? (to == scalar::e2m1x2 ? scalar::b8 : untyped(bits_of(to))) : to, true);
  if (both_integers && !m.sat) d.out.alu = find_fast(alu::cvt, to, from);
  else if (to == scalar::f32 && from == scalar::bf16 && !m.sat && !m.relu && !m.ftz && integral < 0) d.out.alu = find_fast(alu::cvt, to, from);
  else if (plain_float && ((to == scalar::f32 && from == scalar::f16) || (from == scalar::f32 && (to == scalar::f16 || to == scalar::bf16)))) d.out.alu = find_fast(alu::cvt, to, from);
  else choose(d, alu::cvt, to);
  if (!d.out.alu) d.refuse("this pair of types");
}

void move(decoder& d) {
  const scalar t = d.need_type();
  d.operands(2, 2);
  const raw_operand& to = d.operand(0);
  const raw_operand& from = d.operand(1);
  instruction& o = d.out;
  if (t == scalar::pred) {
    bool inverted = false;
    o.a = d.predicate_source(from, inverted);
    if (inverted) o.flags |= 1U;
    o.d = d.predicate_destination(to.name);
    o.alu = find_fast(alu::mov, scalar::pred);
    return;
  }
  const int width = bits_of(t);
  if (from.what == raw_operand::kind::vector) {
    const std::size_t n = from.items.size();
    if (n != 2 && n != 4) d.bad("a vector of two or four is needed");
    o.mode.kind = static_cast<std::uint8_t>(n);
    o.mode.to = t;
    o.mode.from = untyped(width / static_cast<int>(n));
    std::uint32_t* const at[4] = {&o.a, &o.b, &o.c, &o.e};
    for (std::size_t k = 0; k < n; ++k) *at[k] = d.source(from.items[k], o.mode.from);
    o.d = d.destination(to, t);
    choose(d, alu::pack, t);
    return;
  }
  if (to.what == raw_operand::kind::vector) {
    const std::size_t n = to.items.size();
    if (n != 2 && n != 4) d.bad("a vector of two or four is needed");
    o.mode.kind = static_cast<std::uint8_t>(n);
    o.mode.from = t;
    o.mode.to = untyped(width / static_cast<int>(n));
    std::uint32_t* const at[4] = {&o.d, &o.d2, &o.c, &o.e};
    o.a = d.source(from, t);
    for (std::size_t k = 0; k < n; ++k) *at[k] = d.destination(to.items[k], o.mode.to);
    choose(d, alu::unpack, t);
    return;
  }
  o.a = d.source(from, t);
  o.d = d.destination(to, t);
  if (width == 128) choose(d, alu::mov, scalar::b128);
  else o.alu = find_fast(alu::mov, untyped(width < 16 ? 16 : width));
}

void approximate(decoder& d, approximation f, bool optional_word) {
  arithmetic_mode& m = d.out.mode;
  const bool approx = d.take("approx");
  m.ftz = d.take("ftz");
  bool rounded = false;
  if (!approx && !optional_word) d.bad("needs .approx");
  m.how = d.take_rounding(rounded);
  const scalar t = d.need_type();
  m.kind = static_cast<std::uint8_t>(f);
  one(d, t, t);
  if (rounded && !approx) {
    if (f == approximation::rcp) choose(d, alu::rcp, t);
    else if (f == approximation::sqrt) choose(d, alu::sqrt, t);
    else d.bad("this rounding");
  } else if (f == approximation::ex2 && t == scalar::f32) d.out.alu = find_fast(alu::ex2, t, scalar::none, compare::eq, m.ftz);
  else choose(d, alu::approximate, t);
}

}  // namespace

bool decode_arithmetic(decoder& d) {
  const std::string_view n = d.words[0];
  instruction& o = d.out;
  arithmetic_mode& m = o.mode;
  if (n == "mov") { if (d.count() == 2 && d.operand(1).what == raw_operand::kind::name && (d.operand(1).name.starts_with("%clock") || d.operand(1).name.starts_with("%globaltimer"))) return false; move(d); return true; }
  if (n == "add" || n == "sub" || n == "mul" || n == "fma" || n == "mad") {
    const bool carry_out = d.take("cc");
    // The type is the last word; find it without the rounding words in the way.
    const scalar t = scalar_of(d.words.back());
    if ((t == scalar::f16 || t == scalar::bf16) && std::find(d.words.begin(), d.words.end(), "f32") != d.words.end()) {
      mixed_arithmetic(d, n == "add" ? alu::add : n == "sub" ? alu::sub : n == "mul" ? alu::mul : alu::fma, t);
      return true;
    }
    if (is_float(t)) {
      d.take(d.words.back());
      float_arithmetic(d, n == "add" ? alu::add : n == "sub" ? alu::sub : n == "mul" ? alu::mul : alu::fma, t);
      return true;
    }
    if (n == "fma") d.bad("fma of integers");
    if (d.words.back() == "u16x2" || d.words.back() == "s16x2") {
      m.kind = 2;
      d.take(d.words.back());
      two(d, scalar::b32);
      choose(d, alu::add, d.words.back() == "u16x2" ? scalar::u16 : scalar::s16);
      return true;
    }
    d.take(d.words.back());
    if (!integer_type(t) && !(t >= scalar::b16 && t <= scalar::b64)) d.bad("no type");
    const scalar k = t == scalar::b16 ? scalar::u16 : t == scalar::b32 ? scalar::u32 : t == scalar::b64 ? scalar::u64 : t;
    if (n == "add" || n == "sub") {
      m.sat = d.take("sat");
      two(d, k);
      if (carry_out) { m.kind = 2; o.e = carry_flag(d); choose(d, n == "add" ? alu::addc : alu::subc, k); }
      else choose_fast(d, n == "add" ? alu::add : alu::sub, k, !m.sat);
      return true;
    }
    const int part = d.take_one({"lo", "hi", "wide"});
    if (part < 0) d.bad("needs .lo, .hi or .wide");
    if (n == "mul") {
      if (part == 2) {
        d.operands(3, 3);
        o.a = d.source(d.operand(1), k); o.b = d.source(d.operand(2), k); o.d = d.destination(d.operand(0), wider(d, k));
        choose_fast(d, alu::mul_wide, k, true);
      } else { two(d, k); choose_fast(d, part == 0 ? alu::mul : alu::mul_hi, k, true); }
      return true;
    }
    if (carry_out) {
      three(d, k, k, k);
      m.kind = 2; m.hi = part == 1; o.e = carry_flag(d);
      choose(d, alu::madc_lo, k);
      return true;
    }
    if (d.take("sat")) {
      if (part != 1) d.bad("saturation goes with .hi");
      m.sat = true;
      three(d, k, k, k);
      choose(d, alu::mad_hi, k);
      return true;
    }
    if (part == 2) { three(d, k, wider(d, k), wider(d, k)); choose_fast(d, alu::mad_wide, k, true); }
    else { three(d, k, k, k); choose_fast(d, part == 0 ? alu::mad : alu::mad_hi, k, true); }
    return true;
  }
  if (n == "addc" || n == "subc" || n == "madc") {
    m.kind = d.take("cc") ? 3 : 1;
    const int part = d.take_one({"lo", "hi"});
    const scalar t = d.need_type();
    o.e = carry_flag(d);
    if (n == "madc") { m.hi = part == 1; three(d, t, t, t); choose(d, alu::madc_lo, t); }
    else { two(d, t); choose(d, n == "addc" ? alu::addc : alu::subc, t); }
    return true;
  }
  if (n == "mul24" || n == "mad24") {
    m.hi = d.take_one({"lo", "hi"}) == 1;
    m.sat = d.take("sat");
    const scalar t = d.need_type();
    if (m.sat) { if (!m.hi || n != "mad24") d.bad("saturation goes with mad24.hi"); m.kind = 1; three(d, t, t, t); choose(d, alu::mad_hi, t); return true; }
    if (n == "mad24") { m.kind = 1; three(d, t, t, t); } else two(d, t);
    choose(d, alu::mul24, t);
    return true;
  }
  if (n == "div") {
    const int how = d.take_one({"full", "approx"});
    bool rounded = false;
    m.how = d.take_rounding(rounded);
    m.ftz = d.take("ftz");
    const scalar t = d.need_type();
    two(d, t);
    if (is_float(t)) { m.kind = how == 1 ? 1 : 0; if (!rounded && how < 0) d.bad("needs a rounding"); choose(d, alu::div, t); }  // .full is exact here, within its bound
    else choose_fast(d, alu::div, t, true);
    return true;
  }
  if (n == "rem") { const scalar t = d.need_type(); two(d, t); choose_fast(d, alu::rem, t, true); return true; }
  if (n == "sad") { const scalar t = d.need_type(); three(d, t, t, t); choose_fast(d, alu::sad, t, true); return true; }
  if (n == "min" || n == "max") {
    m.ftz = d.take("ftz");
    m.nan = d.take("NaN");
    m.relu = d.take("relu");
    const bool xorsign = d.take("xorsign"), absolute = d.take("abs");
    m.xorsign_abs = xorsign && absolute;
    m.absolute = absolute && !xorsign;
    const bool minimum = n == "min";
    if (d.take("u16x2")) { m.kind = 2; two(d, scalar::b32); choose(d, minimum ? alu::minimum : alu::maximum, scalar::u16); return true; }
    if (d.take("s16x2")) { m.kind = 2; two(d, scalar::b32); choose(d, minimum ? alu::minimum : alu::maximum, scalar::s16); return true; }
    const scalar t = d.need_type();
    if (d.count() == 4) {
      three(d, t, t, t);
      if (d.sm < 100) d.refuse("three inputs on this target");
      choose(d, minimum ? alu::minimum3 : alu::maximum3, t);
      return true;
    }
    two(d, t);
    const bool plain = !m.nan && !m.relu && !m.xorsign_abs && !m.absolute && (integer_type(t) || t == scalar::f32 || t == scalar::f16 || t == scalar::f16x2 || t == scalar::bf16 || t == scalar::bf16x2);
    choose_fast(d, minimum ? alu::minimum : alu::maximum, t, plain);
    return true;
  }
  if (n == "neg" || n == "abs") {
    m.ftz = d.take("ftz");
    const scalar t = d.need_type();
    one(d, t, t);
    choose_fast(d, n == "neg" ? alu::neg : alu::abs, t, true);
    return true;
  }
  if (n == "and" || n == "or" || n == "xor" || n == "not") {
    const scalar t = d.need_type();
    const alu op = n == "and" ? alu::bit_and : n == "or" ? alu::bit_or : n == "xor" ? alu::bit_xor : alu::bit_not;
    if (t == scalar::pred) {
      bool inverted = false;
      d.operands(op == alu::bit_not ? 2 : 3, op == alu::bit_not ? 2 : 3);
      o.a = d.predicate_source(d.operand(1), inverted);
      if (inverted) o.flags |= 1U;
      if (op != alu::bit_not) { o.b = d.predicate_source(d.operand(2), inverted); if (inverted) o.flags |= 2U; }
      o.d = d.predicate_destination(d.operand(0).name);
      o.alu = find_fast(op, t);
      return true;
    }
    if (op == alu::bit_not) one(d, t, t); else two(d, t);
    choose_fast(d, op, t, true);
    return true;
  }
  if (n == "cnot") { const scalar t = d.need_type(); one(d, t, t); choose_fast(d, alu::cnot, t, true); return true; }
  if (n == "shl" || n == "shr") {
    const scalar t = d.need_type();
    d.operands(3, 3);
    o.a = d.source(d.operand(1), t);
    o.b = d.source(d.operand(2), scalar::b32);
    o.d = d.destination(d.operand(0), t);
    choose_fast(d, n == "shl" ? alu::shl : alu::shr, t, true);
    return true;
  }
  if (n == "shf") {
    const bool left = d.take_one({"l", "r"}) == 0;
    m.wrap = d.take_one({"wrap", "clamp"}) == 0;
    d.need_type();
    three(d, scalar::b32, scalar::b32, scalar::b32);
    choose(d, left ? alu::shf_l : alu::shf_r, scalar::b32);
    return true;
  }
  if (n == "lop3") {
    const int combine = d.take_one({"and", "or"});
    d.need_type();
    d.operands(combine < 0 ? 5 : 6, combine < 0 ? 5 : 6);
    if (combine >= 0) {
      m.kind = static_cast<std::uint8_t>(combine + 1);
      if (d.operand(0).second.empty()) d.bad("needs a predicate to write");
      o.d2 = d.predicate_destination(d.operand(0).second);
      o.e = d.predicate_source(d.operand(5), m.invert_c);
    }
    o.a = d.source(d.operand(1), scalar::b32); o.b = d.source(d.operand(2), scalar::b32); o.c = d.source(d.operand(3), scalar::b32);
    o.imm = d.immediate(d.operand(4));
    o.d = d.destination(d.operand(0), scalar::b32);
    choose_fast(d, alu::lop3, scalar::b32, m.kind == 0);
    return true;
  }
  if (n == "prmt") {
    d.need_type();
    m.kind = static_cast<std::uint8_t>(d.take_one({"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) + 1);
    three(d, scalar::b32, scalar::b32, scalar::b32);
    choose_fast(d, alu::prmt, scalar::b32, m.kind == 0);
    return true;
  }
  if (n == "bfe") {
    const scalar t = d.need_type();
    d.operands(4, 4);
    o.a = d.source(d.operand(1), t); o.b = d.source(d.operand(2), scalar::b32); o.c = d.source(d.operand(3), scalar::b32);
    o.d = d.destination(d.operand(0), t);
    choose(d, alu::bfe, t);
    return true;
  }
  if (n == "bfi") {
    const scalar t = d.need_type();
    d.operands(5, 5);
    o.a = d.source(d.operand(1), t); o.b = d.source(d.operand(2), t); o.c = d.source(d.operand(3), scalar::b32); o.e = d.source(d.operand(4), scalar::b32);
    o.d = d.destination(d.operand(0), t);
    choose(d, alu::bfi, t);
    return true;
  }
  if (n == "popc" || n == "clz" || n == "bfind") {
    if (d.take("shiftamt")) m.kind = 1;
    const scalar t = d.need_type();
    one(d, t, scalar::u32);
    choose(d, n == "popc" ? alu::popc : n == "clz" ? alu::clz : alu::bfind, t);
    return true;
  }
  if (n == "brev") { const scalar t = d.need_type(); one(d, t, t); choose(d, alu::brev, t); return true; }
  if (n == "fns") { d.need_type(); three(d, scalar::b32, scalar::b32, scalar::b32); choose(d, alu::fns, scalar::b32); return true; }
  if (n == "bmsk") { m.wrap = d.take_one({"clamp", "wrap"}) == 1; d.need_type(); two(d, scalar::b32); choose(d, alu::bmsk, scalar::b32); return true; }
  if (n == "szext") {
    m.wrap = d.take_one({"clamp", "wrap"}) == 1;
    const scalar t = d.need_type();
    two(d, t);
    choose(d, alu::szext, t);
    return true;
  }
  if (n == "dp4a" || n == "dp2a") {
    m.hi = d.take_one({"lo", "hi"}) == 1;
    const scalar a = d.need_type(), b = d.need_type();
    m.kind = static_cast<std::uint8_t>((is_signed(a) ? 1 : 0) | (is_signed(b) ? 2 : 0));
    three(d, scalar::b32, scalar::b32, scalar::b32);
    choose(d, n == "dp4a" ? alu::dp4a : alu::dp2a, scalar::b32);
    return true;
  }
  if (n == "selp") {
    const scalar t = d.need_type();
    d.operands(4, 4);
    o.a = d.source(d.operand(1), t); o.b = d.source(d.operand(2), t);
    o.c = d.predicate_source(d.operand(3), m.invert_c);
    o.d = d.destination(d.operand(0), t);
    choose_fast(d, alu::selp, t, true);
    return true;
  }
  if (n == "slct") {
    m.ftz = d.take("ftz");
    const scalar t = d.need_type();
    m.from = d.need_type();
    d.operands(4, 4);
    o.a = d.source(d.operand(1), t); o.b = d.source(d.operand(2), t); o.c = d.source(d.operand(3), m.from);
    o.d = d.destination(d.operand(0), t);
    choose(d, alu::slct, t);
    return true;
  }
  if (n == "setp") { comparison(d, false); return true; }
  if (n == "set") { comparison(d, true); return true; }
  if (n.size() > 4 && n[0] == 'v' && (n.back() == '2' || n.back() == '4')) {
    static constexpr std::string_view names[] = {"vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset"};
    const auto found = std::find(std::begin(names), std::end(names), n.substr(0, n.size() - 1));
    if (found == std::end(names)) return false;
    m.kind = static_cast<std::uint8_t>(found - std::begin(names));
    m.combine = static_cast<std::uint8_t>(n.back() - '0');
    const bool set = m.kind == 6;
    // vset names a and b only; its result is unsigned.
    if (!set) m.relu = is_signed(d.need_type());
    m.hi = is_signed(d.need_type());
    m.wrap = is_signed(d.need_type());
    if (set) o.imm = static_cast<std::int64_t>(take_compare(d));
    m.sat = d.take("sat");
    m.absolute = d.take("add");
    three(d, scalar::b32, scalar::b32, scalar::b32);
    choose(d, alu::video, scalar::b32);
    return true;
  }
  if (n == "cvt" && d.take("pack")) {
    if (!d.take("sat")) d.bad("needs .sat");
    const int to = d.take_one({"u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"});
    if (to < 0 || !d.take("s32")) d.bad("types");
    m.hi = to & 1;
    m.kind = static_cast<std::uint8_t>(16 >> (to / 2));
    const bool three_inputs = d.take("b32");
    if (three_inputs == (m.kind == 16)) d.bad("wrong number of types");
    d.operands(three_inputs ? 4 : 3, three_inputs ? 4 : 3);
    o.a = d.source(d.operand(1), scalar::s32); o.b = d.source(d.operand(2), scalar::s32);
    if (three_inputs) o.c = d.source(d.operand(3), scalar::b32);
    o.d = d.destination(d.operand(0), scalar::b32);
    choose(d, alu::pack_saturated, scalar::b32);
    return true;
  }
  if (n == "cvt") { conversion(d); return true; }
  if (n == "copysign") { const scalar t = d.need_type(); two(d, t); choose(d, alu::copysign, t); return true; }
  if (n == "testp") {
    m.kind = static_cast<std::uint8_t>(d.take_one({"finite", "infinite", "number", "notanumber", "normal", "subnormal"}));
    const scalar t = d.need_type();
    d.operands(2, 2);
    o.a = d.source(d.operand(1), t);
    o.d = d.predicate_destination(d.operand(0).name);
    choose(d, alu::testp, t);
    return true;
  }
  if (n == "ex2") { approximate(d, approximation::ex2, false); return true; }
  if (n == "lg2") { approximate(d, approximation::lg2, false); return true; }
  if (n == "sin") { approximate(d, approximation::sin, false); return true; }
  if (n == "cos") { approximate(d, approximation::cos, false); return true; }
  if (n == "tanh") { approximate(d, approximation::tanh, false); return true; }
  if (n == "rsqrt") { approximate(d, approximation::rsqrt, false); return true; }
  if (n == "rcp") { approximate(d, approximation::rcp, true); return true; }
  if (n == "sqrt") { approximate(d, approximation::sqrt, true); return true; }
  return false;
}

}  // namespace tlx::sim
