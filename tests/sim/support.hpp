// One-warp kernels for tests: inputs per lane in, outputs per lane out.
#pragma once
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tlx/sim/machine.hpp"
#include "tlx/support/error.hpp"

namespace sim_test {

struct setup {
  std::string target = "sm_90a";
  unsigned threads = 32;
  unsigned grid = 1;
  unsigned cluster = 1;
  unsigned dynamic_shared = 0;
  std::uint64_t seed = 1;
  std::size_t out_words = 0;  // 32-bit words; 0: as many as inputs
  std::vector<std::string>* lints = nullptr;  // receives those of the run
};

/// A whole module around `body`. %rd1 is the input address, %rd2 the output address, %r0 the thread; many registers are declared.
inline std::string module_text(const std::string& body, const setup& s = {}, const std::string& before = {}) {
  return ".version 8.8\n.target " + s.target + "\n.address_size 64\n" + before + ".visible .entry k(.param .u64 p_in, .param .u64 p_out)\n{\n" +
         ".reg .pred %p<16>; .reg .b16 %rs<32>; .reg .b32 %r<64>; .reg .b64 %rd<64>; .reg .f32 %f<64>; .reg .f64 %fd<32>; .reg .b128 %rq<4>;\n" +
         "ld.param.u64 %rd1, [p_in]; ld.param.u64 %rd2, [p_out]; mov.u32 %r0, %tid.x;\n" + body + "\nret;\n}\n";
}

inline std::vector<std::uint32_t> run_module(const std::string& text, const std::vector<std::uint32_t>& in, const setup& s = {}) {
  tlx::sim::options o;
  o.seed = s.seed;
  auto m = tlx::sim::open(s.target, o);
  const std::size_t out_words = s.out_words ? s.out_words : std::max<std::size_t>(in.size(), 1);
  const auto a = m->allocate(in.size() * 4), b = m->allocate(out_words * 4);
  m->write(a, in.data(), in.size() * 4);
  m->fill(b, 0xEE, out_words * 4);
  auto code = m->load({.ptx = text, .cubin = {}});
  tlx::device::launch l;
  l.grid = {s.grid, 1, 1};
  l.block = {s.threads, 1, 1};
  l.cluster = {s.cluster, 1, 1};
  l.dynamic_shared_bytes = s.dynamic_shared;
  l.arguments = {tlx::device::scalar<std::uint64_t>(a), tlx::device::scalar<std::uint64_t>(b)};
  m->run(*code, "k", l);
  if (s.lints) *s.lints = m->last_run().lints;
  std::vector<std::uint32_t> out(out_words);
  m->read(out.data(), b, out_words * 4);
  return out;
}
inline std::vector<std::uint32_t> run(const std::string& body, const std::vector<std::uint32_t>& in, const setup& s = {}) { return run_module(module_text(body, s), in, s); }

/// %r1 = in[tid], then `body`, then out[tid] = %r9.
inline std::vector<std::uint32_t> per_lane(const std::string& body, const std::vector<std::uint32_t>& in, setup s = {}) {
  s.threads = static_cast<unsigned>(in.size());
  return run("mul.wide.u32 %rd3, %r0, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3; ld.global.u32 %r1, [%rd4]; mov.b32 %f1, %r1;\n" + body + "\nst.global.u32 [%rd5], %r9;", in, s);
}
inline std::uint32_t one(const std::string& body, std::uint32_t in = 0, setup s = {}) { return per_lane(body, {in}, s)[0]; }
/// %r1, %r2, %r3 from constants.
inline std::uint32_t of(const std::string& body, std::uint32_t a, std::uint32_t b = 0, std::uint32_t c = 0, setup s = {}) {
  return one("mov.b32 %r1, " + std::to_string(a) + "; mov.b32 %r2, " + std::to_string(b) + "; mov.b32 %r3, " + std::to_string(c) + "; mov.b32 %f1, %r1; mov.b32 %f2, %r2; mov.b32 %f3, %r3;\n" + body, 0, s);
}
/// 0, 1, 2, ... 31
inline std::vector<std::uint32_t> counting_lanes() {
  std::vector<std::uint32_t> v(32);
  for (std::uint32_t k = 0; k < 32; ++k) v[k] = k;
  return v;
}
inline std::uint32_t bits(float x) { std::uint32_t u; std::memcpy(&u, &x, 4); return u; }
inline float real(std::uint32_t u) { float x; std::memcpy(&x, &u, 4); return x; }

/// The id of the error that `f` raises, or "" when there is none.
template <class F> std::string id_of(F&& f) {
  try { f(); } catch (const tlx::error& e) { return e.id(); }
  return "";
}

}  // namespace sim_test
