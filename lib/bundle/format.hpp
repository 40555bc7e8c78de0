// The file, little-endian:
//
//   0   8  magic
//   8   4  version of the format
//  12   4  zero
//  16   8  bytes of the list            L
//  24   8  bytes of the payload         P
//  32  64  SHA-256 of the list, in hexadecimal digits
//  96   L  the list of kernels: JSON; then zeros up to a multiple of 16
//       P  the payload: parts, each at a multiple of 16
//          optionally "tlx-signature" and a zero byte, 8 bytes of length, the signature
#pragma once
#include <cstdint>
#include <string_view>

namespace tlx::bundle {

inline constexpr std::string_view magic{"\x89TLXB\r\n\n", 8};  // as PNG does: a transfer that changes line ends or strips bit 7 shows
inline constexpr std::string_view signature_mark{"tlx-signature\0", 14};
inline constexpr std::uint32_t format_version = 1;
inline constexpr std::uint64_t head_bytes = 96, digest_digits = 64, alignment = 16;
inline constexpr std::uint64_t part_limit = std::uint64_t{1} << 30;  // no kernel has code of a gigabyte: a length beyond it is damage

inline constexpr std::uint64_t aligned(std::uint64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

}  // namespace tlx::bundle
