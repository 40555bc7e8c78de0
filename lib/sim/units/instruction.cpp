// What an instruction descriptor says, and which shapes, types and layouts exist for each kind.
#include "sim/units/descriptor.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

complaint wrong(std::string text) { return {misuse::descriptor_misuse, std::move(text)}; }
complaint shape(std::string text) { return {misuse::illegal_shape, std::move(text)}; }

std::uint32_t field(std::uint32_t bits, int low, int width) { return (bits >> low) & ((1U << width) - 1U); }

bool integer_n(int n) { return n == 8 || n == 16 || n == 24 || (n >= 32 && n % 16 == 0 && n <= 256); }

bool float_type(std::uint32_t code, number& out) {
  switch (code) {
    case 0: out = number::e4m3; return true;
    case 1: out = number::e5m2; return true;
    case 3: out = number::e2m3; return true;
    case 4: out = number::e3m2; return true;
    case 5: out = number::e2m1; return true;
    default: return false;
  }
}

complaint operand_type(mma_kind kind, std::uint32_t code, const char* which, number& out) {
  bool ok = false;
  switch (kind) {
    case mma_kind::f16: ok = code <= 1; out = code == 0 ? number::f16 : number::bf16; break;
    case mma_kind::tf32: ok = code == 2; out = number::tf32; break;
    case mma_kind::i8: ok = code <= 1; out = code == 0 ? number::u8 : number::s8; break;
    case mma_kind::f8f6f4: case mma_kind::mxf8f6f4: ok = float_type(code, out); break;
    case mma_kind::mxf4: case mma_kind::mxf4nvf4: ok = code == 1; out = number::e2m1; break;
  }
  if (ok) return {};
  return wrong(cat("type code ", code, " of ", which, " does not exist for .kind::", to_string(kind)));
}

complaint result_type(mma_kind kind, number a, std::uint32_t code, number& out) {
  out = code == 0 ? number::f16 : code == 1 ? number::f32 : number::s32;
  bool ok = false;
  switch (kind) {
    case mma_kind::f16: ok = code == 1 || (code == 0 && a == number::f16); break;
    case mma_kind::f8f6f4: ok = code <= 1; break;
    case mma_kind::i8: ok = code == 2; break;
    default: ok = code == 1; break;
  }
  if (ok) return {};
  return wrong(cat("D type code ", code, " does not exist for .kind::", to_string(kind), " with A of type ", to_string(a)));
}

complaint check_shape(const mma_issue& issue, const mma_instruction& i, complaint* lint) {
  const std::string what = cat("M ", i.m, ", N ", i.n, " with cta_group::", issue.cta_group, " and .kind::", to_string(i.kind));
  if (issue.weight_stationary) {
    if (issue.cta_group != 1 || is_block_scaled(i.kind)) return {misuse::malformed, ".ws exists only with cta_group::1 and without block scaling"};
    const bool n_ok = i.n == 64 || i.n == 128 || (i.n == 256 && !i.sparse);
    if ((i.m != 32 && i.m != 64 && i.m != 128) || !n_ok) return shape(cat(what, " is no .ws shape: M 32, 64 or 128, N 64, 128 or 256"));
    return {};
  }
  const bool pair = issue.cta_group == 2;
  if (is_block_scaled(i.kind)) {
    const bool m_ok = pair ? i.m == 256 || (i.m == 128 && !i.sparse) : i.m == 128;
    const int step = pair ? 16 : 8;
    if (!m_ok || i.n < step || i.n > 256 || i.n % step != 0)
      return shape(cat(what, ": M must be ", pair ? (i.sparse ? "256" : "128 or 256") : "128", " and N a multiple of ", step, " up to 256"));
    return {};
  }
  const bool m_ok = pair ? i.m == 128 || i.m == 256 : i.m == 64 || i.m == 128;
  int step = pair ? 16 : 8;
  bool n_ok = true;
  if (i.kind == mma_kind::i8) {
    step = pair ? 32 : 8;
    n_ok = pair || integer_n(i.n);
  } else if (i.kind == mma_kind::f8f6f4 && i.transpose_b) {
    step = pair ? 32 : 16;
  }
  n_ok = n_ok && i.n >= step && i.n <= 256 && i.n % step == 0;
  if (!m_ok || !n_ok) return shape(cat(what, ": M must be ", pair ? "128 or 256" : "64 or 128", " and N a multiple of ", step, " up to 256"));
  if (lint != nullptr) {
    if (!pair && i.m == 128 && i.n % 16 != 0) *lint = shape(cat(what, ": legal by the ISA table, but known code uses N multiples of 16 with M 128"));
    if (pair && issue.a_in_tensor_memory && i.n % 32 != 0) *lint = shape(cat(what, ": legal by the ISA table, but known code uses N multiples of 32 with A in tensor memory"));
  }
  return {};
}

}  // namespace

const char* to_string(mma_kind k) {
  constexpr const char* names[] = {"f16", "tf32", "f8f6f4", "i8", "mxf8f6f4", "mxf4", "mxf4nvf4"};
  return names[static_cast<int>(k)];
}

complaint check_wgmma(const wgmma_shape& s, number a, number b, number d, bool transpose_a, bool transpose_b, bool a_in_registers) {
  const auto is_fp8 = [](number x) { return x == number::e4m3 || x == number::e5m2; };
  const auto is_int = [](number x) { return x == number::s8 || x == number::u8; };
  const std::string what = cat("wgmma m", s.m, "n", s.n, "k", s.k, " of ", to_string(a), " and ", to_string(b), " into ", to_string(d));
  const bool integer = is_int(a) && is_int(b);
  int k = 0;
  bool types = false;
  if (a == number::f16 && b == number::f16) k = 16, types = d == number::f16 || d == number::f32;
  if (a == number::bf16 && b == number::bf16) k = 16, types = d == number::f32;
  if (a == number::tf32 && b == number::tf32) k = 8, types = d == number::f32;
  if (is_fp8(a) && is_fp8(b)) k = 32, types = d == number::f16 || d == number::f32;
  if (integer) k = 32, types = d == number::s32;
  const bool one_bit = a == number::b1 && b == number::b1;
  if (one_bit) k = 256, types = d == number::s32;
  if (!types) return {misuse::malformed, cat(what, " does not exist: these types do not go together")};
  if (s.m != 64 || s.k != k || s.n < 8 || s.n > 256 || s.n % 8 != 0 || ((integer || one_bit) && !integer_n(s.n)))
    return shape(cat(what, ": M must be 64, K ", k, ", N ", integer || one_bit ? "8, 16, 24, 32 or a multiple of 16 up to 256" : "a multiple of 8 up to 256"));
  const bool sixteen = bits_of(a) == 16;
  if ((transpose_a || transpose_b) && !sixteen) return {misuse::malformed, cat(what, ": only 16-bit operands can be transposed")};
  if (transpose_a && a_in_registers) return {misuse::malformed, cat(what, ": A in registers cannot be transposed")};
  return {};
}

complaint decode_instruction(const mma_issue& issue, std::uint32_t bits, mma_instruction& out, complaint* lint) {
  mma_instruction& i = out;
  i = {};
  i.kind = issue.kind;
  i.sparse = field(bits, 2, 1) != 0;
  i.sparse_selector = static_cast<int>(field(bits, 0, 2));
  i.negate_a = field(bits, 13, 1) != 0;
  i.negate_b = field(bits, 14, 1) != 0;
  i.transpose_a = field(bits, 15, 1) != 0;
  i.transpose_b = field(bits, 16, 1) != 0;
  i.n = static_cast<int>(field(bits, 17, 6)) * 8;
  const bool packed4 = i.kind == mma_kind::mxf4 || i.kind == mma_kind::mxf4nvf4;
  if (complaint c = operand_type(i.kind, field(bits, 7, 3), "A", i.a)) return c;
  if (complaint c = operand_type(i.kind, field(bits, 10, packed4 ? 2 : 3), "B", i.b)) return c;
  const auto reserved = [&](int low, int width) { return field(bits, low, width) != 0; };

  if (is_block_scaled(i.kind)) {
    if (reserved(3, 1) || reserved(6, 1) || reserved(24, 3) || (packed4 && reserved(12, 1)))
      return wrong(cat("the instruction descriptor ", bits, " has a reserved bit set for .kind::", to_string(i.kind)));
    if (field(bits, 31, 1) != 0) {
      if (!packed4 || issue.sm != 103) return wrong(cat("bit 31 (K 96) of the instruction descriptor exists only for mxf4 kinds on sm_103a"));
      return {misuse::unsupported, "tcgen05.mma with K 96"};
    }
    i.d = number::f32;
    i.m = static_cast<int>(field(bits, 27, 2)) * 128;
    i.k = packed4 ? 64 : 32;
    i.scale = field(bits, 23, 1) != 0 ? number::ue8m0 : number::ue4m3;
    i.scale_b_id = static_cast<int>(field(bits, 4, 2));
    i.scale_a_id = static_cast<int>(field(bits, 29, 2));
    i.scale_block = issue.scale_block != 0 ? issue.scale_block : 32;
    if (i.kind == mma_kind::mxf4nvf4 && issue.scale_block == 0) return {misuse::malformed, ".kind::mxf4nvf4 must name its scale block size"};
    if (i.scale_block != 32 && !(i.kind == mma_kind::mxf4nvf4 && i.scale_block == 16))
      return {misuse::malformed, cat(".kind::", to_string(i.kind), " has no scale block of ", i.scale_block)};
    if (i.scale == number::ue4m3 && !(i.kind == mma_kind::mxf4nvf4 && i.scale_block == 16))
      return wrong(cat("ue4m3 scales exist only for .kind::mxf4nvf4 with blocks of 16, not for .kind::", to_string(i.kind), " with blocks of ", i.scale_block));
    if (packed4) {
      const auto id_ok = [&](int id) { return i.scale_block == 16 ? id == 0 : id == 0 || id == 2; };
      if (!id_ok(i.scale_a_id) || !id_ok(i.scale_b_id))
        return wrong(cat("scale ids ", i.scale_a_id, " and ", i.scale_b_id, " are not possible with blocks of ", i.scale_block));
      if (i.transpose_a || i.transpose_b) return wrong(cat(".kind::", to_string(i.kind), " cannot transpose its operands"));
    }
  } else {
    if (reserved(6, 1) || reserved(23, 1) || reserved(29, 1)) return wrong(cat("the instruction descriptor ", bits, " has a reserved bit set"));
    i.m = static_cast<int>(field(bits, 24, 5)) * 16;
    i.saturate = field(bits, 3, 1) != 0;
    i.max_shift = static_cast<int>(field(bits, 30, 2)) * 8;
    if (i.max_shift == 24) i.max_shift = 32;
    if (complaint c = result_type(i.kind, i.a, field(bits, 4, 2), i.d)) return c;
    if (i.kind == mma_kind::f16 && i.a != i.b) return wrong(cat("A of type ", to_string(i.a), " and B of type ", to_string(i.b), " cannot mix"));
    if (i.saturate && i.kind != mma_kind::i8) return wrong("the saturate bit exists only for .kind::i8");
    if (i.kind == mma_kind::i8 && (i.negate_a || i.negate_b)) return wrong(".kind::i8 cannot negate its operands");
    if (i.kind == mma_kind::i8 && issue.sm != 100) return {misuse::malformed, cat(".kind::i8 does not exist on sm_", issue.sm, "a")};
    if (i.max_shift != 0 && !issue.weight_stationary) return wrong("a maximum shift exists only for .ws");
    i.k = i.kind == mma_kind::f16 ? 16 : i.kind == mma_kind::tf32 ? 8 : 32;
  }
  const auto narrow_transposed = [&](bool transposed, number n) { return transposed && bits_of(n) < 8; };
  if (narrow_transposed(i.transpose_a, i.a) || narrow_transposed(i.transpose_b, i.b)) return wrong("operands of 4 and 6 bits cannot be transposed");
  if (i.sparse) i.k *= 2;
  return check_shape(issue, i, lint);
}

complaint check_operand(const mma_instruction& i, const shared_descriptor& d, bool is_b, const mma_issue&) {
  const bool transposed = is_b ? i.transpose_b : i.transpose_a;
  if (!transposed) return {};
  const bool atom32 = d.swizzle == operand_swizzle::b128_atom32;
  if (i.kind == mma_kind::tf32 && !atom32) return wrong("a transposed tf32 operand needs the 128-byte swizzle of 32-byte atoms");
  if (i.kind != mma_kind::tf32 && atom32) return wrong(cat("a transposed operand of .kind::", to_string(i.kind), " cannot use the 128-byte swizzle of 32-byte atoms"));
  return {};
}

complaint zero_column_mask(std::uint64_t bits, int m, int n, std::vector<std::uint8_t>& zero) {
  const auto part = [&](int low, int width) { return static_cast<int>(bits >> low & ((std::uint64_t{1} << width) - 1)); };
  zero.assign(static_cast<std::size_t>(n), 0);
  if (part(36, 3) != 0 || part(62, 2) != 0) return wrong(cat("the zero-column mask ", bits, " has a reserved bit set"));
  if (part(56, 6) != 0) return {misuse::unsupported, cat("a zero-column mask with a column shift of ", part(56, 6))};
  if (part(39, 1) == 0) return {};
  const int parts = m == 128 ? 1 : m == 64 ? 2 : 4, columns = n / parts, ones = part(40, 8) + 1, zeros = part(48, 8) + 1;
  for (int p = 0; p < parts; ++p) {
    const int dropped = part(8 * p, 8);
    bool value = part(32 + p, 1) != 0;
    int left = value ? ones : zeros;
    for (int c = -dropped; c < columns; ++c) {
      if (c >= 0) zero[static_cast<std::size_t>(p * columns + c)] = value;
      if (--left == 0) { value = !value; left = value ? ones : zeros; }
    }
  }
  return {};
}

operand_form form_of(const mma_instruction& i, bool is_b, int cta_group) {
  const number element = is_b ? i.b : i.a;
  const bool eight_bit_kind = i.kind == mma_kind::f8f6f4 || i.kind == mma_kind::mxf8f6f4;
  return {.element = element,
          .rows = (is_b ? i.n : i.m) / cta_group,
          .k = i.sparse && !is_b ? i.k / 2 : i.k,
          .mn_major = is_b ? i.transpose_b : i.transpose_a,
          .padded = eight_bit_kind && bits_of(element) < 8};
}

}  // namespace tlx::sim
