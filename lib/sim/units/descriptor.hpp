// Shared-memory matrix descriptors and instruction descriptors of wgmma and tcgen05: decoding, legality, and where every operand byte lies.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/units/complaint.hpp"
#include "sim/units/formats.hpp"

namespace tlx::sim {

enum class operand_swizzle : std::uint8_t { none, b32, b64, b128, b128_atom32 };

struct shared_descriptor {
  std::uint32_t start = 0;    // bytes, an offset in the CTA's shared window
  std::uint32_t leading = 0;  // LBO, bytes
  std::uint32_t stride = 0;   // SBO, bytes
  std::uint32_t base_offset = 0;
  operand_swizzle swizzle = operand_swizzle::none;
};
complaint decode_wgmma_descriptor(std::uint64_t bits, shared_descriptor& out);
complaint decode_tcgen05_descriptor(std::uint64_t bits, shared_descriptor& out);

/// How an operand lies in memory. `rows` counts M (or N), `k` the K of one instruction.
struct operand_form {
  number element = number::f16;
  int rows = 64;
  int k = 16;
  bool mn_major = false;
  bool padded = false;  // sub-byte elements, 16 of them in 16 bytes (kinds f8f6f4 and mxf8f6f4); else packed without gaps
};

/// Byte offset of the 16-byte piece that holds element (row, k), and the bit of the element in it. Swizzle applied to the absolute address.
struct element_place { std::uint32_t address = 0; std::uint32_t bit = 0; };
element_place place_of(const shared_descriptor& d, const operand_form& f, int row, int k);

/// The addresses of all 16-byte pieces of the operand. K-major: piece c of row r at [r * pieces + c]; MN-major: piece c (along rows) of k at [k * pieces + c].
void operand_pieces(const shared_descriptor& d, const operand_form& f, std::vector<std::uint32_t>& addresses);
/// The same as sorted, merged [begin, end) ranges: what a race detector has to mark.
struct byte_range { std::uint32_t begin = 0, end = 0; };
void merge_pieces(std::span<const std::uint32_t> addresses, std::vector<byte_range>& ranges);

/// Decodes the whole operand to dense [rows][k]. Floats of every kind are exact in f32; integers go to s16. Complains out_of_bounds beyond `shared`.
complaint gather_floats(const shared_descriptor& d, const operand_form& f, std::span<const std::byte> shared, float* dense);
complaint gather_integers(const shared_descriptor& d, const operand_form& f, std::span<const std::byte> shared, std::int16_t* dense);

// ---- wgmma
struct wgmma_shape { int m = 64, n = 8, k = 16; };
/// Types A, B, D and the shape; D is f16, f32 or s32.
complaint check_wgmma(const wgmma_shape& s, number a, number b, number d, bool transpose_a, bool transpose_b, bool a_in_registers);

// ---- tcgen05
enum class mma_kind : std::uint8_t { f16, tf32, f8f6f4, i8, mxf8f6f4, mxf4, mxf4nvf4 };
const char* to_string(mma_kind k);
constexpr bool is_block_scaled(mma_kind k) { return k >= mma_kind::mxf8f6f4; }

/// The instruction descriptor, decoded. M and N are those of the whole instruction (the pair's for cta_group::2).
struct mma_instruction {
  mma_kind kind = mma_kind::f16;
  int m = 128, n = 256, k = 16;
  number a = number::f16, b = number::f16, d = number::f32;
  bool sparse = false, saturate = false, negate_a = false, negate_b = false, transpose_a = false, transpose_b = false;
  int sparse_selector = 0;
  int max_shift = 0;               // .ws: 0, 8, 16, 32
  number scale = number::ue8m0;    // block scaled: ue8m0 or ue4m3
  int scale_a_id = 0, scale_b_id = 0;
  int scale_block = 32;            // elements of K per scale: 32, or 16
};
struct mma_issue {
  mma_kind kind = mma_kind::f16;
  int cta_group = 1;
  bool weight_stationary = false;  // .ws
  bool a_in_tensor_memory = false;
  int scale_block = 0;             // from .block16/.block32 or .scale_vec::NX; 0: the kind's default
  int sm = 100;                    // 100 or 103
};
/// Decodes and checks every rule of types, reserved bits and shapes (dense K; a sparse instruction doubles it). `lint` tells what CUTLASS would refuse.
complaint decode_instruction(const mma_issue& issue, std::uint32_t bits, mma_instruction& out, complaint* lint = nullptr);
/// Swizzle and major-ness of one operand against the kind.
complaint check_operand(const mma_instruction& i, const shared_descriptor& d, bool is_b, const mma_issue& issue);
/// The zero-column mask of .ws for B with n columns: one byte a column, 1 where it counts as zero. Field names and examples of the ISA disagree about which span
/// is which; this follows the examples: runs of ones are skip + 1 long, runs of zeros use + 1.
complaint zero_column_mask(std::uint64_t descriptor, int m, int n, std::vector<std::uint8_t>& zero);
/// The form of the part of A or B that one CTA holds (half the rows for a pair).
operand_form form_of(const mma_instruction& i, bool is_b, int cta_group);

}  // namespace tlx::sim
