#include "tlx/ir/type.hpp"

#include "tlx/support/text.hpp"

namespace tlx::ir {

type type::with_layout(const tile::layout& l) const {
  type t = *this;
  t.layout = std::make_shared<const tile::layout>(l);
  return t;
}

bool operator==(const type& a, const type& b) {
  if (a.what != b.what || a.element != b.element || a.rows != b.rows || a.cols != b.cols || a.rank != b.rank || a.swizzle_bytes != b.swizzle_bytes ||
      a.stages != b.stages || a.parts.size() != b.parts.size() || !a.layout != !b.layout)
    return false;
  for (size_t i = 0; i < a.parts.size(); ++i)
    if (!(a.parts[i] == b.parts[i])) return false;
  return !a.layout || *a.layout == *b.layout;
}

std::string to_string(const type& t) {
  const std::string e(tile::name(t.element));
  switch (t.what) {
    case type::kind::none: return "none";
    case type::kind::scalar: return e;
    case type::kind::tile: return cat("tile<", e, " ", t.rows, "x", t.cols, t.layout ? " " + tile::to_text(*t.layout) : "", ">");
    case type::kind::view: return cat("view<", e, " ", t.rank, ">");
    case type::kind::shared: return cat("shared<", e, " ", t.rows, "x", t.cols, " sw", t.swizzle_bytes, ">");
    case type::kind::acc: return cat("acc<", e, " ", t.rows, "x", t.cols, ">");
    case type::kind::var: return cat("var<", to_string(t.parts[0]), ">");
    case type::kind::ring: {
      std::vector<std::string> parts;
      for (const type& p : t.parts) parts.push_back(to_string(p));
      return cat("ring<", t.stages, ": ", join(parts, ", "), ">");
    }
  }
  return "none";
}

}  // namespace tlx::ir
