// The walk over one TMA box, row by row along dimension 0.
#include <algorithm>
#include <cstring>

#include "sim/units/formats.hpp"
#include "sim/units/tensor_map.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

using device::map_element;
using what = box_piece::what;

struct walker {
  const decoded_map& map;
  std::vector<box_piece>& pieces;
  bool store;
  std::int64_t bits;  // of an element in global memory
  std::uint32_t row_bytes;
  std::uint32_t offset = 0;

  walker(const decoded_map& m, std::vector<box_piece>& p, bool s)
      : map(m), pieces(p), store(s), bits(element_bits(m.map.element)),
        row_bytes(m.map.box[0] * static_cast<std::uint32_t>(element_shared_bits(m.map.element)) / 8) {
    // A row of a swizzled box takes the swizzle's width, however short it is (seen on an H200).
    if (m.map.swizzle_bytes != 0) row_bytes = std::max(row_bytes, static_cast<std::uint32_t>(m.map.swizzle_bytes));
  }

  void add(what kind, std::uint32_t at, std::uint32_t bytes, std::uint64_t global) {
    if (bytes == 0 || (store && kind != what::copy)) return;
    if (!pieces.empty()) {
      box_piece& last = pieces.back();
      const bool touches = last.kind == kind && last.shared_offset + last.bytes == at;
      if (touches && (kind != what::copy || last.global + last.bytes == global)) {
        last.bytes += bytes;
        return;
      }
    }
    pieces.push_back({at, bytes, global, kind});
  }

  /// A run of elements [first, first + count) of one row, all inside or all outside.
  void run(bool inside, std::int64_t position, std::int64_t count, std::uint64_t row_address, std::int64_t first) {
    if (count <= 0) return;
    const std::uint64_t global = row_address + static_cast<std::uint64_t>(first * bits / 8);
    if (element_shared_bits(map.map.element) == bits) {
      add(inside ? what::copy : what::fill, offset + static_cast<std::uint32_t>(position * bits / 8), static_cast<std::uint32_t>(count * bits / 8), global);
      return;
    }
    const std::uint32_t data = static_cast<std::uint32_t>(16 * bits / 8);  // 16 elements, padded to 16 bytes
    for (std::int64_t i = 0; i < count; i += 16) {
      const std::uint32_t at = offset + static_cast<std::uint32_t>(position + i);
      add(inside ? what::copy : what::fill, at, data, global + static_cast<std::uint64_t>(i * bits / 8));
      add(what::pad, at + data, 16 - data, 0);
    }
  }

  void row(bool inside, std::uint64_t address, std::int64_t x) {
    const std::int64_t width = map.map.box[0], extent = static_cast<std::int64_t>(map.map.extents[0]);
    const std::int64_t begin = inside ? std::clamp<std::int64_t>(-x, 0, width) : width;
    // Stores and reductions work on whole 16-byte pieces of a row, also where the tensor ends inside of one (seen on an H200); loads stop at its end.
    const std::int64_t piece = store ? 128 / bits : 1, reach = (extent + piece - 1) / piece * piece;
    const std::int64_t end = inside ? std::clamp<std::int64_t>(reach - x, begin, width) : width;
    run(false, 0, begin, 0, 0);
    run(true, begin, end - begin, address, x + begin);
    run(false, end, width - end, 0, 0);
    offset += row_bytes;
  }
};

complaint check_form(const decoded_map& map, std::int32_t x, bool store) {
  const device::tensor_map& m = map.map;
  if (m.interleave_bytes != 0) return {misuse::unsupported, cat("tensor copies through an interleaved map (", m.interleave_bytes, " bytes)")};
  const bool is_padded = element_shared_bits(m.element) != element_bits(m.element);
  if (is_padded && store) return {misuse::unsupported, "tensor stores of padded sub-byte elements"};
  if (is_padded && x % 128 != 0) return {misuse::misaligned, cat("the inner coordinate ", x, " of a padded sub-byte map is not a multiple of 128")};
  if (element_bits(m.element) < 8 && (x % 2 != 0 || m.extents[0] % 2 != 0))
    return {misuse::misaligned, cat("the inner coordinate ", x, " and extent ", m.extents[0], " of a 4-bit map must be whole bytes")};
  // Seen on an H200, for coordinates inside and outside alike: an illegal instruction.
  if (!is_padded && std::int64_t{x} * element_bits(m.element) / 8 % 16 != 0)
    return {misuse::misaligned, cat("the inner coordinate ", x, " of ", element_bits(m.element), "-bit elements is not a multiple of 16 bytes")};
  return {};
}

std::uint32_t traversed(const device::tensor_map& m, int dimension) {
  const std::size_t d = static_cast<std::size_t>(dimension);
  return dimension == 0 ? m.box[0] : (m.box[d] + m.element_strides[d] - 1) / m.element_strides[d];  // dimension 0 has no stride without interleave
}

std::uint64_t box_elements(const decoded_map& map, bool gather4) {
  if (gather4) return std::uint64_t{map.map.box[0]} * 4;
  std::uint64_t n = 1;
  for (int d = 0; d < map.map.rank; ++d) n *= traversed(map.map, d);
  return n;
}

}  // namespace

complaint walk_tile(const decoded_map& map, std::span<const std::int32_t> coordinates, bool store, std::vector<box_piece>& pieces) {
  pieces.clear();
  const device::tensor_map& m = map.map;
  if (coordinates.size() != static_cast<std::size_t>(m.rank))
    return {misuse::descriptor_misuse, cat("the instruction gives ", coordinates.size(), " coordinates, the tensor map has rank ", m.rank)};
  if (complaint c = check_form(map, coordinates[0], store)) return c;
  if (store)
    for (int d = 0; d < m.rank; ++d)
      if (coordinates[static_cast<std::size_t>(d)] < 0)
        return {misuse::out_of_bounds, cat("a tensor store starts at coordinate ", coordinates[static_cast<std::size_t>(d)], " of dimension ", d,
                                           "; store coordinates must not be negative")};
  walker w(map, pieces, store);
  std::array<std::uint32_t, 5> at{};
  for (;;) {
    std::uint64_t address = m.base;
    bool inside = true;
    for (std::size_t d = 1; d < static_cast<std::size_t>(m.rank); ++d) {
      const std::int64_t p = std::int64_t{coordinates[d]} + std::int64_t{at[d]} * m.element_strides[d];
      inside = inside && p >= 0 && p < static_cast<std::int64_t>(m.extents[d]);
      address += static_cast<std::uint64_t>(p) * m.strides_bytes[d - 1];
    }
    w.row(inside, address, coordinates[0]);
    int d = 1;
    for (; d < m.rank; ++d) {
      std::uint32_t& i = at[static_cast<std::size_t>(d)];
      if (++i < traversed(m, d)) break;
      i = 0;
    }
    if (d >= m.rank) return {};
  }
}

complaint walk_rows(const decoded_map& map, std::int32_t column, std::span<const std::int32_t, 4> rows, bool store, std::vector<box_piece>& pieces) {
  pieces.clear();
  const device::tensor_map& m = map.map;
  if (m.rank != 2) return {misuse::descriptor_misuse, cat("gather4 and scatter4 need a map of rank 2, this one has ", m.rank)};
  if (m.box[1] != 1) return {misuse::descriptor_misuse, cat("gather4 and scatter4 need a box of one row, this one has ", m.box[1])};
  if (complaint c = check_form(map, column, store)) return c;
  if (store && (column < 0 || *std::min_element(rows.begin(), rows.end()) < 0))
    return {misuse::out_of_bounds, "scatter4 with a negative coordinate; store coordinates must not be negative"};
  walker w(map, pieces, store);
  for (const std::int32_t r : rows) {
    const bool inside = r >= 0 && static_cast<std::uint64_t>(r) < m.extents[1];
    w.row(inside, m.base + static_cast<std::uint64_t>(std::int64_t{r}) * m.strides_bytes[0], column);
  }
  return {};
}

std::uint32_t box_shared_bytes(const decoded_map& map, bool gather4) {
  const std::uint64_t row = std::uint64_t{map.map.box[0]} * static_cast<std::uint64_t>(element_shared_bits(map.map.element)) / 8;
  const std::uint64_t rows = box_elements(map, gather4) / map.map.box[0];
  // The last row ends where its elements end.
  return static_cast<std::uint32_t>((rows - 1) * std::max<std::uint64_t>(row, static_cast<std::uint64_t>(map.map.swizzle_bytes)) + row);
}
std::uint32_t box_transaction_bytes(const decoded_map& map, bool gather4) {
  return static_cast<std::uint32_t>(box_elements(map, gather4) * static_cast<std::uint64_t>(element_bits(map.map.element)) / 8);
}

void convert_loaded(map_element e, std::byte* bytes, std::size_t count) {
  if (e != map_element::tf32 && e != map_element::tf32_ftz) return;
  for (std::size_t i = 0; i + 4 <= count; i += 4) {
    std::uint32_t word;
    std::memcpy(&word, bytes + i, 4);
    word = narrow(number::tf32, std::bit_cast<float>(word));
    std::memcpy(bytes + i, &word, 4);
  }
}

std::array<std::byte, 16> fill_pattern(const decoded_map& map) {
  std::array<std::byte, 16> bytes{};
  if (!map.map.oob_nan) return bytes;
  // The same NaN of 16 bits over and over, whatever the element: seen on an H200 for every type of float.
  for (std::size_t i = 0; i < 16; i += 2) bytes[i] = std::byte{0xF7}, bytes[i + 1] = std::byte{0x7F};
  return bytes;
}

}  // namespace tlx::sim
