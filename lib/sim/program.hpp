// A pre-decoded kernel: every operand is a byte offset into a warp's register file, every instruction a function pointer.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/syntax.hpp"
#include "sim/units/formats.hpp"

namespace tlx::sim {

using lanes = std::uint32_t;  // one bit a lane
inline constexpr lanes all_lanes = 0xFFFFFFFFU;
inline constexpr std::uint32_t no_slot = 0xFFFFFFFFU;
inline constexpr std::uint32_t no_pc = 0xFFFFFFFFU;

/// Element types of instructions. The order of the integer rows matters to nobody.
enum class scalar : std::uint8_t { pred, b8, b16, b32, b64, b128, u8, u16, u32, u64, s8, s16, s32, s64, f16, f16x2, bf16, bf16x2, f32, f32x2, f64, tf32,
                                   e4m3x2, e5m2x2, e2m3x2, e3m2x2, e2m1x2, ue8m0x2, e4m3x4, e5m2x4, e2m3x4, e3m2x4, e2m1x4, none };
scalar scalar_of(std::string_view name);  // none when it is no type
int bits_of(scalar t);
bool is_signed(scalar t);
bool is_float(scalar t);

struct instruction;
struct warp;
struct context;
class engine;

/// What became of an instruction that is more than register arithmetic.
enum class step : std::uint8_t {
  next,   // go on with pc + 1
  moved,  // pc or the set of contexts changed
  retry,  // blocked; the same instruction runs again when woken
  yield,  // pc + 1, but let others run
};

using alu_function = void (*)(std::byte* registers, const instruction& i, lanes active);
using operation = step (*)(engine& e, warp& w, context& c, const instruction& i, lanes active);

/// Modifiers of arithmetic that the fast paths do not have.
struct arithmetic_mode {
  rounding how = rounding::rn;
  bool ftz = false, sat = false, satfinite = false, relu = false, nan = false, xorsign_abs = false, absolute = false, wrap = false, hi = false;
  scalar to = scalar::none, from = scalar::none;
  std::uint8_t kind = 0;    // which function of a family
  std::uint8_t combine = 0; // setp: 1 and, 2 or, 3 xor
  bool invert_c = false;    // setp: !%q
};

struct instruction {
  alu_function alu = nullptr;
  operation run = nullptr;
  std::uint32_t guard = no_slot;
  bool guard_inverted = false;
  std::uint8_t bytes = 0;       // ld/st/atom: bytes of one element
  std::uint8_t count = 1;       // ld/st: elements
  space where = space::generic;
  std::uint32_t d = no_slot, d2 = no_slot, a = no_slot, b = no_slot, c = no_slot, e = no_slot;
  bool wide_address = true;     // address operand is a 64-bit register
  bool sign_extend = false;
  bool touches_wgmma = false;   // a register that some wgmma of the kernel accumulates into or reads as A
  bool wide = false;            // destination (ld) or source (st) registers are 64-bit slots
  std::uint8_t sub = 0;         // variant inside a family
  std::uint8_t flags = 0;
  std::int64_t imm = 0;
  std::uint32_t target = no_pc; // branches and calls
  std::uint32_t join = no_pc;   // where both sides of a divergent branch meet again
  std::uint32_t list = 0, list_count = 0;   // program::lists
  std::uint32_t list2 = 0, list2_count = 0;
  std::uint32_t detail = 0;     // index into a side table of the family
  arithmetic_mode mode;
  int line = 0;
  source_place from;
  std::string_view opcode;
};

/// Values that only a warp, CTA or launch knows; their slots are filled when a warp starts.
enum class special : std::uint8_t { tid_x, tid_y, tid_z, ntid_x, ntid_y, ntid_z, ctaid_x, ctaid_y, ctaid_z, nctaid_x, nctaid_y, nctaid_z, laneid, warpid, nwarpid,
                                    lanemask_eq, lanemask_lt, lanemask_le, lanemask_gt, lanemask_ge, cluster_ctarank, cluster_nctarank,
                                    clusterid_x, clusterid_y, clusterid_z, nclusterid_x, nclusterid_y, nclusterid_z,
                                    cluster_ctaid_x, cluster_ctaid_y, cluster_ctaid_z, cluster_nctaid_x, cluster_nctaid_y, cluster_nctaid_z,
                                    smid, nsmid, gridid, is_explicit_cluster, dynamic_smem_size, total_smem_size, aggr_smem_size, shared_address, zero };

struct special_slot { special what; std::uint32_t slot; bool wide; std::uint64_t offset; };

/// A call inside a recursion: what of the calling function has to survive it.
struct recursion_detail {
  struct kept_register { std::uint32_t slot, bytes, lane_bytes; bool predicate; };
  struct kept_parameter { std::uint32_t place, bytes; };
  struct kept_address { std::uint32_t slot, frame; std::uint64_t begin, end; };  // of a .local variable: the next activation gets the next frame
  std::vector<kept_register> registers;
  std::vector<kept_parameter> parameters;
  std::vector<kept_address> addresses;
};
struct wgmma_detail;
struct tensor_copy_detail;
struct tcgen05_mma_detail;
struct mma_sync_detail;

/// One entry function with everything it calls.
struct program {
  std::string entry;
  const module_text* text = nullptr;
  std::vector<instruction> code;
  std::vector<std::uint32_t> lists;
  std::uint32_t register_bytes = 0;
  std::vector<std::byte> register_image;   // constants in place, the rest zero
  std::vector<special_slot> specials;
  std::uint32_t local_bytes = 0;           // per lane
  std::uint32_t param_bytes = 0;
  struct parameter { std::uint32_t offset, bytes; std::string name; };
  std::vector<parameter> parameters;
  std::uint32_t static_shared_bytes = 0;   // from the start of the window
  std::uint32_t dynamic_shared_start = 0;  // offset of the open-size arrays
  std::array<std::uint32_t, 3> required_threads{}, maximum_threads{}, required_cluster{};
  std::uint32_t registers_per_thread = 0;  // from .maxnreg or the launch bounds; 0 unknown
  std::vector<std::shared_ptr<void>> details;
  std::vector<std::vector<std::uint32_t>> branch_tables;
  struct callable {
    struct place_of { std::uint32_t place, bytes; };
    std::uint32_t pc = 0;
    std::string name;
    std::vector<place_of> parameters, results;  // local memory
  };
  std::unordered_map<std::uint64_t, callable> callables;  // by function address, for indirect calls
  bool uses_tensor_memory = false;
  bool clusters_apart = true;  // nothing in the code shows that clusters communicate, or see the time or the order in which they run
  std::vector<std::uint8_t> wgmma_registers;  // by slot / 128; empty without wgmma
  std::uint32_t smallest_shared_access = 4;  // bytes, at most 4: the grain of the race detector

  template <class T> const T& detail(const instruction& i) const { return *static_cast<const T*>(details[i.detail].get()); }
};

/// The first byte of a CTA's shared memory that a program may use: the system keeps the first kilobyte, as on the real chips.
inline constexpr std::uint32_t shared_start = 1024;

/// Generic windows. Global memory lies elsewhere.
/// Functions have addresses too; nothing can be loaded from there.
inline constexpr std::uint64_t code_window = 0x0000'7B00'0000'0000ULL;
inline constexpr std::uint64_t function_address(int index) { return code_window + 16 * static_cast<std::uint64_t>(index + 1); }
inline constexpr std::uint64_t shared_window = 0x0000'7E00'0000'0000ULL, local_window = 0x0000'7D00'0000'0000ULL, param_window = 0x0000'7C00'0000'0000ULL,
                               window_bytes = 0x0000'0001'0000'0000ULL;

struct module_image;  // laid-out module-scope variables (machine.cpp)

/// Raises user_error [ptx-malformed], [ptx-unsupported].
std::unique_ptr<program> decode(module_text& text, int function_index, int sm);

}  // namespace tlx::sim
