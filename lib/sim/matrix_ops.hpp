// The decoded forms of matrix instructions.
#pragma once
#include "sim/async.hpp"
#include "sim/units/descriptor.hpp"
#include "sim/units/matrix.hpp"
#include "sim/units/tensor_memory.hpp"

namespace tlx::sim {

struct mma_sync_detail {
  int m = 16, n = 8, k = 16;
  number a = number::f16, b = number::f16, d = number::f32, c = number::f32;
  bool saturate = false;
  bool xor_popc = false;                           // b1: counts of a ^ b instead of a & b
  bool a_column_major = false, b_row_major = false;  // m8n8k4 and wmma only
  std::vector<std::uint32_t> d_slots, a_slots, b_slots, c_slots;
};

/// wmma.load and wmma.store. Which thread holds what is nobody's business: element e (row-major) lies in lane e % 32, as that lane's element e / 32.
struct wmma_move_detail {
  int rows = 16, columns = 16;
  number element = number::f16;
  bool store = false, column_major = false;
  operand_address address;
  std::uint32_t stride = no_slot;  // in elements; none: tight
  std::vector<std::uint32_t> slots;
};

struct wgmma_detail {
  wgmma_shape shape;
  number a = number::f16, b = number::f16, d = number::f32;
  bool a_in_registers = false, transpose_a = false, transpose_b = false, negate_a = false, negate_b = false, saturate = false;
  std::vector<std::uint32_t> d_slots, a_slots;
  std::uint32_t a_descriptor = no_slot, b_descriptor = no_slot;
  std::uint32_t scale_d = no_slot;
  bool scale_d_inverted = false, scale_d_is_number = false;
};

struct tensor_mma_detail {
  mma_issue issue;
  operand_address d, a, scale_a, scale_b;
  std::uint32_t a_descriptor = no_slot, b_descriptor = no_slot, instruction_word = no_slot, enable_d = no_slot;
  bool enable_inverted = false;
  std::vector<std::uint32_t> disabled_lanes;
  int d_shift = 0;
  bool shift_a = false;                   // .ashift
  std::uint32_t zero_columns = no_slot;   // .ws: the zero-column mask descriptor
};

struct tensor_move_detail {
  tmem_shape shape = tmem_shape::s32x32b;
  int repeat = 1;
  bool packed = false, store = false;
  int half_split = 0;
  operand_address address;
  std::vector<std::uint32_t> registers;
  bool reduce = false;
  tmem_reduction reduction = tmem_reduction::min_f32;
  bool absolute = false, nan = false;
  std::uint32_t reduced = no_slot;
};

struct tensor_copy_in_detail {
  cp_shape shape = cp_shape::s128x256b;
  cp_unpack unpack = cp_unpack::none;
  operand_address address;
  std::uint32_t descriptor = no_slot;
  int cta_group = 1;
  bool shift = false;
};

}  // namespace tlx::sim
