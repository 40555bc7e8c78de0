// ldmatrix, stmatrix, mma.sync, wgmma, tcgen05.
#include "sim/decode.hpp"
#include "sim/matrix_ops.hpp"
#include "sim/ops.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {
namespace {

number number_named(decoder& d, std::string_view w) {
  static const std::unordered_map<std::string_view, number> names{{"f16", number::f16}, {"bf16", number::bf16}, {"tf32", number::tf32}, {"f32", number::f32}, {"f64", number::f64}, {"e4m3", number::e4m3},
                                                                  {"e5m2", number::e5m2}, {"s8", number::s8}, {"u8", number::u8}, {"s4", number::s4}, {"u4", number::u4}, {"s32", number::s32}, {"b1", number::b1}};
  const auto found = names.find(w);
  if (found == names.end()) d.refuse(cat("element type \"", std::string(w), "\""));
  return found->second;
}
number take_number(decoder& d) {
  for (std::size_t k = 1; k < d.words.size(); ++k) {
    if (d.used[k]) continue;
    d.used[k] = true;
    return number_named(d, d.words[k]);
  }
  d.bad("an element type is missing");
}
operand_address address_of(decoder& d, const raw_operand& o, space where) {
  const decoder::address a = d.memory(o, where);
  return {a.slot, a.wide, a.offset, a.where};
}
/// "m64n256k16" somewhere in the opcode.
bool take_shape(decoder& d, int& m, int& n, int& k) {
  for (std::size_t j = 1; j < d.words.size(); ++j) {
    if (d.used[j]) continue;
    const std::string w(d.words[j]);
    if (std::sscanf(w.c_str(), "m%dn%dk%d", &m, &n, &k) == 3) { d.used[j] = true; return true; }
  }
  return false;
}
std::vector<std::uint32_t> registers(decoder& d, const raw_operand& o, scalar t, bool destination) {
  std::vector<std::uint32_t> out;
  if (o.what != raw_operand::kind::vector) { out.push_back(destination ? d.destination(o, t) : d.source(o, t)); return out; }
  for (const raw_operand& r : o.items) out.push_back(destination ? d.destination(r, t) : d.source(r, t));
  return out;
}
/// All slots that a matrix instruction touches, for the check of pending wgmma registers.
void remember(decoder& d, const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
  d.out.list = d.add_list(a);
  d.out.list_count = static_cast<std::uint32_t>(a.size());
  d.out.list2 = d.add_list(b);
  d.out.list2_count = static_cast<std::uint32_t>(b.size());
}

void matrix_move(decoder& d, bool load) {
  instruction& o = d.out;
  if (!d.take("sync") || !d.take("aligned")) d.bad("needs .sync.aligned");
  // The byte forms: 16x16 and 16x8 transposed, and 8x16 unpacked from 4 or 6 bits. sub 1: m16n16, 2: m8n16, 3: m16n8; flags: source bits.
  const int bytes_shape = d.take_one({"m16n16", "m8n16", "m16n8"});
  if (bytes_shape >= 0) {
    if (d.sm < 100) d.refuse("this matrix shape on this target");
    if ((bytes_shape == 2) == load) d.bad("this matrix shape");
    const int many = d.take_one({"x1", "x2", "x4"});
    if (many < 0 || (bytes_shape == 0 && many == 2)) d.bad("this number of matrices");
    if (d.take("trans") == (bytes_shape == 1)) d.bad("m16n16 and m16n8 are transposed, m8n16 is not");
    const space at = d.take_space(space::generic);
    int bits = 8;
    if (d.take("b8x16")) { const int f = load ? d.take_one({"b6x16_p32", "b4x16_p64"}) : -1; if (f < 0) d.bad("no source format"); bits = f == 0 ? 6 : 4; }
    else if (!d.take("b8") || bytes_shape == 1) d.bad("no element format");
    d.operands(2, 2);
    const decoder::address place = d.memory(d.operand(load ? 1 : 0), at);
    o.a = place.slot; o.wide_address = place.wide; o.imm = place.offset; o.where = place.where;
    const std::vector<std::uint32_t> slots = registers(d, d.operand(load ? 0 : 1), scalar::b32, load);
    const std::size_t matrices = std::size_t{1} << many;
    if (slots.size() != matrices * (bytes_shape == 0 ? 2 : 1)) d.bad("wrong number of registers");
    o.list = d.add_list(slots);
    o.list_count = static_cast<std::uint32_t>(slots.size());
    o.count = static_cast<std::uint8_t>(matrices);
    o.sub = static_cast<std::uint8_t>(bytes_shape + 1);
    o.flags = static_cast<std::uint8_t>(bits);
    o.run = load ? op_ldmatrix_bytes : op_stmatrix_bytes;
    return;
  }
  if (!d.take("m8n8")) d.refuse("this matrix shape");
  const int count = d.take_one({"x1", "x2", "x4"});
  if (count < 0) d.bad("no .x1, .x2 or .x4");
  o.flags = d.take("trans") ? 1 : 0;
  const space where = d.take_space(space::generic);
  if (!d.take("b16")) d.refuse("this element size");
  d.operands(2, 2);
  const raw_operand& v = d.operand(load ? 0 : 1);
  const decoder::address a = d.memory(d.operand(load ? 1 : 0), where);
  o.a = a.slot; o.wide_address = a.wide; o.imm = a.offset; o.where = a.where;
  const std::vector<std::uint32_t> list = registers(d, v, scalar::b32, load);
  if (list.size() != std::size_t{1} << count) d.bad("wrong number of registers");
  o.list = d.add_list(list);
  o.list_count = static_cast<std::uint32_t>(list.size());
  o.count = static_cast<std::uint8_t>(list.size());
  o.run = load ? op_ldmatrix : op_stmatrix;
}

/// The orders of A and B: .row and .col, in this order.
void take_orders(decoder& d, mma_sync_detail& x) {
  const int a = d.take_one({"row", "col"}), b = d.take_one({"row", "col"});
  if (a < 0 || b < 0) d.bad("no operand order");
  x.a_column_major = a == 1;
  x.b_row_major = b == 0;
}

scalar register_of(number t) { return t == number::f64 ? scalar::f64 : t == number::f32 ? scalar::f32 : scalar::b32; }

void wmma(decoder& d) {
  const int what = d.take_one({"load", "store", "mma"});
  if (what < 0) d.bad("unknown operation");
  if (what == 2) {
    auto x = std::make_shared<mma_sync_detail>();
    if (!d.take("sync") || !d.take("aligned")) d.bad("needs .sync.aligned");
    if (d.take("and") || d.take("xor")) d.refuse("one-bit wmma");
    take_orders(d, *x);
    if (!take_shape(d, x->m, x->n, x->k)) d.bad("no shape");
    d.take_one({"rn"});
    x->saturate = d.take("satfinite");
    std::vector<number> types;
    for (std::size_t k = 1; k < d.words.size(); ++k) if (!d.used[k]) { d.used[k] = true; types.push_back(number_named(d, d.words[k])); }
    if (types.size() == 2) types = {types[0], number::f16, number::f16, types[1]};
    if (types.size() != 4) d.bad("wrong number of types");
    x->d = types[0]; x->a = types[1]; x->b = types[2]; x->c = types[3];
    if (bits_of(x->a) < 8) d.refuse("sub-byte wmma");
    d.operands(4, 4);
    x->d_slots = registers(d, d.operand(0), register_of(x->d), true);
    x->a_slots = registers(d, d.operand(1), register_of(x->a), false);
    x->b_slots = registers(d, d.operand(2), register_of(x->b), false);
    x->c_slots = registers(d, d.operand(3), register_of(x->c), false);
    const auto holds = [&](const std::vector<std::uint32_t>& slots, number t, int elements) { return static_cast<int>(slots.size()) * std::max(1, 32 / bits_of(t)) * 32 >= elements; };
    if (!holds(x->a_slots, x->a, x->m * x->k) || !holds(x->b_slots, x->b, x->n * x->k) || !holds(x->c_slots, x->c, x->m * x->n) || !holds(x->d_slots, x->d, x->m * x->n)) d.bad("wrong number of registers");
    d.out.run = op_wmma_mma;
    d.detail(x);
    return;
  }
  auto x = std::make_shared<wmma_move_detail>();
  x->store = what == 1;
  const int matrix = d.take_one({"a", "b", "c", "d"});
  if (matrix < 0 || (matrix == 3) != x->store) d.bad("no matrix");
  if (!d.take("sync") || !d.take("aligned")) d.bad("needs .sync.aligned");
  const int order = d.take_one({"row", "col"});
  if (order < 0) d.bad("no operand order");
  x->column_major = order == 1;
  int m = 0, n = 0, k = 0;
  if (!take_shape(d, m, n, k)) d.bad("no shape");
  x->rows = matrix == 1 ? k : m;
  x->columns = matrix == 0 ? k : n;
  const space where = d.take_space(space::generic);
  x->element = take_number(d);
  if (bits_of(x->element) < 8) d.refuse("sub-byte wmma");
  d.operands(2, 3);
  x->address = address_of(d, d.operand(x->store ? 0 : 1), where);
  x->slots = registers(d, d.operand(x->store ? 1 : 0), register_of(x->element), !x->store);
  if (d.count() == 3) x->stride = d.source(d.operand(2), scalar::b32);
  if (static_cast<int>(x->slots.size()) * std::max(1, 32 / bits_of(x->element)) * 32 < x->rows * x->columns) d.bad("wrong number of registers");
  if (where != space::global) d.p.smallest_shared_access = std::min<std::uint32_t>(d.p.smallest_shared_access, static_cast<std::uint32_t>(bits_of(x->element) / 8));
  d.out.run = op_wmma_move;
  d.detail(x);
}

void mma_sync(decoder& d) {
  auto x = std::make_shared<mma_sync_detail>();
  if (!d.take("sync") || !d.take("aligned")) d.bad("needs .sync.aligned");
  for (const std::string_view w : d.words) if (w.starts_with("sp") || w.starts_with("block_scale") || w.starts_with("kind::")) d.refuse(cat("modifier \".", std::string(w), "\""));
  if (!take_shape(d, x->m, x->n, x->k)) d.bad("no shape");
  take_orders(d, *x);
  x->saturate = d.take("satfinite");
  const int bit_operation = d.take_one({"and", "xor"});
  if (bit_operation >= 0 && !d.take("popc")) d.bad("needs .popc");
  x->d = take_number(d); x->a = take_number(d); x->b = take_number(d); x->c = take_number(d);
  if ((x->a == number::b1) != (bit_operation >= 0)) d.bad("this operation");
  x->xor_popc = bit_operation == 1;
  d.operands(4, 4);
  if (x->m == 8 && x->n == 8 && x->k == 4 && x->a == number::f16) {
    const auto cells = [&](number t) { return t == number::f32 ? 8U : 4U; };
    x->d_slots = registers(d, d.operand(0), x->d == number::f32 ? scalar::f32 : scalar::b32, true);
    x->a_slots = registers(d, d.operand(1), scalar::b32, false);
    x->b_slots = registers(d, d.operand(2), scalar::b32, false);
    x->c_slots = registers(d, d.operand(3), x->c == number::f32 ? scalar::f32 : scalar::b32, false);
    if (x->b != number::f16 || x->d_slots.size() != cells(x->d) || x->c_slots.size() != cells(x->c) || x->a_slots.size() != 2 || x->b_slots.size() != 2) d.bad("wrong types or number of registers");
    d.out.run = op_mma_quads;
    d.detail(x);
    return;
  }
  if (x->a_column_major || x->b_row_major) d.refuse("operand order other than .row.col");
  const scalar cell = x->d == number::f64 ? scalar::f64 : scalar::b32, in = x->a == number::f64 ? scalar::f64 : scalar::b32;
  const scalar any = x->d == number::f32 ? scalar::f32 : cell;
  x->d_slots = registers(d, d.operand(0), any, true);
  x->a_slots = registers(d, d.operand(1), in, false);
  x->b_slots = registers(d, d.operand(2), in, false);
  x->c_slots = registers(d, d.operand(3), any, false);
  const int c_words = mma_c_count(x->m, x->n) / (x->d == number::f16 ? 2 : 1), per = x->a == number::f64 ? 1 : 32 / bits_of(x->a), perb = x->b == number::f64 ? 1 : 32 / bits_of(x->b);
  if (static_cast<int>(x->d_slots.size()) != c_words || static_cast<int>(x->c_slots.size()) != c_words || static_cast<int>(x->a_slots.size()) != mma_a_count(x->m, x->k) / per ||
      static_cast<int>(x->b_slots.size()) != mma_b_count(x->k, x->n) / perb) d.bad("wrong number of registers");
  std::vector<std::uint32_t> all = x->a_slots;
  all.insert(all.end(), x->b_slots.begin(), x->b_slots.end());
  all.insert(all.end(), x->c_slots.begin(), x->c_slots.end());
  remember(d, x->d_slots, all);
  d.out.run = op_mma_sync;
  d.detail(x);
}

void wgmma(decoder& d) {
  instruction& o = d.out;
  if (d.sm != 90) d.refuse("wgmma on this target");
  if (d.take("fence")) { d.take("sync"); d.take("aligned"); o.run = op_wgmma_fence; return; }
  if (d.take("commit_group")) { d.take("sync"); d.take("aligned"); o.run = op_wgmma_group; o.sub = 0; return; }
  if (d.take("wait_group")) { d.take("sync"); d.take("aligned"); o.run = op_wgmma_group; o.sub = 1; d.operands(1, 1); o.imm = d.immediate(d.operand(0)); return; }
  if (!d.take("mma_async")) d.bad("unknown operation");
  if (d.take("sp")) d.refuse("sparse wgmma");
  if (!d.take("sync") || !d.take("aligned")) d.bad("needs .sync.aligned");
  auto x = std::make_shared<wgmma_detail>();
  if (!take_shape(d, x->shape.m, x->shape.n, x->shape.k)) d.bad("no shape");
  x->saturate = d.take("satfinite");
  x->d = take_number(d); x->a = take_number(d); x->b = take_number(d);
  if (x->a == number::b1 && (!d.take("and") || !d.take("popc"))) d.bad("needs .and.popc");
  x->d_slots = registers(d, d.operand(0), x->d == number::f32 ? scalar::f32 : scalar::b32, true);
  const raw_operand& a = d.operand(1);
  x->a_in_registers = a.what == raw_operand::kind::vector;
  if (x->a_in_registers) x->a_slots = registers(d, a, scalar::b32, false);
  else x->a_descriptor = d.source(a, scalar::b64);
  x->b_descriptor = d.source(d.operand(2), scalar::b64);
  std::size_t k = 3;
  const raw_operand& scale = d.operand(k++);
  x->scale_d = d.predicate_source(scale, x->scale_d_inverted);
  const auto sign = [&](bool& negate) { const std::int64_t v = d.immediate(d.operand(k++)); if (v != 1 && v != -1) d.bad("an operand scale is 1 or -1"); negate = v == -1; };
  if (!is_integer(x->a)) {
    sign(x->negate_a);
    sign(x->negate_b);
    if (!x->a_in_registers && k < d.count()) x->transpose_a = d.immediate(d.operand(k++)) != 0;
    if (k < d.count()) x->transpose_b = d.immediate(d.operand(k++)) != 0;
  }
  if (k != d.count()) d.bad("wrong number of operands");
  const complaint c = check_wgmma(x->shape, x->a, x->b, x->d, x->transpose_a, x->transpose_b, x->a_in_registers);
  if (c) malformed(d.raw->line, cat(c.text, " in \"", std::string(d.raw->opcode), "\""));
  const std::size_t words = static_cast<std::size_t>(x->shape.n / 2) / (x->d == number::f16 ? 2 : 1);
  if (x->d_slots.size() != words || (x->a_in_registers && x->a_slots.size() != 4)) d.bad("wrong number of registers");
  remember(d, x->d_slots, x->a_slots);
  o.run = op_wgmma;
  d.detail(x);
}

int take_group(decoder& d) {
  const int g = d.take_one({"cta_group::1", "cta_group::2"});
  if (g < 0) d.bad("needs .cta_group::1 or ::2");
  return g + 1;
}

void tensor_mma(decoder& d) {
  auto x = std::make_shared<tensor_mma_detail>();
  const bool sparse = d.take("sp");
  if (sparse) d.refuse("sparse tcgen05.mma");
  x->issue.weight_stationary = d.take("ws");
  if (d.take("sp")) d.refuse("sparse tcgen05.mma");
  x->issue.cta_group = take_group(d);
  x->issue.sm = d.sm;
  const int kind = d.take_one({"kind::f16", "kind::tf32", "kind::f8f6f4", "kind::i8", "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4"});
  if (kind < 0) d.bad("no kind");
  x->issue.kind = static_cast<mma_kind>(kind);
  if (x->issue.kind == mma_kind::i8 && d.sm != 100) d.refuse("kind::i8 on this target");
  const bool scaled = d.take("block_scale");
  if (scaled != is_block_scaled(x->issue.kind)) d.bad("block_scale goes with the mx kinds, and only with them");
  const int block = d.take_one({"scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block32", "block16"});
  if (block == 2 || block == 4) x->issue.scale_block = 16;
  else if (block >= 0) x->issue.scale_block = 32;
  for (std::size_t k = 1; k < d.words.size(); ++k) if (d.words[k].starts_with("collector::")) d.used[k] = true;
  x->shift_a = d.take("ashift");
  std::size_t k = 0;
  x->d = address_of(d, d.operand(k++), space::shared);
  const raw_operand& a = d.operand(k++);
  if (a.what == raw_operand::kind::memory) { x->issue.a_in_tensor_memory = true; x->a = address_of(d, a, space::shared); }
  else x->a_descriptor = d.source(a, scalar::b64);
  if (x->shift_a && !x->issue.a_in_tensor_memory) d.bad(".ashift needs A in tensor memory");
  x->b_descriptor = d.source(d.operand(k++), scalar::b64);
  x->instruction_word = d.source(d.operand(k++), scalar::b32);
  if (scaled) { x->scale_a = address_of(d, d.operand(k++), space::shared); x->scale_b = address_of(d, d.operand(k++), space::shared); }
  if (k < d.count() && d.operand(k).what == raw_operand::kind::vector) {
    x->disabled_lanes = registers(d, d.operand(k++), scalar::b32, false);
    if (x->disabled_lanes.size() != (x->issue.cta_group == 2 ? 8U : 4U) || scaled || x->issue.weight_stationary) d.bad("this disable-output-lane mask");
  }
  x->enable_d = d.predicate_source(d.operand(k++), x->enable_inverted);
  if (k < d.count()) {
    if (x->issue.weight_stationary) x->zero_columns = d.source(d.operand(k++), scalar::b64);
    else {
      x->d_shift = static_cast<int>(d.immediate(d.operand(k++)));
      if (x->d_shift < 0 || x->d_shift > 15 || kind > 1) d.bad("scale-input-d");
    }
  }
  if (k != d.count()) d.bad("wrong number of operands");
  d.out.run = op_tmem_mma;
  d.p.uses_tensor_memory = true;
  d.detail(x);
}

bool tensor(decoder& d) {
  instruction& o = d.out;
  if (d.sm < 100) d.refuse("tcgen05 on this target");
  if (d.take("mma")) { tensor_mma(d); return true; }
  const int allocation = d.take_one({"alloc", "dealloc", "relinquish_alloc_permit"});
  if (allocation >= 0) {
    o.sub = static_cast<std::uint8_t>(allocation);
    o.flags = static_cast<std::uint8_t>(take_group(d));
    if (!d.take("sync") || !d.take("aligned")) d.bad("needs .sync.aligned");
    const space where = d.take_space(space::generic);
    if (allocation < 2 && !d.take("b32")) d.bad("needs .b32");
    d.operands(allocation == 2 ? 0 : 2, allocation == 2 ? 0 : 2);
    if (allocation == 0) { const decoder::address a = d.memory(d.operand(0), where); o.a = a.slot; o.wide_address = a.wide; o.imm = a.offset; o.where = a.where; o.b = d.source(d.operand(1), scalar::b32); }
    if (allocation == 1) { o.a = d.source(d.operand(0), scalar::b32); o.b = d.source(d.operand(1), scalar::b32); }
    o.run = op_tmem_alloc;
    d.p.uses_tensor_memory = true;
    return true;
  }
  const int move = d.take_one({"ld", "st"});
  if (move >= 0) {
    auto x = std::make_shared<tensor_move_detail>();
    x->store = move == 1;
    x->reduce = d.take("red");
    if (x->reduce && d.sm != 103) d.refuse("tcgen05.ld.red on this target");
    if (!d.take("sync") || !d.take("aligned")) d.bad("needs .sync.aligned");
    const int shape = d.take_one({"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"});
    if (shape < 0) d.bad("no shape");
    x->shape = static_cast<tmem_shape>(shape);
    const int repeat = d.take_one({"x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128"});
    if (repeat < 0) d.bad("no .xN");
    x->repeat = 1 << repeat;
    x->packed = d.take(x->store ? "unpack::16b" : "pack::16b");
    if (x->reduce) {
      const bool minimum = d.take_one({"min", "max"}) == 0;
      x->absolute = d.take("abs");
      x->nan = d.take("NaN");
      const scalar t = d.need_type();
      x->reduction = t == scalar::f32 ? (minimum ? tmem_reduction::min_f32 : tmem_reduction::max_f32) : t == scalar::u32 ? (minimum ? tmem_reduction::min_u32 : tmem_reduction::max_u32) : minimum ? tmem_reduction::min_s32 : tmem_reduction::max_s32;
    } else if (!d.take("b32")) d.bad("needs .b32");
    std::size_t k = 0;
    const auto values = [&](bool destination) { x->registers = registers(d, d.operand(k++), scalar::b32, destination); };
    if (x->store) { x->address = address_of(d, d.operand(k++), space::shared); if (shape == 4) x->half_split = static_cast<int>(d.immediate(d.operand(k++))); values(false); }
    else {
      values(true);
      if (x->reduce) x->reduced = d.destination(d.operand(k++), scalar::b32);
      x->address = address_of(d, d.operand(k++), space::shared);
      if (shape == 4) x->half_split = static_cast<int>(d.immediate(d.operand(k++)));
    }
    if (k != d.count()) d.bad("wrong number of operands");
    const int wanted = tmem_registers(x->shape, x->repeat);
    if (wanted == 0) d.bad("this shape has no such .xN");
    if (static_cast<int>(x->registers.size()) != wanted) d.bad(cat("has ", x->registers.size(), " registers where the shape needs ", wanted));
    remember(d, x->registers, {});
    o.run = op_tmem_move;
    d.detail(x);
    return true;
  }
  if (const int w = d.take_one({"wait::ld", "wait::st"}); w >= 0) { d.take("sync"); d.take("aligned"); o.sub = static_cast<std::uint8_t>(w); o.run = op_tmem_wait; return true; }
  if (d.take("fence::before_thread_sync")) { o.run = op_tmem_fence; return true; }
  if (d.take("fence::after_thread_sync")) { o.sub = 1; o.run = op_tmem_fence; return true; }
  if (d.take("commit")) {
    auto x = std::make_shared<copy_detail>();
    x->cta_group = take_group(d);
    if (!d.take("mbarrier::arrive::one")) d.bad("needs .mbarrier::arrive::one");
    const space where = d.take_space(space::generic);
    x->multicast = d.take("multicast::cluster");
    if (!d.take("b64")) d.bad("needs .b64");
    d.operands(x->multicast ? 2 : 1, x->multicast ? 2 : 1);
    x->barrier = address_of(d, d.operand(0), where);
    if (x->multicast) x->mask = d.source(d.operand(1), scalar::b16);
    o.run = op_tmem_commit;
    d.detail(x);
    return true;
  }
  if (d.take("cp") || d.take("shift")) {
    auto x = std::make_shared<tensor_copy_in_detail>();
    x->shift = d.words[1] == "shift";
    x->cta_group = take_group(d);
    if (x->shift) {
      if (!d.take("down")) d.bad("needs .down");
      d.operands(1, 1);
      x->address = address_of(d, d.operand(0), space::shared);
    } else {
      const int shape = d.take_one({"128x256b", "128x128b", "64x128b", "32x128b", "4x256b"});
      if (shape < 0) d.bad("no shape");
      const int multicast = d.take_one({"warpx2::02_13", "warpx2::01_23", "warpx4"});
      if ((shape == 2) != (multicast == 0 || multicast == 1) || (shape == 3) != (multicast == 2)) d.bad("this multicast form");
      x->shape = shape == 0 ? cp_shape::s128x256b : shape == 1 ? cp_shape::s128x128b : shape == 2 ? (multicast == 0 ? cp_shape::s64x128b_02_13 : cp_shape::s64x128b_01_23) : shape == 3 ? cp_shape::s32x128b_x4 : cp_shape::s4x256b;
      if (d.take("b8x16")) {
        const int format = d.take_one({"b4x16_p64", "b6x16_p32"});
        if (format < 0) d.bad("no source format");
        x->unpack = format == 0 ? cp_unpack::b4x16_p64 : cp_unpack::b6x16_p32;
      }
      d.operands(2, 2);
      x->address = address_of(d, d.operand(0), space::shared);
      x->descriptor = d.source(d.operand(1), scalar::b64);
    }
    o.run = op_tmem_copy;
    d.p.uses_tensor_memory = true;
    d.detail(x);
    return true;
  }
  return false;
}

}  // namespace

bool decode_matrix(decoder& d) {
  const std::string_view n = d.words[0];
  if (n == "ldmatrix") { matrix_move(d, true); return true; }
  if (n == "stmatrix") { matrix_move(d, false); return true; }
  if (n == "mma") { mma_sync(d); return true; }
  if (n == "wmma") { wmma(d); return true; }
  if (n == "movmatrix") {
    if (!d.take("sync") || !d.take("aligned") || !d.take("m8n8") || !d.take("trans") || !d.take("b16")) d.bad("needs .sync.aligned.m8n8.trans.b16");
    d.operands(2, 2);
    d.out.a = d.source(d.operand(1), scalar::b32);
    d.out.d = d.destination(d.operand(0), scalar::b32);
    d.out.run = op_movmatrix;
    return true;
  }
  if (n == "wgmma") { wgmma(d); return true; }
  if (n == "tcgen05") return tensor(d);
  return false;
}

}  // namespace tlx::sim
