// The notes that tlx leaves in comments of its PTX: what a barrier and a warp are called in the source.
#include <charconv>

#include "sim/syntax.hpp"

namespace tlx::sim {

namespace {

/// The value of `key=` in a line, without quotes; empty when there is none.
std::string_view value_of(std::string_view line, std::string_view key) {
  for (std::size_t at = line.find(key); at != std::string_view::npos; at = line.find(key, at + 1)) {
    if (at == 0 || line[at - 1] != ' ' || at + key.size() >= line.size() || line[at + key.size()] != '=') continue;
    std::string_view rest = line.substr(at + key.size() + 1);
    if (!rest.empty() && rest[0] == '"') { rest.remove_prefix(1); return rest.substr(0, rest.find('"')); }
    return rest.substr(0, rest.find(' '));
  }
  return {};
}

bool number_of(std::string_view text, std::uint32_t& out) {
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), out);
  return fault == std::errc{} && end == text.data() + text.size() && !text.empty();
}

}  // namespace

void read_notes(module_text& m) {
  const std::string_view all = m.text;
  for (std::size_t at = all.find("// tlx."); at != std::string_view::npos; at = all.find("// tlx.", at + 1)) {
    if (at != 0 && all[at - 1] != '\n') continue;
    std::string_view line = all.substr(at, all.find('\n', at) - at);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    const std::string_view name = value_of(line, "name");
    if (name.empty()) continue;
    if (line.starts_with("// tlx.ring ")) {
      ring_note r{std::string(name), std::string(value_of(line, "which")), 0, 8, 1};
      if (number_of(value_of(line, "offset"), r.offset) && number_of(value_of(line, "bytes"), r.bytes) && r.bytes && number_of(value_of(line, "stages"), r.stages) && r.stages <= 4096) m.rings.push_back(std::move(r));
    } else if (line.starts_with("// tlx.role ")) {
      const std::string_view warps = value_of(line, "warps");
      const std::size_t dots = warps.find("..");
      role_note r{std::string(name), 0, 0};
      if (dots != std::string_view::npos && number_of(warps.substr(0, dots), r.first) && number_of(warps.substr(dots + 2), r.last)) m.roles.push_back(std::move(r));
    }
  }
}

}  // namespace tlx::sim
