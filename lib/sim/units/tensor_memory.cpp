// Ownership and poison of tensor memory.
#include "sim/units/tensor_memory.hpp"

#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

complaint wrong(std::string text) { return {misuse::tmem_misuse, std::move(text)}; }
bool good_count(std::int64_t n) { return n >= 32 && n <= tmem_columns && (n & (n - 1)) == 0; }

}  // namespace

tensor_memory::tensor_memory() : words_(static_cast<std::size_t>(tmem_words), 0xFFFFFFFFU) {
  poison_.set();
  owner_.fill(-1);
  start_.fill(-1);
}

const tensor_memory::holder* tensor_memory::find(int cta) const {
  for (const holder& h : holders_)
    if (h.cta == cta) return &h;
  return nullptr;
}

complaint tensor_memory::allocate(int cta, std::int64_t columns, int& column) {
  column = -1;
  if (!good_count(columns)) return wrong(cat("tcgen05.alloc of ", columns, " columns; the count must be a power of two from 32 to 512"));
  const holder* h = find(cta);
  if (h != nullptr && h->relinquished) return wrong(cat("tcgen05.alloc of ", columns, " columns after the CTA gave up its right to allocate"));
  int free = 0;
  for (int c = 0; c < tmem_columns; ++c) {
    free = owner_[static_cast<std::size_t>(c)] < 0 ? free + 1 : 0;
    if (free < columns) continue;
    column = c + 1 - free;
    break;
  }
  if (column < 0) return {};
  if (h == nullptr) holders_.push_back({.cta = cta});
  for (holder& each : holders_)
    if (each.cta == cta) each.last_columns = columns;
  for (int c = column; c < column + columns; ++c) {
    owner_[static_cast<std::size_t>(c)] = cta;
    start_[static_cast<std::size_t>(c)] = column;
  }
  for (int lane = 0; lane < tmem_lanes; ++lane)
    for (int c = column; c < column + columns; ++c) {
      words_[static_cast<std::size_t>(lane * tmem_columns + c)] = 0xFFFFFFFFU;
      set_poison(lane * tmem_columns + c, true);
    }
  return {};
}

complaint tensor_memory::allocation_lint(int cta, std::int64_t columns) const {
  const holder* h = find(cta);
  if (h == nullptr || h->last_columns == 0 || columns <= h->last_columns) return {};
  return wrong(cat("tcgen05.alloc of ", columns, " columns after one of ", h->last_columns, "; sizes should not grow"));
}

complaint tensor_memory::release(int cta, std::uint32_t address, std::int64_t columns) {
  const int first = tmem_column(address);
  if (!good_count(columns)) return wrong(cat("tcgen05.dealloc of ", columns, " columns; the count must be a power of two from 32 to 512"));
  if (tmem_lane(address) != 0 || first >= tmem_columns || start_[static_cast<std::size_t>(first)] != first || owner_[static_cast<std::size_t>(first)] != cta)
    return wrong(cat("tcgen05.dealloc of lane ", tmem_lane(address), " column ", first, ", which is not the start of an allocation of this CTA"));
  int size = 0;
  while (first + size < tmem_columns && start_[static_cast<std::size_t>(first + size)] == first) ++size;
  if (size != columns) return wrong(cat("tcgen05.dealloc of ", columns, " columns at column ", first, ", where ", size, " were allocated"));
  for (int c = first; c < first + size; ++c) {
    owner_[static_cast<std::size_t>(c)] = -1;
    start_[static_cast<std::size_t>(c)] = -1;
  }
  return {};
}

void tensor_memory::relinquish(int cta) {
  for (holder& h : holders_)
    if (h.cta == cta) {
      h.relinquished = true;
      return;
    }
  holders_.push_back({.cta = cta, .relinquished = true});
}

complaint tensor_memory::end_of_cta(int cta) {
  int left = 0;
  for (int c = 0; c < tmem_columns; ++c)
    if (owner_[static_cast<std::size_t>(c)] == cta) {
      ++left;
      owner_[static_cast<std::size_t>(c)] = -1;
      start_[static_cast<std::size_t>(c)] = -1;
    }
  std::erase_if(holders_, [&](const holder& h) { return h.cta == cta; });
  if (left == 0) return {};
  return wrong(cat("the CTA ended with ", left, " columns of tensor memory still allocated"));
}

complaint tensor_memory::check_columns(int cta, int first, int count) const {
  if (first < 0 || count < 0 || first + count > tmem_columns) return wrong(cat("columns ", first, "..", first + count, " are beyond the 512 of tensor memory"));
  for (int c = first; c < first + count; ++c)
    if (owner_[static_cast<std::size_t>(c)] != cta)
      return wrong(cat("column ", c, " of tensor memory is ", owner_[static_cast<std::size_t>(c)] < 0 ? "not allocated" : "allocated by another CTA", " (access to columns ",
                       first, "..", first + count - 1, ")"));
  return {};
}

}  // namespace tlx::sim
