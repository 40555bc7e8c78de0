#include "check/program.hpp"

#include <algorithm>
#include <set>

#include "check/arithmetic.hpp"
#include "tlx/support/text.hpp"
#include "tlx/tile/convert.hpp"

namespace tlx::check {

using ir::opcode;
using ir::value;

int leaf_of(program& p, leaf l) {
  for (size_t i = 0; i < p.leaves.size(); ++i)
    if (!(p.leaves[i] < l) && !(l < p.leaves[i])) return static_cast<int>(i);
  p.leaves.push_back(l);
  return static_cast<int>(p.leaves.size()) - 1;
}

namespace {

bool crosses_warps(const ir::op& convert) {
  const ir::type& t = convert.operands[0]->type;
  if (!convert.has("scratch") || !t.layout || !convert.result()->type.layout) return false;
  return tile::plan(*t.layout, *convert.result()->type.layout, t.element).kind == tile::conversion_kind::shared;
}

// Inline PTX that names none of these only computes.
bool touches_protocol(const std::string& text) {
  for (const char* word : {"mbarrier", "bar.", "barrier", "fence", "st.", "ld.", "cp.", "tcgen05", "wgmma", "red.", "atom", "stmatrix", "ldmatrix", "mapa", "setmaxnreg", "exit", "bra"})
    if (text.find(word) != std::string::npos) return true;
  return false;
}

bool is_effect(const ir::op& o) {
  switch (o.code) {
    case opcode::shared_read: case opcode::shared_write: case opcode::shared_zero: case opcode::shared_load: case opcode::shared_store:
    case opcode::mbarrier_init: case opcode::mbarrier_arrive: case opcode::mbarrier_expect: case opcode::mbarrier_wait: case opcode::mbarrier_remote:
    case opcode::fence_async: case opcode::fence_init: case opcode::barrier_cta: case opcode::barrier_warp: case opcode::cluster_sync: case opcode::set_registers:
    case opcode::tma_load: case opcode::tma_store: case opcode::tma_commit: case opcode::tma_wait:
    case opcode::wgmma_fence: case opcode::wgmma_mma: case opcode::wgmma_commit: case opcode::wgmma_wait:
    case opcode::tmem_alloc: case opcode::tmem_free: case opcode::tmem_relinquish: case opcode::tmem_load: case opcode::tmem_store:
    case opcode::tmem_wait_load: case opcode::tmem_wait_store: case opcode::tmem_fence: case opcode::tcgen05_mma: case opcode::tcgen05_commit: case opcode::tcgen05_copy: case opcode::tcgen05_scaled: return true;
    case opcode::convert: return crosses_warps(o);
    default: return false;
  }
}

// Which operands of an effect are followed; coordinates and tiles are not.
size_t followed_operands(const ir::op& o) {
  switch (o.code) {
    case opcode::tma_load: return std::min<size_t>(2, o.operands.size());
    case opcode::tma_store: return std::min<size_t>(1, o.operands.size());
    case opcode::tcgen05_mma: return std::min<size_t>(3, o.operands.size());
    case opcode::tcgen05_scaled: return std::min<size_t>(5, o.operands.size());
    default: return o.operands.size();
  }
}

// Numbers and cells that running an effect needs; the verifier does not know how many there are of each kind.
size_t needed(const ir::op& o) {
  switch (o.code) {
    case opcode::mbarrier_wait: case opcode::mbarrier_remote: case opcode::tma_load: case opcode::shared_zero: case opcode::shared_store: return 2;
    case opcode::tcgen05_mma: return 3;
    case opcode::tcgen05_scaled: return 5;
    case opcode::tcgen05_copy: return 2;
    case opcode::wgmma_mma: return o.operands.size() == 4 && o.operands[1]->type.is_tile() ? 3 : 4;
    case opcode::mbarrier_init: case opcode::mbarrier_arrive: case opcode::mbarrier_expect: case opcode::tma_store: case opcode::shared_read: case opcode::shared_write:
    case opcode::shared_load: case opcode::tmem_alloc: case opcode::tmem_free: case opcode::tmem_load: case opcode::tmem_store: case opcode::tcgen05_commit: return 1;
    default: return 0;
  }
}

class flattener {
 public:
  explicit flattener(const ir::kernel& k) { p_.kernel = &k; }

  program run() {
    const ir::kernel& k = *p_.kernel;
    for (size_t i = 0; i < k.parameters().size(); ++i) parameters_[k.parameters()[i].get()] = static_cast<int>(i);
    ir::walk(k.body, [&](const ir::op& o) {
      if (o.is(opcode::var_set) || o.is(opcode::var_new)) setters_[o.is(opcode::var_new) ? o.result() : o.operands[0]].push_back(&o);
      if (o.is(opcode::for_loop)) loop_of_[o.regions[0]->arguments[0].get()] = &o;
      if (o.is(opcode::wgmma_mma)) accumulators_.insert(o.operands[0]);
    });
    ir::walk(k.body, [&](const ir::op& o) {
      if (is_effect(o)) want(o);
      const bool cell = o.is(opcode::var_get) || o.is(opcode::var_set);
      if (cell && accumulators_.count(o.operands[0])) want(o);
      if (o.is(opcode::inline_ptx) && touches_protocol(o.text("text"))) note(cat("inline PTX \"", o.text("text"), "\"", at(o)));
    });
    p_.roles.push_back("cta");
    p_.first_warps.push_back(0);
    arguments();
    region(k.body, 0);
    return std::move(p_);
  }

 private:
  static std::string at(const ir::op& o) { return o.where.known() ? " at " + to_string(o.where) : std::string(); }
  void note(const std::string& what) {
    if (std::find(p_.unchecked.begin(), p_.unchecked.end(), what) == p_.unchecked.end()) p_.unchecked.push_back(what);
  }

  // --- the slice

  void want(const ir::op& o) {
    if (!wanted_.insert(&o).second) return;
    for (const ir::region* r = o.parent; r && r->parent; r = r->parent->parent) want(*r->parent);
    const size_t n = o.regions.empty() && is_effect(o) ? followed_operands(o) : o.operands.size();
    for (size_t i = 0; i < n; ++i) want(o.operands[i]);
    if (o.is(opcode::while_loop) && !o.regions[0]->ops.empty()) want(*o.regions[0]->ops.back());
  }
  void want(value v) {
    if (!v->type.is_scalar() && !v->type.is(ir::type::kind::var)) return;
    if (v->type.is(ir::type::kind::var)) {
      if (!cells_.insert(v).second) return;
      for (const ir::op* setter : setters_[v]) want(*setter);
      return;
    }
    if (v->owner) {
      want(*v->owner);
    } else if (auto loop = loop_of_.find(v); loop != loop_of_.end()) {
      want(*loop->second);
    }
  }

  // --- flat steps

  int slot(value v) {
    auto [it, fresh] = slots_.try_emplace(v, p_.slots);
    if (fresh) ++p_.slots;
    return it->second;
  }
  step& add(doing what, const ir::op& o, int place) {
    p_.steps.push_back({.what = what, .code = o.code, .place = place, .from = &o});
    return p_.steps.back();
  }
  int here() const { return static_cast<int>(p_.steps.size()); }

  void region(const ir::region& r, int place) {
    for (const auto& o : r.ops)
      if (wanted_.count(o.get())) one(*o, place);
  }

  int place_of(const ir::op& o, int outer) {
    if (!o.has("role")) return outer;
    p_.roles.push_back(o.text("role"));
    p_.first_warps.push_back(static_cast<int>(o.integer("first_warp")));
    return static_cast<int>(p_.roles.size()) - 1;
  }

  void one(const ir::op& o, int outer) {
    const int place = place_of(o, outer);
    switch (o.code) {
      case opcode::if_then: {
        p_.branches.push_back(&o);
        const int begin = here();
        add(doing::branch, o, outer).in = {slot(o.operands[0])};
        region(*o.regions[0], place);
        const int middle = here();
        add(doing::otherwise, o, outer);
        region(*o.regions[1], place);
        p_.steps[static_cast<size_t>(begin)].jump = middle + 1;
        p_.steps[static_cast<size_t>(begin)].jump2 = p_.steps[static_cast<size_t>(middle)].jump2 = here();
        add(doing::join, o, outer);
        return;
      }
      case opcode::for_loop: {
        p_.loops.push_back(&o);
        std::vector<int> bounds;
        for (value v : o.operands) bounds.push_back(slot(v));
        const int begin = here(), high = p_.slots++, stride = p_.slots++;
        step& s = add(doing::loop, o, place);
        s.in = bounds;
        s.out = slot(o.regions[0]->arguments[0].get());
        s.imm[0] = high;
        s.imm[1] = stride;
        region(*o.regions[0], place);
        step& n = add(doing::next, o, place);
        n.jump = begin + 1;
        n.out = p_.steps[static_cast<size_t>(begin)].out;
        n.imm[0] = high;
        n.imm[1] = stride;
        p_.steps[static_cast<size_t>(begin)].jump = here();
        return;
      }
      case opcode::while_loop: {
        const int begin = here();
        region(*o.regions[0], place);
        const int test = here();
        add(doing::test, o, place).in = {slot(o.regions[0]->ops.back()->operands[0])};
        region(*o.regions[1], place);
        add(doing::again, o, place).jump = begin;
        p_.steps[static_cast<size_t>(test)].jump = here();
        return;
      }
      case opcode::yield: return;
      default: break;
    }
    if (is_effect(o)) return effect(o, place);
    scalar(o, place);
  }

  // Arguments are known from the start, wherever they are used first.
  void arguments() {
    for (const auto& v : p_.kernel->parameters()) {
      if (!v->type.is_scalar()) continue;
      const bool integer = tile::is_integer(v->type.element) || v->type.element == tile::element::boolean;
      const int index = leaf_of(p_, integer ? leaf{leaf::kind::argument, parameters_.at(v.get()), 0} : leaf{leaf::kind::opaque, 0, 0});
      p_.steps.push_back({.what = integer ? doing::from_leaf : doing::opaque});
      p_.steps.back().out = slot(v.get());
      p_.steps.back().imm[0] = index;
    }
  }

  void scalar(const ir::op& o, int place) {
    const auto leaf_step = [&](leaf::kind what, int parameter) {
      const int index = leaf_of(p_, {what, parameter, static_cast<int>(o.integer("axis"))});
      step& s = add(doing::from_leaf, o, place);
      s.imm[0] = index;
      s.out = slot(o.result());
    };
    switch (o.code) {
      case opcode::var_new:
      case opcode::var_set:
      case opcode::var_get: {
        std::vector<int> in;
        for (value v : o.operands) in.push_back(v->type.is_scalar() ? slot(v) : slot(v));
        step& s = add(o.is(opcode::var_new) ? doing::cell_new : o.is(opcode::var_set) ? doing::cell_set : doing::cell_get, o, place);
        s.in = in;
        const value cell = o.is(opcode::var_new) ? o.result() : o.operands[0];
        s.detail = accumulators_.count(cell) ? 1 : 0;
        if (!o.results.empty()) s.out = slot(o.result());
        return;
      }
      case opcode::lane_id: add(doing::lane, o, place).out = slot(o.result()); return;
      case opcode::warp_id: add(doing::warp, o, place).out = slot(o.result()); return;
      case opcode::elect: {
        step& s = add(doing::act, o, place);
        s.out = slot(o.result());
        return;
      }
      case opcode::cta_id: return leaf_step(leaf::kind::cta, 0);
      case opcode::grid_size: return leaf_step(leaf::kind::grid, 0);
      case opcode::cluster_rank: return leaf_step(leaf::kind::rank, 0);
      case opcode::extent:
      case opcode::stride: return leaf_step(o.is(opcode::extent) ? leaf::kind::extent : leaf::kind::stride, parameters_.count(o.operands[0]) ? parameters_.at(o.operands[0]) : 0);
      case opcode::shared_base: {
        step& s = add(doing::constant, o, place);
        s.imm[0] = o.integer("offset");
        s.out = slot(o.result());
        return;
      }
      case opcode::descriptor: {
        const int in = slot(o.operands[0]);
        step& s = add(doing::act, o, place);
        s.in = {in};
        s.imm[0] = o.integer("bits");
        s.out = slot(o.result());
        return;
      }
      case opcode::global_load: {
        if (o.results.size() == 1 && o.result()->type.is_scalar() && tile::is_integer(o.result()->type.element) && o.operands.size() >= 2) {
          const int in = slot(o.operands[o.operands[0]->type.rank >= 1 ? static_cast<size_t>(o.operands[0]->type.rank) : 1]);
          const int parameter = parameters_.count(o.operands[0]) ? parameters_.at(o.operands[0]) : 0;
          const int index = leaf_of(p_, {leaf::kind::load_scale, parameter, 0});
          step& s = add(doing::load_global, o, place);
          s.in = {in};
          s.imm[0] = index;
          s.out = slot(o.result());
          s.element = o.result()->type.element;
          return;
        }
        break;
      }
      case opcode::inline_ptx:
        if (o.results.size() == 1 && o.operands.size() == 1 && o.text("text").rfind("redux.sync.add.", 0) == 0) {
          const int in = slot(o.operands[0]);
          step& s = add(doing::sum_lanes, o, place);
          s.in = {in};
          s.out = slot(o.result());
          s.element = o.result()->type.element;
          return;
        }
        break;
      default: break;
    }
    if (is_followed(o)) {
      std::vector<int> in;
      for (value v : o.operands) in.push_back(slot(v));
      step& s = add(o.is(opcode::constant) ? doing::constant : doing::compute, o, place);
      s.imm[0] = o.integer("value");
      s.in = in;
      s.out = slot(o.result());
      s.element = o.result()->type.element;
      s.detail = comparison(o);
      return;
    }
    for (const auto& r : o.results) {
      if (!r->type.is_scalar()) continue;
      leaf_of(p_, {leaf::kind::opaque, 0, 0});
      step& s = add(doing::opaque, o, place);
      s.out = slot(r.get());
    }
  }

  // --- what an effect touches

  static int size_of(tile::element e) { return std::max(8, tile::bits(e)) / 8; }

  int touch(const ir::type& t, int swizzle, bool slab, std::int64_t slab_rows, int warps) {
    footprint f;
    const std::int64_t size = size_of(t.element);
    const std::int64_t width = swizzle == 0 ? t.cols * size : swizzle;
    const std::int64_t chunks = (t.cols * size + width - 1) / width;
    const std::int64_t rows = slab ? slab_rows : t.rows;
    for (int w = 0; w < std::max(1, warps); ++w) {
      std::pair<std::int64_t, std::int64_t> range{0, rows * t.cols * size};
      if (!slab && t.layout && t.layout->warp_count() >= warps && warps > 1) {
        const tile::coordinate zero = t.layout->at(0, 0, w);
        int low = zero.row, high = zero.row, left = zero.col, right = zero.col;
        const auto stretch = [&](auto&& coordinate_of, int count) {
          int l = 0, h = 0, cl = 0, ch = 0;
          for (int i = 0; i < count; ++i) {
            const tile::coordinate c = coordinate_of(i);
            l = std::min(l, c.row - zero.row);
            h = std::max(h, c.row - zero.row);
            cl = std::min(cl, c.col - zero.col);
            ch = std::max(ch, c.col - zero.col);
          }
          low += l, high += h, left += cl, right += ch;
        };
        stretch([&](int i) { return t.layout->at(i, 0, w); }, t.layout->register_count());
        stretch([&](int i) { return t.layout->at(0, i, w); }, 32);
        const bool whole_rows = left == 0 && right == t.cols - 1 && static_cast<std::int64_t>(high - low + 1) * t.cols <= static_cast<std::int64_t>(t.layout->register_count()) * 32;
        if (!whole_rows) f.exact = false;
        else if (chunks == 1) range = {low * width, (high + 1) * width};
        else f.exact = false;  // its rows of every chunk: not one range
      }
      f.by_warp.push_back(range);
    }
    p_.footprints.push_back(f);
    return static_cast<int>(p_.footprints.size()) - 1;
  }
  int touch_all(std::int64_t bytes) {
    p_.footprints.push_back({false, {{0, bytes}}});
    return static_cast<int>(p_.footprints.size()) - 1;
  }

  static int layout_warps(const ir::type& t) { return t.layout ? t.layout->warp_count() : 1; }

  void effect(const ir::op& o, int place) {
    std::vector<int> in;
    for (size_t i = 0; i < followed_operands(o); ++i)
      if (o.operands[i]->type.is_scalar()) in.push_back(slot(o.operands[i]));
      else if (o.operands[i]->type.is(ir::type::kind::var)) in.push_back(slot(o.operands[i]));
    if (o.is(opcode::convert)) return convert(o, place);
    const bool tiles = (!o.is(opcode::shared_write) && !o.is(opcode::tmem_store)) || o.operands[0]->type.is_tile();
    const bool loads = (!o.is(opcode::shared_read) && !o.is(opcode::tmem_load)) || o.result()->type.is_tile();
    if (in.size() < needed(o) || !tiles || !loads) return note(cat(ir::row(o.code).text, at(o), ", whose operands are of other kinds than it takes,"));
    int touches = -1;
    if (o.is(opcode::shared_write)) {
      const ir::type& t = o.operands[0]->type;
      touches = touch(t, static_cast<int>(o.integer("swizzle")), o.integer("slab") != 0, o.integer("slab_rows", t.rows), layout_warps(t));
    }
    if (o.is(opcode::shared_read)) {
      const ir::type& t = o.result()->type;
      touches = touch(t, static_cast<int>(o.integer("swizzle")), false, t.rows, layout_warps(t));
      if (o.has("rows") && o.integer("rows") != t.rows) touches = touch_all(o.integer("rows") * o.integer("cols", t.cols) * size_of(t.element));
    }
    if (o.is(opcode::shared_zero)) touches = touch_all(o.integer("rows") * o.integer("cols") * o.integer("element_bytes"));
    if (o.is(opcode::shared_load) || o.is(opcode::shared_store)) {
      const ir::type& t = o.is(opcode::shared_load) ? o.result()->type : o.operands[0]->type;
      p_.footprints.push_back({true, {{0, size_of(t.element)}}});
      touches = static_cast<int>(p_.footprints.size()) - 1;
    }
    step& s = add(doing::act, o, place);
    s.in = in;
    s.touches = touches;
    if (!o.results.empty() && o.result()->type.is_scalar()) s.out = slot(o.result());
    numbers(o, s);
  }

  // The attributes that running needs.
  // Of the box that a bulk tensor copy moves; 0: its map is not known.
  std::int64_t box_bytes(const ir::op& copy) const {
    const auto& maps = p_.kernel->maps;
    const auto i = static_cast<size_t>(copy.integer("map"));
    if (i >= maps.size() || maps[i].parameter < 0 || static_cast<size_t>(maps[i].parameter) >= p_.kernel->parameters().size()) return 0;
    std::int64_t bytes = size_of(p_.kernel->parameters()[static_cast<size_t>(maps[i].parameter)]->type.element);
    for (std::int64_t b : maps[i].box) bytes *= b;
    return bytes;
  }

  void numbers(const ir::op& o, step& s) {
    const auto set = [&](std::int64_t a, std::int64_t b = 0, std::int64_t c = 0, std::int64_t d = 0) {
      s.imm[0] = a;
      s.imm[1] = b;
      s.imm[2] = c;
      s.imm[3] = d;
    };
    switch (o.code) {
      case opcode::mbarrier_init: return set(o.integer("count", 1));
      case opcode::mbarrier_arrive: return set(o.integer("count", 1));
      case opcode::mbarrier_expect: return set(o.integer("bytes"));
      case opcode::barrier_cta: return set(o.integer("id"), o.integer("threads"));
      case opcode::cluster_sync: return set(o.integer("relaxed"));
      case opcode::set_registers: return set(o.integer("count"), o.integer("increase"));
      case opcode::tma_wait: return set(o.integer("pending"), o.integer("read"));
      case opcode::wgmma_wait: return set(o.integer("pending"));
      case opcode::wgmma_mma: {
        const bool a_in_registers = o.operands[1]->type.is_tile();
        return set(a_in_registers, o.integer("n"), o.integer("ta"), o.integer("tb"));
      }
      case opcode::tmem_alloc:
      case opcode::tmem_free: return set(o.integer("columns"), o.integer("group", 1));
      case opcode::tmem_load:
      case opcode::tmem_store: {
        const ir::type& t = o.is(opcode::tmem_load) ? o.result()->type : o.operands[0]->type;
        const std::int64_t columns = std::max<std::int64_t>(1, static_cast<std::int64_t>(t.cols) * std::max(8, tile::bits(t.element)) / 32);
        const std::int64_t blocks = (t.rows + 127) / 128;
        return set(columns + (blocks - 1) * o.integer("block_columns", columns), 32);
      }
      case opcode::tmem_fence: return set(o.integer("before"));
      case opcode::tcgen05_mma: return set(o.integer("idesc"), o.integer("group", 1), o.operands[1]->type.element != ir::element::s64 && o.operands[1]->type.element != ir::element::u64);
      case opcode::tcgen05_scaled: return set(o.integer("idesc"));
      case opcode::tcgen05_commit: return set(o.integer("multicast"), o.integer("group", 1));
      case opcode::tma_load: return set(box_bytes(o), o.integer("multicast"), o.integer("group", 1));
      case opcode::tma_store: return set(box_bytes(o));
      default: return;
    }
  }

  // A conversion between warps: they meet, write, meet and read.
  void convert(const ir::op& o, int place) {
    const ir::type& t = o.operands[0]->type;
    const int size = static_cast<int>(size_of(t.element)), touches = touch_all(static_cast<std::int64_t>(t.rows) * t.cols * size);
    for (int i = 0; i < 4; ++i) {
      step& s = add(doing::act, o, place);
      if (i % 2 == 0) {
        s.code = opcode::barrier_cta;
        s.imm[0] = o.integer("id");
        s.imm[1] = o.integer("threads");
      } else {
        s.code = i == 1 ? opcode::shared_write : opcode::shared_read;
        s.imm[3] = 1;  // the address is imm[2]
        s.imm[2] = o.integer("scratch");
        s.touches = touches;
      }
    }
  }

  program p_;
  std::map<value, int> parameters_;
  std::unordered_map<value, std::vector<const ir::op*>> setters_;
  std::unordered_map<value, const ir::op*> loop_of_;
  std::unordered_map<value, int> slots_;
  std::set<const ir::op*> wanted_;
  std::set<value> accumulators_, cells_;
};

}  // namespace

program flatten(const ir::kernel& k) { return flattener(k).run(); }

}  // namespace tlx::check
