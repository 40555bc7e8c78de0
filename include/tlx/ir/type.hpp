// Types of IR values: what a value is, not where it lives.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tlx/tile/element.hpp"
#include "tlx/tile/layout.hpp"

namespace tlx::ir {

using tile::element;

/// none      no value
/// scalar    one element, the same or different per thread: `s32`, `f32`, `bool`
/// tile      a register tile (rows x cols) spread over the threads of a role: `tile<f32 64x256>`, with its layout once assigned
/// view      a kernel parameter: global tensor of rank n, element strides, innermost stride 1: `view<bf16 3>`
/// shared    a tile in shared memory: `shared<bf16 128x64 sw128>` (`t` after the swizzle: the contiguous axis is the row axis of the matrix operand)
/// acc       an accumulator tile: tensor memory where the target has it, registers otherwise: `acc<f32 128x256>`
/// ring      `ring<4: shared<...>, shared<...>>`: stages and the parts of one slot
/// var       a mutable cell of a scalar or a tile: `var<s32>`
struct type {
  enum class kind : unsigned char { none, scalar, tile, view, shared, acc, ring, var };
  kind what = kind::none;
  ir::element element = ir::element::f32;
  int rows = 0, cols = 0;         // tile, shared, acc; a row vector is 1 x cols, a column vector rows x 1
  int rank = 0;                   // view
  int swizzle_bytes = 0;          // shared
  int stages = 0;                 // ring
  std::vector<type> parts = {};   // ring: parts of a slot; var: one, the cell's type
  std::shared_ptr<const tile::layout> layout = {};  // tile, after assign-layouts

  static type scalar(ir::element e) { return {.what = kind::scalar, .element = e}; }
  static type tile_of(ir::element e, int rows, int cols) { return {.what = kind::tile, .element = e, .rows = rows, .cols = cols}; }
  static type view_of(ir::element e, int rank) { return {.what = kind::view, .element = e, .rank = rank}; }
  static type shared_of(ir::element e, int rows, int cols, int swizzle) {
    return {.what = kind::shared, .element = e, .rows = rows, .cols = cols, .swizzle_bytes = swizzle};
  }
  static type acc_of(ir::element e, int rows, int cols) { return {.what = kind::acc, .element = e, .rows = rows, .cols = cols}; }
  static type ring_of(int stages, std::vector<type> parts) { return {.what = kind::ring, .stages = stages, .parts = std::move(parts)}; }
  static type var_of(type cell) { return {.what = kind::var, .parts = {std::move(cell)}}; }

  bool is(kind k) const { return what == k; }
  bool is_scalar() const { return what == kind::scalar; }
  bool is_tile() const { return what == kind::tile; }
  type with_layout(const tile::layout& l) const;
  type with_element(ir::element e) const { type t = *this; t.element = e; return t; }
};

bool operator==(const type& a, const type& b);
std::string to_string(const type& t);

}  // namespace tlx::ir
