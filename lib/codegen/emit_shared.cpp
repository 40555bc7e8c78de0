// Register tiles to and from swizzled tiles in shared memory; zeroing; single elements.
//
// Byte of element (r, c) of a tile: see tlx/tile/shared_tile.hpp. Split into a run-time part per thread and constants per register:
//   lane part   L = address + row*width + ((col & chunk) ^ flip(row)) + chunk index * chunk bytes      once per (row base, column base)
//   register    address = (L ^ K) + A          K: constant bits below the swizzle width, A: constant rows and chunks, an immediate
// which is right as long as the constants' bits never carry into those of the lane part; where they could, the constant joins the base.
#include "codegen/emitter.hpp"

#include <optional>

#include "codegen/operands.hpp"
#include "tlx/tile/swizzle.hpp"

namespace tlx::codegen {

using namespace llvm;
using ir::element;
using ir::opcode;

struct emitter::shared_place {
  emitter* e;
  Value* address;
  int swizzle, rows, cols, element_bytes;
  bool aligned;  // the address is a multiple of the swizzle's atom
  std::map<std::pair<Value*, Value*>, Value*> lanes = {};
  std::map<std::pair<Value*, int>, Value*> flipped = {};

  int width() const { return swizzle == 0 ? cols * element_bytes : swizzle; }
  int chunk_bytes() const { return width() * rows; }

  struct spot_in_shared {
    Value* address;
    int offset;
  };
  /// Any shape: the swizzle computed from the address itself.
  spot_in_shared general(spot row, spot col) {
    auto& ir = e->b;
    const int w = width();
    Value* c = ir.CreateMul(e->plus(col.base, col.offset), e->const32(element_bytes));
    Value* linear = ir.CreateAdd(address, ir.CreateMul(e->plus(row.base, row.offset), e->const32(w)));
    linear = ir.CreateAdd(linear, ir.CreateMul(ir.CreateUDiv(c, e->const32(w)), e->const32(chunk_bytes())));
    linear = ir.CreateAdd(linear, ir.CreateAnd(c, e->const32(w - 1)));
    return {ir.CreateXor(linear, ir.CreateAnd(ir.CreateLShr(linear, 3), e->const32(tile::swizzle_mask(swizzle)))), 0};
  }
  spot_in_shared at(spot row, spot col) {
    auto& ir = e->b;
    const unsigned mask = tile::swizzle_mask(swizzle);
    const int w = width();
    if (mask != 0 && chunk_bytes() % 1024 != 0 && cols * element_bytes > w) return general(row, col);
    const auto absorb = [&](spot& s) { s = {e->plus(s.base, s.offset), 0, -1}; };
    // Rows: the flip must be linear in the constant.
    const bool whole_atoms = mask == 0 || row.offset * w % (8 * 128) == 0;
    if (!whole_atoms && (!aligned || (row.possible & row.offset) != 0)) absorb(row);
    const int row_flip = whole_atoms ? 0 : static_cast<int>((static_cast<unsigned>(row.offset * w) >> 3) & mask);
    // Columns: within a chunk the constant must not carry.
    int col_bytes = col.offset * element_bytes;
    if (swizzle != 0 && col_bytes % w != 0 && (col.possible & col.offset) != 0) {
      absorb(col);
      col_bytes = 0;
    }
    Value*& lane = lanes[{row.base, col.base}];
    if (!lane) {
      Value* linear = ir.CreateAdd(address, ir.CreateMul(row.base, e->const32(w)));
      Value* c = ir.CreateMul(col.base, e->const32(element_bytes));
      if (swizzle == 0) {
        lane = ir.CreateAdd(linear, c);
      } else {
        Value* low = ir.CreateAnd(c, e->const32(w - 1));
        if (mask != 0) low = ir.CreateXor(low, ir.CreateAnd(ir.CreateLShr(linear, 3), e->const32(mask)));
        lane = ir.CreateAdd(linear, low);
        if ((col.possible * element_bytes & ~(w - 1)) != 0) lane = ir.CreateAdd(lane, ir.CreateMul(ir.CreateLShr(c, static_cast<unsigned>(__builtin_ctz(static_cast<unsigned>(w)))), e->const32(chunk_bytes())));
      }
    }
    if (swizzle == 0) return {lane, row.offset * w + col_bytes};
    const int low = col_bytes & (w - 1);
    // Bits that the flip can touch, in the lane part, are only changed by XOR; the rest of the constant is added.
    const int flip = mask == 0 ? 0 : (low & static_cast<int>(mask)) ^ row_flip;
    Value* v = lane;
    if (flip != 0) {
      Value*& cached = flipped[{lane, flip}];
      if (!cached) cached = ir.CreateXor(lane, e->const32(flip));
      v = cached;
    }
    return {v, row.offset * w + (low & ~static_cast<int>(mask)) + col_bytes / w * chunk_bytes()};
  }
};

namespace {
/// The map of a 16-bit fragment of mma: two columns per register pair, four lanes along columns, eight along rows.
bool is_matrix_fragment(const tile::layout& l) {
  using c = tile::coordinate;
  static constexpr c lanes[] = {{0, 2}, {0, 4}, {1, 0}, {2, 0}, {4, 0}};
  for (int i = 0; i < 5; ++i)
    if (!(l.at(0, 1 << i) == lanes[i])) return false;
  if (l.lane.bit_count != 5 || l.register_count() % 2 != 0) return false;
  const auto multiple_of_8 = [](const tile::axis_map& m, int from) {
    for (int i = from; i < m.bit_count; ++i)
      if (m.bit[static_cast<unsigned>(i)].row % 8 != 0 || m.bit[static_cast<unsigned>(i)].col % 8 != 0) return false;
    for (int i = 0; i < m.rep_count; ++i)
      if (m.rep[static_cast<unsigned>(i)].step.row % 8 != 0 || m.rep[static_cast<unsigned>(i)].step.col % 8 != 0) return false;
    return true;
  };
  const c reg = tile::detail::used_bits(l.reg), warp = tile::detail::used_bits(l.warp);
  return l.reg.bit_count >= 1 && l.reg.bit[0] == c{0, 1} && multiple_of_8(l.reg, 1) && multiple_of_8(l.warp, 0) && (reg.row & warp.row) == 0 && (reg.col & warp.col) == 0;
}
}  // namespace

/// stmatrix and ldmatrix: matrix m of an instruction is the 8 x 8 block of register pair m; lane 8m + i brings the address of its row i.
/// `values` are the elements: read when storing, filled when loading.
void emitter::move_matrices(element e, const tile::layout& l, shared_place& where, registers& values, bool store, bool slab) {
  const int pairs = l.register_count() / 2;
  struct known_lanes {
    tile::coordinate one, two;
    std::unique_ptr<placement> place;
  };
  std::vector<known_lanes> known;  // one per way in which the matrices of an instruction lie to each other
  const auto free_bit = [](tile::coordinate c, tile::coordinate used) {
    return tile::detail::may_be_bit(c.row, used.row) && tile::detail::may_be_bit(c.col, used.col);
  };
  for (int p = 0; p < pairs;) {
    const auto corner = [&](int i) { return l.at(2 * i, 0); };
    int count = 1;
    tile::coordinate one, two;
    const tile::coordinate rows{7, 0};
    if (p + 1 < pairs && free_bit(corner(p + 1) - corner(p), rows)) {
      count = 2;
      one = corner(p + 1) - corner(p);
    }
    if (count == 2 && p + 3 < pairs && corner(p + 3) - corner(p + 2) == one && free_bit(corner(p + 2) - corner(p), {rows.row | one.row, one.col})) {
      two = corner(p + 2) - corner(p);
      count = 4;
    }
    placement* place = nullptr;
    for (const known_lanes& k : known)
      if (k.one == one && k.two == two) place = k.place.get();
    if (!place) {
      // The lanes of this instruction: eight rows, then the matrices.
      tile::layout lanes = l;
      lanes.reg = {};
      lanes.lane = tile::axis_map().add_bit({1, 0}).add_bit({2, 0}).add_bit({4, 0}).add_bit(one).add_bit(two);
      known.push_back({one, two, std::make_unique<placement>(*this, lanes, slab)});
      place = known.back().place.get();
    }
    spot row = place->row(0), col = place->col(0);
    row.offset += corner(p).row;
    col.offset += corner(p).col;
    const auto at = where.at(row, col);
    std::vector<std::string> names;
    std::string constraints;
    if (store) {
      registers inputs;
      for (int i = 0; i < count; ++i) {
        names.push_back(cat("$", i + 1));
        constraints += ",r";
        inputs.push_back(pack({values[static_cast<size_t>(2 * (p + i))], values[static_cast<size_t>(2 * (p + i) + 1)]}, e)[0]);
      }
      inputs.insert(inputs.begin(), at.address);
      ptx0(cat("stmatrix.sync.aligned.m8n8.x", count, ".shared.b16 [$0", offset_text(at.offset), "], {", join(names, ", "), "};"), "r" + constraints, inputs, asm_barrier);
    } else {
      std::vector<Type*> types(static_cast<size_t>(count), b.getInt32Ty());
      for (int i = 0; i < count; ++i) {
        names.push_back(cat("$", i));
        constraints += "=r,";
      }
      const registers words = ptx(cat("ldmatrix.sync.aligned.m8n8.x", count, ".shared.b16 {", join(names, ", "), "}, [$", count, offset_text(at.offset), "];"), constraints + "r",
                                  {at.address}, types, asm_barrier);
      for (int i = 0; i < count; ++i) {
        const registers two_elements = unpack({words[static_cast<size_t>(i)]}, e, 2);
        values[static_cast<size_t>(2 * (p + i))] = two_elements[0];
        values[static_cast<size_t>(2 * (p + i) + 1)] = two_elements[1];
      }
    }
    p += count;
  }
}

namespace {
/// The longest run of 4, 8 or 16 bytes that the layout offers; 1 where none.
int best_run(const tile::layout& l, int element_bytes) {
  for (int bytes = 16; bytes > element_bytes; bytes /= 2)
    if (find_runs(l, bytes / element_bytes)[0].regs.size() > 1) return bytes / element_bytes;
  return 1;
}
}  // namespace

/// Whether this warp is the first of those that hold copies of the same elements; null where no two do.
Value* emitter::first_of_copies(const tile::layout& l) {
  Value* copy = nullptr;  // number of the copy: 0 in the first
  const auto add = [&](Value* digit) { copy = copy ? b.CreateOr(copy, digit) : digit; };
  for (int i = 0; i < l.warp.bit_count; ++i)
    if (l.warp.bit[static_cast<unsigned>(i)] == tile::coordinate{}) add(b.CreateAnd(layout_warp(), const32(1 << i)));
  int below = 1 << l.warp.bit_count;
  for (int i = 0; i < l.warp.rep_count; ++i) {
    const tile::repeat& r = l.warp.rep[static_cast<unsigned>(i)];
    if (r.step == tile::coordinate{}) add(b.CreateURem(b.CreateUDiv(layout_warp(), const32(below)), const32(r.count)));
    below *= r.count;
  }
  return copy ? b.CreateICmpEQ(copy, const32(0)) : nullptr;
}

void emitter::store_tile(const registers& values, element e, const tile::layout& l, shared_place& where, bool slab) {
  Value* first = slab ? nullptr : first_of_copies(l);
  if (first) when(first, [&] { store_own_tile(values, e, l, where, slab); });
  else store_own_tile(values, e, l, where, slab);
}

void emitter::store_own_tile(const registers& values, element e, const tile::layout& l, shared_place& where, bool slab) {
  if (where.element_bytes == 2 && is_matrix_fragment(l) && where.width() % 16 == 0) {
    registers copy = values;
    return move_matrices(e, l, where, copy, true, slab);
  }
  const placement place(*this, l, slab);
  for (const run& piece : find_runs(l, best_run(l, where.element_bytes))) {
    const auto at = where.at(place.row(piece.regs[0]), place.col(piece.regs[0]));
    const access how = access_for(e, static_cast<int>(piece.regs.size()));
    registers v;
    for (int r : piece.regs) v.push_back(values[static_cast<size_t>(r)]);
    registers inputs = pack(v, e);
    std::vector<std::string> names;
    std::string constraints = "r";
    for (int i = 0; i < how.words; ++i) {
      names.push_back(cat("$", i + 1));
      constraints += how.word_bits == 64 ? ",l" : how.word_bits == 32 ? ",r" : ",h";
    }
    inputs.insert(inputs.begin(), at.address);
    ptx0(cat("st.shared", how.type, " [$0", offset_text(at.offset), "], ", vector_operand(names), ";"), constraints, inputs, asm_effect | asm_memory);
  }
}

registers emitter::load_tile(element e, const tile::layout& l, shared_place& where) {
  registers out(static_cast<size_t>(l.register_count()));
  if (where.element_bytes == 2 && is_matrix_fragment(l) && where.width() % 16 == 0) {
    move_matrices(e, l, where, out, false, false);
    return out;
  }
  const placement place(*this, l);
  for (const run& piece : find_runs(l, best_run(l, where.element_bytes))) {
    const auto at = where.at(place.row(piece.regs[0]), place.col(piece.regs[0]));
    const access how = access_for(e, static_cast<int>(piece.regs.size()));
    std::vector<std::string> names;
    std::string constraints;
    std::vector<Type*> types;
    for (int i = 0; i < how.words; ++i) {
      names.push_back(cat("$", i));
      constraints += how.word_bits == 64 ? "=l," : how.word_bits == 32 ? "=r," : "=h,";
      types.push_back(b.getIntNTy(static_cast<unsigned>(how.word_bits)));
    }
    const registers words = ptx(cat("ld.shared", how.type, " ", vector_operand(names), ", [$", how.words, offset_text(at.offset), "];"), constraints + "r", {at.address}, types, asm_effect | asm_memory);
    const registers elements = unpack(words, e, static_cast<int>(piece.regs.size()));
    for (size_t i = 0; i < piece.regs.size(); ++i) out[static_cast<size_t>(piece.regs[i])] = elements[i];
  }
  return out;
}

namespace {
/// The first element that lies outside the slab of its warp: `rows` consecutive rows from that of the warp's first element.
std::optional<tile::owner> outside_of_slab(const tile::layout& l, int rows) {
  using tile::detail::used_bits;
  // Where the warps' bits are their own, every warp looks like the first.
  const bool alike = ((used_bits(l.reg).row | used_bits(l.lane).row) & used_bits(l.warp).row) == 0;
  for (int w = 0; w < (alike ? 1 : l.warp_count()); ++w)
    for (int r = 0; r < l.register_count(); ++r)
      for (int lane = 0; lane < tile::warp_lanes; ++lane)
        if (const int row = l.at(r, lane, w).row - l.at(0, 0, w).row; row < 0 || row >= rows) return tile::owner{r, lane, w};
  return {};
}
}  // namespace

void emitter::emit_shared_write(const ir::op& o) {
  const ir::type& t = o.operands[0]->type;
  const bool slab = o.integer("slab") != 0;
  const int rows = slab ? static_cast<int>(o.integer("slab_rows", t.rows)) : t.rows;
  if (const auto bad = slab ? outside_of_slab(layout_of(t), rows) : std::nullopt)
    fail("codegen-layout", cat("warp ", bad->warp, " owns row ", layout_of(t).at(*bad).row, ", which is not among the ", rows, " rows of its slab"), "the rows of a warp are consecutive");
  shared_place where{this, scalar(o.operands[1]), static_cast<int>(o.integer("swizzle")), rows, t.cols, stored_bits(t.element) / 8, !slab};
  store_tile(regs(o.operands[0]), t.element, layout_of(t), where, slab);
}

void emitter::emit_shared_read(const ir::op& o) {
  const ir::type& t = o.result()->type;
  shared_place where{this, scalar(o.operands[0]), static_cast<int>(o.integer("swizzle")), static_cast<int>(o.integer("rows", t.rows)), static_cast<int>(o.integer("cols", t.cols)),
                     stored_bits(t.element) / 8, true};
  define(o, load_tile(t.element, layout_of(t), where));
}

/// The last resort of a conversion: write in one layout, read in the other. Swizzled like any tile, so that neither side meets many conflicts.
void emitter::convert_through_shared(const ir::op& o, bool same_warp) {
  const ir::type& from = o.operands[0]->type;
  if (!o.has("scratch")) fail("codegen-convert-needs-scratch", "a conversion between layouts that must go through shared memory has no room there", "assign-shared-memory sets {scratch}");
  const auto offset = o.integer("scratch");
  const int size = stored_bits(from.element) / 8;
  const auto barrier = [&] {
    if (same_warp) return ptx0("bar.warp.sync -1;", "", {}, asm_barrier);
    if (o.has("timed")) return emit_timed_meet(o);
    const auto id = o.integer("id"), threads = o.integer("threads");
    for (const ir::op* up = &o; up && threads == 0; up = up->parent ? up->parent->parent : nullptr)
      if (up->has("role")) fail("codegen-invalid", "a conversion inside a role meets at a barrier of the whole CTA", "{id} and {threads} name the role's own barrier");
    ptx0(threads == 0 ? cat("bar.sync ", id, ";") : cat("bar.sync ", id, ", ", threads, ";"), "", {}, asm_barrier);
  };
  Value* address = plus(b.CreatePtrToInt(shared_, b.getInt32Ty()), offset);
  shared_place where{this, address, tile::widest_swizzle(from.cols * size), from.rows, from.cols, size, offset % 1024 == 0};
  barrier();  // readers of an earlier conversion are done
  store_tile(regs(o.operands[0]), from.element, layout_of(from), where, false);
  barrier();
  define(o, load_tile(from.element, layout_of(o.result()->type), where));
}

/// A row of a chunk is `width` consecutive bytes whatever the swizzle does inside it: zeroing needs no flip.
void emitter::emit_shared_zero(const ir::op& o) {
  const int rows = static_cast<int>(o.integer("rows")), cols = static_cast<int>(o.integer("cols")), size = static_cast<int>(o.integer("element_bytes"));
  const int swizzle = static_cast<int>(o.integer("swizzle")), warps = static_cast<int>(o.integer("warps", 1));
  const int width = swizzle == 0 ? cols * size : swizzle;
  const int unit = width % 16 == 0 ? 16 : width % 4 == 0 ? 4 : 1;
  const int per_row = cols * size / unit, per_chunk_row = width / unit;
  Value* address = scalar(o.operands[0]);
  Value* first = scalar(o.operands[1]);
  Value* thread = b.CreateOr(b.CreateShl(layout_warp(), 5), lane_);
  Value* count = b.CreateMul(b.CreateSub(const32(rows), first), const32(per_row));
  loop(thread, count, const32(warps * tile::warp_lanes), true, false, [&](Value* i) {
    Value* row = b.CreateAdd(first, b.CreateUDiv(i, const32(per_row)));
    Value* piece = b.CreateURem(i, const32(per_row));
    Value* chunk = b.CreateUDiv(piece, const32(per_chunk_row));
    Value* within = b.CreateURem(piece, const32(per_chunk_row));
    Value* at = b.CreateAdd(b.CreateAdd(address, b.CreateMul(chunk, const32(rows * width))), b.CreateAdd(b.CreateMul(row, const32(width)), b.CreateMul(within, const32(unit))));
    if (unit == 16)
      ptx0("st.shared.v4.b32 [$0], {$1, $1, $1, $1};", "r,r", {at, const32(0)}, asm_effect | asm_memory);
    else if (unit == 4)
      ptx0("st.shared.b32 [$0], $1;", "r,r", {at, const32(0)}, asm_effect | asm_memory);
    else
      ptx0("st.shared.b8 [$0], $1;", "r,h", {at, b.getInt16(0)}, asm_effect | asm_memory);
  });
}

void emitter::emit_shared_scalar(const ir::op& o) {
  const bool store = o.is(opcode::shared_store);
  const element e = store ? o.operands[0]->type.element : o.result()->type.element;
  const access how = access_for(e, 1);
  const std::string letter = how.word_bits == 64 ? "l" : how.word_bits == 32 ? "r" : "h";
  if (store) return ptx0(cat("st.shared", how.type, " [$0], $1;"), "r," + letter, {scalar(o.operands[1]), pack({scalar(o.operands[0])}, e)[0]}, asm_effect | asm_memory);
  Value* word = ptx1(cat("ld.shared", how.type, " $0, [$1];"), "=" + letter + ",r", {scalar(o.operands[0])}, b.getIntNTy(static_cast<unsigned>(how.word_bits)), asm_effect | asm_memory);
  define(o, unpack({word}, e, 1));
}

}  // namespace tlx::codegen
