// A list of jagged tiles for persistent roles whose search for the next tile runs during the present one.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "tlx/dsl/tiles.hpp"

namespace tlx {

/// A tile of jagged_ahead: part `part` of the Rows tokens. look_ahead() finds the CTA's next tile: to be called once on each way
/// through the body (or on none), where there is something to wait for anyway.
struct jagged_ahead_box : jagged_box {
  index part = {};
  std::function<void()> look_ahead = {};
};

/// jagged_tiles, each in Parts parts that follow each other: the search for a CTA's next tile runs at the place where the body calls look_ahead() (at its end, if it
/// does not), and is not waited for between two tiles. Walked by cta.roles only.
template <int Rows, int Parts = 1>
class jagged_ahead {
 public:
  using box = jagged_ahead_box;
  template <class T>
  jagged_ahead(const view<std::int32_t, 1>& offsets, const view<T, 3>& tokens)
      : offsets_(offsets), heads_(tokens.extent(1)), all_(offsets, tokens), count_formula_("(mul " + std::to_string(Parts) + " " + all_.count_formula() + ")") {}
  index count() const { return all_.count() * Parts; }
  const std::string& count_formula() const { return count_formula_; }
  dsl::context& home() const { return heads_.home(); }

  template <class Body>
  void visit(const index& tile, Body&& body) const {
    dsl::context& c = home();
    ir::op& loop = dsl::loop_over_tiles(c);
    const std::unique_ptr<found> now = dsl::before(c, loop, [&] { return std::make_unique<found>(c, find(index(c, loop.operands[0]))); });
    const index sequence = now->sequence.get(), first = now->first.get(), rows = now->rows.get(), position = now->position.get();
    bool looked = false;
    const auto look = [&] {
      looked = true;
      now->set(find(tile + index(c, loop.operands[2])));
    };
    const index part = tile % Parts, earlier = part * (Rows / Parts);
    when(rows > earlier, [&] {
      body(jagged_ahead_box{{first, tile / Parts % heads_, rows, position, sequence}, part, look});
      if (!looked) look();
    });
    when(rows <= earlier, look);
  }

 private:
  struct found {
    cell<std::int32_t> sequence, first, rows, position;
    found(dsl::context& c, const found_rows& f) : sequence(c, f.sequence), first(c, f.first), rows(c, f.rows), position(c, f.position) {}
    void set(const found_rows& f) {
      sequence.set(f.sequence);
      first.set(f.first);
      rows.set(f.rows);
      position.set(f.position);
    }
  };
  found_rows find(const index& tile) const { return find_rows<Rows>(offsets_, tile / Parts / heads_); }
  view<std::int32_t, 1> offsets_;
  index heads_;
  jagged_tiles<Rows> all_;
  std::string count_formula_;
};

}  // namespace tlx
