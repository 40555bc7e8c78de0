// The run cases and the complete kernels on the simulator.
#include <doctest/doctest.h>

#include <cstring>

#include "tests/codegen/kernels.hpp"
#include "tests/codegen/look.hpp"
#include "tests/codegen/runs.hpp"
#include "tlx/sim/machine.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/element.hpp"

using namespace tlx;
using namespace test;

namespace {

int element_bytes(const ir::kernel& k, size_t parameter) { return tile::bits(k.parameters()[parameter]->type.element) / 8; }

/// Runs one CTA; returns the last view's bytes afterwards.
std::vector<std::byte> simulate(const ir::kernel& k, const std::vector<buffer>& views, const std::vector<int>& scalars) {
  auto machine = sim::open(k.target);
  auto code = machine->load({.ptx = compile(k), .cubin = {}});
  device::launch how;
  how.block.x = static_cast<std::uint32_t>(k.warps * 32);
  how.dynamic_shared_bytes = static_cast<std::uint32_t>(k.shared_bytes);
  std::vector<device::buffer> memory;
  for (const buffer& v : views) {
    memory.emplace_back(*machine, v.bytes.size());
    memory.back().write(v.bytes.data(), v.bytes.size());
  }
  for (const ir::tensor_map_use& m : k.maps) {
    const auto p = static_cast<size_t>(m.parameter);
    device::tensor_map map;
    map.base = memory[p].where();
    map.element = device::map_element::bf16;
    map.rank = static_cast<int>(views[p].extents.size());
    std::uint64_t stride = static_cast<std::uint64_t>(element_bytes(k, p));
    for (size_t i = 0; i < views[p].extents.size(); ++i) {
      map.extents[i] = static_cast<std::uint64_t>(views[p].extents[views[p].extents.size() - 1 - i]);
      stride *= map.extents[i];
      if (i + 1 < views[p].extents.size()) map.strides_bytes[i] = stride;
      map.box[i] = static_cast<std::uint32_t>(m.box[i]);
    }
    map.swizzle_bytes = m.swizzle_bytes;
    how.arguments.emplace_back(map);
  }
  for (size_t v = 0; v < views.size(); ++v) {
    how.arguments.push_back(device::scalar(memory[v].where()));
    for (std::int64_t e : views[v].extents) how.arguments.push_back(device::scalar(static_cast<std::int32_t>(e)));
    for (size_t i = 1; i < views[v].extents.size(); ++i) {
      std::int64_t stride = 1;
      for (size_t j = i; j < views[v].extents.size(); ++j) stride *= views[v].extents[j];
      how.arguments.push_back(device::scalar(stride));
    }
  }
  for (int s : scalars) how.arguments.push_back(device::scalar(s));
  machine->run(*code, k.name, how);
  machine->wait();
  std::vector<std::byte> out(views.back().bytes.size());
  memory.back().read(out.data(), out.size());
  return out;
}

template <class T>
std::vector<T> as(const std::vector<std::byte>& bytes) {
  std::vector<T> v(bytes.size() / sizeof(T));
  std::memcpy(v.data(), bytes.data(), bytes.size());
  return v;
}

/// Small integers as bf16: every product and sum is exact.
std::vector<bf16> pattern(int n, int seed) {
  std::vector<bf16> v(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) v[static_cast<size_t>(i)] = bf16((i * 7 + i / 64 * 3 + seed) % 11 - 5);
  return v;
}

void check_product(const ir::kernel& k, int m) {
  const auto a = pattern(m * 64, 1), b = pattern(64 * 64, 2);
  const auto d = as<float>(simulate(k, {buffer_of({m, 64}, a), buffer_of({64, 64}, b), buffer_of({m, 64}, std::vector<float>(static_cast<size_t>(m * 64), -1))}, {}));
  int wrong = 0;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < 64; ++j) {
      float sum = 0;
      for (int x = 0; x < 64; ++x) sum += static_cast<float>(a[static_cast<size_t>(i * 64 + x)]) * static_cast<float>(b[static_cast<size_t>(j * 64 + x)]);
      if (d[static_cast<size_t>(i * 64 + j)] != sum) ++wrong;
    }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("every run case gives its expected output on the simulator") {
  for (auto* make : {shared_memory_runs, tile_runs, arithmetic_runs})
    for (run_case& c : make()) {
      CAPTURE(c.name);
      std::vector<buffer> views = c.inputs;
      views.push_back(c.output);
      std::vector<std::byte> got;
      try {
        got = simulate(*c.kernel, views, c.scalars);
      } catch (const error& e) {
        FAIL_CHECK(c.name << ": " << std::string(e.what()));
        continue;
      }
      if (c.tolerance > 0) {
        const auto x = as<float>(got), y = as<float>(c.expected);
        double worst = 0;
        for (size_t i = 0; i < x.size(); ++i) worst = std::max(worst, static_cast<double>(std::abs(x[i] - y[i])));
        CHECK(worst <= c.tolerance);
      } else {
        CHECK(got == c.expected);
      }
    }
}

TEST_CASE("the TMA copy moves a tile and leaves what is outside alone") {
  auto k = copy_by_tma("sm_90a");
  const int rows = 100, cols = 72;
  const auto in = pattern(rows * cols, 3);
  std::vector<bf16> expected(static_cast<size_t>(rows * cols), bf16(99));
  for (int r = 64; r < rows; ++r)
    for (int c = 8; c < cols; ++c) expected[static_cast<size_t>(r * cols + c)] = in[static_cast<size_t>(r * cols + c)];
  const auto out = simulate(*k, {buffer_of({rows, cols}, in), buffer_of({rows, cols}, std::vector<bf16>(static_cast<size_t>(rows * cols), bf16(99)))}, {64, 8});
  CHECK(out == bytes_of(expected));
}

TEST_CASE("one tile by wgmma is the product") { check_product(*wgmma_tile(), 64); }

TEST_CASE("one tile by tcgen05 is the product") {
  check_product(*tcgen05_tile("sm_100a"), 128);
  check_product(*tcgen05_tile("sm_103a"), 128);
  check_product(*tcgen05_tile("sm_100a", 8), 128);  // two warpgroups share the columns
}
