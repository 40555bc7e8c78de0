#include "sim/decode.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>

#include "sim/async.hpp"
#include "sim/ops.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {

namespace {
struct scalar_row { std::string_view name; int bits; bool is_signed, is_float; };
constexpr scalar_row scalar_rows[] = {
    {"pred", 1, false, false},    {"b8", 8, false, false},      {"b16", 16, false, false},    {"b32", 32, false, false},    {"b64", 64, false, false},
    {"b128", 128, false, false},  {"u8", 8, false, false},      {"u16", 16, false, false},    {"u32", 32, false, false},    {"u64", 64, false, false},
    {"s8", 8, true, false},       {"s16", 16, true, false},     {"s32", 32, true, false},     {"s64", 64, true, false},     {"f16", 16, false, true},
    {"f16x2", 32, false, true},   {"bf16", 16, false, true},    {"bf16x2", 32, false, true},  {"f32", 32, false, true},     {"f32x2", 64, false, true},
    {"f64", 64, false, true},     {"tf32", 32, false, true},    {"e4m3x2", 16, false, true},  {"e5m2x2", 16, false, true},  {"e2m3x2", 16, false, true},
    {"e3m2x2", 16, false, true},  {"e2m1x2", 8, false, true},   {"ue8m0x2", 16, false, true}, {"e4m3x4", 32, false, true},  {"e5m2x4", 32, false, true},
    {"e2m3x4", 32, false, true},  {"e3m2x4", 32, false, true},  {"e2m1x4", 16, false, true}};
}  // namespace

scalar scalar_of(std::string_view name) {
  for (std::size_t k = 0; k < std::size(scalar_rows); ++k) if (scalar_rows[k].name == name) return static_cast<scalar>(k);
  return scalar::none;
}
int bits_of(scalar t) { return t == scalar::none ? 0 : scalar_rows[static_cast<std::size_t>(t)].bits; }
bool is_signed(scalar t) { return t != scalar::none && scalar_rows[static_cast<std::size_t>(t)].is_signed; }
bool is_float(scalar t) { return t != scalar::none && scalar_rows[static_cast<std::size_t>(t)].is_float; }

// ---- modifiers
bool decoder::take(std::string_view w) {
  for (std::size_t k = 1; k < words.size(); ++k) if (!used[k] && words[k] == w) { used[k] = true; return true; }
  return false;
}
int decoder::take_one(std::initializer_list<std::string_view> list) {
  for (std::size_t k = 1; k < words.size(); ++k) {
    if (used[k]) continue;
    int index = 0;
    for (const std::string_view w : list) { if (words[k] == w) { used[k] = true; return index; } ++index; }
  }
  return -1;
}
scalar decoder::take_type() {
  for (std::size_t k = 1; k < words.size(); ++k) {
    if (used[k]) continue;
    const scalar t = scalar_of(words[k]);
    if (t != scalar::none) { used[k] = true; return t; }
  }
  return scalar::none;
}
scalar decoder::need_type() {
  const scalar t = take_type();
  if (t == scalar::none) bad("no type");
  return t;
}
rounding decoder::take_rounding(bool& any) {
  constexpr rounding order[] = {rounding::rn, rounding::rz, rounding::rm, rounding::rp, rounding::rna, rounding::rs};
  const int k = take_one({"rn", "rz", "rm", "rp", "rna", "rs"});
  any = k >= 0;
  return k < 0 ? rounding::rn : order[k];
}
void decoder::refuse(const std::string& what) const { unsupported(raw->line, cat(what, " in \"", std::string(raw->opcode), "\"")); }
void decoder::bad(const std::string& what) const { malformed(raw->line, cat(what, " in \"", std::string(raw->opcode), "\"")); }
void decoder::finish() {
  for (std::size_t k = 1; k < words.size(); ++k) if (!used[k]) refuse(cat("modifier \".", std::string(words[k]), "\""));
}
void decoder::skip_cache_words() {
  for (std::size_t k = 1; k < words.size(); ++k) {
    const std::string_view w = words[k];
    if (w.starts_with("L1::") || w.starts_with("L2::") || w == "ca" || w == "cg" || w == "cs" || w == "lu" || w == "cv" || w == "wb" || w == "wt") used[k] = true;
  }
}
bool decoder::skip_memory_order() {
  bool strong = false;
  for (;;) {
    const int k = take_one({"weak", "cta", "cluster", "gpu", "sys", "volatile", "relaxed", "acquire", "release", "acq_rel", "sc", "mmio"});
    if (k < 0) return strong;
    strong = strong || k >= 5;
    if (k >= 1 && k <= 4) memory_order = static_cast<std::uint8_t>((memory_order & 0xFU) | static_cast<unsigned>(k) << 4);
    if (k >= 5) memory_order |= order_strong;
    if (k == 7 || k == 9 || k == 10) memory_order |= order_acquire;
    if (k == 8 || k == 9 || k == 10) memory_order |= order_release;
    if (k == 6) memory_order |= order_relaxed;
  }
}

// ---- slots
std::uint32_t decoder::new_slot(int width) {
  const std::uint32_t bytes = width <= 32 ? 128 : width == 64 ? 256 : 512;
  const std::uint32_t at = p.register_bytes;
  p.register_bytes += bytes;
  p.register_image.resize(p.register_bytes);
  return at;
}
std::uint32_t decoder::temporary(int width) { return new_slot(width); }
std::uint32_t decoder::constant(std::uint64_t bits, int width) {
  const int slot_width = width <= 32 ? 32 : 64;
  if (width < 64) bits &= (std::uint64_t{1} << width) - 1;
  const auto key = std::make_pair(bits, slot_width);
  if (const auto found = constants.find(key); found != constants.end()) return found->second;
  const std::uint32_t at = new_slot(slot_width);
  for (std::uint32_t l = 0; l < 32; ++l) {
    if (slot_width == 32) { const std::uint32_t v = static_cast<std::uint32_t>(bits); std::memcpy(p.register_image.data() + at + 4 * l, &v, 4); }
    else std::memcpy(p.register_image.data() + at + 8 * l, &bits, 8);
  }
  constants.emplace(key, at);
  return at;
}
std::uint32_t decoder::special_slot_of(special s, bool wide, std::uint64_t offset) {
  const auto key = std::make_pair(static_cast<int>(s) * 2 + wide, offset);
  if (const auto found = special_slots.find(key); found != special_slots.end()) return found->second;
  const std::uint32_t at = new_slot(wide ? 64 : 32);
  p.specials.push_back({s, at, wide, offset});
  special_slots.emplace(key, at);
  return at;
}
std::optional<special> decoder::special_of(std::string_view name) const {
  static const std::unordered_map<std::string_view, special> names{
      {"%tid.x", special::tid_x}, {"%tid.y", special::tid_y}, {"%tid.z", special::tid_z}, {"%ntid.x", special::ntid_x}, {"%ntid.y", special::ntid_y}, {"%ntid.z", special::ntid_z},
      {"%ctaid.x", special::ctaid_x}, {"%ctaid.y", special::ctaid_y}, {"%ctaid.z", special::ctaid_z}, {"%nctaid.x", special::nctaid_x}, {"%nctaid.y", special::nctaid_y}, {"%nctaid.z", special::nctaid_z},
      {"%laneid", special::laneid}, {"%warpid", special::warpid}, {"%nwarpid", special::nwarpid}, {"%lanemask_eq", special::lanemask_eq}, {"%lanemask_lt", special::lanemask_lt},
      {"%lanemask_le", special::lanemask_le}, {"%lanemask_gt", special::lanemask_gt}, {"%lanemask_ge", special::lanemask_ge}, {"%cluster_ctarank", special::cluster_ctarank},
      {"%cluster_nctarank", special::cluster_nctarank}, {"%clusterid.x", special::clusterid_x}, {"%clusterid.y", special::clusterid_y}, {"%clusterid.z", special::clusterid_z},
      {"%nclusterid.x", special::nclusterid_x}, {"%nclusterid.y", special::nclusterid_y}, {"%nclusterid.z", special::nclusterid_z},
      {"%cluster_ctaid.x", special::cluster_ctaid_x}, {"%cluster_ctaid.y", special::cluster_ctaid_y}, {"%cluster_ctaid.z", special::cluster_ctaid_z},
      {"%cluster_nctaid.x", special::cluster_nctaid_x}, {"%cluster_nctaid.y", special::cluster_nctaid_y}, {"%cluster_nctaid.z", special::cluster_nctaid_z},
      {"%smid", special::smid}, {"%nsmid", special::nsmid}, {"%gridid", special::gridid}, {"%is_explicit_cluster", special::is_explicit_cluster},
      {"%dynamic_smem_size", special::dynamic_smem_size}, {"%total_smem_size", special::total_smem_size}, {"%aggr_smem_size", special::aggr_smem_size}};
  const auto found = names.find(name);
  if (found == names.end()) return std::nullopt;
  return found->second;
}

const register_class* decoder::class_of(std::string_view name, std::uint32_t& slot) {
  const int id = f->find_register(name, raw->scope);
  if (id < 0) return nullptr;
  const register_class& c = f->register_classes[static_cast<std::size_t>(f->registers[static_cast<std::size_t>(id)])];
  const auto key = std::make_pair(function, id);
  if (const auto found = slots.find(key); found != slots.end()) { slot = found->second; return &c; }
  if (c.predicate) {
    if (predicate_used == 32) { predicate_block = new_slot(32); predicate_used = 0; }
    slot = predicate_block + 4 * predicate_used++;
  } else slot = new_slot(c.bits);
  slots.emplace(key, slot);
  return &c;
}

std::uint32_t decoder::variable_slot(int variable, std::int64_t offset, bool wide, space* where) {
  const sim::variable& v = m.variables[static_cast<std::size_t>(variable)];
  const std::uint64_t o = static_cast<std::uint64_t>(offset);
  if (where) *where = v.where;
  switch (v.where) {
    case space::shared: return special_slot_of(special::shared_address, wide, (v.external && v.open_size ? p.dynamic_shared_start : v.address) + o);
    case space::global: case space::constant: return constant(v.address + o, wide ? 64 : 32);
    case space::local:
      // In a recursive function each activation has its own: the address is a register of the function.
      if (recursive(v.owner)) {
        if (!wide) refuse("a 32-bit address of a local variable in a recursive function");
        const auto [at, fresh] = local_addresses.try_emplace({variable, offset});
        if (fresh) {
          at->second = {v.owner, new_slot(64), local_place.at(variable) + o};
          for (std::uint32_t l = 0; l < 32; ++l) std::memcpy(p.register_image.data() + at->second.slot + 8 * l, &at->second.start, 8);
        }
        return at->second.slot;
      }
      return constant(local_place.at(variable) + o, wide ? 64 : 32);
    case space::param:
      if (const auto found = param_place.find(variable); found != param_place.end()) return constant(found->second + o, wide ? 64 : 32);
      if (where) *where = space::local;
      return constant(local_place.at(variable) + o, wide ? 64 : 32);
    default: bad("address of this variable");
  }
}

std::int64_t decoder::immediate(const raw_operand& o) const {
  if (o.what != raw_operand::kind::integer) bad("needs an integer constant");
  return static_cast<std::int64_t>(o.bits);
}

std::uint32_t decoder::source(const raw_operand& o, scalar t, bool any_width) {
  const int width = bits_of(t);
  switch (o.what) {
    case raw_operand::kind::integer: {
      std::uint64_t v = o.bits;
      if (t == scalar::f32) v = std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int64_t>(v)));
      if (t == scalar::f64) v = std::bit_cast<std::uint64_t>(static_cast<double>(static_cast<std::int64_t>(v)));
      return constant(v, width < 32 ? 32 : width);
    }
    case raw_operand::kind::real: {
      std::uint64_t v = o.bits;
      if (width == 64 && o.is_f32) v = std::bit_cast<std::uint64_t>(static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(v))));
      else if (width == 32 && !o.is_f32) v = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(v)));
      else if (width == 16) v = narrow(t == scalar::bf16 ? number::bf16 : number::f16, o.is_f32 ? static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(v))) : std::bit_cast<double>(v));
      return constant(v, width);
    }
    case raw_operand::kind::name: break;
    default: bad("operand of the wrong kind");
  }
  std::uint32_t slot = 0;
  if (const register_class* c = class_of(o.name, slot)) {
    if (c->predicate) bad(cat("predicate \"", std::string(o.name), "\" where a number is needed"));
    const int have = c->bits <= 32 ? 32 : c->bits, want = width <= 32 ? 32 : width;
    if (!any_width && c->bits != width && !(width == 8 && c->bits == 16))
      bad(cat("register \"", std::string(o.name), "\" has ", c->bits, " bits where ", width, " are needed"));
    if (any_width && c->bits < width) bad(cat("register \"", std::string(o.name), "\" is too narrow"));
    if (have > want) {  // cut a 64-bit register down in a step of its own
      instruction cut;
      cut.alu = find_fast(alu::cvt, scalar::u32, scalar::u64);
      cut.a = slot;
      cut.d = temporary(32);
      cut.line = raw->line; cut.from = raw->from; cut.opcode = raw->opcode;
      cut.guard = out.guard; cut.guard_inverted = out.guard_inverted;
      p.code.push_back(cut);
      return cut.d;
    }
    return slot;
  }
  if (const auto s = special_of(o.name)) return special_slot_of(*s, width == 64);
  if (o.name == "WARP_SZ") return constant(32, width);
  if (const auto function_found = m.function_index.find(std::string(o.name)); function_found != m.function_index.end() && width == 64) return constant(function_address(function_found->second), 64);
  int variable = f->find_variable(o.name, raw->scope);
  if (variable < 0) if (const auto g = m.globals.find(o.name); g != m.globals.end()) variable = g->second;
  if (variable >= 0) {
    if (width != 64 && width != 32) bad("an address needs 32 or 64 bits");
    return variable_slot(variable, o.offset, width == 64, nullptr);
  }
  if (!o.name.empty() && o.name[0] == '%' && (o.name.starts_with("%clock") || o.name.starts_with("%globaltimer") || o.name.starts_with("%pm") || o.name.starts_with("%env") || o.name.starts_with("%reserved_smem") || o.name.starts_with("%current_graph") || o.name == "%tid" || o.name == "%ntid" || o.name == "%ctaid" || o.name == "%nctaid")) refuse(cat("special register \"", std::string(o.name), "\" here"));
  bad(cat("unknown name \"", std::string(o.name), "\""));
}

std::uint32_t decoder::destination(const raw_operand& o, scalar t, bool any_width) {
  if (o.what == raw_operand::kind::sink) return no_slot;
  if (o.what != raw_operand::kind::name) bad("destination is not a register");
  std::uint32_t slot = 0;
  const register_class* c = class_of(o.name, slot);
  if (!c) bad(cat("unknown register \"", std::string(o.name), "\""));
  if (c->predicate) bad(cat("predicate \"", std::string(o.name), "\" as the destination"));
  const int width = bits_of(t);
  if (c->bits == width || (width == 8 && c->bits == 16)) return slot;
  if (!any_width || c->bits < width) bad(cat("register \"", std::string(o.name), "\" has ", c->bits, " bits where ", width, " are needed"));
  if (c->bits <= 32) return slot;
  instruction widen;
  widen.alu = find_fast(alu::cvt, scalar::s64, is_signed(t) ? scalar::s32 : scalar::u32);
  widen.a = temporary(32);
  widen.d = slot;
  widen.line = raw->line; widen.from = raw->from; widen.opcode = raw->opcode;
  widen.guard = out.guard; widen.guard_inverted = out.guard_inverted;
  after.push_back(widen);
  return widen.a;
}

std::uint32_t decoder::predicate_source(const raw_operand& o, bool& inverted) {
  inverted = o.inverted;
  if (o.what == raw_operand::kind::integer) {
    const std::uint32_t at = constant(o.bits ? 0xFFFFFFFFU : 0U, 32);
    return at;
  }
  if (o.what != raw_operand::kind::name) bad("a predicate is needed");
  if (o.name == "%is_explicit_cluster") return special_slot_of(special::is_explicit_cluster, false);
  std::uint32_t slot = 0;
  const register_class* c = class_of(o.name, slot);
  if (!c || !c->predicate) bad(cat("\"", std::string(o.name), "\" is no predicate"));
  return slot;
}
std::uint32_t decoder::predicate_destination(std::string_view name) {
  if (name == "_") return no_slot;
  std::uint32_t slot = 0;
  const register_class* c = class_of(name, slot);
  if (!c || !c->predicate) bad(cat("\"", std::string(name), "\" is no predicate"));
  return slot;
}

space decoder::take_space(space otherwise) {
  for (std::size_t k = 1; k < words.size(); ++k) {
    if (used[k]) continue;
    const std::string_view w = words[k];
    space s{};
    if (w == "global") s = space::global;
    else if (w == "shared" || w == "shared::cta") s = space::shared;
    else if (w == "shared::cluster") s = space::shared_cluster;
    else if (w == "local") s = space::local;
    else if (w == "const") s = space::constant;
    else if (w == "param" || w == "param::entry" || w == "param::func") s = space::param;
    else continue;
    used[k] = true;
    return s;
  }
  return otherwise;
}

decoder::address decoder::memory(const raw_operand& o, space where) {
  if (o.what != raw_operand::kind::memory) bad("needs an address in brackets");
  address a{no_slot, true, o.offset, where};
  if (o.name.empty()) { a.slot = constant(static_cast<std::uint64_t>(o.offset), 64); a.offset = 0; return a; }
  if (const register_class* c = class_of(o.name, a.slot)) {
    if (c->predicate || (c->bits != 32 && c->bits != 64)) bad(cat("\"", std::string(o.name), "\" cannot hold an address"));
    a.wide = c->bits == 64;
    if (!a.wide && where != space::shared && where != space::shared_cluster && where != space::local && where != space::param && where != space::constant)
      bad(cat("a 32-bit register as ", to_string(where), " address"));
    return a;
  }
  int variable = f->find_variable(o.name, raw->scope);
  if (variable < 0) if (const auto g = m.globals.find(o.name); g != m.globals.end()) variable = g->second;
  if (variable < 0) bad(cat("unknown name \"", std::string(o.name), "\""));
  space lives{};
  a.slot = variable_slot(variable, 0, true, &lives);
  if (lives == space::local && where == space::param) a.where = space::local;
  else if (where == space::generic) a.where = lives;
  else if (lives != where && !(lives == space::shared && where == space::shared_cluster)) bad(cat("\"", std::string(o.name), "\" lies in ", to_string(lives), " memory, not ", to_string(where)));
  return a;
}

std::uint32_t decoder::add_list(const std::vector<std::uint32_t>& elements) {
  const std::uint32_t at = static_cast<std::uint32_t>(p.lists.size());
  p.lists.insert(p.lists.end(), elements.begin(), elements.end());
  return at;
}

void decoder::emit() {
  p.code.push_back(out);
  for (const instruction& i : after) p.code.push_back(i);
  after.clear();
}

namespace {

void split(std::string_view opcode, std::vector<std::string_view>& words) {
  words.clear();
  std::size_t from = 0;
  for (;;) {
    const std::size_t dot = opcode.find('.', from);
    words.push_back(opcode.substr(from, dot == std::string_view::npos ? dot : dot - from));
    if (dot == std::string_view::npos) return;
    from = dot + 1;
  }
}

std::uint32_t aligned(std::uint64_t at, std::uint64_t to) { return static_cast<std::uint32_t>((at + to - 1) / to * to); }

/// Who calls whom, from `entry` on: function -> the functions it may reach, itself when it is recursive. An indirect call may reach every function whose
/// address is taken, in code or in a variable's initial value.
std::map<int, std::set<int>> call_graph(module_text& m, int entry) {
  const auto defined = [&](std::string_view name) {
    const auto found = m.function_index.find(std::string(name));
    return found != m.function_index.end() && m.functions[static_cast<std::size_t>(found->second)]->defined ? found->second : -1;
  };
  std::set<int> taken;
  for (const variable& v : m.variables) for (const relocation& r : v.relocations) if (const int f = defined(r.name); f >= 0 && !m.globals.count(r.name)) taken.insert(f);
  for (const auto& f : m.functions)
    for (const raw_instruction& r : f->code)
      if (r.opcode.starts_with("mov")) for (const raw_operand& o : r.operands) if (o.what == raw_operand::kind::name) if (const int to = defined(o.name); to >= 0) taken.insert(to);
  std::map<int, std::set<int>> calls;
  std::vector<int> todo{entry};
  while (!todo.empty()) {
    const int f = todo.back();
    todo.pop_back();
    const auto [at, fresh] = calls.try_emplace(f);
    if (!fresh) continue;
    for (const raw_instruction& r : m.functions[static_cast<std::size_t>(f)]->code) {
      if (r.opcode != "call" && !r.opcode.starts_with("call.")) continue;
      const auto callee = std::find_if(r.operands.begin(), r.operands.end(), [](const raw_operand& o) { return o.what == raw_operand::kind::name; });
      if (callee == r.operands.end()) continue;
      if (m.function_index.count(std::string(callee->name))) { if (const int to = defined(callee->name); to >= 0) at->second.insert(to); }
      else at->second.insert(taken.begin(), taken.end());
    }
    todo.insert(todo.end(), at->second.begin(), at->second.end());
  }
  for (bool more = true; more;) {
    more = false;
    for (auto& [f, to] : calls) {
      std::set<int> all = to;
      for (const int g : to) all.insert(calls[g].begin(), calls[g].end());
      if (all.size() > to.size()) { to = std::move(all); more = true; }
    }
  }
  return calls;
}

}  // namespace

std::unique_ptr<program> decode(module_text& text, int function_index, int sm) {
  auto made = std::make_unique<program>();
  program& p = *made;
  function_text& entry = *text.functions[static_cast<std::size_t>(function_index)];
  p.entry = entry.name;
  p.text = &text;
  p.required_threads = entry.required_threads;
  p.maximum_threads = entry.maximum_threads;
  p.required_cluster = entry.required_cluster;
  decoder d{text, p, sm};
  d.reaches = call_graph(text, function_index);
  std::set<int> functions;
  for (const auto& [f, to] : d.reaches) functions.insert(f);

  // Shared, local and parameter memory of everything the entry can reach.
  std::uint64_t shared_at = shared_start, dynamic_align = 16;
  std::uint32_t local_at = 0;
  for (std::size_t v = 0; v < text.variables.size(); ++v) {
    variable& x = text.variables[v];
    if (x.owner >= 0 && !functions.count(x.owner)) continue;
    if (x.where == space::shared) {
      if (x.external && x.open_size) { dynamic_align = std::max<std::uint64_t>(dynamic_align, x.align); continue; }
      shared_at = aligned(shared_at, x.align);
      x.address = shared_at;
      shared_at += x.bytes;
    } else if (x.where == space::local || (x.where == space::param && !(x.owner == function_index && std::find(entry.parameters.begin(), entry.parameters.end(), static_cast<int>(v)) != entry.parameters.end()))) {
      if (x.where == space::local && d.recursive(x.owner)) continue;  // below
      local_at = aligned(local_at, std::max<std::size_t>(x.align, 1));
      d.local_place[static_cast<int>(v)] = local_at;
      local_at += static_cast<std::uint32_t>(x.bytes);
    }
  }
  // Local variables of recursive functions: room for many activations, one frame after the other.
  constexpr std::uint32_t recursion_bytes = 16384;
  for (const int fi : functions) {
    if (!d.recursive(fi)) continue;
    std::uint32_t frame = 0;
    const std::uint32_t begin = aligned(local_at, 256);
    for (std::size_t v = 0; v < text.variables.size(); ++v) {
      const variable& x = text.variables[v];
      if (x.owner != fi || x.where != space::local) continue;
      frame = aligned(frame, std::max<std::size_t>(x.align, 1));
      d.local_place[static_cast<int>(v)] = begin + frame;
      frame += static_cast<std::uint32_t>(x.bytes);
    }
    if (!frame) continue;
    frame = aligned(frame, 256);
    d.stacks[fi] = {begin, frame};
    local_at = begin + std::max(recursion_bytes / frame, 4U) * frame;
  }
  p.static_shared_bytes = static_cast<std::uint32_t>(shared_at - shared_start);
  p.dynamic_shared_start = aligned(shared_at, dynamic_align);
  p.local_bytes = aligned(local_at, 16);
  std::uint32_t param_at = 0;
  for (const int v : entry.parameters) {
    const variable& x = text.variables[static_cast<std::size_t>(v)];
    param_at = aligned(param_at, x.align);
    d.param_place[v] = param_at;
    p.parameters.push_back({param_at, static_cast<std::uint32_t>(x.bytes), x.name});
    param_at += static_cast<std::uint32_t>(x.bytes);
  }
  p.param_bytes = param_at;

  std::map<int, std::uint32_t> entry_pc;
  std::map<int, std::vector<std::uint32_t>> places;
  std::vector<int> order{function_index};
  for (const int fi : functions) if (fi != function_index) order.push_back(fi);
  std::vector<std::pair<std::size_t, std::size_t>> extents;
  for (const int fi : order) {
    d.function = fi;
    d.f = text.functions[static_cast<std::size_t>(fi)].get();
    entry_pc[fi] = static_cast<std::uint32_t>(p.code.size());
    std::vector<std::uint32_t>& place = places[fi];
    const std::size_t begin = p.code.size();
    for (const raw_instruction& raw : d.f->code) {
      place.push_back(static_cast<std::uint32_t>(p.code.size()));
      d.raw = &raw;
      split(raw.opcode, d.words);
      d.used.assign(d.words.size(), false);
      d.out = instruction{};
      d.memory_order = 0;
      d.out.line = raw.line;
      d.out.from = raw.from;
      d.out.opcode = raw.opcode;
      if (!raw.guard.empty()) {
        std::uint32_t slot = 0;
        const register_class* c = d.class_of(raw.guard, slot);
        if (!c || !c->predicate) malformed(raw.line, cat("guard \"", std::string(raw.guard), "\" is no predicate"));
        d.out.guard = slot;
        d.out.guard_inverted = raw.guard_inverted;
      }
      if (!(decode_arithmetic(d) || decode_memory(d) || decode_control(d) || decode_synchronisation(d) || decode_async(d) || decode_matrix(d)))
        unsupported(raw.line, cat("instruction \"", std::string(raw.opcode), "\""));
      if (!d.out.alu && !d.out.run) d.bad("not decoded");
      d.finish();
      d.emit();
    }
    place.push_back(static_cast<std::uint32_t>(p.code.size()));
    // What stands after the last statement: leaving the kernel, or the function.
    static const raw_instruction end_of_function{};
    raw_instruction last = end_of_function;
    last.line = d.f->code.empty() ? d.f->line : d.f->code.back().line;
    last.opcode = fi == function_index ? "exit" : "fn_exit";
    d.raw = &last;
    split(last.opcode, d.words);
    d.used.assign(d.words.size(), false);
    d.out = instruction{};
    d.memory_order = 0;
    d.out.line = last.line;
    d.out.opcode = last.opcode;
    decode_control(d);
    d.emit();
    extents.emplace_back(begin, p.code.size());
  }
  for (const decoder::branch& b : d.branches) {
    const int raw_index = text.functions[static_cast<std::size_t>(b.function)]->find_label(b.label, b.scope);
    if (raw_index < 0 && !b.label.empty()) malformed(p.code[b.at].line, cat("unknown label \"", std::string(b.label), "\""));
    p.code[b.at].target = b.label.empty() ? places[b.function].back() : places[b.function][static_cast<std::size_t>(raw_index)];
  }
  for (const decoder::table_branch& t : d.tables) {
    function_text& f = *text.functions[static_cast<std::size_t>(t.function)];
    const auto found = f.branch_targets.find(t.label);
    if (found == f.branch_targets.end()) malformed(p.code[t.at].line, cat("unknown branch table \"", std::string(t.label), "\""));
    std::vector<std::uint32_t> targets;
    for (const std::string_view l : found->second) {
      const int raw_index = f.find_label(l, t.scope);
      if (raw_index < 0) malformed(p.code[t.at].line, cat("unknown label \"", std::string(l), "\""));
      targets.push_back(places[t.function][static_cast<std::size_t>(raw_index)]);
    }
    p.code[t.at].detail = static_cast<std::uint32_t>(p.branch_tables.size());
    p.branch_tables.push_back(std::move(targets));
  }
  for (const decoder::call_site& c : d.calls) p.code[c.at].target = entry_pc.at(c.callee);
  for (const int fi : functions) {
    if (fi == function_index) continue;
    const function_text& f = *text.functions[static_cast<std::size_t>(fi)];
    program::callable made_callable{entry_pc.at(fi), f.name, {}, {}};
    for (const int v : f.parameters) made_callable.parameters.push_back({d.local_place.at(v), static_cast<std::uint32_t>(text.variables[static_cast<std::size_t>(v)].bytes)});
    for (const int v : f.results) made_callable.results.push_back({d.local_place.at(v), static_cast<std::uint32_t>(text.variables[static_cast<std::size_t>(v)].bytes)});
    p.callables.emplace(function_address(fi), std::move(made_callable));
  }
  for (const decoder::recursive_call& r : d.recursive_calls) {
    const function_text& f = *text.functions[static_cast<std::size_t>(r.caller)];
    for (const auto& [key, slot] : d.slots) {
      if (key.first != r.caller) continue;
      const register_class& c = f.register_classes[static_cast<std::size_t>(f.registers[static_cast<std::size_t>(key.second)])];
      if (c.predicate) r.detail->registers.push_back({slot, 4, 4, true});
      else r.detail->registers.push_back({slot, c.bits <= 32 ? 128U : c.bits == 64 ? 256U : 512U, c.bits <= 32 ? 4U : 8U, false});
    }
    for (const auto& [key, a] : d.local_addresses) {
      if (a.function != r.caller) continue;
      const auto& [begin, frame] = d.stacks.at(r.caller);
      r.detail->registers.push_back({a.slot, 256, 8, false});
      r.detail->addresses.push_back({a.slot, frame, begin, begin + std::max(recursion_bytes / frame, 4U) * frame});
    }
    // Results are written by the callee and taken after the return; everything else that is a .param belongs to the caller.
    for (const auto& [v, at] : d.local_place) {
      const variable& x = text.variables[static_cast<std::size_t>(v)];
      if (x.owner == r.caller && x.where == space::param && std::find(f.results.begin(), f.results.end(), v) == f.results.end()) r.detail->parameters.push_back({at, static_cast<std::uint32_t>(x.bytes)});
    }
  }
  for (const auto& [begin, end] : extents) find_joins(p, begin, end);

  mark_wgmma_registers(p);
  for (const instruction& i : p.code) {
    const bool outside = i.where == space::global || i.where == space::generic;
    if ((i.run == op_atomic && outside) || ((i.run == op_load || i.run == op_store) && outside && (i.flags & 1U)) || i.run == op_time || i.run == op_print || i.run == op_launch_cancel) p.clusters_apart = false;
    if ((i.run == op_bulk_copy || i.run == op_tensor_copy) && p.detail<copy_detail>(i).reduce && p.detail<copy_detail>(i).to == space::global) p.clusters_apart = false;
  }

  const std::uint32_t threads = std::max({p.required_threads[0] * std::max(1U, p.required_threads[1]) * std::max(1U, p.required_threads[2]),
                                          p.maximum_threads[0] * std::max(1U, p.maximum_threads[1]) * std::max(1U, p.maximum_threads[2])});
  if (entry.maximum_registers) p.registers_per_thread = entry.maximum_registers;
  else if (entry.minimum_ctas && threads) p.registers_per_thread = std::min<std::uint32_t>(255, 65536 / (threads * entry.minimum_ctas)) / 8 * 8;
  return made;
}

}  // namespace tlx::sim
