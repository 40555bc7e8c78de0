// A register tile that is made where it stands.
#pragma once
#include "tlx/dsl/tile.hpp"

namespace tlx {

/// Elements of a tile, made here and not at their first use: what they follow from is dead behind this place. 16-bit elements lie two in a register.
template <class T, int R, int C>
class kept {
 public:
  kept() = default;
  explicit kept(const tile_of<T, R, C>& x) : home_(&x.home()) {
    const ir::value made = x.used();
    cell_ = home_->at().var(tile_of<T, R, C>::type());
    home_->at().make(ir::opcode::var_set, {cell_, made}, {}, {{"now", std::int64_t{1}}});
  }
  tile_of<T, R, C> get() const { return {*home_, home_->at().get(home_->use(cell_, home_))}; }

 private:
  dsl::context* home_ = nullptr;
  ir::value cell_ = nullptr;
};

}  // namespace tlx
