#include "tlx/sim/case.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/units/formats.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

using json = nlohmann::json;

int type_bits_of(const std::string& t) {
  static const std::map<std::string, int> rows{{"f64", 64}, {"f32", 32}, {"tf32", 32}, {"f16", 16}, {"bf16", 16}, {"e4m3", 8}, {"e5m2", 8}, {"e3m2", 8}, {"e2m3", 8}, {"e2m1", 4}, {"ue8m0", 8}, {"ue4m3", 8},
                                               {"s8", 8}, {"u8", 8}, {"s16", 16}, {"u16", 16}, {"s32", 32}, {"u32", 32}, {"s64", 64}, {"u64", 64}, {"bool", 8}};
  const auto found = rows.find(t);
  if (found == rows.end()) raise(user_error({.id = "case-malformed", .what = cat("unknown dtype \"", t, "\"")}));
  return found->second;
}

/// Reads the elements of one buffer; what the dtype means is looked up once.
class reader {
 public:
  reader(const std::string& t, const std::string& bytes) : bytes_(bytes), bits_(type_bits_of(t)) {
    static const std::map<std::string, number> formats{{"f16", number::f16}, {"bf16", number::bf16}, {"e4m3", number::e4m3}, {"e5m2", number::e5m2}, {"e3m2", number::e3m2}, {"e2m3", number::e2m3}, {"ue8m0", number::ue8m0}, {"ue4m3", number::ue4m3}};
    if (t == "e2m1") what_ = kind::nibbles;
    else if (t == "f64") what_ = kind::f64;
    else if (t == "f32" || t == "tf32") what_ = kind::f32;
    else if (const auto found = formats.find(t); found != formats.end()) { what_ = kind::small; format_ = found->second; }
    else what_ = t[0] == 's' ? kind::integer : kind::natural;
  }
  double operator[](std::size_t index) const {
    if (what_ == kind::nibbles) { const auto b = static_cast<unsigned char>(bytes_[index / 2]); return static_cast<double>(widen(number::e2m1, index % 2 ? b >> 4 : b & 15U)); }
    std::uint64_t raw = 0;
    std::memcpy(&raw, bytes_.data() + index * static_cast<std::size_t>(bits_ / 8), static_cast<std::size_t>(bits_ / 8));
    switch (what_) {
      case kind::f64: return std::bit_cast<double>(raw);
      case kind::f32: return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(raw)));
      case kind::integer: return static_cast<double>(static_cast<std::int64_t>(raw << (64 - bits_)) >> (64 - bits_));
      case kind::small: return static_cast<double>(widen(format_, static_cast<std::uint32_t>(raw)));
      default: return static_cast<double>(raw);
    }
  }

 private:
  enum class kind : std::uint8_t { nibbles, f64, f32, integer, natural, small };
  const std::string& bytes_;
  int bits_;
  kind what_ = kind::natural;
  number format_ = number::f32;
};


struct buffer_info { std::string dtype; std::size_t elements = 1, bytes = 0; std::string initial; device::address where = 0; };

std::size_t bytes_for(const std::string& dtype, std::size_t elements) { return (elements * static_cast<std::size_t>(type_bits_of(dtype)) + 7) / 8; }

device::map_element map_element_of(const std::string& t) {
  static const std::map<std::string, device::map_element> rows{{"u8", device::map_element::u8}, {"s8", device::map_element::u8}, {"bool", device::map_element::u8}, {"e4m3", device::map_element::u8}, {"e5m2", device::map_element::u8},
      {"e3m2", device::map_element::u8}, {"e2m3", device::map_element::u8}, {"ue8m0", device::map_element::u8}, {"u16", device::map_element::u16}, {"s16", device::map_element::u16}, {"u32", device::map_element::u32}, {"s32", device::map_element::s32},
      {"u64", device::map_element::u64}, {"s64", device::map_element::s64}, {"f16", device::map_element::f16}, {"f32", device::map_element::f32}, {"f64", device::map_element::f64}, {"bf16", device::map_element::bf16},
      {"tf32", device::map_element::tf32}, {"u4x16_align8", device::map_element::u4x16_align8}, {"u4x16_align16", device::map_element::u4x16_align16}, {"u6x16_align16", device::map_element::u6x16_align16}};
  const auto found = rows.find(t);
  if (found == rows.end()) raise(user_error({.id = "case-malformed", .what = cat("a tensor map of dtype \"", t, "\"")}));
  return found->second;
}

device::extent3 extent(const json& j) { return {j.at(0).get<std::uint32_t>(), j.at(1).get<std::uint32_t>(), j.at(2).get<std::uint32_t>()}; }

device::argument argument_of(const json& p, const std::map<std::string, buffer_info>& buffers) {
  const auto buffer = [&](const std::string& name) -> const buffer_info& {
    const auto found = buffers.find(name);
    if (found == buffers.end()) raise(user_error({.id = "case-malformed", .what = cat("a parameter names buffer \"", name, "\", which the case does not have")}));
    return found->second;
  };
  if (p.contains("buffer")) return device::scalar<std::uint64_t>(buffer(p.at("buffer")).where + p.value("offset_bytes", std::uint64_t{0}));
  if (p.contains("tensor_map")) {
    const json& t = p.at("tensor_map");
    device::tensor_map m;
    m.base = buffer(t.at("buffer")).where + t.value("offset_bytes", std::uint64_t{0});
    m.element = map_element_of(t.at("dtype"));
    const auto shape = t.at("shape").get<std::vector<std::uint64_t>>(), strides = t.at("strides_bytes").get<std::vector<std::uint64_t>>();
    const auto box = t.at("box").get<std::vector<std::uint32_t>>();
    const std::size_t rank = shape.size();
    if (rank < 1 || rank > 5 || strides.size() != rank || box.size() != rank) raise(user_error({.id = "case-malformed", .what = "shape, strides_bytes and box of a tensor map need one to five entries each"}));
    m.rank = static_cast<int>(rank);
    for (std::size_t d = 0; d < rank; ++d) {
      m.extents[d] = shape[rank - 1 - d];
      m.box[d] = box[rank - 1 - d];
      if (d > 0) m.strides_bytes[d - 1] = strides[rank - 1 - d];
    }
    if (t.contains("element_strides")) { const auto es = t.at("element_strides").get<std::vector<std::uint32_t>>(); for (std::size_t d = 0; d < rank && d < es.size(); ++d) m.element_strides[d] = es[rank - 1 - d]; }
    m.swizzle_bytes = t.value("swizzle_bytes", 0);
    m.interleave_bytes = t.value("interleave_bytes", 0);
    m.oob_nan = t.value("oob_fill", std::string("zero")) == "nan";
    return m;
  }
  if (p.contains("bytes")) {
    const std::string hex = p.at("bytes");
    std::vector<std::byte> out;
    for (std::size_t k = 0; k + 1 < hex.size(); k += 2) out.push_back(static_cast<std::byte>(std::stoul(hex.substr(k, 2), nullptr, 16)));
    return out;
  }
  if (p.contains("u32")) return device::scalar(p.at("u32").get<std::uint32_t>());
  if (p.contains("s32")) return device::scalar(p.at("s32").get<std::int32_t>());
  if (p.contains("u64")) return device::scalar(p.at("u64").get<std::uint64_t>());
  if (p.contains("s64")) return device::scalar(p.at("s64").get<std::int64_t>());
  if (p.contains("f32")) return device::scalar(static_cast<float>(p.at("f32").get<double>()));
  if (p.contains("f64")) return device::scalar(p.at("f64").get<double>());
  if (p.contains("u16")) return device::scalar(p.at("u16").get<std::uint16_t>());
  if (p.contains("s16")) return device::scalar(p.at("s16").get<std::int16_t>());
  if (p.contains("u8")) return device::scalar(p.at("u8").get<std::uint8_t>());
  if (p.contains("s8")) return device::scalar(p.at("s8").get<std::int8_t>());
  raise(user_error({.id = "case-malformed", .what = cat("a parameter of no known kind: ", p.dump())}));
}

buffer_result compare(const json& x, const buffer_info& b, const std::string& have, const std::string& folder) {
  buffer_result r;
  r.buffer = x.at("buffer");
  const std::string file_dtype = x.value("file_dtype", b.dtype);
  const std::string want = read_file(folder + "/" + x.at("file").get<std::string>());
  if (want.size() != bytes_for(file_dtype, b.elements))
    raise(user_error({.id = "case-malformed", .what = cat("file of buffer \"", r.buffer, "\" has ", want.size(), " bytes where ", b.elements, " elements of ", file_dtype, " need ", bytes_for(file_dtype, b.elements))}));
  const bool exact = x.value("exact", false);
  const bool elementwise = x.contains("rtol") || x.contains("atol");
  const double rtol = x.value("rtol", 0.0), atol = x.value("atol", 0.0);
  double difference = 0, norm = 0, worst = -1;
  bool ok = true;
  const reader have_at(b.dtype, have), want_at(file_dtype, want);
  for (std::size_t k = 0; k < b.elements; ++k) {
    const double g = have_at[k], w = want_at[k];
    double score = 0;
    if (std::isnan(g) || std::isnan(w)) {
      if (!(exact && std::isnan(g) && std::isnan(w))) { ok = false; score = std::numeric_limits<double>::infinity(); r.max_abs = std::numeric_limits<double>::quiet_NaN(); }
    } else if (g != w) {
      const double d = std::fabs(g - w);
      difference += d * d;
      if (!std::isnan(r.max_abs)) r.max_abs = std::max(r.max_abs, d);
      if (exact) ok = false;
      if (elementwise && !(d <= atol + rtol * std::fabs(w))) ok = false;
      score = elementwise ? d / std::max(atol + rtol * std::fabs(w), 1e-300) : d;
    } else if (exact && b.dtype == file_dtype && g == 0 && std::signbit(g) != std::signbit(w)) ok = false;
    if (!std::isnan(w)) norm += w * w;
    if (score > worst) { worst = score; r.worst_index = k; }
  }
  r.rel_l2 = norm > 0 ? std::sqrt(difference / norm) : std::sqrt(difference);
  if (x.contains("max_rel_l2") && !(r.rel_l2 <= x.at("max_rel_l2").get<double>())) ok = false;
  if (!exact && !elementwise && !x.contains("max_rel_l2") && difference > 0) ok = false;
  r.ok = ok;
  return r;
}

/// Sums of floats depend on the order of their atomic additions: then bits may differ between schedules.
bool adds_floats_atomically(const std::string& ptx) {
  for (std::size_t from = 0; from < ptx.size();) {
    const std::size_t end = std::min(ptx.find_first_of(";\n", from), ptx.size());
    const std::string_view line = std::string_view(ptx).substr(from, end - from);
    from = end + 1;
    const bool atomic = line.find("red.") != std::string_view::npos || line.find("atom.") != std::string_view::npos || line.find("cp.reduce") != std::string_view::npos;
    if (!atomic || line.find("add") == std::string_view::npos) continue;
    // A tensor map names the type of a tensor reduction: it may be one of floats.
    for (const char* type : {".f16", ".bf16", ".f32", ".f64", "bulk.tensor"}) if (line.find(type) != std::string_view::npos) return true;
  }
  return false;
}

using contents = std::map<std::string, std::string>;  // of every buffer, by name

void run_once(const std::string& folder, const json& c, const std::string& ptx, const case_options& how, std::uint64_t seed, case_result& out, contents& after) {
  options o;
  o.seed = seed;
  o.strict = how.strict;
  o.threads = how.threads;
  auto m = open(c.at("target"), o);
  std::map<std::string, buffer_info> buffers;
  for (const auto& [name, j] : c.at("buffers").items()) {
    buffer_info b;
    b.dtype = j.at("dtype");
    for (const auto& extent_of : j.at("shape")) b.elements *= extent_of.get<std::size_t>();
    b.bytes = bytes_for(b.dtype, b.elements);
    if (j.contains("file")) {
      b.initial = read_file(folder + "/" + j.at("file").get<std::string>());
      if (b.initial.size() != b.bytes) raise(user_error({.id = "case-malformed", .what = cat("file of buffer \"", name, "\" has ", b.initial.size(), " bytes, its shape needs ", b.bytes)}));
    } else {
      const std::string fill = j.value("fill", std::string("zero"));
      if (fill != "zero" && fill != "nan") raise(user_error({.id = "case-malformed", .what = cat("fill \"", fill, "\" of buffer \"", name, "\"")}));
      b.initial.assign(b.bytes, fill == "nan" ? '\xFF' : '\0');  // all ones is a NaN in every format that has one
    }
    b.where = m->allocate(b.bytes);
    m->name(b.where, name);
    m->write(b.where, b.initial.data(), b.bytes);
    buffers.emplace(name, std::move(b));
  }
  device::launch l;
  l.grid = extent(c.at("grid"));
  l.block = extent(c.at("block"));
  l.cluster = c.contains("cluster") ? extent(c.at("cluster")) : device::extent3{};
  l.dynamic_shared_bytes = c.value("dynamic_shared_bytes", 0U);
  for (const json& p : c.at("params")) l.arguments.push_back(argument_of(p, buffers));
  out.seed = seed;
  ++out.schedules;
  out.results.clear();
  const auto account = [&] {
    out.warp_instructions += m->last_run().warp_instructions;
    out.seconds += m->last_run().seconds;
    for (const std::string& s : m->last_run().lints) if (std::find(out.lints.begin(), out.lints.end(), s) == out.lints.end()) out.lints.push_back(s);
    out.printed = m->last_run().printed;
  };
  const auto module = m->load({.ptx = ptx, .cubin = {}});
  try {
    m->run(*module, c.at("entry"), l);
  } catch (const sim_error&) {
    account();
    out.fault = m->last_fault();
    return;
  }
  account();
  after.clear();
  for (const auto& [name, b] : buffers) { std::string& bytes = after[name]; bytes.resize(b.bytes); m->read(bytes.data(), b.where, b.bytes); }
  if (!how.dump.empty()) {
    std::filesystem::create_directories(how.dump);
    for (const auto& [name, bytes] : after) write_file(how.dump + "/" + name + ".bin", bytes);
  }
  if (c.contains("expect"))
    for (const json& x : c.at("expect")) {
      const auto found = buffers.find(x.at("buffer").get<std::string>());
      if (found == buffers.end()) raise(user_error({.id = "case-malformed", .what = cat("expect names buffer ", x.at("buffer").dump())}));
      out.results.push_back(compare(x, found->second, after[found->first], folder));
    }
}

}  // namespace

case_result run_case(const std::string& folder, const case_options& how) {
  case_result out;
  int expected_exit = 0;
  try {
    const json c = json::parse(read_file(folder + "/case.json"));
    expected_exit = c.value("expect_exit", 0);
    const std::string ptx = read_file(folder + "/" + c.value("ptx", std::string("kernel.ptx")));
    const std::string wanted = c.value("expect_fault", std::string());
    const int schedules = wanted.empty() ? std::max(1, how.schedules) : std::max(32, how.schedules);
    std::optional<fault_report> other;
    const bool bits_may_differ = adds_floats_atomically(ptx);
    contents first, now;
    for (int k = 0; k < schedules; ++k) {
      run_once(folder, c, ptx, how, how.seed + static_cast<std::uint64_t>(k), out, now);
      if (!wanted.empty()) {
        if (!out.fault) continue;
        if (out.fault->kind == wanted) { out.exit = 0; return out; }
        // Another schedule may show the expected kind: one mistake has several symptoms.
        other = out.fault;
        out.fault.reset();
        continue;
      }
      if (out.fault) { out.exit = 2; return out; }
      for (const buffer_result& r : out.results) if (!r.ok) { out.exit = 1; out.message = cat("buffer \"", r.buffer, "\" differs from what is expected"); }
      if (out.exit) return out;
      if (k == 0) first = now;
      else if (!bits_may_differ)
        for (const auto& [name, bytes] : now)
          if (bytes != first[name]) {
            const auto at = std::mismatch(bytes.begin(), bytes.end(), first[name].begin()).first - bytes.begin();
            out.exit = 1;
            out.message = cat("the result depends on the schedule: byte ", at, " of buffer \"", name, "\" is ", static_cast<int>(static_cast<unsigned char>(bytes[static_cast<std::size_t>(at)])), " at seed ", out.seed, " and ",
                              static_cast<int>(static_cast<unsigned char>(first[name][static_cast<std::size_t>(at)])), " at seed ", how.seed);
            return out;
          }
    }
    if (!wanted.empty()) { out.exit = 1; out.fault = other; out.message = cat("no schedule of ", schedules, " showed the fault ", wanted); }
    if (expected_exit) { out.message = cat("the simulator accepted what it should refuse with exit ", expected_exit); out.exit = 1; }
  } catch (const error& e) {
    out.exit = 3;
    out.message = e.what();
  } catch (const std::exception& e) {
    out.exit = 3;
    out.message = e.what();
  }
  if (expected_exit && out.exit == expected_exit) out.exit = 0;
  return out;
}

std::string to_json(const case_result& r) {
  json j;
  j["exit"] = r.exit;
  if (r.fault) {
    json f{{"kind", r.fault->kind}, {"message", r.fault->message}, {"ptx_line", r.fault->ptx_line}, {"opcode", r.fault->opcode}, {"threads", r.fault->threads}};
    if (r.fault->source_line) f["source_line"] = cat(r.fault->source_file, ":", r.fault->source_line);
    j["fault"] = f;
  }
  if (!r.message.empty()) j["message"] = r.message;
  j["seed"] = r.seed;
  j["schedules"] = r.schedules;
  j["results"] = json::array();
  for (const buffer_result& b : r.results) {
    json x{{"buffer", b.buffer}, {"rel_l2", b.rel_l2}, {"worst_index", b.worst_index}, {"ok", b.ok}};
    if (std::isnan(b.max_abs)) x["max_abs"] = nullptr; else x["max_abs"] = b.max_abs;
    j["results"].push_back(x);
  }
  j["warp_instructions"] = r.warp_instructions;
  j["seconds"] = r.seconds;
  if (!r.lints.empty()) j["lints"] = r.lints;
  return j.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string to_text(const case_result& r) {
  std::string s;
  for (const std::string& p : r.printed) s += p + (p.empty() || p.back() != '\n' ? "\n" : "");
  for (const std::string& l : r.lints) s += cat("lint: ", l, "\n");
  if (r.fault) {
    s += cat("fault ", r.fault->kind, ": ", r.fault->message, "\n");
    if (r.fault->ptx_line) s += cat("  ptx line ", r.fault->ptx_line, " (", r.fault->opcode, ")", r.fault->source_line ? cat(", from ", r.fault->source_file, ":", r.fault->source_line) : std::string(), "\n");
    if (!r.fault->threads.empty()) s += cat("  ", r.fault->threads, "\n");
    s += cat("  seed ", r.seed, "\n");
  }
  if (!r.message.empty()) s += r.message + "\n";
  for (const buffer_result& b : r.results) s += cat(b.ok ? "ok    " : "WRONG ", b.buffer, ": rel_l2 ", b.rel_l2, ", max_abs ", b.max_abs, ", worst at ", b.worst_index, "\n");
  s += cat("exit ", r.exit, ", ", r.schedules, " schedule", r.schedules == 1 ? "" : "s", ", ", r.warp_instructions, " warp instructions in ", r.seconds, " s\n");
  return s;
}

}  // namespace tlx::sim
