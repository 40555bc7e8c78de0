#include <doctest/doctest.h>

#include <cstring>

#include "sample.hpp"

using namespace sample;

namespace {

template <class T>
T read(const argument& a) {
  const auto& bytes = std::get<std::vector<std::byte>>(a);
  REQUIRE(bytes.size() == sizeof(T));
  T out;
  std::memcpy(&out, bytes.data(), sizeof(T));
  return out;
}

std::vector<value> arguments(value a = view_value(0x1000, {300, 512}), std::int32_t n = 1000) {
  return {std::move(a), view_value(0x20004, {n}), scalar_value(n)};
}

std::string fails(const std::vector<value>& with, std::string* text = nullptr, const kernel& k = gemm()) {
  return error_of([&] { bind(k, with, h200()); }, text);
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a launch has the maps first, then address, extents and outer strides of every view, then scalars in place") {
  const launch how = bind(gemm(), arguments(), h200(), 77);
  CHECK(how.grid.x == 3 * 4);
  CHECK(how.grid.y == 1);
  CHECK(how.block.x == 384);
  CHECK(how.stream == 77);
  CHECK(how.dynamic_shared_bytes == 200000);
  REQUIRE(how.arguments.size() == 1 + 4 + 2 + 1);
  const auto& map = std::get<tensor_map>(how.arguments[0]);
  CHECK(map.base == 0x1000);
  CHECK(map.rank == 2);
  CHECK(map.extents[0] == 512);
  CHECK(map.extents[1] == 300);
  CHECK(map.strides_bytes[0] == 1024);
  CHECK(map.box[0] == 64);
  CHECK(map.box[1] == 128);
  CHECK(map.swizzle_bytes == 128);
  CHECK(read<std::uint64_t>(how.arguments[1]) == 0x1000);
  CHECK(read<std::int32_t>(how.arguments[2]) == 300);
  CHECK(read<std::int32_t>(how.arguments[3]) == 512);
  CHECK(read<std::int64_t>(how.arguments[4]) == 512);
  CHECK(read<std::uint64_t>(how.arguments[5]) == 0x20004);
  CHECK(read<std::int32_t>(how.arguments[6]) == 1000);
  CHECK(read<std::int32_t>(how.arguments[7]) == 1000);
}

TEST_CASE("a padded view keeps its stride in the map and in the parameters") {
  const launch how = bind(gemm(), arguments(view_value(0x1000, {300, 500}, {520, 1})), h200());
  CHECK(std::get<tensor_map>(how.arguments[0]).strides_bytes[0] == 1040);
  CHECK(read<std::int64_t>(how.arguments[4]) == 520);
}

TEST_CASE("a row stride of 1022 bytes is refused with tensor, dimension, bytes and the 16-byte rule") {
  std::string text;
  CHECK(fails(arguments(view_value(0x1000, {300, 511})), &text) == "stride-misaligned");
  CHECK(has(text, "tensor \"a\""));
  CHECK(has(text, "dimension 0"));
  CHECK(has(text, "1022 bytes"));
  CHECK(has(text, "multiples of 16 bytes"));
  CHECK(has(text, "pad that stride to 512 elements"));
  for (std::int64_t n : {3, 7, 9}) CHECK(fails(arguments(view_value(0x1000, {300, n}))) == "stride-misaligned");
}

TEST_CASE("one row of any length binds, since its stride is never used") {
  const launch how = bind(gemm(), arguments(view_value(0x1000, {1, 511})), h200());
  CHECK(std::get<tensor_map>(how.arguments[0]).strides_bytes[0] % 16 == 0);
  CHECK(fails(arguments(view_value(0x1000, {300, 1}, {8, 999}))) == "");
}

TEST_CASE("the base address is checked at every bind, to 16 bytes with a map and to the element without") {
  for (std::uint64_t offset : {2u, 8u}) CHECK(fails(arguments(view_value(0x1000 + offset, {300, 512}))) == "pointer-misaligned");
  CHECK(fails(arguments(view_value(0x1010, {300, 512}))) == "");
  std::string text;
  std::vector<value> off = arguments();
  off[1].base = 0x20002;
  CHECK(fails(off, &text) == "pointer-misaligned");
  CHECK(has(text, "\"bias\" starts at 0x20002, 2 bytes past a multiple of 4"));
}

TEST_CASE("the wrong number, rank or size of arguments is named") {
  CHECK(fails({}) == "argument-count");
  CHECK(fails(arguments(view_value(0x1000, {300}))) == "argument-rank");
  CHECK(fails(arguments(view_value(0x1000, {300, 512}, {512}))) == "argument-rank");
  CHECK(fails(arguments(scalar_value(1))) == "argument-rank");
  std::vector<value> wrong = arguments();
  wrong[2] = scalar_value(std::int64_t{1});
  CHECK(fails(wrong) == "argument-size");
}

TEST_CASE("extents are 0 to 2^31-1") {
  CHECK(fails(arguments(view_value(0x1000, {-1, 512}))) == "extent-negative");
  std::string text;
  std::vector<value> large = arguments();
  large[1] = view_value(0x20000, {2147483649});
  CHECK(fails(large, &text) == "extent-too-large");
  CHECK(has(text, "2147483649"));
  CHECK(has(text, "the limit is 2147483647"));
  large[1] = view_value(0x20000, {2147483647});
  CHECK(fails(large) == "");
}

TEST_CASE("an inner stride other than 1 is refused") {
  CHECK(fails(arguments(view_value(0x1000, {300, 512}, {1024, 2}))) == "stride-not-dense");
}

TEST_CASE("strides through a map are not negative and below 2^40 bytes") {
  CHECK(fails(arguments(view_value(0x1000, {300, 512}, {-512, 1}))) == "stride-negative");
  CHECK(fails(arguments(view_value(0x1000, {2, 512}, {std::int64_t{1} << 39, 1}))) == "stride-too-large");
  CHECK(fails(arguments(view_value(0x1000, {2, 512}, {(std::int64_t{1} << 39) - 8, 1}))) == "");
}

TEST_CASE("views that wrap the 64-bit address space are refused") {
  CHECK(fails(arguments(view_value(0x1000, {2147483647, 512}, {INT64_MAX / 4, 1}))) == "view-too-large");
  CHECK(fails(arguments(view_value(0x1000, {2, 512}, {INT64_MIN, 1}))) == "view-too-large");
  kernel k = gemm();
  k.maps.clear();
  k.parameters[0].rank = 5;
  CHECK(fails({view_value(16, {2147483647, 2147483647, 2147483647, 2147483647, 8}), view_value(16, {1}), scalar_value(1)}, nullptr, k) == "view-too-large");
}

TEST_CASE("an empty view may be null and misaligned, keeps extent 0 in its map, and gives an empty grid if the grid follows it") {
  const launch how = bind(gemm(), {view_value(0, {0, 511}), view_value(0x20000, {8}), scalar_value(8)}, h200());
  CHECK(how.grid.x == 0);
  const auto& map = std::get<tensor_map>(how.arguments[0]);
  CHECK(map.extents[1] == 0);
  CHECK(is_empty(map));
  CHECK(map.strides_bytes[0] % 16 == 0);
  const launch no_depth = bind(gemm(), arguments(view_value(0, {300, 0})), h200());
  CHECK(no_depth.grid.x == 12);
  CHECK(is_empty(std::get<tensor_map>(no_depth.arguments[0])));
  CHECK(fails(arguments(view_value(0, {300, 512}))) == "pointer-null");
}

TEST_CASE("grids are held to the axis limits, with axis, value and limit in the message") {
  kernel k = gemm();
  k.grid_x = formula{"1"};
  k.grid_z = formula{"n"};
  CHECK(fails(arguments(view_value(0x1000, {300, 512}), 65535), nullptr, k) == "");
  std::string text;
  CHECK(fails(arguments(view_value(0x1000, {300, 512}), 65538), &text, k) == "grid-too-large");
  CHECK(has(text, "grid z comes out as 65538 blocks, the limit is 65535"));
  k.grid_z = formula{"1"};
  k.grid_x = formula{"(mul n 4096)"};
  CHECK(fails(arguments(view_value(0x1000, {300, 512}), 1 << 19), nullptr, k) == "grid-too-large");
  k.grid_x = formula{"(sub n 1001)"};
  CHECK(fails(arguments(), nullptr, k) == "grid-negative");
}

TEST_CASE("C30: a grid must hold whole clusters") {
  kernel k = gemm();
  k.cluster = {2, 1, 1};
  k.grid_x = formula{"63"};
  std::string text;
  CHECK(fails(arguments(), &text, k) == "grid-not-whole-clusters");
  CHECK(has(text, "63 blocks, not a multiple of cluster x = 2"));
  k.grid_x = formula{"64"};
  CHECK(fails(arguments(), nullptr, k) == "");
}

TEST_CASE("a machine that cannot run the kernel is refused with both numbers") {
  kernel k = gemm();
  k.dynamic_shared_bytes = 232449;
  std::string text;
  CHECK(fails(arguments(), &text, k) == "shared-memory-exceeded");
  CHECK(has(text, "232449"));
  CHECK(has(text, "232448"));
  k.dynamic_shared_bytes = 232448;
  CHECK(fails(arguments(), nullptr, k) == "");
  k.block = {1024, 2, 1};
  CHECK(fails(arguments(), nullptr, k) == "block-too-large");
  k = gemm();
  k.target = "sm_100a";
  CHECK(fails(arguments(), nullptr, k) == "target-mismatch");
}

TEST_CASE("code runs on its own processor with suffix a, in its family with f, and upwards with none") {
  CHECK(target_runs_on("sm_90a", "sm_90a"));
  CHECK_FALSE(target_runs_on("sm_90a", "sm_100a"));
  CHECK(target_runs_on("sm_90", "sm_100a"));
  CHECK_FALSE(target_runs_on("sm_100", "sm_90a"));
  CHECK(target_runs_on("sm_100f", "sm_103a"));
  CHECK_FALSE(target_runs_on("sm_103f", "sm_100a"));
  CHECK_FALSE(target_runs_on("sm_100f", "sm_110a"));
  CHECK_FALSE(target_runs_on("gfx942", "sm_90a"));
}

TEST_CASE("a map that breaks the fixed rules of tensor maps is the kernel's fault and says which rule") {
  const auto with = [](auto change) {
    kernel k = gemm();
    change(k.maps[0]);
    std::string text;
    CHECK(fails(arguments(), &text, k) == "map-malformed");
    return text;
  };
  CHECK(has(with([](map_rule& m) { m.box = {257, 1}; m.swizzle_bytes = 0; }), "box extent 257"));
  CHECK(has(with([](map_rule& m) { m.box = {4, 1}; m.swizzle_bytes = 0; }), "8 bytes"));
  CHECK(has(with([](map_rule& m) { m.box = {128, 1}; }), "256 bytes under a 128-byte swizzle"));
  CHECK(has(with([](map_rule& m) { m.box = {24, 1}; m.swizzle_bytes = 32; }), "48 bytes under a 32-byte swizzle"));
  CHECK(has(with([](map_rule& m) { m.box = {64}; }), "rank 2"));
  CHECK(has(with([](map_rule& m) { m.element = map_element::f32; }), "element f32"));
  CHECK(has(with([](map_rule& m) { m.parameter_index = 2; }), "not a view"));
  CHECK(has(with([](map_rule& m) { m.parameter_index = -1; }), "not a view"));
}

TEST_CASE("a rank-3 view with padded strides keeps every stride apart") {
  kernel k = gemm();
  k.parameters[0].rank = 3;
  k.maps[0].box = {8, 8, 1};
  k.maps[0].swizzle_bytes = 0;
  const launch how = bind(k, arguments(view_value(0x1000, {5, 3, 13}, {104, 16, 1})), h200());
  const auto& map = std::get<tensor_map>(how.arguments[0]);
  CHECK(map.extents[0] == 13);
  CHECK(map.extents[2] == 5);
  CHECK(map.strides_bytes[0] == 32);
  CHECK(map.strides_bytes[1] == 208);
}

TEST_CASE("a view that bulk copies write has rows of whole 16 bytes, one that they only read need not") {
  kernel k = gemm();
  CHECK(fails(arguments(view_value(0x1000, {300, 509}, {512, 1}))) == "");
  k.maps[0].stored = true;
  std::string text;
  CHECK(fails(arguments(view_value(0x1000, {300, 509}, {512, 1})), &text, k) == "extent-misaligned");
  CHECK(has(text, "\"a\" has innermost extent 509, not a multiple of 8"));
  CHECK(has(text, "move_by_threads"));
  CHECK(fails(arguments(view_value(0x1000, {300, 504}, {512, 1})), nullptr, k) == "");
  CHECK(fails(arguments(view_value(0x1000, {300, 0}, {512, 1})), nullptr, k) == "");
}

TEST_CASE("a binder used twice gives the second launch, not a mixture") {
  binder b(gemm(), h200());
  b(arguments());
  const launch& how = b(arguments(view_value(0x2000, {128, 64}), 256), 5);
  CHECK(how.grid.x == 1);
  CHECK(how.stream == 5);
  CHECK(std::get<tensor_map>(how.arguments[0]).base == 0x2000);
  CHECK(read<std::int32_t>(how.arguments[2]) == 128);
}

TEST_CASE("a binder that meets the same shapes again takes the new addresses, checked, and nothing of the old ones") {
  binder b(gemm(), h200());
  b(arguments(), 1);
  for (const address base : {0x2000u, 0x3000u, 0x1000u}) {
    const launch& how = b(arguments(view_value(base, {300, 512})), 9);
    CHECK(std::get<tensor_map>(how.arguments[0]).base == base);
    CHECK(read<std::uint64_t>(how.arguments[1]) == base);
    CHECK(read<std::uint64_t>(how.arguments[5]) == 0x20004);
    CHECK(how.stream == 9);
    CHECK(how.grid.x == 3 * 4);
  }
  std::string text;
  CHECK(error_of([&] { b(arguments(view_value(0x2008, {300, 512}))); }, &text) == "pointer-misaligned");
  CHECK(has(text, "8 bytes past a multiple of 16"));
  CHECK(error_of([&] { b(arguments(view_value(0, {300, 512}))); }) == "pointer-null");
  auto two = arguments();
  two[1].base = 0x30008;
  const launch& how = b(two);
  CHECK(std::get<tensor_map>(how.arguments[0]).base == 0x1000);
  CHECK(read<std::uint64_t>(how.arguments[1]) == 0x1000);
  CHECK(read<std::uint64_t>(how.arguments[5]) == 0x30008);
  // A scalar decides about the grid: another one is another launch.
  const launch& wider = b({view_value(0x1000, {300, 512}), view_value(0x20004, {1000}), scalar_value(std::int32_t{2000})});
  CHECK(wider.grid.x == 3 * 8);
  CHECK(read<std::int32_t>(wider.arguments[7]) == 2000);
  CHECK(error_of([&] { b({view_value(0x1000, {300, 512})}); }) == "argument-count");
  CHECK(b(arguments()).grid.x == 3 * 4);
}
