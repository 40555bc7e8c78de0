// Kernels with inputs and the outputs they must give: data that any machine can run.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tlx/ir/builder.hpp"

namespace test {

struct buffer {
  std::vector<std::int64_t> extents;
  std::vector<std::byte> bytes;
};

/// Views come first among the kernel's parameters, in the order inputs, output; then s32 scalars.
struct run_case {
  std::string name;
  std::unique_ptr<tlx::ir::kernel> kernel;
  std::vector<buffer> inputs;
  buffer output;                     // before the run
  std::vector<int> scalars;
  std::vector<std::byte> expected;   // the output after it
  double tolerance = 0;              // f32 outputs: absolute; 0: bit for bit
};

std::vector<run_case> shared_memory_runs();
std::vector<run_case> tile_runs();
std::vector<run_case> arithmetic_runs();

// --- to build them
template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& v) {
  const auto* p = reinterpret_cast<const std::byte*>(v.data());
  return {p, p + v.size() * sizeof(T)};
}
template <class T>
buffer buffer_of(std::vector<std::int64_t> extents, const std::vector<T>& v) {
  return {std::move(extents), bytes_of(v)};
}
tlx::ir::value thread_index(tlx::ir::builder& b);
tlx::ir::value shared_at(tlx::ir::builder& b, std::int64_t offset);
/// row * cols + col as a tile of `e`.
tlx::ir::value numbered(tlx::ir::builder& b, const tlx::tile::layout& l, tlx::ir::element e);
void barrier(tlx::ir::builder& b);
/// A kernel of `warps` warps for case `name`.
run_case new_run(const std::string& name, int warps, const std::string& target = "sm_90a");

}  // namespace test
