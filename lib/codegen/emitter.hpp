// One kernel on its way to an LLVM module. The members are spread over the emit_*.cpp files, one subject each.
//
// A scalar is one llvm::Value. A tile is a vector of them, one per register of its layout. A cell is one alloca per register, so that SROA makes
// registers of it. A bool is i1, bf16 is bfloat, f16 is half, tf32 is float, the 8-bit floats are i8.
// Shared memory addresses are u32 values; what touches barriers, shared or tensor memory is inline PTX with a memory clobber, because LLVM's
// intrinsics for these are partly modelled wrongly (tcgen05.mma) and partly missing (wgmma).
#pragma once
#include <array>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "codegen/llvm.hpp"
#include "tlx/codegen/to_ptx.hpp"
#include "tlx/ir/kernel.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::codegen {

using registers = std::vector<llvm::Value*>;

/// A run-time value plus a constant; `possible` has every bit that the run-time part may have set (-1: unknown).
struct spot {
  llvm::Value* base = nullptr;
  int offset = 0;
  int possible = 0;
};

/// Where the registers of a layout lie for the running thread: see placement.cpp.
class emitter;
class placement {
 public:
  placement(emitter& e, const tile::layout& l, bool without_warp_rows = false);
  spot row(int reg) const { return at(reg, 0); }
  spot col(int reg) const { return at(reg, 1); }
  const tile::layout& of() const { return layout_; }

 private:
  spot at(int reg, int axis) const;
  emitter* e_;
  tile::layout layout_;
  struct axis {
    llvm::Value* bits = nullptr;  // XOR part of lane and warp
    llvm::Value* sum = nullptr;   // bits plus the repeats of lane and warp
    int possible = 0;             // bits that `bits` may have
    int possible_sum = 0;
    llvm::Value* added = nullptr;
    bool separable = true;        // the register's bits never meet those of lane and warp
  } axes_[2];
};

/// Registers that hold neighbouring columns of one row.
struct run {
  std::vector<int> regs;
};
/// Cuts the registers of a layout into runs of `length` columns that start at a multiple of `length` in every thread; runs of one where that
/// cannot be had.
std::vector<run> find_runs(const tile::layout& l, int length);

/// Inline PTX flags.
enum : unsigned { asm_pure = 0, asm_effect = 1, asm_memory = 2, asm_convergent = 4, asm_barrier = asm_effect | asm_memory | asm_convergent };

class emitter {
 public:
  emitter(const ir::kernel& k, const options& how, llvm::LLVMContext& context, llvm::Module& module);
  void emit();

  // --- shared by all subjects
  llvm::IRBuilder<> b;
  llvm::Value* lane() const { return lane_; }
  llvm::Value* layout_warp();  // index that layouts of the current role use
  llvm::Type* type_of(ir::element e);
  llvm::Value* const32(std::int64_t v) { return b.getInt32(static_cast<std::uint32_t>(v)); }
  llvm::Value* plus(llvm::Value* a, std::int64_t n);
  /// Inline PTX with several results as a struct; `results` may be empty.
  registers ptx(const std::string& text, const std::string& constraints, const registers& inputs, const std::vector<llvm::Type*>& results, unsigned flags);
  llvm::Value* ptx1(const std::string& text, const std::string& constraints, const registers& inputs, llvm::Type* result, unsigned flags) {
    return ptx(text, constraints, inputs, {result}, flags)[0];
  }
  void ptx0(const std::string& text, const std::string& constraints, const registers& inputs, unsigned flags) { ptx(text, constraints, inputs, {}, flags); }
  [[noreturn]] void fail(const char* id, const std::string& what, const std::string& because = {});

 private:
  friend class placement;
  // emit_module.cpp
  void make_function();
  void locate(const ir::op& o);
  void emit_region(const ir::region& r);
  void emit_op(const ir::op& o);
  /// Raises codegen-target where the kernel is for another family of chips.
  void only_on(const ir::op& o, const char* family, const char* what);
  const registers& regs(ir::value v);
  llvm::Value* scalar(ir::value v);
  const tile::layout& layout_of(const ir::type& t);
  int register_count(const ir::type& t) { return t.is_tile() ? layout_of(t).register_count() : 1; }
  void define(const ir::op& o, registers r, size_t result = 0);

  // emit_control.cpp
  void emit_for(const ir::op& o);
  void emit_if(const ir::op& o);
  void emit_while(const ir::op& o);
  void emit_var(const ir::op& o);
  /// Runs `body` where `condition` holds, and joins.
  void when(llvm::Value* condition, const std::function<void()>& body);
  /// for (i = first; i < last; i += step) body(i); never unrolled.
  void loop(llvm::Value* first, llvm::Value* last, llvm::Value* step, bool sign, bool unroll, const std::function<void(llvm::Value*)>& body);

  // emit_arithmetic.cpp, emit_cast.cpp
  void emit_constant(const ir::op& o);
  void emit_elementwise(const ir::op& o);
  llvm::Value* constant(ir::element e, const ir::attribute* value);
  llvm::Value* arithmetic(const ir::op& o, ir::element e, const registers& a);
  llvm::Value* approximate(const ir::op& o, const char* instruction, ir::element e, llvm::Value* a);
  llvm::Value* erf(llvm::Value* x);
  llvm::Value* compare(const std::string& is, ir::element e, llvm::Value* x, llvm::Value* y);
  void emit_cast(const ir::op& o);
  void emit_bitcast(const ir::op& o);
  llvm::Value* cast(llvm::Value* v, ir::element from, ir::element to, bool saturate);
  llvm::Value* to_f32(llvm::Value* v, ir::element from);

  // emit_tile.cpp
  void emit_iota(const ir::op& o);
  void emit_reduce(const ir::op& o);
  void emit_broadcast(const ir::op& o);
  void emit_slice(const ir::op& o);
  llvm::Value* combine(const std::string& op, ir::element e, llvm::Value* x, llvm::Value* y);
  llvm::Value* shuffle(const char* mode, llvm::Value* v, llvm::Value* operand);
  // emit_convert.cpp
  void emit_convert(const ir::op& o);

  // registers <-> 32-bit (64-bit) words as they lie in memory
  registers pack(const registers& v, ir::element e);
  registers unpack(const registers& words, ir::element e, int count);
  int elements_per_slot(const ir::type& cell);
  void set_cell(ir::value cell, const registers& v, bool now = false);
  static int stored_bits(ir::element e) { return tile::bits(e) < 8 ? 8 : tile::bits(e); }
  /// Whether this thread is the first of those that hold the same elements of the layout; null: nobody shares.
  llvm::Value* owner_of(const tile::layout& l);
  /// ld or st of `count` neighbouring elements as one instruction.
  struct access {
    std::string type;  // ".v4.b32"
    int words = 1;
    int word_bits = 32;
  };
  access access_for(ir::element e, int count);

  // emit_global.cpp
  struct view_value {
    llvm::Value* base = nullptr;
    registers extents, strides;  // stride of the innermost: none
    ir::element element = ir::element::f32;
  };
  const view_value& view_of(ir::value v);
  void emit_global(const ir::op& o);
  void emit_view_query(const ir::op& o);

  // emit_shared.cpp
  struct shared_place;
  void emit_shared_read(const ir::op& o);
  void emit_shared_write(const ir::op& o);
  void emit_shared_zero(const ir::op& o);
  void emit_shared_scalar(const ir::op& o);
  void move_matrices(ir::element e, const tile::layout& l, shared_place& where, registers& values, bool store, bool slab);
  void store_tile(const registers& values, ir::element e, const tile::layout& l, shared_place& where, bool slab);
  void store_own_tile(const registers& values, ir::element e, const tile::layout& l, shared_place& where, bool slab);
  llvm::Value* first_of_copies(const tile::layout& l);
  registers load_tile(ir::element e, const tile::layout& l, shared_place& where);
  void convert_through_shared(const ir::op& o, bool same_warp);

  // emit_barrier.cpp
  void emit_barrier(const ir::op& o);
  // emit_tma.cpp
  void emit_tma(const ir::op& o);
  // emit_wgmma.cpp
  void emit_wgmma(const ir::op& o);
  using op_iterator = std::vector<std::unique_ptr<ir::op>>::const_iterator;
  op_iterator emit_products(op_iterator at, op_iterator end);
  void check_product(const ir::op& o);
  registers register_operand(const ir::op& product);
  void emit_chain(const std::vector<const ir::op*>& products);
  void emit_wgmma_wait(const ir::op& o);
  // emit_tcgen05.cpp
  void emit_tcgen05(const ir::op& o);
  void emit_tmem_move(const ir::op& o);
  void emit_scaled(const ir::op& o);  // emit_scaled.cpp
  void emit_tmem_wait_load(const ir::op& o);
  /// `text` with every value tied through it: nothing that uses them can move above.
  registers tie(const std::string& text, const registers& values);
  // emit_debug.cpp
  void emit_print(const ir::op& o);
  void emit_inline_ptx(const ir::op& o);

  // emit_watch.cpp
  struct way_out {
    llvm::BasicBlock* to = nullptr;       // where threads that gave up go on
    llvm::BasicBlock* give_up = nullptr;  // makes the record; absent while nobody needs it
    std::array<llvm::PHINode*, 5> what{};  // site, place, value, why, lane that makes the record
  };
  void start_watch();
  void finish_watch();
  void emit_watched_wait(std::int64_t site, llvm::Value* address, llvm::Value* parity);
  void emit_timed_meet(const ir::op& o);
  void emit_require(const ir::op& o);
  void emit_watch(const ir::op& o);
  void emit_with_way_out(const ir::op& o);
  void leave_unless(llvm::Value* go_on, std::int64_t site, llvm::Value* place, llvm::Value* value, llvm::Value* why, llvm::Value* lane);
  llvm::Value* vote(const char* mode, llvm::Value* p);
  llvm::Value* now();
  llvm::Value* abort_flag();

  const ir::kernel& k_;
  const options& how_;
  llvm::LLVMContext& c_;
  llvm::Module& m_;
  llvm::Function* f_ = nullptr;
  llvm::GlobalVariable* shared_ = nullptr;
  llvm::Value *lane_ = nullptr, *warp_ = nullptr, *thread_ = nullptr;
  const ir::op* at_ = nullptr;
  std::map<const ir::value_def*, registers> values_;
  std::map<const ir::value_def*, view_value> views_;
  std::map<const ir::value_def*, std::vector<llvm::AllocaInst*>> cells_;
  std::vector<llvm::Value*> maps_;
  llvm::Instruction* allocas_end_ = nullptr;  // new cells go before this
  // a watched kernel
  std::uint64_t limit_ns_ = 0;  // 0: not watched
  bool uses_wgmma_ = false, uses_bulk_stores_ = false;
  llvm::Value *watch_state_ = nullptr, *watch_records_ = nullptr;  // addresses
  llvm::AllocaInst* gave_up_ = nullptr;
  std::vector<way_out> ways_out_;       // 0: to watch.exit
  std::vector<size_t> inside_;          // ways out of the branches around the op being emitted, innermost last
  std::map<std::int64_t, llvm::AllocaInst*> meet_parities_;
  // line information
  std::unique_ptr<llvm::DIBuilder> di_;
  llvm::DISubprogram* subprogram_ = nullptr;
  std::map<std::string, llvm::DIScope*> scopes_;
};

}  // namespace tlx::codegen
