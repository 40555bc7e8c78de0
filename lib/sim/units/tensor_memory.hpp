// Tensor memory of one SM: 128 lanes x 512 columns of 32 bits, its allocator, the ld/st/cp/shift shapes and the matrix layouts in it.
#pragma once
#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/units/complaint.hpp"
#include "sim/units/descriptor.hpp"

namespace tlx::sim {

inline constexpr int tmem_lanes = 128, tmem_columns = 512, tmem_words = tmem_lanes * tmem_columns;

/// An address: lane << 16 | column. A word is named by lane * 512 + column everywhere below.
constexpr int tmem_lane(std::uint32_t address) { return static_cast<int>(address >> 16); }
constexpr int tmem_column(std::uint32_t address) { return static_cast<int>(address & 0xFFFFU); }
constexpr std::uint32_t tmem_address(int lane, int column) { return static_cast<std::uint32_t>(lane) << 16 | static_cast<std::uint32_t>(column); }

class tensor_memory {
 public:
  tensor_memory();
  std::uint32_t* words() { return words_.data(); }  // [lane][column]
  const std::uint32_t* words() const { return words_.data(); }
  std::uint32_t* row(int lane) { return words_.data() + lane * tmem_columns; }

  bool poisoned(int word) const { return poison_[static_cast<std::size_t>(word)]; }
  void set_poison(int word, bool on) { poison_[static_cast<std::size_t>(word)] = on; }
  bool any_poison() const { return poison_.any(); }

  /// Lowest free place for `columns`, or -1 when the caller has to wait. Complains about a bad count, or an allocation after `relinquish(cta)`.
  complaint allocate(int cta, std::int64_t columns, int& column);
  /// `lint` of growing sizes is the ISA's "should".
  complaint allocation_lint(int cta, std::int64_t columns) const;
  complaint release(int cta, std::uint32_t address, std::int64_t columns);
  void relinquish(int cta);
  /// Complains when the CTA ends with columns still allocated; forgets the CTA.
  complaint end_of_cta(int cta);
  int owner(int column) const { return owner_[static_cast<std::size_t>(column)]; }  // CTA, or -1
  /// Columns [first, first + count) all belong to `cta`.
  complaint check_columns(int cta, int first, int count) const;

 private:
  struct holder { int cta = -1; bool relinquished = false; std::int64_t last_columns = 0; };
  std::vector<std::uint32_t> words_;
  std::bitset<tmem_words> poison_;
  std::array<int, tmem_columns> owner_{};
  std::array<int, tmem_columns> start_{};  // first column of the allocation that holds the column
  std::vector<holder> holders_;
  const holder* find(int cta) const;
};

// ---- tcgen05.ld / st
enum class tmem_shape : std::uint8_t { s32x32b, s16x64b, s16x128b, s16x256b, s16x32bx2 };
/// Registers per thread at .xN, 0 when the shape has no such N.
int tmem_registers(tmem_shape shape, int repeat);
struct tmem_access {
  tmem_shape shape = tmem_shape::s32x32b;
  int repeat = 1;           // .xN
  bool packed = false;      // ld .pack::16b, st .unpack::16b
  int half_split = 0;       // 16x32bx2 only
  std::uint32_t address = 0;
  int warp = 0;             // warp index in the CTA; w % 4 selects the lanes it may reach
};
/// Word of register r of lane t at [r * 32 + t]; packed forms list two words per register: [(r * 32 + t) * 2 + half]. Complains about lanes, columns, N.
complaint tmem_map(const tmem_access& a, std::vector<std::uint32_t>& words);
/// First column and column count that an access touches (for ownership and races).
struct column_span { int first = 0, count = 0; };
column_span tmem_columns_of(const tmem_access& a);

/// Registers are [r * 32 + t]. `poison` gets a bit per lane and register when any poisoned word was read.
complaint tmem_load(const tensor_memory& t, const tmem_access& a, std::uint32_t* registers, std::uint32_t* poison_of_register);
complaint tmem_store(tensor_memory& t, const tmem_access& a, const std::uint32_t* registers);

/// ld.red: the reduction over the columns of each lane, beside the load.
enum class tmem_reduction : std::uint8_t { min_f32, max_f32, min_u32, max_u32, min_s32, max_s32 };
complaint tmem_reduce(const tmem_access& a, tmem_reduction op, bool absolute, bool nan, const std::uint32_t* registers, std::uint32_t* result_of_lane);

// ---- tcgen05.cp and shift
enum class cp_shape : std::uint8_t { s128x256b, s128x128b, s64x128b_02_13, s64x128b_01_23, s32x128b_x4, s4x256b };
enum class cp_unpack : std::uint8_t { none, b4x16_p64, b6x16_p32 };
struct tmem_copy_piece { std::uint32_t shared = 0; std::uint32_t word = 0; };  // 16 source bytes to 4 words
complaint tmem_copy_map(cp_shape shape, std::uint32_t address, const shared_descriptor& source, std::vector<tmem_copy_piece>& pieces);
complaint tmem_copy(tensor_memory& t, cp_shape shape, cp_unpack unpack, std::uint32_t address, const shared_descriptor& source, std::span<const std::byte> shared);
/// shift.down from `address`: 8 columns, lane i takes lane i + 1 for 31 lanes.
complaint tmem_shift(tensor_memory& t, std::uint32_t address);

/// Where a 4- or 6-bit element sits in its byte of tensor memory: four bits in the middle, six at the bottom (the ISA shows it in figures only).
constexpr int tmem_element_shift(int bits) { return bits == 4 ? 2 : 0; }

// ---- matrices in tensor memory
enum class tmem_layout : std::uint8_t { a, b, c, d, e, f, g };
/// The layout of D for an instruction; complains when the shape has none.
complaint layout_of(int m, int cta_group, bool weight_stationary, bool sparse, tmem_layout& out);
struct tmem_place { int cta = 0, lane = 0, column = 0; };  // relative to the operand's address; cta is the rank in the pair
tmem_place accumulator_place(tmem_layout layout, int row, int column, int n);
/// Lanes (per CTA) and columns that D of M x N needs.
int accumulator_columns(tmem_layout layout, int n);

/// A from tensor memory for one CTA: dense [rows][k] floats (or s16). Rows are the CTA's own; complains when a word is poisoned (uninitialized).
complaint gather_tmem_floats(const tensor_memory& t, tmem_layout layout, std::uint32_t address, const operand_form& f, float* dense);
complaint gather_tmem_integers(const tensor_memory& t, tmem_layout layout, std::uint32_t address, const operand_form& f, std::int16_t* dense);

/// Block scales. Row r of A (or column of B) at scale index j of the instruction: word and byte.
struct scale_form {
  number scale = number::ue8m0;
  int id = 0;         // byte of the first scale
  int per_row = 1;    // scales per row of one instruction
  bool split_b = false;  // SFB of a pair with M 128
};
struct scale_place { std::uint32_t word = 0; int byte = 0; };
scale_place place_of_scale(const scale_form& f, std::uint32_t address, int row, int j, int rows);
/// Dense [rows][per_row] f32 values. Complains when a word is poisoned or the four copies differ.
complaint gather_scales(const tensor_memory& t, const scale_form& f, std::uint32_t address, int rows, float* dense);

}  // namespace tlx::sim
