// PTX text as a tree: variables, functions, raw instructions with unresolved operands. decode.hpp turns it into something that runs.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sim/lex.hpp"

namespace tlx::sim {

enum class space : std::uint8_t { generic, global, shared, shared_cluster, local, param, constant };
const char* to_string(space s);

struct raw_operand {
  enum class kind : std::uint8_t { name, integer, real, vector, memory, sink, group };
  kind what = kind::sink;
  bool inverted = false;          // !%p
  bool is_f32 = false;            // real: `bits` holds an f32
  std::string_view name;          // name; memory: the base (empty when it is a number)
  std::string_view second;        // a|b
  std::uint64_t bits = 0;         // integer (two's complement), or real
  std::int64_t offset = 0;        // name+offset, memory offset
  std::vector<raw_operand> items; // vector, group; memory: what stands after the base ({coordinates})
};

struct source_place { std::uint32_t file = 0, line = 0; };

struct raw_instruction {
  int line = 0;
  int scope = 0;
  source_place from;
  std::string_view guard;        // empty: always
  bool guard_inverted = false;
  std::string_view opcode;
  std::vector<raw_operand> operands;
};

struct relocation { std::size_t at = 0; int bytes = 8; std::string name; std::int64_t addend = 0; bool generic = false; };

struct variable {
  std::string name;
  space where = space::global;
  std::size_t align = 1, bytes = 0;
  bool external = false;           // .extern: dynamic shared memory when the size is open
  bool open_size = false;          // name[]
  std::vector<std::byte> initial;  // empty: zero
  std::vector<relocation> relocations;
  std::uint64_t address = 0;       // offset in its space, given by the layout
  int owner = -1;                  // function index for .param and .local, -1 module
};

struct register_class { std::string type; int bits = 32; bool predicate = false; };

struct scope_info {
  int parent = -1;
  std::unordered_map<std::string_view, int> registers;                                   // exact name -> register id
  std::unordered_map<std::string_view, std::pair<std::uint32_t, int>> ranges;            // "%r" -> (count, class index)
  std::unordered_map<std::string_view, int> variables;                                   // -> module_text::variables
  std::unordered_map<std::string_view, int> labels;                                      // -> instruction index
};

struct function_text {
  std::string name;
  bool entry = false, defined = false;
  int line = 0;
  std::vector<int> parameters, results;  // variables
  std::vector<raw_instruction> code;
  std::vector<scope_info> scopes;
  std::vector<register_class> register_classes;
  std::vector<int> registers;            // register id -> class index
  std::unordered_map<std::string_view, std::vector<std::string_view>> branch_targets;
  std::unordered_map<std::string_view, int> prototypes;
  std::array<std::uint32_t, 3> required_threads{}, maximum_threads{}, required_cluster{};
  std::uint32_t minimum_ctas = 0, maximum_registers = 0;

  /// Register id of `name` seen from `scope`, or -1.
  int find_register(std::string_view name, int scope);
  int find_variable(std::string_view name, int scope) const;
  int find_label(std::string_view name, int scope) const;
};

/// What tlx writes into its PTX for whoever explains a fault: comments `// tlx.ring ...` and `// tlx.role ...` (lib/codegen/annotate.cpp).
struct ring_note { std::string name, which; std::uint32_t offset = 0, bytes = 8, stages = 1; };  // from the start of dynamic shared memory; which: full, empty, ... are mbarriers, slots, columns
struct role_note { std::string name; std::uint32_t first = 0, last = 0; };            // warps of a CTA

struct module_text {
  std::string text;  // owns what the string_views point into
  std::vector<std::unique_ptr<std::string>> owned_names;
  std::string target, version;
  std::vector<variable> variables;
  std::unordered_map<std::string_view, int> globals;    // module-scope variables
  std::vector<std::unique_ptr<function_text>> functions;
  std::unordered_map<std::string, int> function_index;
  std::map<std::uint32_t, std::string> files;
  std::vector<ring_note> rings;
  std::vector<role_note> roles;
};

std::unique_ptr<module_text> parse(std::string text);
/// Reads the notes in the comments of `m.text`. What is no whole note is a comment like any other.
void read_notes(module_text& m);

/// Size in bits of a PTX type name without its dot; 0 when it is no type. pred counts 1.
int type_bits(std::string_view type);

}  // namespace tlx::sim
