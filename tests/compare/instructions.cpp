// One PTX instruction each (or the few that make its result one value), on special values: what the language has no word for, in every rounding and flag.
#include <algorithm>
#include <cmath>

#include "tests/compare/values.hpp"
#include "tlx/support/text.hpp"

namespace tlx::compare {

namespace {

struct recipe {
  std::string name;
  std::vector<element> in;
  element out;
  std::string body;  // $0 $1 $2: inputs, $o: the output, %t: 32-bit, %th: 16-bit, %tl: 64-bit scratch registers, %q: predicates
  double ulps = 0, absolute = 0;
};

std::string register_of(element e, int index) { return cat(width(e) <= 2 ? "%h" : width(e) == 4 ? "%r" : "%l", index); }
const char* letter(element e) { return width(e) == 1 ? "u8" : width(e) == 2 ? "b16" : width(e) == 4 ? "b32" : "b64"; }

std::string replaced(std::string text, const std::string& what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size()) text.replace(at, what.size(), by);
  return text;
}

sample make_sample(const recipe& r, std::uint64_t seed) {
  generator g(seed);
  const std::size_t inputs = r.in.size(), count = inputs == 1 ? 4096 : 8192;
  sample s;
  s.name = r.name;
  s.from = quota::instructions;
  std::string parameters, loads, body = r.body;
  for (std::size_t i = 0; i < inputs; ++i) {
    const element e = r.in[i];
    bytes values(count * static_cast<std::size_t>(width(e)));
    const auto& corners = special(e);
    for (std::size_t j = 0; j < count; ++j)
      put(values, e, j, inputs == 1 && width(e) == 2 ? j * 16 + (j >> 8) % 16 : inputs == 1 && j < corners.size() ? corners[j] : inputs > 1 && j < count / 2 ? g.of(corners) : draw_one(g, e, draw::mixed));
    s.memories.push_back({cat("x", i), values, false, e});
    s.arguments.push_back(place{i, 0});
    parameters += cat(".param .u64 p", i, ", ");
    loads += cat("ld.param.u64 %l1, [p", i, "]; mul.wide.u32 %l2, %r0, ", width(e), "; add.u64 %l1, %l1, %l2; ld.global.", letter(e), " ", register_of(e, 10 + static_cast<int>(i)), ", [%l1];\n");
    body = replaced(body, cat("$", i), register_of(e, 10 + static_cast<int>(i)));
  }
  body = replaced(body, "$o", register_of(r.out, 20));
  s.memories.push_back({"out", unwritten(count * static_cast<std::size_t>(width(r.out))), true, r.out, r.ulps, r.absolute, r.out == element::f64 || std::find(r.in.begin(), r.in.end(), element::f64) != r.in.end()});
  s.arguments.push_back(place{inputs, 0});
  s.ptx = cat(".version 9.0\n.target ", population_target(), "\n.address_size 64\n.visible .entry k(", parameters, ".param .u64 po)\n{\n",
              ".reg .pred %q<8>; .reg .b16 %h<24>; .reg .b16 %th<8>; .reg .b32 %r<24>; .reg .b32 %t<8>; .reg .b64 %l<24>; .reg .b64 %tl<8>;\n",
              "mov.u32 %r0, %ctaid.x; mov.u32 %r1, %tid.x; mad.lo.u32 %r0, %r0, 128, %r1;\n", loads, body, "\n", "ld.param.u64 %l1, [po]; mul.wide.u32 %l2, %r0, ", width(r.out), "; add.u64 %l1, %l1, %l2; st.global.",
              letter(r.out), " [%l1], ", register_of(r.out, 20), ";\nret;\n}\n");
  s.grid = {static_cast<std::uint32_t>(count / 128), 1, 1};
  return s;
}

}  // namespace

void add_instructions(std::vector<entry>& to) {
  using enum element;
  std::vector<recipe> all;
  const auto one = [&](const std::string& text, std::vector<element> in, element out, double ulps = 0, double absolute = 0) {
    // "add.rz.f32" with its operands in order, unless the text has operands of its own.
    std::string body = text;
    if (text.find('$') == std::string::npos) {
      body += " $o";
      for (std::size_t i = 0; i < in.size(); ++i) body += cat(", $", i);
      body += ";";
    }
    all.push_back({text.substr(0, 90), std::move(in), out, body, ulps, absolute});
  };
  for (const char* round : {"rn", "rz", "rm", "rp"}) {
    for (const char* flags : {"", ".ftz", ".sat", ".ftz.sat"}) {
      if (*flags && std::string(round) != "rn" && std::string(flags) != ".ftz") continue;
      for (const char* op : {"add", "sub", "mul"}) one(cat(op, ".", round, flags, ".f32"), {f32, f32}, f32);
      one(cat("fma.", round, flags, ".f32"), {f32, f32, f32}, f32);
    }
    for (const char* op : {"add", "mul"}) one(cat(op, ".", round, ".f64"), {f64, f64}, f64);
    one(cat("fma.", round, ".f64"), {f64, f64, f64}, f64);
    one(cat("div.", round, ".f32"), {f32, f32}, f32);
    one(cat("div.", round, ".f64"), {f64, f64}, f64);
    one(cat("rcp.", round, ".f32"), {f32}, f32);
    one(cat("rcp.", round, ".f64"), {f64}, f64);
    one(cat("sqrt.", round, ".f32"), {f32}, f32);
    one(cat("sqrt.", round, ".f64"), {f64}, f64);
    // Conversions in every rounding.
    one(cat("cvt.", round, ".f32.f64"), {f64}, f32);
    one(cat("cvt.", round, ".ftz.f32.f64"), {f64}, f32);
    one(cat("cvt.", round, ".f16.f32"), {f32}, f16);
    one(cat("cvt.", round, ".f32.s32"), {s32}, f32);
    one(cat("cvt.", round, ".f32.u64"), {u64}, f32);
    one(cat("cvt.", round, ".f64.s64"), {s64}, f64);
    one(cat("cvt.", round, ".f16.s32"), {s32}, f16);
    const std::string integer = cat(round, "i");
    one(cat("cvt.", integer, ".f32.f32"), {f32}, f32);
    one(cat("cvt.", integer, ".ftz.f32.f32"), {f32}, f32);
    one(cat("cvt.", integer, ".f64.f64"), {f64}, f64);
    one(cat("cvt.", integer, ".f16.f16"), {f16}, f16);
    one(cat("cvt.", integer, ".s32.f32"), {f32}, s32);
    one(cat("cvt.", integer, ".u32.f32"), {f32}, u32);
    one(cat("cvt.", integer, ".s64.f32"), {f32}, s64);
    one(cat("cvt.", integer, ".u64.f64"), {f64}, u64);
    one(cat("cvt.", integer, ".s32.f64"), {f64}, s32);
    one(cat("cvt.", integer, ".s16.f16"), {f16}, s16);
    one(cat("cvt.", integer, ".u8.f32 %t0, $0; cvt.u16.u32 $o, %t0;"), {f32}, u8);
  }
  // Around the smallest normal number: flushed before rounding or after it.
  for (const char* op : {"mul.rn.ftz.f32 $o, $0, %t0;", "mul.rp.ftz.f32 $o, $0, %t0;", "fma.rn.ftz.f32 $o, $0, %t0, %t1;", "fma.rp.ftz.f32 $o, $0, %t0, %t1;", "fma.rm.ftz.f32 $o, $0, %t0, %t1;", "div.rn.ftz.f32 $o, %t0, $0;"})
    one(cat("mov.b32 %t0, 0x00800000; mov.b32 %t1, 0x80000000; ", op), {f32}, f32);
  one("mov.b32 %t0, 0x7F7FFFFF; div.rn.ftz.f32 $o, $0, %t0;", {f32}, f32);
  one("cvt.rna.tf32.f32", {f32}, u32);
  one("cvt.rn.tf32.f32", {f32}, u32);
  one("cvt.rz.tf32.f32", {f32}, u32);
  one("cvt.rn.relu.tf32.f32", {f32}, u32);
  for (const char* type : {"f16x2", "bf16x2"})
    for (const char* how : {"rn", "rz", "rn.relu", "rz.relu"}) one(cat("cvt.", how, ".", type, ".f32"), {f32, f32}, u32);
  one("cvt.rn.relu.f16.f32", {f32}, f16);
  one("cvt.rz.bf16.f32", {f32}, bf16);
  one("cvt.sat.f32.f32", {f32}, f32);
  one("cvt.sat.rn.f16.f32", {f32}, f16);
  for (const char* type : {"e4m3x2", "e5m2x2"}) {
    one(cat("cvt.rn.satfinite.", type, ".f32"), {f32, f32}, u16);
    one(cat("cvt.rn.satfinite.relu.", type, ".f32"), {f32, f32}, u16);
    one(cat("cvt.rn.satfinite.", type, ".f16x2"), {u32}, u16);
    one(cat("cvt.rn.satfinite.relu.", type, ".f16x2"), {u32}, u16);
    one(cat("cvt.rn.f16x2.", type), {u16}, u32);
    one(cat("cvt.rn.relu.f16x2.", type), {u16}, u32);
  }
  one("cvt.f32.bf16", {bf16}, f32);
  one("cvt.ftz.f32.f16", {f16}, f32);
  for (const char* pack : {"s8.s32.b32", "u8.s32.b32"}) one(cat("cvt.pack.sat.", pack), {s32, s32, u32}, u32);
  for (const char* pack : {"s16.s32", "u16.s32"}) one(cat("cvt.pack.sat.", pack), {s32, s32}, u32);
  one("cvt.sat.s8.s32 %t0, $0; cvt.u16.u32 $o, %t0;", {s32}, u8);
  one("cvt.sat.u16.s32 %t0, $0; cvt.u16.u32 $o, %t0;", {s32}, u16);
  one("cvt.sat.s32.u64", {u64}, s32);
  one("cvt.sat.u32.s64", {s64}, u32);

  for (const char* op : {"min", "max"}) {
    for (const char* flags : {"", ".ftz", ".NaN", ".ftz.NaN", ".xorsign.abs", ".NaN.xorsign.abs"}) one(cat(op, flags, ".f32"), {f32, f32}, f32);
    for (const char* flags : {"", ".NaN", ".ftz.NaN.xorsign.abs"}) one(cat(op, flags, ".f16x2"), {u32, u32}, u32);
    for (const char* flags : {"", ".NaN", ".NaN.xorsign.abs"}) one(cat(op, flags, ".bf16x2"), {u32, u32}, u32);
    one(cat(op, ".f64"), {f64, f64}, f64);
    one(cat(op, ".s16x2"), {u32, u32}, u32);
    one(cat(op, ".relu.s16x2"), {u32, u32}, u32);
    one(cat(op, ".relu.s32"), {s32, s32}, s32);
  }
  for (const char* type : {"f16x2", "bf16x2"}) {
    for (const char* op : {"add.rn", "sub.rn", "mul.rn"}) one(cat(op, ".", type), {u32, u32}, u32);
    for (const char* flags : {"", ".relu"}) one(cat("fma.rn", flags, ".", type), {u32, u32, u32}, u32);
    one(cat("neg.", type), {u32}, u32);
    one(cat("abs.", type), {u32}, u32);
  }
  for (const char* flags : {".ftz", ".sat", ".ftz.sat", ".ftz.relu"}) one(cat("fma.rn", flags, ".f16x2"), {u32, u32, u32}, u32);
  for (const char* flags : {".ftz", ".sat"}) one(cat("add", flags, ".f16x2"), {u32, u32}, u32);
  one("div.full.f32", {f32, f32}, f32, 4);
  one("div.full.ftz.f32", {f32, f32}, f32, 4);
  one("div.approx.f32", {f32, f32}, f32, 4);
  one("div.approx.ftz.f32", {f32, f32}, f32, 4);
  for (const char* ftz : {"", ".ftz"}) {
    one(cat("rcp.approx", ftz, ".f32"), {f32}, f32, 2);
    one(cat("sqrt.approx", ftz, ".f32"), {f32}, f32, 4);
    one(cat("rsqrt.approx", ftz, ".f32"), {f32}, f32, 4);
    one(cat("ex2.approx", ftz, ".f32"), {f32}, f32, 4);
    one(cat("lg2.approx", ftz, ".f32"), {f32}, f32, 4, 0x1p-21);
  }
  one("rcp.approx.ftz.f64", {f64}, f64, 0x1p33);
  one("rsqrt.approx.ftz.f64", {f64}, f64, 0x1p33);
  one("tanh.approx.f32", {f32}, f32, 8192);
  one("tanh.approx.f16", {f16}, f16, 2, 0x1p-10);
  one("tanh.approx.bf16", {bf16}, bf16, 1, 0x1p-7);
  one("ex2.approx.f16", {f16}, f16, 1);
  one("ex2.approx.ftz.bf16", {bf16}, bf16, 1);

  for (const char* test : {"finite", "infinite", "number", "notanumber", "normal", "subnormal"}) {
    one(cat("testp.", test, ".f32 %q0, $0; selp.u32 $o, 1, 0, %q0;"), {f32}, u32);
    one(cat("testp.", test, ".f64 %q0, $0; selp.u32 $o, 1, 0, %q0;"), {f64}, u32);
  }
  one("copysign.f32", {f32, f32}, f32);
  for (const char* is : {"eq", "ne", "lt", "ltu", "gtu", "geu", "equ", "neu", "num", "nan"}) {
    one(cat("setp.", is, ".f32 %q0, $0, $1; selp.u32 $o, 1, 0, %q0;"), {f32, f32}, u32);
    one(cat("setp.", is, ".f16 %q0, $0, $1; selp.u32 $o, 1, 0, %q0;"), {f16, f16}, u32);
    one(cat("setp.", is, ".bf16 %q0, $0, $1; selp.u32 $o, 1, 0, %q0;"), {bf16, bf16}, u32);
  }
  one("setp.lt.ftz.f32 %q0, $0, $1; selp.u32 $o, 1, 0, %q0;", {f32, f32}, u32);
  one("setp.lt.f16x2 %q0|%q1, $0, $1; selp.u32 %t0, 1, 0, %q0; selp.u32 $o, 2, 0, %q1; or.b32 $o, $o, %t0;", {u32, u32}, u32);
  one("set.gt.u32.f32", {f32, f32}, u32);
  one("set.leu.f32.f32", {f32, f32}, f32);
  one("set.lt.f16x2.f16x2", {u32, u32}, u32);
  one("slct.f32.f32", {f32, f32, f32}, f32);
  one("slct.ftz.f32.f32", {f32, f32, f32}, f32);
  one("slct.s32.s32", {s32, s32, s32}, s32);

  for (const char* type : {"s32", "u32"}) {
    for (const char* op : {"mul.hi", "mul24.lo", "mul24.hi"}) one(cat(op, ".", type), {u32, u32}, u32);
    for (const char* op : {"mad.lo", "mad.hi", "mad24.lo", "mad24.hi", "sad"}) one(cat(op, ".", type), {u32, u32, u32}, u32);
    one(cat("mul.wide.", type), {u32, u32}, u64);
    one(cat("mad.wide.", type), {u32, u32, u64}, u64);
    one(cat("bfind.", type), {u32}, u32);
    one(cat("bfind.shiftamt.", type), {u32}, u32);
    one(cat("bfe.", type), {u32, u32, u32}, u32);
    one(cat("div.", type, " %t0, $0, $1; setp.eq.u32 %q0, $1, 0; selp.b32 $o, 7, %t0, %q0;"), {u32, u32}, u32);
    one(cat("rem.", type, " %t0, $0, $1; setp.eq.u32 %q0, $1, 0; selp.b32 $o, 7, %t0, %q0;"), {u32, u32}, u32);
    one(cat("shr.", type), {u32, u32}, u32);
    one(cat("dp4a.", type, ".", type), {u32, u32, u32}, u32);
    one(cat("dp2a.lo.", type, ".", type), {u32, u32, u32}, u32);
    one(cat("dp2a.hi.", type, ".", type), {u32, u32, u32}, u32);
    one(cat("szext.clamp.", type), {u32, u32}, u32);
    one(cat("szext.wrap.", type), {u32, u32}, u32);
  }
  one("mad.hi.sat.s32", {s32, s32, s32}, s32);
  one("dp4a.s32.u32", {u32, u32, u32}, u32);
  one("add.sat.s32", {s32, s32}, s32);
  one("sub.sat.s32", {s32, s32}, s32);
  one("add.u16x2", {u32, u32}, u32);
  one("mul.hi.s64", {u64, u64}, u64);
  one("mul.hi.u64", {u64, u64}, u64);
  one("mad.hi.u64", {u64, u64, u64}, u64);
  one("mul.wide.s16", {u16, u16}, u32);
  one("mul.hi.u16", {u16, u16}, u16);
  one("bfind.u64", {u64}, u32);
  one("and.b32 %t0, $1, 255; and.b32 %t1, $2, 255; bfe.s64 $o, $0, %t0, %t1;", {u64, u32, u32}, u64);  // positions and lengths are 0 to 255
  one("bfi.b32 $o, $0, $1, $2, 9;", {u32, u32, u32}, u32);
  one("bfi.b32 $o, $0, $1, 5, $2;", {u32, u32, u32}, u32);
  one("and.b32 %t0, $2, 255; bfi.b64 $o, $0, $1, %t0, 21;", {u64, u64, u32}, u64);
  one("popc.b32", {u32}, u32);
  one("popc.b64", {u64}, u32);
  one("clz.b32", {u32}, u32);
  one("clz.b64", {u64}, u32);
  one("brev.b32", {u32}, u32);
  one("brev.b64", {u64}, u64);
  one("cnot.b32", {u32}, u32);
  one("cnot.b16", {u16}, u16);
  one("shl.b16", {u16, u32}, u16);
  one("shl.b32", {u32, u32}, u32);
  one("shl.b64", {u64, u32}, u64);
  one("shr.s16", {u16, u32}, u16);
  one("shr.s64", {u64, u32}, u64);
  one("fns.b32 $o, $0, 3, 2;", {u32}, u32);
  one("fns.b32 $o, $0, 20, -1;", {u32}, u32);
  one("bmsk.clamp.b32", {u32, u32}, u32);
  one("bmsk.wrap.b32", {u32, u32}, u32);
  for (const char* way : {"shf.l.wrap", "shf.l.clamp", "shf.r.wrap", "shf.r.clamp"}) one(cat(way, ".b32"), {u32, u32, u32}, u32);
  for (const char* table : {"0x96", "0xe8", "0x1b", "0xca"}) one(cat("lop3.b32 $o, $0, $1, $2, ", table, ";"), {u32, u32, u32}, u32);
  for (const char* mode : {"", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"}) one(cat("prmt.b32", mode), {u32, u32, u32}, u32);
  one("add.cc.u32 %t0, $0, $1; addc.u32 $o, $0, 0;", {u32, u32}, u32);
  one("sub.cc.u32 %t0, $0, $1; subc.u32 $o, $0, $1;", {u32, u32}, u32);
  one("add.cc.u64 %tl0, $0, $1; addc.u64 $o, $1, 0;", {u64, u64}, u64);
  one("mad.lo.cc.u32 %t0, $0, $1, $2; madc.hi.u32 $o, $0, $1, $2;", {u32, u32, u32}, u32);

  // Across the lanes of a warp.
  for (const char* mode : {"idx", "up", "down", "bfly"})
    for (const char* clamp : {"0x1f", "0x0", "0x181f", "0x1c03"})
      one(cat("and.b32 %t1, $1, 31; shfl.sync.", mode, ".b32 %t0|%q0, $0, %t1, ", clamp, ", 0xffffffff; selp.u32 $o, %t0, -5, %q0;"), {u32, u32}, u32);
  for (const char* mode : {"all", "any", "uni"}) one(cat("and.b32 %t0, $0, 1; setp.ne.u32 %q0, %t0, 0; vote.sync.", mode, ".pred %q1, %q0, 0xffffffff; selp.u32 $o, 1, 0, %q1;"), {u32}, u32);
  one("setp.lt.s32 %q0, $0, 7; vote.sync.ballot.b32 $o, %q0, 0xffffffff;", {u32}, u32);
  one("and.b32 %t0, $0, 3; match.any.sync.b32 $o, %t0, 0xffffffff;", {u32}, u32);
  one("shr.u32 %t0, $0, 31; match.all.sync.b32 %t1|%q0, %t0, 0xffffffff; selp.u32 $o, %t1, 3, %q0;", {u32}, u32);
  for (const char* op : {"add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32"}) one(cat("redux.sync.", op, " $o, $0, 0xffffffff;"), {u32}, u32);
  one("and.b32 %t0, $0, 15; mov.u32 %t1, %laneid; setp.lt.u32 %q0, %t1, 13; @%q0 redux.sync.add.s32 $o, %t0, 0x1fff; @!%q0 mov.u32 $o, 99;", {u32}, u32);
  one("elect.sync %t0|%q0, 0xffffffff; selp.u32 $o, 1, 0, %q0; add.u32 $o, $o, $0;", {u32}, u32);
  one("activemask.b32 $o; xor.b32 $o, $o, $0;", {u32}, u32);

  std::uint64_t seed = 5000;
  for (recipe& r : all) {
    // A short name; the text after the first instruction is only its frame.
    r.name = cat("ptx ", r.name);
    ++seed;
    to.push_back({r.name, quota::instructions, [r, seed] { return make_sample(r, seed); }});
  }
}

}  // namespace tlx::compare
