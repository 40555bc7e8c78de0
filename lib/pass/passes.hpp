// The passes, one verb each; every file of this folder implements one. Contracts stand here, once.
#pragma once
#include "tlx/ir/kernel.hpp"

namespace tlx::pass {

/// Raises for kernels that nobody runs: no warps, too many, tiles outside of the roles. Changes nothing.
void check_roles(ir::kernel& k);
/// Raises for rings that cannot work: never filled, never drained, filled by two roles. Changes nothing.
void check_rings(ir::kernel& k);
/// wgmma targets: roles joined by accumulator rings become one role, since an accumulator lives in the registers of the warps that use it.
void merge_roles(ir::kernel& k);
/// wgmma targets: a role in turns becomes two that take every other tile, and share the rings that they drain.
void take_turns(ir::kernel& k);
/// tcgen05 targets: of a pair of CTAs that multiplies together each keeps half of the second operand, and one issues the products of both.
void halve_operands(ir::kernel& k);
/// An accumulator whose MMA loop may run no round reads as zero: the reader recomputes the loop's bounds.
void guard_reads(ir::kernel& k);
/// Reads of wide accumulators whose values only reach stores are walked in column chunks.
void chunk_reads(ir::kernel& k);
/// wgmma targets: a tile's stores move behind the first MMA steps of the next tile, where registers for the finished tile are left.
void defer_stores(ir::kernel& k);
/// Every register tile gets its layout; conversions are inserted where two meet.
void assign_layouts(ir::kernel& k);
/// tcgen05 targets: columns for every accumulator.
void assign_tensor_memory(ir::kernel& k);
/// Bytes for ring slots, staging of stores and operands, barriers. Sets kernel.shared_bytes.
void assign_shared_memory(ir::kernel& k);
/// Rings become mbarriers, phases and slot addresses; set-up and tear-down of barriers and tensor memory. No ring op afterwards.
void insert_barriers(ir::kernel& k);
/// tile.load and tile.store become bulk tensor copies (and masked stores where rows are jagged).
void lower_moves(ir::kernel& k);
/// mma and acc.read become wgmma or tcgen05 instructions.
void lower_mma(ir::kernel& k);
/// Deferred stores that found no step leave in rounds of the MMA loop without products, not after it.
void fold_rest(ir::kernel& k);
/// Roles become branches on the warp index with register budgets.
void split_roles(ir::kernel& k);
/// The kernel may start while the one before it ends: it waits for that one before it touches memory, and lets its successor do the same.
void order_launches(ir::kernel& k);
/// Folds constants and drops what nobody uses.
void simplify(ir::kernel& k);

}  // namespace tlx::pass
