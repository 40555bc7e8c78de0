// What the language refuses while a kernel is recorded.
#include <doctest/doctest.h>

#include <memory>
#include <optional>

#include "tlx/dsl/kernel.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

using namespace tlx;
using namespace tlx::literals;

namespace {

struct arguments {
  TLX_ARGUMENTS(arguments, (view<bf16, 2>, x), (scalar<std::int32_t>, n));
};

template <class Body>
diagnostic refusal(Body&& body, const std::string& name = "k") {
  try {
    trace<arguments>(name, "sm_90a", body);
  } catch (const user_error& e) {
    return e.parts();
  }
  return {};
}

}  // namespace

TEST_CASE("a kernel without an operation is refused") {
  const int line = __LINE__ + 1;
  const diagnostic d = refusal([](block&, const arguments&) {});
  CHECK(d.id == "nothing-recorded");
  CHECK(d.what == "kernel \"k\" does nothing");
  CHECK(d.where.line > 0);
  CHECK(std::string(d.where.file).find("errors.cpp") != std::string::npos);
  (void)line;
}

TEST_CASE("a kernel's name is a symbol") {
  auto body = [](block& cta, const arguments& in) { (void)(in.n + cta.cta_id()); };
  for (const char* name : {"", "two words", "9lives", "a.b", "a-b", "na\xc3\xafve"}) {
    CAPTURE(name);
    CHECK(refusal(body, name).id == "name-invalid");
  }
  CHECK(refusal(body, "_ok9").id == "");
}

TEST_CASE("a value does not leave the loop, branch or role it was made in") {
  constexpr int made = __LINE__ + 4;
  const diagnostic d = refusal([](block&, const arguments& in) {
    std::optional<decltype(fetch<8, 64>(in.x.at(0, 0)))> kept;
    for_each(in.n, [&](tlx::index i) {
      kept.emplace(fetch<8, 64>(in.x.at(i, 0)));
    });
    store(in.x.at(0, 0), *kept);
  });
  CHECK(d.id == "value-escapes");
  CHECK(to_string(d.where) == cat("errors.cpp:", made + 2));  // the use, not what was recorded before it
  CHECK(d.what == cat("a value made inside a loop, branch or role at errors.cpp:", made, " is used outside of it"));
  CHECK(d.context == "kernel \"k\"");
  CHECK(d.fix.size() == 2);
  CHECK(refusal([](block&, const arguments& in) {
          std::optional<tlx::index> kept;
          for_each(in.n, [&](tlx::index i) { kept.emplace(i + 1); });
          when(*kept > 3, [] {});
        }).id == "value-escapes");
  CHECK(refusal([](block&, const arguments& in) {
          std::optional<tlx::index> kept;
          when(in.n > 0, [&] { kept.emplace(in.n * 2); });
          for_each(*kept, [](index) {});
        }).id == "value-escapes");
  CHECK(refusal([](block&, const arguments& in) {
          std::optional<tlx::index> kept;
          for_each(in.n, [&](tlx::index i) { kept.emplace(i); });  // the index itself
          (void)(*kept + 1);
        }).id == "value-escapes");
  CHECK(refusal([](block& cta, const arguments& in) {
          std::optional<tlx::index> kept;
          cta.roles(cta.persistent(grid_of<64, 64>(in.x)), role("first", 1_warp, [&](const grid_box& t) { kept.emplace(t.row + 0 * t.col); }),
                    role("second", 1_warp, [&](const grid_box& t) { when(*kept < t.row, [] {}); }));
        }).id == "value-escapes");
}

TEST_CASE("every word that takes a value names its own line when the value is gone") {
  constexpr auto use = [](auto&& word) {  // `word` gets a tile and an index that are gone
    return refusal([&](block& cta, const arguments& in) {
      std::optional<decltype(fetch<8, 64>(in.x.at(0, 0)))> tile;
      std::optional<tlx::index> row;
      for_each(in.n, [&](tlx::index i) {
        tile.emplace(fetch<8, 64>(in.x.at(i, 0)));
        row.emplace(i);
      });
      word(cta, in, *tile, *row);
    });
  };
  const auto line_of = [](const diagnostic& d) { return d.id == "value-escapes" ? d.where.line : -1; };
  CHECK(line_of(use([](block&, const arguments& in, const auto& t, const auto&) { store(in.x.at(0, 0), t); })) == __LINE__);
  CHECK(line_of(use([](block&, const arguments&, const auto& t, const auto&) { (void)exp2(t); })) == __LINE__);
  CHECK(line_of(use([](block&, const arguments&, const auto& t, const auto&) { (void)row_max(t); })) == __LINE__);
  CHECK(line_of(use([](block&, const arguments&, const auto& t, const auto&) { (void)interleave(t, t); })) == __LINE__);
  CHECK(line_of(use([](block&, const arguments&, const auto&, const auto& r) { for_each(r, [](tlx::index) {}); })) == __LINE__);
  CHECK(line_of(use([](block&, const arguments&, const auto&, const auto& r) { (void)warp_sum(r); })) == __LINE__);
}

TEST_CASE("a value made inside may be used deeper inside") {
  CHECK(refusal([](block&, const arguments& in) {
          for_each(in.n, [&](tlx::index i) { when(i > 0, [&] { for_each(i, [&](tlx::index j) { (void)(i + j + in.n); }); }); });
        }).id == "");
}

TEST_CASE("a value of another kernel is refused by the names of both") {
  trace<arguments>("outer", "sm_90a", [](block&, const arguments& outer) {
    const index kept = outer.n + 1;
    const diagnostic scalar_used = refusal([&](block&, const arguments& in) { (void)(in.n + kept); }, "inner");
    CHECK(scalar_used.id == "value-of-another-kernel");
    CHECK(scalar_used.what == "a value of kernel \"outer\" is used in kernel \"inner\"");
    CHECK(refusal([&](block&, const arguments& in) { (void)(in.x.extent(0) + outer.x.extent(0)); }, "inner").id == "value-of-another-kernel");
    CHECK(refusal([&](block&, const arguments& in) { (void)(in.n > kept); }, "inner").id == "value-of-another-kernel");
    CHECK(refusal([&](block&, const arguments& in) { (void)fetch<8, 64>(in.x.at(kept, 0)); }, "inner").id == "value-of-another-kernel");
  });
}

TEST_CASE("a value that was never bound is refused wherever it is used") {
  const index never;
  const scalar<float> real;
  const view<bf16, 2> nowhere;
  CHECK(refusal([&](block&, const arguments& in) { (void)(in.n + never); }).id == "value-unbound");
  CHECK(refusal([&](block&, const arguments& in) { (void)(never + in.n); }).id == "value-unbound");
  CHECK(refusal([&](block&, const arguments&) { (void)(never * 2); }).id == "value-unbound");
  CHECK(refusal([&](block&, const arguments&) { (void)(2 - never); }).id == "value-unbound");
  CHECK(refusal([&](block&, const arguments&) { (void)(-never); }).id == "value-unbound");
  CHECK(refusal([&](block&, const arguments&) { (void)(never < 2); }).id == "value-unbound");
  CHECK(refusal([&](block&, const arguments&) { for_each(never, [](index) {}); }).id == "value-unbound");
  CHECK(refusal([&](block&, const arguments&) { when(never > 1, [] {}); }).id == "value-unbound");
  CHECK(refusal([&](block&, const arguments& in) { (void)(fetch<8, 64>(in.x.at(0, 0)) * cast<bf16>(real)); }).id == "value-unbound");
  CHECK(refusal([&](block&, const arguments& in) { (void)in.x.at(never, 0); }).id == "value-unbound");
  CHECK(refusal([&](block&, const arguments&) { (void)nowhere.extent(0); }).id == "value-unbound");
  CHECK(refusal([&](block&, const arguments&) { (void)fetch<8, 64>(nowhere.at(0, 0)); }).id == "value-unbound");
  CHECK(refusal([&](block&, const arguments&) { (void)grid_of<64, 64>(nowhere); }).id == "value-unbound");
}

TEST_CASE("a part of a slot is not used after the slot was closed") {
  const diagnostic d = refusal([](block& cta, const arguments& in) {
    auto ring = cta.ring<2>("ab", shared<bf16, 64, 64>);
    load(ring.fill(), in.x.at(0, 0));
    auto part = get<0>(ring.drain());  // the slot closes at the end of this statement
    (void)read(part);
  });
  CHECK(d.id == "slot-closed");
  CHECK(d.what == "a part of a slot of ring \"ab\" is used after the slot was closed");
  CHECK(refusal([](block& cta, const arguments& in) {
          auto ring = cta.ring<2>("ab", shared<bf16, 64, 64>);
          auto part = get<0>(ring.fill());
          load(part, in.x.at(0, 0));
        }).id == "slot-closed");
  CHECK(refusal([](block& cta, const arguments& in) {
          auto ring = cta.ring<2>("ab", shared<bf16, 64, 64>);
          auto slot = ring.fill();
          auto part = get<0>(slot);
          load(part, in.x.at(0, 0));
        }).id == "");
}

TEST_CASE("a slot is closed in the loop that opened it") {
  const diagnostic d = refusal([](block& cta, const arguments& in) {
    auto ring = cta.ring<2>("ab", shared<bf16, 64, 64>);
    using slot = decltype(ring.fill());
    std::unique_ptr<slot> kept;
    for_each(in.n, [&](tlx::index) { kept.reset(new slot(ring.fill())); });
  });
  CHECK(d.id == "slot-outlives-region");
}

TEST_CASE("an exception of the user's leaves the recording as it is") {
  struct mine {};
  CHECK_THROWS_AS(trace<arguments>("k", "sm_90a",
                                   [](block& cta, const arguments& in) {
                                     auto ring = cta.ring<2>("ab", shared<bf16, 64, 64>);
                                     for_each(in.n, [&](tlx::index) {
                                       auto slot = ring.fill();
                                       throw mine{};
                                     });
                                   }),
                  mine);
}
