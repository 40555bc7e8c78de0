// The decoder's shared tools: modifiers that must all be consumed, operands that become slots, and the list of what each family understands.
#pragma once
#include <map>
#include <optional>
#include <set>

#include "sim/alu.hpp"
#include "sim/program.hpp"
#include "sim/state.hpp"

namespace tlx::sim {

/// In instruction::flags of loads, stores and atomics. Scopes: 0 not said, 1 cta, 2 cluster, 3 gpu, 4 sys, in bits 4 and up.
enum order_flags : std::uint8_t { order_strong = 1, order_acquire = 2, order_release = 4, order_relaxed = 8 };

struct decoder {
  decoder(module_text& text, program& into, int target) : m(text), p(into), sm(target) {}
  module_text& m;
  program& p;
  int sm;
  function_text* f = nullptr;
  int function = 0;
  const raw_instruction* raw = nullptr;
  std::vector<std::string_view> words;  // the opcode split at dots, words[0] the name
  std::vector<bool> used;
  instruction out;
  std::vector<instruction> after;       // follow `out` (widening of destinations)

  struct branch { std::size_t at; std::string_view label; int scope; int function; };
  std::vector<branch> branches;
  struct table_branch { std::size_t at; std::string_view label; int function; int scope; };
  std::vector<table_branch> tables;
  struct call_site { std::size_t at; int callee; };
  std::vector<call_site> calls;
  struct recursive_call { int caller; std::shared_ptr<recursion_detail> detail; };
  std::vector<recursive_call> recursive_calls;                   // filled in when all registers are known
  std::map<int, std::set<int>> reaches;                          // function -> what it may call, directly or not
  bool recursive(int of) const { const auto found = reaches.find(of); return found != reaches.end() && found->second.count(of) != 0; }
  struct local_address { int function; std::uint32_t slot; std::uint64_t start; };
  std::map<std::pair<int, std::int64_t>, local_address> local_addresses;  // .local variables of recursive functions
  std::map<int, std::pair<std::uint32_t, std::uint32_t>> stacks;          // recursive function -> first byte and size of one frame of its .local variables

  std::map<std::pair<int, int>, std::uint32_t> slots;            // (function, register) -> slot
  std::map<std::pair<std::uint64_t, int>, std::uint32_t> constants;
  std::map<std::pair<int, std::uint64_t>, std::uint32_t> special_slots;
  std::uint32_t predicate_block = 0, predicate_used = 32;
  std::uint32_t carry_slot = no_slot;
  std::map<int, std::uint32_t> local_place;                      // variable -> offset in local memory
  std::map<int, std::uint32_t> param_place;                      // entry parameter -> offset

  // ---- modifiers
  bool take(std::string_view w);
  /// The first unused word that is one of the list, else -1.
  int take_one(std::initializer_list<std::string_view> list);
  scalar take_type();                       // the first unused word that is a type; none when there is none
  scalar need_type();
  rounding take_rounding(bool& any);        // .rn .rz .rm .rp .rna .rs
  void finish();                            // refuses unused words
  [[noreturn]] void refuse(const std::string& what) const;
  [[noreturn]] void bad(const std::string& what) const;
  void skip_cache_words();                  // .L1::..., .L2::..., .nc is not one of them
  bool skip_memory_order();                 // .weak .volatile .relaxed .acquire .release .acq_rel .sc and scopes; true when the access is strong
  std::uint8_t memory_order = 0;                   // what the words skipped so far said: order_flags

  // ---- operands
  std::size_t count() const { return raw->operands.size(); }
  const raw_operand& operand(std::size_t k) const { if (k >= raw->operands.size()) bad("too few operands"); return raw->operands[k]; }
  void operands(std::size_t least, std::size_t most) const { if (count() < least || count() > most) bad("wrong number of operands"); }
  const register_class* class_of(std::string_view name, std::uint32_t& slot);
  std::uint32_t source(const raw_operand& o, scalar t, bool any_width = false);
  std::uint32_t destination(const raw_operand& o, scalar t, bool any_width = false);  // no_slot for _
  std::uint32_t predicate_source(const raw_operand& o, bool& inverted);
  std::uint32_t predicate_destination(std::string_view name);
  std::uint32_t constant(std::uint64_t bits, int width);
  std::uint32_t special_slot_of(special s, bool wide, std::uint64_t offset = 0);
  std::uint32_t temporary(int width);
  std::optional<special> special_of(std::string_view name) const;
  bool is_register(const raw_operand& o) { std::uint32_t s; return o.what == raw_operand::kind::name && class_of(o.name, s) != nullptr; }
  std::int64_t immediate(const raw_operand& o) const;
  bool is_immediate(const raw_operand& o) const { return o.what == raw_operand::kind::integer; }

  struct address { std::uint32_t slot; bool wide; std::int64_t offset; space where; };
  /// A memory operand. `where` is what the opcode says; .param of a called function turns into local memory.
  address memory(const raw_operand& o, space where);
  space take_space(space otherwise);
  std::uint32_t add_list(const std::vector<std::uint32_t>& slots_of_elements);
  std::uint32_t variable_slot(int variable, std::int64_t offset, bool wide, space* where);

  template <class T> void detail(std::shared_ptr<T> d) { out.detail = static_cast<std::uint32_t>(p.details.size()); p.details.push_back(std::move(d)); }
  std::uint32_t new_slot(int width);
  void emit();
};

// Each answers whether the opcode was its own; the instruction is then in `out`.
bool decode_arithmetic(decoder& d);
bool decode_memory(decoder& d);
bool decode_control(decoder& d);
bool decode_synchronisation(decoder& d);
bool decode_async(decoder& d);
bool decode_matrix(decoder& d);

/// Fills program::wgmma_registers and instruction::touches_wgmma.
void mark_wgmma_registers(program& p);
/// Fills instruction::join of the divergent branches in code[begin, end).
void find_joins(program& p, std::size_t begin, std::size_t end);

}  // namespace tlx::sim
