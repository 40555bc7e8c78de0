// Facts about ring slots and staged stores that more than one pass needs.
#pragma once
#include "agents.hpp"
#include "tlx/tile/shared_tile.hpp"

namespace tlx::pass {

inline tile::shared_tile shared_tile_of(const ir::type& t) { return {t.element, t.rows, t.cols, t.swizzle_bytes, false}; }

/// Where a shared tile lies; of some rows of a tile, where the first of them does.
ir::value address_of(ir::builder& b, ir::value shared);
/// The stored tile: the whole of which `shared` may be some rows.
tile::shared_tile stored_tile_of(ir::value shared);

/// One stage, filled and drained at one place each, not in a loop: no slot is ever used twice, so nobody waits for it to be free.
bool is_single_shot(ir::kernel& k, const ir::op& ring);

/// The first row that `warp` owns, where stored_through_shared() holds.
ir::value first_row_of(ir::builder& b, ir::value warp, const agent& who, const tile::layout& l);

/// A store that goes through shared memory by bulk copies: each warp owns whole consecutive rows and its part of a row is whole 16-byte pieces.
bool stored_through_shared(const ir::kernel& k, const agent& who, const ir::op& store);

/// Writes zeros into a stored tile from row `first` on, by all warps of `who`; what follows must still be fenced and met.
void zero_rows(ir::builder& b, ir::value address, ir::value first, const ir::type& stored, const agent& who);

/// Columns of tensor memory for the scales of a block-scaled product: 4 for each unit of 32 x 16 bytes.
inline int scale_columns_of(const ir::op& product) { return (product.operands[4]->type.rows + product.operands[5]->type.rows) / 8; }

/// What one warp stages for a store: its rows of the tile.
tile::shared_tile slab_tile_of(const agent& who, const ir::type& stored);

}  // namespace tlx::pass
