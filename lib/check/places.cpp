#include "check/places.hpp"

#include "tlx/support/text.hpp"

namespace tlx::check {

namespace {
std::string owner(const ir::place& p) { return cat(p.part == "product" || p.part == "operand" ? "\"" : "ring \"", p.ring, "\""); }
}  // namespace

std::string place_names::in_cta(std::int64_t cta) const {
  return kernel_->cluster[0] * kernel_->cluster[1] * kernel_->cluster[2] > 1 ? cat(" of CTA ", cta) : std::string();
}

std::string place_names::barrier(std::int64_t at) const {
  const std::int64_t offset = at & 0xffffffff, cta = at >> 32;
  const ir::place* p = kernel_->barrier_at(offset);
  if (!p) return cat("the mbarrier at byte ", offset, in_cta(cta));
  return cat(owner(*p), " ", p->part, "[", (offset - p->offset) / 8, "]", in_cta(cta));
}

std::string place_names::shared(int cta, std::int64_t low, std::int64_t high) const {
  for (const ir::place& p : kernel_->places)
    if (p.part == "slots" && low >= p.offset && low < p.offset + p.bytes * p.stages)
      return cat("slot ", (low - p.offset) / p.bytes, " of ring \"", p.ring, "\" (bytes ", low, " to ", high, ")", in_cta(cta));
  return cat("shared memory bytes ", low, " to ", high, in_cta(cta));
}

std::string place_names::tensor(std::int64_t low, std::int64_t high) const {
  for (const ir::place& p : kernel_->places)
    if (p.part == "columns" && p.bytes > 0 && low >= p.offset && low < p.offset + p.bytes * p.stages)
      return cat("accumulator ", (low - p.offset) / p.bytes, " of \"", p.ring, "\" (columns ", low, " to ", high, ")");
  return cat("tensor memory columns ", low, " to ", high);
}

}  // namespace tlx::check
