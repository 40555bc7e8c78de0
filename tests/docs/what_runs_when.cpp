// Quoted by docs/what-runs-when.md.
#include <doctest/doctest.h>

#include <optional>

#include "examples/common.hpp"
#include "tlx/host/launch.hpp"
#include "tlx/ir/text.hpp"

using namespace tlx;
using namespace tlx::literals;

namespace {

struct sum_arguments {
  TLX_ARGUMENTS(sum_arguments, (view<float, 2>, x), (view<float, 2>, y), (scalar<std::int32_t>, rounds), (scalar<float>, alpha));
};

int count(const std::string& text, const std::string& word) {
  int n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

template <class Body>
std::string traced(const Body& body) { return ir::print(*trace<sum_arguments>("kernel", "sm_90a", body)); }

template <class Body>
std::string error_of(const Body& body) {
  try {
    trace<sum_arguments>("kernel", "sm_90a", body);
  } catch (const error& e) {
    return e.id();
  }
  return "none";
}

}  // namespace

TEST_CASE("a C++ loop is unrolled while recording, for_each is recorded once") {
  const std::string unrolled = traced([](block& cta, const sum_arguments& in) {
    cta.warps(1_warp);
    // [host_loop]
    for (int i = 0; i < 4; ++i) store(in.y.at(i * 8, 0), fetch<8, 32>(in.x.at(i * 8, 0)));  // four fetches and four stores are recorded
    // [/host_loop]
  });
  const std::string looped = traced([](block& cta, const sum_arguments& in) {
    cta.warps(1_warp);
    // [for_each]
    for_each(in.rounds, [&](index i) { store(in.y.at(i * 8, 0), fetch<8, 32>(in.x.at(i * 8, 0))); });  // one of each, in a loop of the kernel
    // [/for_each]
  });
  CHECK(count(unrolled, "global.load") == 4);
  CHECK(count(unrolled, " for ") == 0);
  CHECK(count(looped, "global.load") == 1);
}

TEST_CASE("a C++ if on a value of the host leaves the other branch out of the kernel") {
  for (const bool twice : {false, true}) {
    const std::string text = traced([&](block& cta, const sum_arguments& in) {
      cta.warps(1_warp);
      // [host_if]
      auto x = fetch<8, 32>(in.x.at(0, 0));
      if (twice) store(in.y.at(0, 0), x + x);  // `twice` is a bool of the host
      else store(in.y.at(0, 0), x);
      // [/host_if]
    });
    CHECK(count(text, "= add") == (twice ? 1 : 0));
  }
}

TEST_CASE("a cell carries a value through a loop, and when() is a branch of the kernel") {
  for (const char* target : {"sm_90a", "sm_100a"}) {
    const auto m = examples::open(std::string("sim:") + target);
    examples::array<float> x(*m, 8 * 32, 1.0f), y(*m, 8 * 32, 0.0f);
    host::session session(*m);
    const auto body = [](block& cta, const sum_arguments& in) {
      cta.warps(1_warp);
      // [cell]
      auto sum = cta.carry(constant(cta.home(), 0));                 // a cell: what a loop carries
      for_each(in.rounds, [&](index i) {
        when(i % 2 == 0, [&] { sum.set(sum.get() + i); });           // a branch of the kernel
      });
      auto factor = cast<float>(sum.get());
      store(in.y.at(0, 0), fetch<8, 32>(in.x.at(0, 0)) * factor);
      // [/cell]
    };
    host::launch<sum_arguments>(session, "kernel", body, {x.view({8, 32}), y.view({8, 32}), device::scalar_value(10), device::scalar_value(1.0f)});
    CHECK(y.fetch()[0] == 20.0f);
    CHECK(y.fetch()[255] == 20.0f);
  }
}

TEST_CASE("a value that leaves its loop is an error while recording") {
  CHECK(error_of([](block& cta, const sum_arguments& in) {
          cta.warps(1_warp);
          // [escape]
          std::optional<tile_of<float, 8, 32>> last;
          for_each(in.rounds, [&](index i) { last.emplace(fetch<8, 32>(in.x.at(i, 0))); });
          store(in.y.at(0, 0), *last);  // error [value-escapes]: the loop may have run no round
          // [/escape]
        }) == "value-escapes");
}

TEST_CASE("a value of another kernel is an error") {
  std::string id;
  traced([&](block& cta, const sum_arguments& outer) {
    cta.warps(1_warp);
    store(outer.y.at(0, 0), fetch<8, 32>(outer.x.at(0, 0)));
    id = error_of([&](block& inner, const sum_arguments& in) {
      inner.warps(1_warp);
      store(in.y.at(outer.rounds, 0), fetch<8, 32>(in.x.at(0, 0)));
    });
  });
  CHECK(id == "value-of-another-kernel");
}

TEST_CASE("a constant of the host is part of the code only where it says so") {
  const float measured = static_cast<float>(count("a b a", "a"));  // a run-time value
  const std::string text = traced([&](block& cta, const sum_arguments& in) {
    cta.warps(1_warp);
    // [constant]
    auto x = fetch<8, 32>(in.x.at(0, 0));
    store(in.y.at(0, 0), x * 2.0f);                            // a literal of the source
    store(in.y.at(8, 0), x * in.alpha);                        // a parameter: another value is the same kernel
    store(in.y.at(16, 0), x * constant(cta.home(), measured));  // on purpose: another value is another kernel
    // [/constant]
  });
  CHECK(count(text, "= const {value = 2") == 2);
}
