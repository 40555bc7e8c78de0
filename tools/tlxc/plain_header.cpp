// The C header beside plain cubins. What a launch needs is data in it, and the grid rule is a function.
#include <cctype>
#include <sstream>

#include "header.hpp"
#include "tlx/device/binder.hpp"
#include "tlx/device/parameter_block.hpp"
#include "tlx/support/text.hpp"

namespace tlxc {

using tlx::cat;
using tlx::device::parameter_field;

namespace {

constexpr const char* preamble =
    "/* Made by tlxc build, with the cubins beside it; not edited by hand. C11 or C++.\n"
    " *\n"
    " * NAME_TARGET_parameters is what the entry takes, field by field; NAME_TARGET_pointers() fills the array of pointers that cuLaunchKernelEx() wants. A map is a\n * CUtensorMap: cuTensorMapEncodeTiled() with the view's extents and strides (innermost first) and its row of NAME_TARGET_maps. NAME_TARGET_grid() is the\n * grid for filled parameters; a zero in it: nothing to launch. Nothing is checked here: tlx/c.h does that. */\n"
    "#ifndef TLX_KERNELS_H\n#define TLX_KERNELS_H\n#include <stddef.h>\n#include <stdint.h>\n#ifdef __cplusplus\n#define TLX_CHECK_OFFSET(type, field, bytes) static_assert(offsetof(type, field) == bytes, \"offset\")\n"
    "#else\n#define TLX_CHECK_OFFSET(type, field, bytes) _Static_assert(offsetof(type, field) == bytes, \"offset\")\n#endif\n\n"
    "/* `view`: name of the parameter; `element` as in the manifest; box innermost first. */\n"
    "struct tlx_map { const char *view, *element; int rank; uint32_t box[5]; int swizzle_bytes, l2_promotion_bytes; };\n\n"
    "static inline int64_t tlx_floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }\n"
    "static inline int64_t tlx_ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0 && (a < 0) == (b < 0)); }\n"
    "static inline int64_t tlx_min(int64_t a, int64_t b) { return a < b ? a : b; }\n"
    "static inline int64_t tlx_max(int64_t a, int64_t b) { return a < b ? b : a; }\n\n";

std::string c_name(std::string field) {
  for (char& c : field)
    if (c == '.') c = '_';
  return field;
}

// "(ceil_div a.0 128)" as C. The formula came out of the compiler and has been checked: no error is met here.
std::string expression(std::istringstream& words) {
  std::string word;
  words >> word;
  if (word == "(") {
    std::string op, left, right;
    words >> op;
    left = expression(words);
    right = expression(words);
    words >> word;  // ")"
    if (op == "add" || op == "sub" || op == "mul") return cat("(", left, op == "add" ? " + " : op == "sub" ? " - " : " * ", right, ")");
    return cat("tlx_", op == "div" ? "floor_div" : op, "(", left, ", ", right, ")");
  }
  if (std::isdigit(static_cast<unsigned char>(word[0])) || word[0] == '-') return "INT64_C(" + word + ")";
  if (word == "processors") return "(int64_t)processors";
  const size_t dot = word.find('.');
  return "(int64_t)p->" + (dot == std::string::npos ? word : word.substr(0, dot) + "_extent_" + word.substr(dot + 1));
}

std::string c_expression(const tlx::device::formula& f) {
  std::string spaced;
  for (const char c : f) spaced += c == '(' || c == ')' ? std::string{' ', c, ' '} : std::string(1, c);
  std::istringstream words(spaced);
  return expression(words);
}

std::string c_type(const tlx::device::kernel& k, const parameter_field& f) {
  using kind = parameter_field::kind;
  switch (f.what) {
    case kind::base: return "uint64_t";
    case kind::extent: return "int32_t";
    case kind::stride: return "int64_t";
    case kind::map: return "unsigned char";
    case kind::scalar: break;
  }
  const std::string& e = k.parameters[static_cast<size_t>(f.index)].element;
  if (e == "f32") return "float";
  if (e == "f64") return "double";
  return cat(e[0] == 's' ? "int" : "uint", 8 * f.bytes, "_t");
}

std::string section(const tlx::device::kernel& k) {
  const std::string id = identifier(k.name + "_" + k.target, "kernel");
  const tlx::device::parameter_block block = tlx::device::lay_out(k);
  std::string fields, checks, maps, pointers;
  for (const parameter_field& f : block.fields) {
    const std::string name = c_name(tlx::device::field_name(k, f));
    const bool map = f.what == parameter_field::kind::map;
    fields += cat("  ", map ? "TLX_ALIGNED(128) " : "", c_type(k, f), " ", name, map ? "[128]" : "", ";\n");
    pointers += cat("  pointers[", &f - block.fields.data(), "] = ", map ? "" : "&", "p->", name, ";\n");
    checks += cat("TLX_CHECK_OFFSET(", id, "_parameters, ", name, ", ", f.offset, ");\n");
  }
  for (const tlx::device::map_rule& m : k.maps) {
    std::vector<std::string> box;
    for (const std::uint32_t b : m.box) box.push_back(std::to_string(b));
    maps += cat("  {\"", k.parameters[static_cast<size_t>(m.parameter_index)].name, "\", \"", tlx::device::element_name(m.element), "\", ", m.box.size(), ", {", tlx::join(box, ", "), "}, ", m.swizzle_bytes, ", ",
                m.l2_promotion_bytes, "},\n");
  }
  std::string out = cat("/* ", k.name, ".", k.target, ".cubin */\nenum {\n  ", id, "_block = ", k.block.x, ", ", id, "_shared_bytes = ", k.dynamic_shared_bytes, ", ", id, "_cluster_x = ", k.cluster.x, ", ", id,
                        "_cluster_y = ", k.cluster.y, ", ", id, "_cluster_z = ", k.cluster.z, ",\n  ", id, "_dependent = ", k.dependent ? 1 : 0, ", ", id, "_field_count = ", block.fields.size(), "\n};\n");
  out += cat("static const char ", id, "_entry[] = \"", k.entry, "\";\n");
  out += cat("typedef struct {\n", fields, "} ", id, "_parameters;\n", checks);
  if (!maps.empty()) out += cat("static const struct tlx_map ", id, "_maps[] = {\n", maps, "};\n");
  out += cat("static inline void ", id, "_pointers(", id, "_parameters *p, void *pointers[", block.fields.size(), "]) {\n", pointers, "}\n");
  out += cat("static inline void ", id, "_grid(const ", id, "_parameters *p, int processors, int64_t grid[3]) {\n  (void)p, (void)processors;\n  grid[0] = ", c_expression(k.grid_x), ";\n  grid[1] = ", c_expression(k.grid_y),
             ";\n  grid[2] = ", c_expression(k.grid_z), ";\n}\n\n");
  return out;
}

}  // namespace

std::string plain_header(const std::vector<tlx::bundle::compiled>& kernels) {
  std::string out = preamble;
  out += "#ifdef __cplusplus\n#define TLX_ALIGNED alignas\n#else\n#define TLX_ALIGNED _Alignas\n#endif\n\n";
  for (const tlx::bundle::compiled& c : kernels) out += section(c.kernel);
  return out + "#endif\n";
}

}  // namespace tlxc
