#include <bit>
#include <cstring>

#include "sim/syntax.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {

const char* to_string(space s) {
  constexpr const char* names[] = {"generic", "global", "shared", "shared::cluster", "local", "param", "const"};
  return names[static_cast<int>(s)];
}

int type_bits(std::string_view t) {
  static const std::unordered_map<std::string_view, int> sizes{
      {"pred", 1},  {"b8", 8},     {"u8", 8},    {"s8", 8},    {"b16", 16},  {"u16", 16}, {"s16", 16},  {"f16", 16},  {"bf16", 16},  {"b32", 32},
      {"u32", 32},  {"s32", 32},   {"f32", 32},  {"f16x2", 32}, {"bf16x2", 32}, {"tf32", 32}, {"b64", 64}, {"u64", 64},  {"s64", 64},   {"f64", 64},
      {"b128", 128}, {"f32x2", 64}, {"e4m3", 8},  {"e5m2", 8}, {"b1024", 1024}};
  const auto found = sizes.find(t);
  return found == sizes.end() ? 0 : found->second;
}

int function_text::find_register(std::string_view wanted, int scope) {
  for (int s = scope; s >= 0; s = scopes[static_cast<std::size_t>(s)].parent) {
    scope_info& in = scopes[static_cast<std::size_t>(s)];
    if (const auto found = in.registers.find(wanted); found != in.registers.end()) return found->second;
    std::size_t digits = wanted.size();
    while (digits > 0 && wanted[digits - 1] >= '0' && wanted[digits - 1] <= '9') --digits;
    if (digits == wanted.size() || digits == 0 || wanted.size() - digits > 9) continue;
    // A range "%r1<4>" makes %r10 .. %r13: try every split of the trailing digits.
    for (std::size_t cut = digits; cut < wanted.size(); ++cut) {
      const auto range = in.ranges.find(wanted.substr(0, cut));
      if (range == in.ranges.end()) continue;
      const std::string_view number = wanted.substr(cut);
      if (number.size() > 1 && number[0] == '0') continue;
      const std::uint32_t index = static_cast<std::uint32_t>(std::stoul(std::string(number)));
      if (index >= range->second.first) continue;
      const int id = static_cast<int>(registers.size());
      registers.push_back(range->second.second);
      in.registers.emplace(wanted, id);
      return id;
    }
  }
  return -1;
}

int function_text::find_variable(std::string_view wanted, int scope) const {
  for (int s = scope; s >= 0; s = scopes[static_cast<std::size_t>(s)].parent)
    if (const auto found = scopes[static_cast<std::size_t>(s)].variables.find(wanted); found != scopes[static_cast<std::size_t>(s)].variables.end()) return found->second;
  return -1;
}

int function_text::find_label(std::string_view wanted, int scope) const {
  for (int s = scope; s >= 0; s = scopes[static_cast<std::size_t>(s)].parent)
    if (const auto found = scopes[static_cast<std::size_t>(s)].labels.find(wanted); found != scopes[static_cast<std::size_t>(s)].labels.end()) return found->second;
  return -1;
}

namespace {

struct parser {
  module_text& m;
  std::vector<token> tokens;
  std::size_t at = 0;
  source_place loc;

  const token& now() const { return tokens[at]; }
  const token& next() {
    if (now().kind == token_kind::end) malformed(now().line, "the text ends in the middle of a statement");
    return tokens[at++];
  }
  bool is(char c) const { return now().kind == token_kind::punctuation && now().mark == c; }
  bool is(std::string_view w) const { return now().kind == token_kind::word && now().text == w; }
  bool take(char c) { if (!is(c)) return false; ++at; return true; }
  bool take(std::string_view w) { if (!is(w)) return false; ++at; return true; }
  void expect(char c) { if (!take(c)) malformed(now().line, cat("expected '", c, "' but found '", std::string(now().text), "'")); }
  std::string_view name() {
    if (now().kind != token_kind::word) malformed(now().line, cat("expected a name but found '", std::string(now().text), "'"));
    return next().text;
  }
  std::uint64_t integer() {
    const bool minus = take('-');
    if (now().kind != token_kind::integer) malformed(now().line, cat("expected an integer but found '", std::string(now().text), "'"));
    const std::uint64_t v = next().integer;
    return minus ? ~v + 1 : v;
  }
  std::uint32_t small() { return static_cast<std::uint32_t>(integer()); }

  // ---- module level
  void module() {
    while (now().kind != token_kind::end) {
      const token t = now();
      if (t.kind != token_kind::word) malformed(t.line, cat("expected a directive but found '", std::string(t.text), "'"));
      if (take(".version")) m.version = std::string(next().text);
      else if (take(".target")) { m.target = std::string(name()); while (take(',')) name(); }
      else if (take(".address_size")) { if (integer() != 64) unsupported(t.line, ".address_size other than 64"); }
      else if (is(".file")) file_directive();
      else if (is(".loc")) loc_directive();
      else if (is(".section")) section();
      else if (take(".pragma")) { while (!take(';')) (void)next(); }
      else if (is(".alias")) unsupported(t.line, ".alias");
      else linked_item();
    }
  }

  void file_directive() {
    ++at;
    const std::uint32_t index = small();
    if (now().kind != token_kind::text) malformed(now().line, ".file needs a name");
    m.files[index] = std::string(next().text);
    while (take(',')) integer();
  }

  void loc_directive() {
    ++at;
    const std::uint32_t file = small(), line = small();
    integer();
    loc = {file, line};
    while (take(',')) {
      const std::string_view what = name();
      if (what == "function_name") { name(); if (take('+')) integer(); }
      else if (what == "inlined_at") { integer(); integer(); integer(); }
      else malformed(now().line, cat("unknown attribute '", std::string(what), "' of .loc"));
    }
  }

  void section() {
    const int line = now().line;
    ++at;
    name();
    expect('{');
    for (int depth = 1; depth > 0; ++at) {
      if (now().kind == token_kind::end) malformed(line, ".section without an end");
      if (is('{')) ++depth;
      if (is('}')) --depth;
    }
  }

  void linked_item() {
    bool external = false;
    for (;;) {
      if (take(".visible") || take(".weak") || take(".common")) continue;
      if (take(".extern")) { external = true; continue; }
      break;
    }
    if (take(".entry")) function(true, external);
    else if (take(".func")) function(false, external);
    else if (is(".global") || is(".const") || is(".shared")) {
      variables(external, nullptr, -1, 0);
    } else unsupported(now().line, cat("directive '", std::string(now().text), "'"));
  }

  static bool space_of(std::string_view w, space& out) {
    if (w == ".global") out = space::global;
    else if (w == ".shared" || w == ".shared::cta") out = space::shared;
    else if (w == ".local") out = space::local;
    else if (w == ".param") out = space::param;
    else if (w == ".const") out = space::constant;
    else return false;
    return true;
  }

  /// ".shared .align 8 .b64 a, b[4] = {..};" at any level; the trailing ';' is taken.
  void variables(bool external, function_text* f, int owner, int scope) {
    space where{};
    space_of(next().text, where);
    for (;;) {
      const int index = one_variable(where, external, owner);
      declare(index, f, scope);
      if (take(',')) { variable again = m.variables[static_cast<std::size_t>(index)]; again_like = again; continue_same_type = true; continue; }
      break;
    }
    continue_same_type = false;
    expect(';');
  }

  variable again_like;
  bool continue_same_type = false;
  std::size_t element_bytes = 0;
  bool element_real = false, element_single = false;

  void declare(int index, function_text* f, int scope) {
    const std::string& stable = *m_names.emplace_back(std::make_unique<std::string>(m.variables[static_cast<std::size_t>(index)].name));
    if (f) {
      if (!f->scopes[static_cast<std::size_t>(scope)].variables.emplace(stable, index).second) malformed(now().line, cat("'", stable, "' is declared twice"));
    } else {
      const auto [where, fresh] = m.globals.emplace(stable, index);
      if (!fresh) where->second = index;  // a definition after an .extern declaration
    }
  }
  std::vector<std::unique_ptr<std::string>>& m_names;

  int one_variable(space where, bool external, int owner) {
    variable v;
    v.where = where;
    v.external = external;
    v.owner = owner;
    if (continue_same_type) {
      v.align = again_like.align;
    } else {
      std::size_t align = 0, lanes = 1;
      bool pointer = false;
      element_bytes = 0;
      while (now().kind == token_kind::word && now().text[0] == '.') {
        const token t = next();
        const std::string_view w = t.text.substr(1);
        if (w == "align") {
          const auto bytes = static_cast<std::size_t>(integer());
          if (!pointer) align = bytes;  // after .ptr it is the alignment of what the parameter points to
        }
        else if (w == "v2" || w == "v4" || w == "v8") lanes = static_cast<std::size_t>(w[1] - '0');
        else if (w == "ptr") pointer = true;
        else if (w == "global" || w == "shared" || w == "local" || w == "const") { }  // .ptr .SPACE
        else if (w == "attribute") { expect('('); while (!take(')')) (void)next(); }
        else if (type_bits(w) > 1) {
          element_bytes = static_cast<std::size_t>(type_bits(w)) / 8;
          element_real = w[0] == 'f';
          element_single = w == "f32";
        }
        else unsupported(t.line, cat("variable attribute or type '", std::string(t.text), "'"));
      }
      if (element_bytes == 0) malformed(now().line, "variable without a type");
      element_bytes *= lanes;
      v.align = align ? align : element_bytes;
    }
    v.name = std::string(name());
    std::size_t count = 1;
    bool array = false;
    if (now().kind == token_kind::punctuation && is('<')) unsupported(now().line, "parameterised variable names");
    while (take('[')) {
      array = true;
      if (take(']')) { v.open_size = true; continue; }
      count *= static_cast<std::size_t>(integer());
      expect(']');
    }
    v.bytes = v.open_size && !external ? 0 : count * element_bytes;
    if (v.open_size) v.bytes = 0;
    (void)array;
    if (take('=')) initialiser(v);
    m.variables.push_back(std::move(v));
    return static_cast<int>(m.variables.size()) - 1;
  }

  void initialiser(variable& v) {
    const int line = now().line;
    std::vector<std::byte> bytes;
    values(v, bytes);
    if (v.open_size) { v.bytes = bytes.size(); v.open_size = false; }
    if (bytes.size() > v.bytes) malformed(line, cat("more initial values than '", v.name, "' has room for"));
    bytes.resize(v.bytes);
    v.initial = std::move(bytes);
  }

  void values(variable& v, std::vector<std::byte>& bytes) {
    if (take('{')) {
      if (take('}')) return;
      do values(v, bytes); while (take(','));
      expect('}');
      return;
    }
    std::uint64_t bits = 0;
    if (now().kind == token_kind::word) {
      relocation r;
      r.at = bytes.size();
      r.bytes = static_cast<int>(element_bytes);
      std::string_view n = name();
      if (n == "generic") { r.generic = true; expect('('); n = name(); if (take('+')) r.addend = static_cast<std::int64_t>(integer()); expect(')'); }
      r.name = std::string(n);
      if (take('+')) r.addend += static_cast<std::int64_t>(integer());
      else if (take('-')) r.addend -= static_cast<std::int64_t>(integer());
      v.relocations.push_back(r);
    } else {
      const bool minus = take('-');
      const token t = next();
      if (t.kind == token_kind::integer) {
        bits = minus ? ~t.integer + 1 : t.integer;
        if (element_real) bits = element_single ? std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int64_t>(bits))) : std::bit_cast<std::uint64_t>(static_cast<double>(static_cast<std::int64_t>(bits)));
      } else if (t.kind == token_kind::real) {
        bits = t.integer;
        if (!t.is_f32 && element_single) bits = std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(bits)));
        if (minus) bits ^= std::uint64_t{1} << (element_bytes * 8 - 1);
      } else malformed(t.line, "expected an initial value");
    }
    for (std::size_t i = 0; i < element_bytes; ++i) bytes.push_back(static_cast<std::byte>(i < 8 ? bits >> (8 * i) : 0));
  }

  // ---- functions
  void parameter_list(function_text& f, std::vector<int>& out, int owner) {
    expect('(');
    if (take(')')) return;
    do {
      if (is(".reg")) unsupported(now().line, "function parameters in registers");
      space where{};
      const token t = next();
      if (!space_of(t.text, where) || where != space::param) malformed(t.line, "expected .param");
      const int index = one_variable(space::param, false, owner);
      declare(index, &f, 0);
      out.push_back(index);
    } while (take(','));
    expect(')');
  }

  void triple(std::array<std::uint32_t, 3>& out) {
    out = {1, 1, 1};
    std::size_t i = 0;
    do { if (i == 3) malformed(now().line, "more than three extents"); out[i++] = small(); } while (take(','));
  }

  void function(bool entry, bool external) {
    auto made = std::make_unique<function_text>();
    function_text& f = *made;
    f.entry = entry;
    f.line = now().line;
    f.scopes.emplace_back();
    const int owner = static_cast<int>(m.functions.size());
    if (is('(')) parameter_list(f, f.results, owner);
    f.name = std::string(name());
    if (is('(')) parameter_list(f, f.parameters, owner);
    for (;;) {
      const int line = now().line;
      if (take(".reqntid")) triple(f.required_threads);
      else if (take(".maxntid")) triple(f.maximum_threads);
      else if (take(".minnctapersm")) f.minimum_ctas = small();
      else if (take(".maxnctapersm")) small();
      else if (take(".maxnreg")) f.maximum_registers = small();
      else if (take(".reqnctapercluster")) triple(f.required_cluster);
      else if (take(".maxclusterrank")) small();
      else if (take(".explicitcluster") || take(".noreturn") || take(".blocksareclusters")) { }
      else if (take(".pragma")) { while (!take(';')) (void)next(); }
      else if (is(".attribute") || is(".abi_preserve")) unsupported(line, std::string(now().text));
      else break;
    }
    if (take(';')) {
      if (!m.function_index.count(f.name)) { m.function_index.emplace(f.name, owner); m.functions.push_back(std::move(made)); }
      return;
    }
    (void)external;
    f.defined = true;
    expect('{');
    m.functions.push_back(std::move(made));
    m.function_index[f.name] = owner;
    loc = {};
    body(f, 0, owner);
  }

  void body(function_text& f, int scope, int owner) {
    for (;;) {
      const token t = now();
      if (t.kind == token_kind::end) malformed(t.line, cat("function \"", f.name, "\" has no end"));
      if (take('}')) return;
      if (take('{')) {
        scope_info inner;
        inner.parent = scope;
        f.scopes.push_back(std::move(inner));
        body(f, static_cast<int>(f.scopes.size()) - 1, owner);
        continue;
      }
      if (take(';')) continue;
      if (is('@')) { instruction(f, scope); continue; }
      if (t.kind != token_kind::word) malformed(t.line, cat("expected a statement but found '", std::string(t.text), "'"));
      if (tokens[at + 1].kind == token_kind::punctuation && tokens[at + 1].mark == ':') { label(f, scope); continue; }
      if (t.text[0] != '.') { instruction(f, scope); continue; }
      space where{};
      if (is(".reg")) register_directive(f, scope);
      else if (space_of(t.text, where)) variables(false, &f, owner, scope);
      else if (is(".loc")) loc_directive();
      else if (is(".file")) file_directive();
      else if (is(".section")) section();
      else if (take(".pragma")) { while (!take(';')) (void)next(); }
      else if (is(".branchtargets")) malformed(t.line, ".branchtargets without a label");
      else unsupported(t.line, cat("directive '", std::string(t.text), "'"));
    }
  }

  void label(function_text& f, int scope) {
    const token t = next();
    ++at;  // ':'
    if (take(".branchtargets")) {
      std::vector<std::string_view>& list = f.branch_targets[t.text];
      do list.push_back(name()); while (take(','));
      expect(';');
      return;
    }
    // What an indirect call may reach: every function whose address is taken is looked at.
    if (is(".callprototype") || is(".calltargets")) { while (!take(';')) if (next().kind == token_kind::end) malformed(t.line, "a prototype has no end"); return; }
    if (!f.scopes[static_cast<std::size_t>(scope)].labels.emplace(t.text, static_cast<int>(f.code.size())).second) malformed(t.line, cat("label '", std::string(t.text), "' is defined twice"));
  }

  void register_directive(function_text& f, int scope) {
    ++at;
    int lanes = 1;
    if (is(".v2") || is(".v4")) unsupported(now().line, "vector registers");
    (void)lanes;
    const token type = next();
    if (type.kind != token_kind::word || type_bits(type.text.substr(1)) == 0) malformed(type.line, "register without a type");
    const std::string t(type.text.substr(1));
    f.register_classes.push_back({t, type_bits(t), t == "pred"});
    const int klass = static_cast<int>(f.register_classes.size()) - 1;
    scope_info& s = f.scopes[static_cast<std::size_t>(scope)];
    do {
      const std::string_view n = name();
      if (take('<')) {
        const std::uint32_t count = small();
        expect('>');
        s.ranges[n] = {count, klass};
      } else {
        const int id = static_cast<int>(f.registers.size());
        f.registers.push_back(klass);
        if (!s.registers.emplace(n, id).second) malformed(type.line, cat("register '", std::string(n), "' is declared twice"));
      }
    } while (take(','));
    expect(';');
  }

  void instruction(function_text& f, int scope) {
    raw_instruction i;
    i.line = now().line;
    i.scope = scope;
    i.from = loc;
    if (take('@')) {
      i.guard_inverted = take('!');
      i.guard = name();
    }
    i.line = now().line;
    i.opcode = name();
    if (!is(';')) {
      do i.operands.push_back(operand()); while (take(','));
    }
    expect(';');
    f.code.push_back(std::move(i));
  }

  std::int64_t offsets() {
    std::int64_t total = 0;
    for (;;) {
      if (take('+')) total += static_cast<std::int64_t>(integer());
      else if (is('-')) total += static_cast<std::int64_t>(integer());
      else return total;
    }
  }

  raw_operand operand() {
    raw_operand o;
    const token t = now();
    if (take('[')) {
      o.what = raw_operand::kind::memory;
      if (now().kind == token_kind::word) o.name = name();
      else o.offset = static_cast<std::int64_t>(integer());
      o.offset += offsets();
      while (take(',')) o.items.push_back(operand());
      expect(']');
    } else if (take('{')) {
      o.what = raw_operand::kind::vector;
      if (!take('}')) {
        do o.items.push_back(operand()); while (take(','));
        expect('}');
      }
    } else if (take('(')) {
      o.what = raw_operand::kind::group;
      if (!take(')')) {
        do o.items.push_back(operand()); while (take(','));
        expect(')');
      }
    } else if (take('!')) {
      o.what = raw_operand::kind::name;
      o.inverted = true;
      o.name = name();
    } else if (take('-')) {
      const token v = next();
      if (v.kind == token_kind::integer) { o.what = raw_operand::kind::integer; o.bits = ~v.integer + 1; }
      else if (v.kind == token_kind::real) { o.what = raw_operand::kind::real; o.is_f32 = v.is_f32; o.bits = v.integer ^ (v.is_f32 ? std::uint64_t{1} << 31 : std::uint64_t{1} << 63); }
      else malformed(v.line, "expected a number after '-'");
    } else if (t.kind == token_kind::integer) {
      ++at;
      o.what = raw_operand::kind::integer;
      o.bits = t.integer + static_cast<std::uint64_t>(offsets());
    } else if (t.kind == token_kind::real) {
      ++at;
      o.what = raw_operand::kind::real;
      o.is_f32 = t.is_f32;
      o.bits = t.integer;
    } else if (t.kind == token_kind::word) {
      ++at;
      o.what = t.text == "_" ? raw_operand::kind::sink : raw_operand::kind::name;
      o.name = t.text;
      o.offset = offsets();
      if (take('|')) o.second = name();
    } else malformed(t.line, cat("expected an operand but found '", std::string(t.text), "'"));
    return o;
  }
};

}  // namespace

std::unique_ptr<module_text> parse(std::string text) {
  auto m = std::make_unique<module_text>();
  m->text = std::move(text);
  auto* names = &m->owned_names;
  parser p{.m = *m, .tokens = lex(m->text), .at = 0, .loc = {}, .again_like = {}, .continue_same_type = false, .element_bytes = 0, .element_real = false, .element_single = false, .m_names = *names};
  p.module();
  if (m->target.empty()) malformed(1, "no .target directive");
  read_notes(*m);
  return m;
}

}  // namespace tlx::sim
