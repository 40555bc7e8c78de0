// A kernel without its code as JSON, and back. The manifest is read from files that anyone may have edited: every field is checked.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "device/map_names.hpp"
#include "tlx/device/binder.hpp"
#include "tlx/device/kernel.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::device {

namespace {

using json = nlohmann::ordered_json;  // fields keep their order, so equal kernels have equal manifests
constexpr int manifest_version = 1;

[[noreturn]] void malformed(const std::string& what) {
  raise(user_error({.id = "manifest-malformed",
                    .what = what,
                    .because = cat("a kernel manifest is one JSON object with \"format\": \"tlx-kernel\" and \"version\": ", manifest_version),
                    .fix = {"write the manifest again with this version of tlx"}}));
}

// A place in the document: the value and the path that led there, for messages.
class node {
 public:
  node(const json& value, std::string path) : value_(value), path_(std::move(path)) {}

  node field(const char* name) const {
    if (!value_.is_object()) malformed("expected an object at \"" + path_ + "\"");
    const auto found = value_.find(name);
    if (found == value_.end()) malformed("the field \"" + inside(name) + "\" is missing");
    return node(*found, inside(name));
  }

  std::string text() const {
    if (!value_.is_string()) malformed("expected a string at \"" + path_ + "\"");
    return value_.get<std::string>();
  }

  bool flag(const char* name) const {  // absent: no
    if (!value_.is_object() || !value_.contains(name)) return false;
    const node f = field(name);
    if (!f.value_.is_boolean()) malformed("expected true or false at \"" + f.path() + "\"");
    return f.value_.get<bool>();
  }

  template <class T>
  T number(std::int64_t least = std::numeric_limits<T>::min(), std::int64_t most = std::numeric_limits<T>::max()) const {
    const bool fits_signed = value_.is_number_integer() && (!value_.is_number_unsigned() || value_.get<std::uint64_t>() <= INT64_MAX);
    if (!fits_signed) malformed("expected an integer at \"" + path_ + "\"");
    const auto n = value_.get<std::int64_t>();
    if (n < least || n > most) malformed(cat(n, " at \"", path_, "\" is outside ", least, " to ", most));
    return static_cast<T>(n);
  }

  template <class Each>
  void each(Each&& use) const {
    if (!value_.is_array()) malformed("expected an array at \"" + path_ + "\"");
    for (size_t i = 0; i < value_.size(); ++i) use(node(value_[i], cat(path_, "[", i, "]")));
  }

  const std::string& path() const { return path_; }

 private:
  std::string inside(const char* name) const { return path_.empty() ? name : path_ + "." + name; }
  const json& value_;
  std::string path_;
};

json write_extent(const extent3& e) { return json::array({e.x, e.y, e.z}); }

extent3 read_extent(const node& from) {
  std::vector<std::uint32_t> axes;
  from.each([&](const node& axis) { axes.push_back(axis.number<std::uint32_t>()); });
  if (axes.size() != 3) malformed("expected three numbers at \"" + from.path() + "\"");
  return {axes[0], axes[1], axes[2]};
}

json write_parameter(const parameter& p) {
  json out{{"name", p.name}, {"kind", p.what == parameter::kind::view ? "view" : "scalar"}, {"element", p.element}, {"element_bits", p.element_bits}};
  if (p.what == parameter::kind::view) {
    out["rank"] = p.rank;
    out["align_bytes"] = p.align_bytes;
  }
  return out;
}

parameter read_parameter(const node& from) {
  parameter p;
  p.name = from.field("name").text();
  const std::string kind = from.field("kind").text();
  if (kind != "view" && kind != "scalar") malformed("\"" + kind + "\" at \"" + from.path() + ".kind\" is neither \"view\" nor \"scalar\"");
  p.element = from.field("element").text();
  p.element_bits = from.field("element_bits").number<int>(1, 1024);
  if (kind == "view") {
    p.what = parameter::kind::view;
    p.rank = from.field("rank").number<int>(0, 32);
    p.align_bytes = from.field("align_bytes").number<int>(1, 1 << 20);
  }
  return p;
}

json write_map(const map_rule& m) {
  json out{{"parameter", m.parameter_index}, {"element", element_name(m.element)}, {"box", m.box}, {"swizzle_bytes", m.swizzle_bytes},
           {"l2_promotion_bytes", m.l2_promotion_bytes}};
  if (m.stored) out["stored"] = true;
  return out;
}

map_rule read_map(const node& from, size_t parameter_count) {
  map_rule m;
  m.parameter_index = from.field("parameter").number<int>(0, static_cast<std::int64_t>(parameter_count) - 1);
  const std::string name = from.field("element").text();
  const auto element = map_element_named(name);
  if (!element) malformed("\"" + name + "\" at \"" + from.path() + ".element\" is no tensor map element");
  m.element = *element;
  from.field("box").each([&](const node& extent) { m.box.push_back(extent.number<std::uint32_t>()); });
  m.swizzle_bytes = from.field("swizzle_bytes").number<int>();
  m.l2_promotion_bytes = from.field("l2_promotion_bytes").number<int>();
  m.stored = from.flag("stored");
  return m;
}

json write_resources(const resources& r) {
  return {{"registers", r.registers}, {"spill_bytes", r.spill_bytes}, {"stack_bytes", r.stack_bytes}, {"static_shared_bytes", r.static_shared_bytes},
          {"advisories", r.advisories}, {"assembler", r.assembler}};
}

resources read_resources(const node& from) {
  resources r;
  r.registers = from.field("registers").number<int>();
  r.spill_bytes = from.field("spill_bytes").number<int>();
  r.stack_bytes = from.field("stack_bytes").number<int>();
  r.static_shared_bytes = from.field("static_shared_bytes").number<int>();
  from.field("advisories").each([&](const node& line) { r.advisories.push_back(line.text()); });
  r.assembler = from.field("assembler").text();
  return r;
}

constexpr const char* kind_names[] = {"wait", "meet", "require"};

json write_watch(const watch_table& w) {
  json sites = json::array(), rings = json::array();
  for (const watch_site& s : w.sites)
    sites.push_back({{"kind", kind_names[static_cast<size_t>(s.what)]}, {"role", s.role}, {"text", s.text}, {"file", s.file}, {"line", s.line}});
  for (const watch_ring& r : w.rings) rings.push_back({{"name", r.name}, {"side", r.side}, {"offset", r.offset}, {"stages", r.stages}});
  return {{"milliseconds", static_cast<std::int64_t>(w.seconds * 1000 + 0.5)}, {"sites", std::move(sites)}, {"rings", std::move(rings)}};
}

watch_table read_watch(const node& from) {
  watch_table w;
  w.seconds = static_cast<double>(from.field("milliseconds").number<std::int64_t>(1, 3600000)) / 1000;
  from.field("sites").each([&](const node& s) {
    const std::string kind = s.field("kind").text();
    const auto* found = std::find(std::begin(kind_names), std::end(kind_names), kind);
    if (found == std::end(kind_names)) malformed("\"" + kind + "\" at \"" + s.path() + ".kind\" is no kind of site");
    w.sites.push_back({static_cast<watch_site::kind>(found - std::begin(kind_names)), s.field("role").text(), s.field("text").text(), s.field("file").text(), s.field("line").number<int>()});
  });
  from.field("rings").each([&](const node& r) {
    w.rings.push_back({r.field("name").text(), r.field("side").text(), r.field("offset").number<int>(0, 1 << 20), r.field("stages").number<int>(1, 1 << 16)});
  });
  return w;
}

}  // namespace

std::string to_manifest(const kernel& k) {
  json out{{"format", "tlx-kernel"}, {"version", manifest_version}, {"name", k.name}, {"entry", k.entry}, {"target", k.target}};
  out["parameters"] = json::array();
  for (const parameter& p : k.parameters) out["parameters"].push_back(write_parameter(p));
  out["maps"] = json::array();
  for (const map_rule& m : k.maps) out["maps"].push_back(write_map(m));
  out["grid"] = json::array({k.grid_x, k.grid_y, k.grid_z});
  out["block"] = write_extent(k.block);
  out["cluster"] = write_extent(k.cluster);
  out["dynamic_shared_bytes"] = k.dynamic_shared_bytes;
  out["blocks_per_processor"] = k.blocks_per_processor;
  out["used"] = write_resources(k.used);
  if (k.dependent) out["dependent"] = true;
  if (k.code.watch.on()) out["watch"] = write_watch(k.code.watch);
  // Advisories come from another program: bytes that are no UTF-8 are replaced rather than refused.
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

kernel from_manifest(const std::string& text) {
  json document;
  try {
    document = json::parse(text);
  } catch (const json::parse_error& e) {
    malformed(cat("the manifest is no JSON at offset ", e.byte, " of ", text.size(), ": ", e.what()));
  } catch (const json::exception& e) {  // a number that no double holds
    malformed(cat("the manifest is no JSON that can be read: ", e.what()));
  }
  const node root(document, "");
  if (root.field("format").text() != "tlx-kernel") malformed("\"format\" is \"" + root.field("format").text() + "\"");
  root.field("version").number<int>(manifest_version, manifest_version);
  kernel k;
  k.name = root.field("name").text();
  k.entry = root.field("entry").text();
  k.target = root.field("target").text();
  root.field("parameters").each([&](const node& p) { k.parameters.push_back(read_parameter(p)); });
  root.field("maps").each([&](const node& m) { k.maps.push_back(read_map(m, k.parameters.size())); });
  std::vector<formula> grid;
  root.field("grid").each([&](const node& axis) { grid.push_back(axis.text()); });
  if (grid.size() != 3) malformed("expected three formulas at \"grid\"");
  k.grid_x = grid[0];
  k.grid_y = grid[1];
  k.grid_z = grid[2];
  k.block = read_extent(root.field("block"));
  k.cluster = read_extent(root.field("cluster"));
  k.dynamic_shared_bytes = root.field("dynamic_shared_bytes").number<std::uint32_t>();
  k.blocks_per_processor = root.field("blocks_per_processor").number<int>(0);
  k.used = read_resources(root.field("used"));
  k.dependent = root.flag("dependent");
  if (document.contains("watch")) k.code.watch = read_watch(root.field("watch"));
  return k;
}

}  // namespace tlx::device
