#include "header.hpp"

#include <cctype>
#include <map>
#include <set>

#include "tlx/bundle/arguments.hpp"
#include "tlx/support/text.hpp"

namespace tlxc {

using tlx::cat;
using tlx::device::parameter;

std::string identifier(const std::string& text, const std::string& otherwise) {
  std::string out;
  for (const char c : text) out.push_back(std::isalnum(static_cast<unsigned char>(c)) ? c : '_');
  if (out.empty()) return otherwise;
  return std::isdigit(static_cast<unsigned char>(out[0])) ? "_" + out : out;
}

namespace {

std::string type_of(const parameter& p) {
  if (p.what == parameter::kind::view) return cat("tlx::bundle::tensor<", p.rank, ">");
  static const std::map<std::string, std::string> own{{"f32", "float"}, {"f64", "double"}, {"s32", "std::int32_t"}, {"u32", "std::uint32_t"}, {"s64", "std::int64_t"}, {"u64", "std::uint64_t"}};
  const auto found = own.find(p.element);
  if (found != own.end()) return found->second;
  return cat("tlx::bundle::bits_of<std::uint", p.element_bits <= 8 ? 8 : p.element_bits <= 16 ? 16 : p.element_bits <= 32 ? 32 : 64, "_t>");
}

struct shape {
  const tlx::device::kernel* kernel;
  std::set<std::string> configurations, targets;
};

std::string argument_struct(const std::string& name, const std::string& signature, const shape& s) {
  std::string fields, values;
  for (const parameter& p : s.kernel->parameters) {
    fields += cat("  ", type_of(p), " ", p.name, "{};", p.what == parameter::kind::view ? cat("  // of ", p.element) : std::string(), "\n");
    values += cat(values.empty() ? "" : ", ", "tlx::bundle::refer(", p.name, ")");
  }
  const std::string configurations = tlx::join({s.configurations.begin(), s.configurations.end()}, ", ");
  return cat("/// Kernel \"", name, "\"", configurations.empty() ? "" : "; configurations: ", configurations, "; for ", tlx::join({s.targets.begin(), s.targets.end()}, ", "), ".\n", "struct ",
             identifier(name, "kernel"), " {\n  static constexpr const char* tlx_kernel = \"", name, "\";\n  static constexpr const char* tlx_signature = \"", signature, "\";\n", fields,
             "  std::array<tlx::device::value_ref, ", s.kernel->parameters.size(), "> tlx_arguments() const { return {", values, "}; }\n};\n");
}

}  // namespace

std::string bundle_header(const tlx::bundle::bundle& made, const std::vector<tlx::bundle::compiled>& kernels, const std::string& name_space, const std::string& symbol) {
  std::map<std::string, std::map<std::string, shape>> all;  // name -> signature -> what has it
  for (const tlx::bundle::compiled& c : kernels) {
    shape& s = all[c.name].emplace(tlx::bundle::signature_of(c.kernel), shape{&c.kernel, {}, {}}).first->second;
    if (!c.configuration.empty()) s.configurations.insert(c.configuration);
    s.targets.insert(c.kernel.target);
  }
  std::string out = cat("// Made by tlxc build, with the bundle; not edited by hand.\n#pragma once\n#include <array>\n#include <cstdint>\n\n#include \"tlx/bundle/arguments.hpp\"\n#include \"tlx/bundle/bundle.hpp\"\n\n");
  if (!symbol.empty()) out += cat("extern \"C\" {\nextern const unsigned char ", symbol, "[], ", symbol, "_end[];\n}\n\n");
  out += cat("namespace ", name_space, " {\n\n/// bundle::sha256() of the bundle that this header was written with.\ninline constexpr const char* bundle_sha256 = \"", made.sha256(), "\";\n\n");
  out += cat("/// That bundle in a file, and no other.\ninline tlx::bundle::bundle open_bundle(const std::string& path) { return tlx::bundle::bundle::open(path, {.sha256 = bundle_sha256}); }\n\n");
  if (!symbol.empty())
    out += cat("/// The bundle that is linked into this program.\ninline tlx::bundle::bundle embedded_bundle() {\n  return tlx::bundle::bundle::of_memory(", symbol, ", static_cast<std::size_t>(", symbol, "_end - ",
               symbol, "), {.sha256 = bundle_sha256});\n}\n\n");
  for (const auto& [name, signatures] : all)
    for (const auto& [signature, s] : signatures) out += argument_struct(name, signature, s) + "\n";
  return out + cat("}  // namespace ", name_space, "\n");
}

}  // namespace tlxc
