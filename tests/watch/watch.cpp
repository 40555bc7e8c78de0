// Kernels that hang, on a simulator or a GPU: each must end with an error that names who waited for what, and the machine must go on to the next launch.
#include <doctest/doctest.h>

#include <chrono>

#include "broken.hpp"
#include "tests/support/chained.hpp"
#include "tests/support/problems.hpp"
#include "tests/support/skip.hpp"
#include "tlx/c.h"
#include "tlx/host/launch.hpp"
#include "tlx/host/library.hpp"

using namespace tlx;
using namespace tlx::literals;

namespace {

constexpr auto type = tile::element::bf16;
constexpr double limit = 0.2;

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct matrix {
  int rows, cols;
  std::vector<std::uint16_t> values;
  device::buffer on;
  matrix(device::machine& m, int r, int c, std::vector<std::uint16_t> v) : rows(r), cols(c), values(std::move(v)), on(m, values.size() * 2) { on.write(values.data(), values.size() * 2); }
  void fetch() { on.read(values.data(), values.size() * 2); }
  double at(int i) const { return problems::decode(values[static_cast<size_t>(i)], type); }
  device::value view() const { return device::view_value(on.where(), {rows, cols}); }
};
matrix random(device::machine& m, int rows, int cols, std::uint64_t seed) { return {m, rows, cols, problems::random_values(static_cast<size_t>(rows * cols), type, seed)}; }
matrix poison(device::machine& m, int rows, int cols) { return {m, rows, cols, std::vector<std::uint16_t>(static_cast<size_t>(rows * cols), problems::nan_bits())}; }

// --- a pipe: one role loads a tile several times into a ring, another stores each

struct pipe_arguments {
  TLX_ARGUMENTS(pipe_arguments, (view<bf16, 2>, x), (view<bf16, 2>, y), (scalar<std::int32_t>, rounds), (scalar<std::int32_t>, missing));
};

void hand_on(block& cta, const pipe_arguments& in) {
  auto tiles = cta.persistent(grid_of<64, 64>(in.y));
  auto ring = cta.ring<2>("r", shared<bf16, 64, 64>);
  cta.roles(tiles,
    role("put", 1_warp, [&](const grid_box& t) { for_each(in.rounds, [&](tlx::index) { load(ring.fill(), in.x[t]); }); }),
    role("take", 4_warps, [&](const grid_box& t) {
      for_each(in.rounds, [&](tlx::index) { store(in.y[t], read(ring.drain())); });
      when(in.missing < 0, [&] { store(in.y[t], fetch<64, 64>(in.x[t])); });  // so that the parameter is used
    }));
}

std::unique_ptr<ir::kernel> traced_pipe(device::machine& m) { return trace<pipe_arguments>("pipe", m.about().target, hand_on); }

// The loader makes `missing` rounds too few.
void lose_rounds(ir::kernel& k) {
  for (ir::op* loop : broken::find(k, [](const ir::op& o) { return o.is(ir::opcode::for_loop) && o.integer("tiles") == 0 && broken::contains(o, ir::opcode::mbarrier_expect); })) {
    ir::builder b = ir::builder::before(k, *loop);
    loop->operands[1] = b.sub(loop->operands[1], k.parameters()[3].get());
  }
}

std::vector<device::value> pipe_values(const matrix& x, const matrix& y, int rounds, int missing) {
  return {x.view(), y.view(), device::scalar_value(std::int32_t{rounds}), device::scalar_value(std::int32_t{missing})};
}

void check_right(matrix& x, matrix& y) {
  y.fetch();
  CHECK(x.values == y.values);
}

}  // namespace

TEST_CASE("a ring that is not filled for the last round: an error in time that names kernel, role, ring, stage and phase, and the next launch is right") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    broken::on_machine k{*m.on, broken::build(*traced_pipe(*m.on), limit, lose_rounds)};
    matrix x = random(*m.on, 128, 64, 1), y = poison(*m.on, 128, 64);
    REQUIRE(k.outcome(pipe_values(x, y, 5, 0)).second == "");
    check_right(x, y);
    for (const int rounds : {5, 6}) {
      CAPTURE(rounds);
      const auto start = std::chrono::steady_clock::now();
      const auto [id, text] = k.outcome(pipe_values(x, y, rounds, 1));
      const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      CAPTURE(text);
      CHECK(id == "kernel-gave-up");
      CHECK(has(text, "kernel \"pipe\""));
      CHECK(has(text, cat("role \"take\" waited 0.2 s for the full barrier of ring \"r\", stage ", (rounds - 1) % 2, ", phase ", (rounds - 1) / 2 % 2)));
      CHECK(has(text, "at watch.cpp:"));
      CHECK(seconds < limit + 1.5);
      if (m.is_gpu()) CHECK(seconds > limit);
      MESSAGE(text, "\n  after ", seconds, " s");
    }
    // The same process and module, and another module.
    matrix z = poison(*m.on, 128, 64);
    CHECK(k.outcome(pipe_values(x, z, 5, 0)).second == "");
    check_right(x, z);
    matrix w = poison(*m.on, 128, 64);
    host::launch<pipe_arguments>(*m.with, "other_pipe", hand_on, pipe_values(x, w, 3, 0));
    m.on->wait();
    check_right(x, w);
  });
}

TEST_CASE("a slot that is never let go: the filling role is named, with the empty barrier") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    broken::on_machine k{*m.on, broken::build(*traced_pipe(*m.on), limit, [](ir::kernel& b) {
      for (ir::op* o : broken::find(b, [](const ir::op& o) { return o.is(ir::opcode::mbarrier_arrive); })) ir::erase(*o);
    })};
    matrix x = random(*m.on, 128, 64, 1), y = poison(*m.on, 128, 64);
    CHECK(k.outcome(pipe_values(x, y, 2, 0)).second == "");  // two slots, two rounds: nobody needs one back
    check_right(x, y);
    const auto [id, text] = k.outcome(pipe_values(x, y, 3, 0));
    CAPTURE(text);
    CHECK(id == "kernel-gave-up");
    const bool first = has(text, "role \"put\" waited 0.2 s for the empty barrier of ring \"r\", stage 0, phase 0");
    const bool second = has(text, "role \"take\" waited 0.2 s for the full barrier of ring \"r\", stage 0, phase 1");  // whoever looks at the time first
    CHECK(first != second);
    CHECK(has(text, first ? "role \"take\" waits for the full barrier" : "role \"put\" waits for the empty barrier"));
  });
}

TEST_CASE("one warp waits for ever and the others of its role meet at a named barrier: all of them give up, and the machine goes on") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    broken::on_machine k{*m.on, broken::build(*traced_pipe(*m.on), limit, [](ir::kernel& b) {
      const ir::place full = *std::find_if(b.places.begin(), b.places.end(), [](const ir::place& p) { return p.part == "full"; });
      for (ir::op* role : broken::find(b, [](const ir::op& o) { return o.has("role") && o.text("role") == "take"; })) {
        ir::builder end(b, *role->regions[0]);
        ir::value first = end.compare("eq", end.simple(ir::opcode::warp_id, tile::element::s32), end.integer(role->integer("first_warp")));
        ir::value waits = end.binary(ir::opcode::bit_and, first, end.compare("gt", b.parameters()[3].get(), end.integer(0)));
        end.when(waits, [&](ir::builder& w) {  // for the second filling of slot 0, which never comes
          w.make(ir::opcode::mbarrier_wait, {w.simple(ir::opcode::shared_base, tile::element::u32, {{"offset", full.offset}}), w.integer(1)});
        });
        end.make(ir::opcode::barrier_cta, {}, {}, {{"id", std::int64_t{5}}, {"threads", std::int64_t{128}}});
      }
    })};
    matrix x = random(*m.on, 64, 64, 1), y = poison(*m.on, 64, 64);
    for (const int missing : {0, 1, 0}) {
      const auto [id, text] = k.outcome(pipe_values(x, y, 1, missing));
      CAPTURE(text);
      CHECK(id == (missing ? "kernel-gave-up" : ""));
      if (!missing) continue;
      CHECK(has(text, "for the full barrier of ring \"r\", stage 0, phase 1"));
      CHECK(has(text, "at named barrier 5 for the other warps"));
    }
    check_right(x, y);
  });
}

TEST_CASE("many launches behind a hung one end at once, and the error counts them") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    if (!m.is_gpu()) return;  // a simulator's launch is over when it returns
    broken::on_machine k{*m.on, broken::build(*traced_pipe(*m.on), limit, lose_rounds)};
    matrix x = random(*m.on, 128, 64, 1), y = poison(*m.on, 128, 64);
    k.outcome(pipe_values(x, y, 5, 0));
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 50; ++i) k.run(pipe_values(x, y, 5, i == 0));
    std::string text;
    try {
      m.on->wait();
    } catch (const error& e) {
      text = e.what();
    }
    CHECK(has(text, "last 50 launches are void"));
    CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < limit + 1.5);
    CHECK(k.outcome(pipe_values(x, y, 5, 0)).second == "");
    check_right(x, y);
  });
}

// --- every arrival of two kernels with products, dropped one at a time

namespace {

struct product {
  TLX_ARGUMENTS(product, (view<bf16, 2>, a), (view<bf16, 2>, b), (view<bf16, 2>, c));
};

void multiply(block& cta, const product& in) {
  auto tiles = cta.persistent(grid_of<128, 64>(in.c));
  auto ab = cta.ring<2>("ab", shared<bf16, 128, 64>, shared<bf16, 64, 64>);
  auto d = cta.ring<2>("d", accumulator<float, 128, 64>);
  cta.roles(tiles,
    role("load", 1_warp, [&](const grid_box& t) {
      for_each(ceil_div(in.a.extent(1), 64), [&](tlx::index i) {
        auto slot = ab.fill();
        load(get<0>(slot), in.a.at(t.row, i * 64));
        load(get<1>(slot), in.b.at(t.col, i * 64));
      });
    }),
    role("mma", 1_warp, [&](const grid_box&) {
      auto acc = d.fill();
      for_each(ceil_div(in.a.extent(1), 64), [&](tlx::index i) {
        auto slot = ab.drain();
        mma(acc, get<0>(slot), transpose(get<1>(slot)), accumulate(i > 0));
      });
    }),
    role("epilogue", cta.has_tensor_memory() ? 4_warps : 8_warps, [&](const grid_box& t) {
      auto values = read(d.drain());
      store(in.c[t], cast<bf16>(values * 2.0f));
    }));
}

bool arrives(const ir::op& o) {
  return o.is(ir::opcode::mbarrier_arrive) || o.is(ir::opcode::mbarrier_expect) || o.is(ir::opcode::tcgen05_commit) || o.is(ir::opcode::tma_load) || o.is(ir::opcode::barrier_cta);
}

// Runs `traced` without each of its arrivals, copies and meetings in turn. Each must hang with an error, or do its work all the same; never in another way.
void drop_each(test::machine_under_test& m, const ir::kernel& traced, const std::vector<device::value>& values, matrix& result, int least) {
  broken::on_machine right{*m.on, broken::build(traced, limit, [](ir::kernel&) {})};
  const auto [none, why] = right.outcome(values);
  REQUIRE_MESSAGE(none == "", why);
  result.fetch();
  const std::vector<std::uint16_t> expected = result.values;
  int sites = 0, hung = 0;
  broken::build(traced, 0, [&](ir::kernel& k) { sites = static_cast<int>(broken::find(k, arrives).size()); });
  for (int site = 0; site < sites; ++site) {
    std::string what;
    broken::on_machine k{*m.on, broken::build(traced, limit, [&](ir::kernel& b) {
      ir::op* dropped = broken::find(b, arrives)[static_cast<size_t>(site)];
      what = std::string(ir::row(dropped->code).text);
      if (!dropped->is(ir::opcode::barrier_cta)) ir::erase(*dropped);
      else if (dropped->parent != &b.body && b.warps > 4) dropped->set("threads", dropped->integer("threads") + 32);  // one warp more than come
    })};
    CAPTURE(site);
    CAPTURE(what);
    const auto [id, text] = k.outcome(values);
    CAPTURE(text);
    if (id == "") continue;
    CHECK(id == "kernel-gave-up");
    CHECK((has(text, "ring \"") || has(text, "\"accumulator\"") || has(text, "named barrier") || has(text, "of \"")));
    ++hung;
    const auto [after, complaint] = right.outcome(values);
    CHECK_MESSAGE(after == "", complaint);
  }
  CHECK(hung >= least);
  result.fetch();
  CHECK(result.values == expected);
  MESSAGE(traced.name, ": ", hung, " of ", sites, " hung and said so");
}

}  // namespace

TEST_CASE("every arrival of a product with roles, dropped: the kernel ends and names a ring") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    matrix a = random(*m.on, 256, 320, 1), b = random(*m.on, 192, 320, 2), c = poison(*m.on, 256, 192);
    drop_each(m, *trace<product>("multiply", m.on->about().target, multiply), {a.view(), b.view(), c.view()}, c, 4);
  });
}

TEST_CASE("every arrival of a chain of products without roles, dropped: the kernel ends and names a ring") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    matrix q = random(*m.on, 128, 64, 1), k = random(*m.on, 320, 64, 2), v = random(*m.on, 320, 64, 3), o = poison(*m.on, 128, 64);
    drop_each(m, *trace<test::chain>("chained", m.on->about().target, test::chained), {q.view(), k.view(), v.view(), o.view()}, o, 4);
  });
}

TEST_CASE("every arrival of block attention, dropped: the kernel ends and names a ring or an accumulator") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    constexpr int tokens = 100, heads = 2, dimension = 64;
    matrix q = random(*m.on, tokens * heads, dimension, 1), k = random(*m.on, tokens * heads, dimension, 2), v = random(*m.on, tokens * heads, dimension, 3), o = poison(*m.on, tokens * heads, dimension);
    const std::int32_t offsets[] = {0, 70, 100};  // a whole block and two parts
    device::buffer at(*m.on, sizeof offsets);
    at.write(offsets, sizeof offsets);
    const auto view = [&](const matrix& x) { return device::view_value(x.on.where(), {tokens, heads, dimension}); };
    const std::vector<device::value> values{view(q), view(k), view(v), view(o), device::view_value(at.where(), {3}), device::scalar_value(0.125f * 1.4426950408889634f)};
    for (const host::library_kernel& one : host::library_kernels())
      if (one.name == "block_attention_bf16_d64") return drop_each(m, *one.trace(m.on->about().target), values, o, 6);
    FAIL("the library has no block_attention_bf16_d64");
  });
}

// --- requirements, bounds, print

namespace {

struct checked_arguments {
  TLX_ARGUMENTS(checked_arguments, (view<bf16, 2>, x), (view<bf16, 2>, y), (scalar<std::int32_t>, in_put), (scalar<std::int32_t>, in_take), (scalar<std::int32_t>, lanes), (scalar<std::int32_t>, shift));
};

int line_of_put = 0, line_of_lanes = 0;

void checked_pipe(block& cta, const checked_arguments& in) {
  auto tiles = cta.persistent(grid_of<64, 64>(in.y));
  auto ring = cta.ring<2>("r", shared<bf16, 64, 64>);
  cta.roles(tiles,
    role("put", 1_warp, [&](const grid_box& t) {
      line_of_put = __LINE__ + 2;
      // [require]
      require(t.row < in.in_put, "row fits put", t.row);
      load(ring.fill(), in.x[t]);
      // [/require]
    }),
    role("take", 4_warps, [&](const grid_box& t) {
      auto values = read(ring.drain());
      require(t.row < in.in_take, "row fits take");
      when(lane(cta.home()) >= in.lanes, [&] { require(lane(cta.home()) < in.lanes, "no such lane", lane(cta.home())), line_of_lanes = __LINE__; });
      store(in.y.at(t.row + in.shift, t.col), values);
    }));
}

std::vector<device::value> checked_values(const matrix& x, const matrix& y, int in_put, int in_take, int lanes, int shift) {
  return {x.view(), y.view(), device::scalar_value(std::int32_t{in_put}), device::scalar_value(std::int32_t{in_take}), device::scalar_value(std::int32_t{lanes}), device::scalar_value(std::int32_t{shift})};
}

device::kernel compiled(device::machine& m, jit::watch_options how) {
  jit::compile_options options{.assemble = false, .use_cache = false};
  options.watch = how;
  return jit::compile(*trace<checked_arguments>("checked_pipe", m.about().target, checked_pipe), options);
}

}  // namespace

TEST_CASE("a requirement that fails ends the kernel before anything behind it happens, in one lane, in whole warps and in parts of warps") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    broken::on_machine k{*m.on, compiled(*m.on, {.seconds = limit})};
    matrix x = random(*m.on, 64, 64, 1), y = poison(*m.on, 64, 64);
    CHECK(k.outcome(checked_values(x, y, 1000, 1000, 32, 0)).second == "");
    check_right(x, y);
    struct fault {
      int in_put, in_take, lanes;
      std::string what;
    };
    for (const fault& f : {fault{0, 1000, 32, "role \"put\": \"row fits put\" does not hold in lane "}, fault{1000, 0, 32, "role \"take\": \"row fits take\" does not hold in lane 0"},
                           fault{1000, 1000, 27, "role \"take\": \"no such lane\" does not hold in lane "}}) {
      CAPTURE(f.what);
      matrix z = poison(*m.on, 64, 64);
      const std::vector<std::uint16_t> before = z.values;
      const auto [id, text] = k.outcome(checked_values(x, z, f.in_put, f.in_take, f.lanes, 0));
      CAPTURE(text);
      CHECK(id == "requirement-failed");
      CHECK(has(text, f.what));
      if (f.in_put == 0) CHECK((has(text, cat("watch.cpp:", line_of_put)) && has(text, ", value 0")));
      if (f.lanes == 27) CHECK((has(text, cat("watch.cpp:", line_of_lanes)) && (has(text, ", value 27") || has(text, ", value 28") || has(text, ", value 29") || has(text, ", value 30") || has(text, ", value 31"))));
      z.fetch();
      if (f.in_take == 0 || f.lanes == 27) CHECK(z.values == before);  // every warp of the role failed before its store
      CHECK(k.outcome(checked_values(x, z, 1000, 1000, 32, 0)).second == "");
      check_right(x, z);
    }
  });
}

TEST_CASE("a place outside of its view is reported where bounds are checked, and means nothing where they are not") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    matrix x = random(*m.on, 100, 64, 1), y = poison(*m.on, 100, 64);
    broken::on_machine plain{*m.on, compiled(*m.on, {.seconds = limit})}, strict{*m.on, compiled(*m.on, {.seconds = limit, .bounds = true})};
    CHECK(strict.outcome(checked_values(x, y, 1000, 1000, 32, 0)).second == "");  // the second tile hangs over the end, which is no fault
    check_right(x, y);
    CHECK(plain.outcome(checked_values(x, y, 1000, 1000, 32, 100)).second == "");
    check_right(x, y);  // nothing was stored
    const auto [id, text] = strict.outcome(checked_values(x, y, 1000, 1000, 32, 100));
    CAPTURE(text);
    CHECK(id == "requirement-failed");
    CHECK(has(text, "role \"take\": \"a place of \"y\" is inside of it along axis 0\" does not hold"));
    CHECK((has(text, "value 100, bound 100") || has(text, "value 164, bound 100")));
    const auto [negative, why] = strict.outcome(checked_values(x, y, 1000, 1000, 32, -1));
    CHECK(negative == "requirement-failed");
    CHECK((has(why, "value -1, bound 100")));
  });
}

namespace {
struct shifted_arguments {
  TLX_ARGUMENTS(shifted_arguments, (view<bf16, 2>, x), (view<bf16, 2>, y), (scalar<std::int32_t>, load_at), (scalar<std::int32_t>, store_at));
};
// y = x x^T in one tile, loaded and stored at a column that is asked for.
void shifted(block& cta, const shifted_arguments& in) {
  cta.warps(4_warps);
  auto ring = cta.ring<1>("r", shared<bf16, 64, 64>);
  cta.home().kernel().grid[0] = "1";
  load(ring.fill(), in.x.at(0, in.load_at));
  auto x = ring.drain();
  store(in.y.at(0, in.store_at), cast<bf16>(read(mma(x, transpose(x)))));
}
}  // namespace

TEST_CASE("a box that starts in the middle of 16 bytes is reported where bounds are checked, before the copy is started") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    jit::compile_options options{.assemble = false, .use_cache = false};
    options.watch = jit::watch_options{.seconds = limit, .bounds = true};
    const std::unique_ptr<ir::kernel> traced = trace<shifted_arguments>("shifted", m.on->about().target, shifted);
    broken::on_machine k{*m.on, jit::compile(*traced, options)};
    matrix x{*m.on, 64, 64, std::vector<std::uint16_t>(64 * 64, 0)}, y = poison(*m.on, 64, 64);
    for (size_t i = 0; i < 64; ++i) x.values[i * 64 + i] = 0x3f80;  // the identity
    x.on.write(x.values.data(), x.values.size() * 2);
    const auto outcome = [&](int load_at, int store_at) { return k.outcome({x.view(), y.view(), device::scalar_value(std::int32_t{load_at}), device::scalar_value(std::int32_t{store_at})}); };
    CHECK(outcome(0, 0).second == "");
    check_right(x, y);
    CHECK(outcome(8, 48).second == "");  // whole 16 bytes, over the end
    y.fetch();
    CHECK(y.at(8 * 64 + 48 + 8) == 1);
    for (const int at : {1, 4, 7}) {
      const auto [id, text] = outcome(at, 0);
      CAPTURE(text);
      CHECK(id == "requirement-failed");
      CHECK(has(text, "\"a box of \"x\" starts at a multiple of 8 elements (16 bytes) along axis 1\" does not hold"));
      CHECK(has(text, cat("value ", at)));
      CHECK(has(text, "at watch.cpp:"));
      const auto [stored, why] = outcome(0, at);
      CAPTURE(why);
      CHECK(stored == "requirement-failed");
      CHECK(has(why, "\"a box of \"y\" starts at a multiple of 8 elements (16 bytes) along axis 1\" does not hold"));
    }
    CHECK(outcome(0, 0).second == "");
    if (m.is_gpu()) return;
    options.watch = jit::watch_options{.seconds = limit};
    broken::on_machine unchecked{*m.on, jit::compile(*traced, options)};
    CHECK(unchecked.outcome({x.view(), y.view(), device::scalar_value(std::int32_t{4}), device::scalar_value(std::int32_t{0})}).first == "misaligned");
  });
}

namespace {
struct printing {
  TLX_ARGUMENTS(printing, (view<bf16, 2>, y), (scalar<std::int32_t>, n));
};
void printer(block& cta, const printing& in) {
  cta.warps(1_warp);
  cta.home().kernel().grid[0] = "1";
  when(lane(cta.home()) < 2, [&] { print(cta.home(), "lane %d of %d\n", lane(cta.home()), in.n); });
}
}  // namespace

TEST_CASE("print prints, watched or not") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    matrix y = poison(*m.on, 1, 64);
    for (const double seconds : {0.0, limit}) {
      jit::compile_options options{.assemble = false, .use_cache = false};
      options.watch = jit::watch_options{.seconds = seconds};
      broken::on_machine k{*m.on, jit::compile(*trace<printing>("printer", m.on->about().target, printer), options)};
      CHECK(k.outcome({y.view(), device::scalar_value(std::int32_t{7})}).second == "");
      if (m.simulator()) CHECK(m.simulator()->last_run().printed == std::vector<std::string>{"lane 0 of 7\n", "lane 1 of 7\n"});
    }
  });
}

// --- through the C interface

TEST_CASE("a program in another language gets the same error, by its manifest alone") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    const device::kernel k = broken::build(*traced_pipe(*m.on), limit, lose_rounds);
    const std::string manifest = device::to_manifest(k);
    const std::string name = m.name == "gpu" ? "gpu:0" : m.name;
    tlx_machine* machine = nullptr;
    tlx_kernel* kernel = nullptr;
    REQUIRE(tlx_open(name.c_str(), &machine) == TLX_OK);
    REQUIRE(tlx_load(machine, manifest.data(), manifest.size(), k.code.ptx.data(), k.code.ptx.size(), &kernel) == TLX_OK);
    const std::vector<std::uint16_t> input = problems::random_values(64 * 64, type, 3);
    std::uint64_t x = 0, y = 0;
    REQUIRE(tlx_allocate(machine, input.size() * 2, &x) == TLX_OK);
    REQUIRE(tlx_allocate(machine, input.size() * 2, &y) == TLX_OK);
    REQUIRE(tlx_write(machine, x, input.data(), input.size() * 2) == TLX_OK);
    const std::int64_t extents[] = {64, 64};
    for (const std::int32_t missing : {0, 1, 0}) {
      const std::int32_t rounds = 4;
      const tlx_value values[] = {{x, 2, extents, nullptr, nullptr, 0}, {y, 2, extents, nullptr, nullptr, 0}, {0, 0, nullptr, nullptr, &rounds, 4}, {0, 0, nullptr, nullptr, &missing, 4}};
      tlx_status status = tlx_launch(kernel, values, 4, 0);
      if (status == TLX_OK) status = tlx_wait(machine);
      CHECK(status == (missing ? TLX_DEVICE_ERROR : TLX_OK));
      if (missing) {
        CHECK(std::string(tlx_last_error_id()) == "kernel-gave-up");
        CHECK(has(tlx_last_error(), "role \"take\" waited 0.2 s for the full barrier of ring \"r\", stage 1, phase 1"));
      }
    }
    std::vector<std::uint16_t> output(input.size());
    CHECK(tlx_read(machine, output.data(), y, output.size() * 2) == TLX_OK);
    CHECK(tlx_set_wait_limit(machine, 60) == (m.is_gpu() ? TLX_OK : TLX_USER_ERROR));
    CHECK(tlx_wait(machine) == TLX_OK);
    CHECK(output == input);
    tlx_release(kernel);
    tlx_close(machine);
  });
}

// --- the host's own limit

namespace {
struct slow_arguments {
  TLX_ARGUMENTS(slow_arguments, (view<float, 1>, y), (scalar<std::int32_t>, rounds));
};
// Busy for about rounds x 20 us.
void slow(block& cta, const slow_arguments& in) {
  cta.warps(1_warp);
  cta.home().kernel().grid[0] = "1";
  auto sum = cta.carry(constant(cta.home(), 1));
  for_each(in.rounds, [&](tlx::index i) {
    for_each(constant(cta.home(), 1024), [&](tlx::index j) { sum.set((sum.get() ^ j) * 5 + i); });
  });
  store(in.y.at(0), fetch<1, 32>(in.y.at(0)) + cast<float>(sum.get() & 1));
}
}  // namespace

TEST_CASE("a wait on a GPU may have a limit, which names the kernel that has not finished and stops nothing") {
  TLX_ON_EACH_MACHINE([](test::machine_under_test& m) {
    if (!m.is_gpu()) return;
    std::vector<float> ones(32, 1.0f);
    device::buffer y(*m.on, 128);
    y.write(ones.data(), 128);
    jit::compile_options options{.assemble = false, .use_cache = false};
    options.watch = jit::watch_options{};
    broken::on_machine k{*m.on, jit::compile(*trace<slow_arguments>("slow", m.on->about().target, slow), options)};
    const auto values = [&](int rounds) { return std::vector<device::value>{device::view_value(y.where(), {32}), device::scalar_value(std::int32_t{rounds})}; };
    REQUIRE(k.outcome(values(100)).second == "");
    const auto start = std::chrono::steady_clock::now();
    REQUIRE(k.outcome(values(1000)).second == "");
    const double per_round = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / 1000;
    const int rounds = static_cast<int>(1.5 / per_round);
    runtime::set_wait_limit(*m.on, 0.3);
    runtime::stream s(*m.on);
    std::string text;
    try {
      m.on->run(*k.code, k.kernel.entry, k.bind(values(rounds)));
      m.on->wait();
    } catch (const error& e) {
      text = e.what();
    }
    CHECK_MESSAGE(has(text, "[wait-limit]"), text);
    CHECK(has(text, "not finished: kernel \"slow\""));
    MESSAGE(text);
    runtime::set_wait_limit(*m.on, 60);
    m.on->wait();  // it has finished in its own time
    runtime::set_wait_limit(*m.on, 0);
    const double all = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    CHECK(all > 1.0);
  });
}
