// Kernel to text. One line per op: results = name operands {attributes} : result types @"file":line, regions in brackets.
#include <cctype>
#include <cstdio>
#include <map>
#include <sstream>

#include "tlx/ir/text.hpp"
#include "tlx/support/text.hpp"

namespace tlx::ir {

namespace {

std::string quoted(const std::string& s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    out += c;
  }
  return out + "\"";
}

std::string number(double v) {
  char text[64];
  std::snprintf(text, sizeof text, "%.17g", v);
  std::string out = text;
  if (out.find_first_of(".ein") == std::string::npos) out += ".0";
  return out;
}

std::string attribute_text(const attribute& a) {
  if (const auto* i = std::get_if<std::int64_t>(&a)) return std::to_string(*i);
  if (const auto* d = std::get_if<double>(&a)) return number(*d);
  if (const auto* s = std::get_if<std::string>(&a)) return quoted(*s);
  std::vector<std::string> items;
  for (std::int64_t i : std::get<std::vector<std::int64_t>>(a)) items.push_back(std::to_string(i));
  return "[" + join(items, ", ") + "]";
}

class printer {
 public:
  explicit printer(print_options how) : how_(how) {}

  std::string name(const value_def* v) {
    auto [it, fresh] = numbers_.try_emplace(v, static_cast<int>(numbers_.size()));
    (void)fresh;
    std::string hint = v->name;  // rings may be named anything
    for (char& c : hint)
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') c = '_';
    return "%" + (hint.empty() ? "" : hint + ".") + std::to_string(it->second);
  }

  void print_region(const region& r, int depth, std::ostream& out) {
    for (const auto& a : r.arguments) out << std::string(static_cast<size_t>(depth) * 2, ' ') << "(" << name(a.get()) << " : " << to_string(a->type) << ")\n";
    for (const auto& o : r.ops) print_op(*o, depth, out);
  }

  void print_op(const op& o, int depth, std::ostream& out) {
    const std::string indent(static_cast<size_t>(depth) * 2, ' ');
    out << indent;
    std::vector<std::string> operands, results, types, attributes;
    for (value v : o.operands) operands.push_back(name(v));
    for (const auto& r : o.results) {
      results.push_back(name(r.get()));
      types.push_back(to_string(r->type));
    }
    for (const auto& [key, a] : o.attributes) attributes.push_back(key + " = " + attribute_text(a));
    if (!results.empty()) out << join(results, ", ") << " = ";
    out << row(o.code).text;
    if (!operands.empty()) out << " " << join(operands, ", ");
    if (!attributes.empty()) out << " {" << join(attributes, ", ") << "}";
    if (!types.empty()) out << " : " << join(types, ", ");
    if (how_.locations && o.where.known()) out << " @" << quoted(o.where.file) << ":" << o.where.line;
    for (const auto& r : o.regions) {
      out << " [\n";
      print_region(*r, depth + 1, out);
      out << indent << "]";
    }
    out << "\n";
  }

 private:
  print_options how_;
  std::map<const value_def*, int> numbers_;
};

}  // namespace

std::string print(const kernel& k, print_options how) {
  std::ostringstream out;
  printer p(how);
  out << "tlx.ir 1\nkernel @" << k.name << " target(" << quoted(k.target) << ") warps(" << k.warps << ") cluster(" << k.cluster[0] << ", " << k.cluster[1] << ", "
      << k.cluster[2] << ") blocks(" << k.blocks_per_processor << ") shared(" << k.shared_bytes << ") grid(" << quoted(k.grid[0]) << ", " << quoted(k.grid[1]) << ", "
      << quoted(k.grid[2]) << ")";
  if (how.locations && k.where.known()) out << " @" << quoted(k.where.file) << ":" << k.where.line;
  out << " [\n";
  for (const auto& m : k.maps)
    out << "  map {parameter = " << m.parameter << ", box = " << attribute_text(m.box) << ", swizzle = " << m.swizzle_bytes << ", promotion = " << m.l2_promotion_bytes
        << "}\n";
  for (const auto& at : k.places) {
    out << "  place {ring = " << quoted(at.ring) << ", part = " << quoted(at.part) << ", offset = " << at.offset << ", bytes = " << at.bytes << ", stages = " << at.stages << "}";
    if (how.locations && at.where.known()) out << " @" << quoted(at.where.file) << ":" << at.where.line;
    out << "\n";
  }
  p.print_region(k.body, 1, out);
  out << "]\n";
  return out.str();
}

std::string print(const op& o) {
  std::ostringstream out;
  printer p({.locations = true});
  p.print_op(o, 0, out);
  return out.str();
}

}  // namespace tlx::ir
