// Atomics: contended ones whose result no order changes, and uncontended ones on special values, in global and shared memory, with what they return.
#include <cstring>

#include "tests/compare/text.hpp"
#include "tests/compare/values.hpp"

namespace tlx::compare {

namespace {

std::string letter(int bytes_wide) { return bytes_wide == 8 ? "b64" : bytes_wide == 4 ? "b32" : "b16"; }

/// Every thread its own element: memory and the returned value. cas takes a second operand.
sample alone(const std::string& op, element e, bool shared, bool cas, std::uint64_t seed) {
  generator g(seed);
  sample s;
  const int w = width(e);
  s.name = cat("atom ", op, shared ? " shared" : " global");
  s.from = quota::atomics;
  constexpr std::size_t count = 2048;
  const auto& corners = special(e);
  const auto values = [&] {
    bytes v(count * static_cast<std::size_t>(w));
    for (std::size_t i = 0; i < count; ++i) put(v, e, i, i < count / 2 ? g.of(corners) : draw_one(g, e, draw::mixed));
    return v;
  };
  const bytes before = values(), with = values();
  bytes third = values();
  if (cas)
    for (std::size_t i = 0; i < count; i += 2) put(third, e, i, get(with, e, i));
  // cas compares with x and stores y; half of the comparisons hold.
  bytes memory_before = before;
  if (cas)
    for (std::size_t i = 0; i < count; i += 2) put(memory_before, e, i, get(with, e, i));
  const bool any_nan = e == element::f64;
  s.memories = {{"memory", memory_before, true, e, 0, 0, any_nan}, {"x", with, false, e}, {"y", third, false, e}, {"returned", unwritten(before.size()), true, e, 0, 0, any_nan}};
  s.arguments = {place{0, 0}, place{1, 0}, place{2, 0}, place{3, 0}};
  s.grid = {count / 128, 1, 1};
  const std::string r = w == 8 ? "%l" : w == 4 ? "%r" : "%h", t = letter(w);
  std::string body = cat("mad.lo.u32 %r2, %r1, 128, %r0; mul.wide.u32 %l1, %r2, ", w, "; ld.param.u64 %l2, [p_m]; add.u64 %l2, %l2, %l1; ld.param.u64 %l3, [p_x]; add.u64 %l3, %l3, %l1; ld.param.u64 %l4, [p_y]; add.u64 %l4, %l4, %l1; ld.param.u64 %l5, [p_r]; add.u64 %l5, %l5, %l1;\n",
                         "ld.global.", t, " ", r, "20, [%l3]; ld.global.", t, " ", r, "21, [%l4];\n");
  const std::string operands = cas ? cat(r, "20, ", r, "21") : cat(r, "20");
  if (!shared) body += cat("atom.global.", op, " ", r, "22, [%l2], ", operands, ";\n");
  else
    body += cat(".shared .align 16 .b8 data[1024]; mov.u32 %r5, data; mul.lo.u32 %r6, %r0, ", w, "; add.u32 %r5, %r5, %r6; ld.global.", t, " ", r, "23, [%l2]; st.shared.", t, " [%r5], ", r, "23;\natom.shared.", op, " ", r, "22, [%r5], ", operands, ";\nld.shared.", t, " ", r, "23, [%r5]; st.global.", t,
                " [%l2], ", r, "23;\n");
  body += cat("st.global.", t, " [%l5], ", r, "22;\n");
  s.ptx = ptx_kernel(".param .u64 p_m, .param .u64 p_x, .param .u64 p_y, .param .u64 p_r", body);
  return s;
}

/// 1024 threads of four CTAs on seven elements.
sample crowd(const std::string& op, element e, bool shared, std::uint64_t seed) {
  generator g(seed);
  sample s;
  const int w = width(e);
  s.name = cat("contended red ", op, shared ? " shared" : " global");
  s.from = quota::atomics;
  constexpr std::size_t count = 1024, places = 7;
  const bytes before = draw_many(g, e, places * 4, draw::moderate);
  // Floats: small integers, so that every order gives the same sum.
  bytes with(count * static_cast<std::size_t>(w));
  const bool real = tile::is_float(e);
  for (std::size_t i = 0; i < count; ++i) put(with, e, i, real ? encode(e, g.between(-3, 3)) : draw_one(g, e, draw::bits));
  bytes start = before;
  if (real)
    for (std::size_t i = 0; i < places * 4; ++i) put(start, e, i, encode(e, g.between(-8, 8)));
  s.memories = {{"memory", start, true, e}, {"x", with, false, e}};
  s.arguments = {place{0, 0}, place{1, 0}};
  s.grid = {4, 1, 1};
  s.block = {256, 1, 1};
  const std::string r = w == 8 ? "%l" : w == 4 ? "%r" : "%h", t = letter(w);
  std::string body = cat("mad.lo.u32 %r2, %r1, 256, %r0; mul.wide.u32 %l1, %r2, ", w, "; ld.param.u64 %l3, [p_x]; add.u64 %l3, %l3, %l1; ld.global.", t, " ", r, "20, [%l3]; ld.param.u64 %l2, [p_m]; rem.u32 %r3, %r0, 7;\n");
  if (!shared) body += cat("mul.wide.u32 %l4, %r3, ", w, "; add.u64 %l2, %l2, %l4; red.global.", op, " [%l2], ", r, "20;\n");
  else
    body += cat(".shared .align 16 .b8 data[64]; mad.lo.u32 %r4, %r1, 7, %r0; mul.wide.u32 %l4, %r4, ", w, "; add.u64 %l2, %l2, %l4; setp.lt.u32 %p1, %r0, 7; mov.u32 %r5, data; mul.lo.u32 %r6, %r0, ", w, "; add.u32 %r6, %r5, %r6;\n@%p1 ld.global.", t, " ", r, "23, [%l2]; @%p1 st.shared.", t, " [%r6], ", r,
                "23; bar.sync 0;\nmul.lo.u32 %r7, %r3, ", w, "; add.u32 %r7, %r5, %r7; red.shared.", op, " [%r7], ", r, "20; bar.sync 0;\n@%p1 ld.shared.", t, " ", r, "23, [%r6]; @%p1 st.global.", t, " [%l2], ", r, "23;\n");
  s.ptx = ptx_kernel(".param .u64 p_m, .param .u64 p_x", body);
  return s;
}

}  // namespace

void add_atomics(std::vector<entry>& to) {
  using enum element;
  std::uint64_t seed = 40000;
  struct operation { const char* op; element e; bool cas = false, global_only = false; };
  for (const operation& o : {operation{"add.u32", u32}, {"add.s32", s32}, {"add.u64", u64}, {"add.f32", f32}, {"add.f64", f64}, {"add.noftz.f16", f16}, {"add.noftz.f16x2", u32}, {"add.noftz.bf16", bf16}, {"add.noftz.bf16x2", u32}, {"min.s32", s32}, {"max.u32", u32},
                             {"min.u64", u64}, {"max.s64", s64}, {"and.b32", u32}, {"or.b64", u64}, {"xor.b32", u32}, {"exch.b32", u32}, {"exch.b64", u64}, {"cas.b32", u32, true}, {"cas.b64", u64, true}, {"cas.b16", u16, true}, {"inc.u32", u32}, {"dec.u32", u32}})
    for (const bool shared : {false, true}) {
      ++seed;
      to.push_back({cat("atom ", o.op, shared ? " shared" : " global"), quota::atomics, [o, shared, seed] { return alone(o.op, o.e, shared, o.cas, seed); }});
    }
  for (const operation& o : {operation{"add.u32", u32}, {"add.u64", u64}, {"add.f32", f32}, {"min.s32", s32}, {"max.u64", u64}, {"and.b32", u32}, {"or.b32", u32}, {"xor.b64", u64}, {"inc.u32", u32}, {"add.noftz.f16", f16}})
    for (const bool shared : {false, true}) {
      if (std::string(o.op) == "inc.u32") continue;  // its bound is an operand: the order matters
      ++seed;
      to.push_back({cat("contended red ", o.op, shared ? " shared" : " global"), quota::atomics, [o, shared, seed] { return crowd(o.op, o.e, shared, seed); }});
    }
}

}  // namespace tlx::compare
