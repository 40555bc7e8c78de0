// What callers get wrong at the one-call functions, with the error each of it is.
#include <doctest/doctest.h>

#include "tests/support/machines.hpp"
#include "tests/support/skip.hpp"
#include "tlx/host/attention.hpp"
#include "tlx/host/gemm.hpp"
#include "tlx/host/launch.hpp"
#include "tlx/support/error.hpp"

using namespace tlx;
using namespace tlx::literals;

namespace {

template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
  } catch (const error& e) {
    return e.id();
  }
  return "no error";
}

struct three {
  device::buffer memory;
  host::matrix a, b, c;
  explicit three(device::machine& m) : memory(m, 3 << 16), a{memory.where(), 64, 64}, b{memory.where() + (1 << 16), 64, 64}, c{memory.where() + (2 << 16), 64, 64} {}
};

// A machine of a target that tlx has no kernels for. It is asked for its name and nothing else.
struct old_machine : device::machine {
  device::properties what{"old", "sm_80", 1, 100000, 1 << 30};
  const device::properties& about() const override { return what; }
  device::address allocate(std::size_t) override { return 0; }
  void release(device::address) override {}
  void write(device::address, const void*, std::size_t) override {}
  void read(void*, device::address, std::size_t) override {}
  void fill(device::address, std::uint8_t, std::size_t) override {}
  std::shared_ptr<device::module> load(const device::image&) override { return nullptr; }
  void run(device::module&, const std::string&, const device::launch&) override {}
  void wait() override {}
};

struct arguments {
  TLX_ARGUMENTS(arguments, (view<bf16, 2>, x), (scalar<std::int32_t>, n));
};

}  // namespace

TEST_CASE("shapes that do not fit are refused before anything is compiled") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    three t(*m.on);
    auto run = [&](host::matrix a, host::matrix b, host::matrix c, host::gemm_options how = {}) { return error_of([&] { host::gemm(*m.with, a, b, c, how); }); };
    host::matrix k63 = t.a, m63 = t.a, n63 = t.b, c_by_columns = t.c, overlapping = t.c;
    k63.cols = 63;
    m63.rows = 63;
    n63.cols = 63;
    c_by_columns.column_major = true;
    overlapping.stride = 32;
    CHECK(run(k63, t.b, t.c) == "gemm-shape");
    CHECK(run(m63, t.b, t.c) == "gemm-shape");
    CHECK(run(t.a, n63, t.c) == "gemm-shape");
    CHECK(run(t.a, t.b, c_by_columns) == "gemm-shape");
    CHECK(run(t.a, t.b, overlapping) == "gemm-shape");
    host::gemm_options how;
    how.residual = t.c;
    how.residual.cols = 8;
    CHECK(run(t.a, t.b, t.c, how) == "gemm-shape");
    how = {};
    how.type = tile::element::f32;
    CHECK(run(t.a, t.b, t.c, how) == "gemm-type");
    host::matrix negative = t.a, c_negative = t.c;
    negative.rows = c_negative.rows = -1;
    CHECK(run(negative, t.b, c_negative) == "gemm-shape");
  });
}

TEST_CASE("pointers and strides that no kernel can use are refused by name") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    three t(*m.on);
    auto run = [&](host::matrix a) { return error_of([&] { host::gemm(*m.with, a, t.b, t.c); }); };
    host::matrix null = t.a, odd = t.a, backwards = t.a;
    null.data = 0;
    odd.data += 1;
    backwards.stride = -64;
    CHECK(run(null) == "pointer-null");
    CHECK(run(odd) == "pointer-misaligned");
    CHECK(run(backwards) == "stride-negative");
    CHECK(run(t.a) == "no error");
  });
}

TEST_CASE("attention refuses shapes, heads and types that it was not built for, and offsets that are not there") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    device::buffer memory(*m.on, 1 << 16);
    const host::tokens t{memory.where()};
    auto run = [&](host::attention_problem p) { return error_of([&] { host::block_attention(*m.with, t, t, t, t, p); }); };
    host::attention_problem p;
    p.token_count = 4;
    p.heads = 1;
    p.batch = 1;
    CHECK(run(p) == "pointer-null");
    p.offsets = memory.where() + 2;
    CHECK(run(p) == "pointer-misaligned");
    p.dimension = 80;
    CHECK(run(p) == "attention-shape");
    p.dimension = 64;
    p.block = 512;
    CHECK(run(p) == "attention-shape");
    p.block = 256;
    CHECK(error_of([&] { host::block_attention_backward(*m.with, t, t, t, t, t, t, t, p); }) == "attention-shape");
    p.block = 64;
    p.heads = 3;
    p.key_heads = 2;
    CHECK(run(p) == "attention-heads");
    p.heads = 4;
    p.block = 128;
    p.dimension = 128;
    CHECK(error_of([&] { host::block_attention_backward(*m.with, t, t, t, t, t, t, t, p); }) == "attention-heads");
    p.heads = p.key_heads = 1;
    p.block = 64;
    p.dimension = 96;
    p.rotary.cos = p.rotary.sin = memory.where();
    CHECK(run(p) == "attention-rotary");
    p.rotary = {};
    p.dimension = 64;
    p.type = tile::element::f32;
    CHECK(run(p) == "attention-type");
  });
}

TEST_CASE("a host pointer is refused by name on a GPU, at the first launch and when it comes later") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    if (!m.is_gpu()) return;
    three t(*m.on);
    std::vector<char> here(1 << 16);
    CHECK(error_of([&] { host::gemm(*m.with, t.a, t.b, t.c); }) == "no error");
    host::matrix host_side = t.a;
    host_side.data = (reinterpret_cast<std::uint64_t>(here.data()) + 255) / 256 * 256;
    CHECK(error_of([&] { host::gemm(*m.with, host_side, t.b, t.c); }) == "pointer-not-on-device");
    CHECK(error_of([&] { host::gemm(*m.with, t.a, t.b, t.c); }) == "no error");
    m.on->wait();
  });
}

TEST_CASE("a machine of a target without tensor cores of this kind is told so") {
  old_machine old;
  host::session with(old);
  CHECK(error_of([&] { host::gemm(with, {256, 64, 64}, {256, 64, 64}, {256, 64, 64}); }) == "target-unsupported");
}

TEST_CASE("a kernel of one's own is bound with the arguments that it declares") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    device::buffer memory(*m.on, 1 << 16);
    auto run = [&](const std::vector<device::value>& values) {
      return error_of([&] {
        host::launch<arguments>(*m.with, "own", [](block& cta, const arguments& in) {
          cta.warps(4_warps);
          when(in.n > 0, [&] { store(in.x.at(0, 0), fetch<64, 64>(in.x.at(0, 0))); });
        }, values);
      });
    };
    const device::value x = device::view_value(memory.where(), {64, 64});
    CHECK(run({x}) == "argument-count");
    CHECK(run({x, device::scalar_value(std::int64_t{1})}) == "argument-size");
    CHECK(run({device::view_value(memory.where(), {64}), device::scalar_value(1)}) == "argument-rank");
    CHECK(run({x, device::scalar_value(1)}) == "no error");
  });
}
