// Tiles and scalars in global memory: one predicated access per run of neighbouring columns.
// {vector}: so many neighbouring elements are promised to be aligned and wholly inside or outside. Without it both ways are there: vectors
// for a tile that lies inside and is aligned, single masked elements otherwise.
//
// Inline PTX, because a masked access as LLVM control flow is a branch each; as a predicate it is none. The mask of an access compares the
// coordinate, as unsigned, with the extent, so that negative coordinates are outside too.
#include "codegen/emitter.hpp"
#include "codegen/operands.hpp"

namespace tlx::codegen {

using namespace llvm;
using ir::opcode;

const emitter::view_value& emitter::view_of(ir::value v) {
  auto it = views_.find(v);
  if (it == views_.end()) fail("codegen-invalid", "a view that is no kernel parameter");
  return it->second;
}

void emitter::emit_view_query(const ir::op& o) {
  const view_value& view = view_of(o.operands[0]);
  const auto axis = static_cast<size_t>(o.integer("axis"));
  const registers& from = o.is(opcode::extent) ? view.extents : view.strides;
  if (axis >= from.size()) fail("codegen-invalid", cat("axis ", axis, " of ", from.size()));
  define(o, {from[axis]});
}

void emitter::emit_global(const ir::op& o) {
  const bool store = o.is(opcode::global_store);
  const size_t first = store ? 1 : 0;
  const view_value& view = view_of(o.operands[first]);
  const int rank = static_cast<int>(view.extents.size());
  const ir::type& t = store ? o.operands[0]->type : o.result()->type;
  const bool is_tile = t.is_tile(), adds = store && o.integer("adds") != 0;
  const int size = stored_bits(view.element) / 8;
  Type* i64 = b.getInt64Ty();

  std::vector<std::int64_t> axes = o.integers("tile_axes");
  if (axes.size() != 2) axes = {-1, -1};
  Value* valid = o.integer("jagged") != 0 ? scalar(o.operands[first + 1 + static_cast<size_t>(rank)]) : nullptr;
  const auto coordinate = [&](int axis) { return scalar(o.operands[first + 1 + static_cast<size_t>(axis)]); };
  const auto stride = [&](int axis) { return axis + 1 == rank ? nullptr : view.strides[static_cast<size_t>(axis)]; };  // null: 1

  // Address and mask of the tile's corner, from the axes that the tile does not span.
  Value* corner = view.base;
  Value* inside = nullptr;
  const auto require = [&](Value*& mask, Value* c) { mask = mask ? b.CreateAnd(mask, c) : c; };
  const auto scaled = [&](Value* index, int axis) {
    Value* wide = b.CreateSExt(index, i64);
    if (Value* s = stride(axis)) wide = b.CreateMul(wide, s);
    return b.CreateMul(wide, b.getInt64(static_cast<std::uint64_t>(size)));
  };
  for (int axis = 0; axis < rank; ++axis) {
    if (is_tile && (axes[0] == axis || axes[1] == axis)) continue;
    corner = b.CreateAdd(corner, scaled(coordinate(axis), axis));
    require(inside, b.CreateICmpULT(coordinate(axis), view.extents[static_cast<size_t>(axis)]));
  }

  // Rows and columns: the run-time base once, a constant per register. Masks and addresses are shared by registers of one row or column.
  std::map<std::tuple<Value*, int, int>, std::pair<Value*, Value*>> known;  // base, offset, tile axis -> byte offset of the base, mask
  std::map<std::tuple<Value*, Value*, int>, Value*> addresses;
  struct where {
    Value* address;
    std::int64_t offset;
    Value* mask;
  };
  std::unique_ptr<placement> place = is_tile ? std::make_unique<placement>(*this, layout_of(t)) : nullptr;
  const auto locate_element = [&](int reg) -> where {
    where w{corner, 0, inside};
    if (!is_tile) return w;
    for (int a = 0; a < 2; ++a) {
      const int axis = static_cast<int>(axes[static_cast<size_t>(a)]);
      if (axis < 0) continue;
      const spot s = a == 0 ? place->row(reg) : place->col(reg);
      auto& entry = known[{s.base, s.offset, a}];
      if (!entry.second) {
        Value* local = plus(s.base, s.offset);
        Value* index = b.CreateAdd(coordinate(axis), local);
        entry.second = b.CreateICmpULT(index, view.extents[static_cast<size_t>(axis)]);
        if (a == 0 && valid) entry.second = b.CreateAnd(entry.second, b.CreateICmpSLT(local, valid));
      }
      // The innermost axis has stride 1: its constant part goes into the instruction.
      const bool unit = stride(axis) == nullptr;
      auto& base = known[{s.base, unit ? 0 : s.offset, 2 + a}];
      if (!base.first) {
        base.first = scaled(b.CreateAdd(coordinate(axis), unit ? s.base : plus(s.base, s.offset)), axis);
        base.second = base.first;
      }
      Value*& sum = addresses[{w.address, base.first, a}];
      if (!sum) sum = b.CreateAdd(w.address, base.first);
      w.address = sum;
      if (unit) w.offset += static_cast<std::int64_t>(s.offset) * size;
      require(w.mask, entry.second);
    }
    if (axes[0] < 0 && valid) require(w.mask, b.CreateICmpSGT(valid, const32(0)));
    return w;
  };

  const bool along_columns = is_tile && axes[1] == rank - 1;
  registers out(store ? 0 : static_cast<size_t>(register_count(t)));
  const ir::attribute* fill = nullptr;
  for (const auto& [key, a] : o.attributes)
    if (key == "fill") fill = &a;

  // What several threads hold, one of them stores.
  Value* const owner = store && is_tile ? owner_of(layout_of(t)) : nullptr;

  const auto move_all = [&](int length, bool masked) {
    // Two paths must not share values that are made inside one of them.
    known.clear();
    addresses.clear();
    for (const run& piece : is_tile ? find_runs(layout_of(t), length) : std::vector<run>{{{0}}}) {
      const where w = locate_element(piece.regs[0]);
      const access how = access_for(view.element, static_cast<int>(piece.regs.size()));
      const std::string letter = how.word_bits == 64 ? "l" : how.word_bits == 32 ? "r" : "h";
      const std::string at = offset_text(w.offset);
      Value* mask = masked && w.mask ? w.mask : nullptr;
      if (owner) mask = mask ? b.CreateAnd(mask, owner) : owner;
      const std::string guard = mask ? cat("@$", how.words + 1, " ") : std::string();
      std::vector<std::string> names;
      std::string constraints;
      if (store) {
        registers v;
        for (int r : piece.regs) v.push_back(regs(o.operands[0])[static_cast<size_t>(r)]);
        registers inputs = pack(v, view.element);
        for (int i = 0; i < how.words; ++i) {
          names.push_back(cat("$", i));
          constraints += letter + ",";
        }
        inputs.push_back(w.address);
        if (mask) inputs.push_back(mask);
        ptx0(cat(guard, adds ? cat("red.global.add.", tile::name(view.element)) : cat("st.global", how.type), " [$", how.words, at, "], ", vector_operand(names), ";"), constraints + (mask ? "l,b" : "l"), inputs, asm_effect | asm_memory);
        continue;
      }
      std::vector<Type*> types;
      for (int i = 0; i < how.words; ++i) {
        names.push_back(cat("$", i));
        constraints += cat("=", letter, ",");
        types.push_back(b.getIntNTy(static_cast<unsigned>(how.word_bits)));
      }
      registers inputs{w.address};
      constraints += "l";
      if (mask) {
        // The fill value goes in through the result's own register.
        inputs.push_back(mask);
        constraints += ",b";
        for (Value* v : pack(registers(piece.regs.size(), constant(view.element, fill)), view.element)) inputs.push_back(v);
        for (int i = 0; i < how.words; ++i) constraints += cat(",", i);
      }
      const registers words = ptx(cat(guard, "ld.global", how.type, " ", vector_operand(names), ", [$", how.words, at, "];"), constraints, inputs, types, asm_effect | asm_memory);
      const registers elements = unpack(words, view.element, static_cast<int>(piece.regs.size()));
      for (size_t i = 0; i < piece.regs.size(); ++i) out[static_cast<size_t>(piece.regs[i])] = elements[i];
    }
  };

  if (adds) return move_all(1, true);
  if (o.has("vector") || !along_columns) {
    int length = along_columns ? static_cast<int>(std::max<std::int64_t>(o.integer("vector", 1), 1)) : 1;
    while (length > 1 && (length * size > 16 || (length & (length - 1)) != 0)) --length;
    move_all(length, true);
    if (!store) define(o, std::move(out));
    return;
  }
  int length = 16 / size;
  while (length > 1 && find_runs(layout_of(t), length)[0].regs.size() == 1) length /= 2;
  if (length <= 1) {
    move_all(1, true);
    if (!store) define(o, std::move(out));
    return;
  }
  // Nobody promises alignment: look, once for the whole tile. Inside and aligned: vectors without masks; else element by element.
  Value* fast = inside ? inside : b.getTrue();
  const auto all_of = [&](Value* c) { fast = b.CreateAnd(fast, c); };
  Value* low_bits = b.CreateAdd(corner, scaled(coordinate(rank - 1), rank - 1));
  for (int a = 0; a < 2; ++a) {
    const int axis = static_cast<int>(axes[static_cast<size_t>(a)]);
    if (axis < 0) continue;
    Value* first_index = b.CreateSExt(coordinate(axis), i64);
    all_of(b.CreateICmpSGE(first_index, b.getInt64(0)));
    all_of(b.CreateICmpSLE(plus(first_index, a == 0 ? t.rows : t.cols), b.CreateSExt(view.extents[static_cast<size_t>(axis)], i64)));
    if (a == 0 && stride(axis)) {
      Value* bytes = b.CreateMul(stride(axis), b.getInt64(static_cast<std::uint64_t>(size)));
      low_bits = b.CreateOr(b.CreateAdd(low_bits, b.CreateMul(first_index, bytes)), bytes);
    }
  }
  if (valid) all_of(b.CreateICmpSGE(valid, const32(t.rows)));
  all_of(b.CreateICmpEQ(b.CreateAnd(low_bits, b.getInt64(static_cast<std::uint64_t>(length * size - 1))), b.getInt64(0)));

  BasicBlock* vectors = BasicBlock::Create(c_, "vectors", f_);
  BasicBlock* elements = BasicBlock::Create(c_, "elements", f_);
  BasicBlock* join = BasicBlock::Create(c_, "moved", f_);
  b.CreateCondBr(fast, vectors, elements);
  std::vector<PHINode*> merged;
  registers results[2];
  BasicBlock* ends[2] = {};
  for (int path = 0; path < 2; ++path) {
    b.SetInsertPoint(path == 0 ? vectors : elements);
    move_all(path == 0 ? length : 1, path == 1);
    results[path] = out;
    ends[path] = b.GetInsertBlock();
    b.CreateBr(join);
  }
  b.SetInsertPoint(join);
  if (store) return;
  for (size_t r = 0; r < out.size(); ++r) {
    PHINode* phi = b.CreatePHI(out[r]->getType(), 2);
    for (int path = 0; path < 2; ++path) phi->addIncoming(results[path][r], ends[path]);
    merged.push_back(phi);
  }
  define(o, registers(merged.begin(), merged.end()));
}

}  // namespace tlx::codegen
