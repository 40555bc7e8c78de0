// The instructions that are more than register arithmetic: one function each, with the engine at hand.
#pragma once
#include "sim/state.hpp"

namespace tlx::sim {

#define TLX_SIM_OPERATION(name) step name(engine& e, warp& w, context& c, const instruction& i, lanes active)
// control
TLX_SIM_OPERATION(op_branch);
TLX_SIM_OPERATION(op_branch_table);
TLX_SIM_OPERATION(op_exit);
TLX_SIM_OPERATION(op_function_exit);
TLX_SIM_OPERATION(op_call);
TLX_SIM_OPERATION(op_call_indirect);
TLX_SIM_OPERATION(op_save_frame);
TLX_SIM_OPERATION(op_copy_local);
TLX_SIM_OPERATION(op_print);
TLX_SIM_OPERATION(op_fence);
TLX_SIM_OPERATION(op_trap);
TLX_SIM_OPERATION(op_nothing);
TLX_SIM_OPERATION(op_yield);
TLX_SIM_OPERATION(op_time);
TLX_SIM_OPERATION(op_assert_fail);
// memory
TLX_SIM_OPERATION(op_load);
TLX_SIM_OPERATION(op_store);
TLX_SIM_OPERATION(op_atomic);
TLX_SIM_OPERATION(op_is_space);
TLX_SIM_OPERATION(op_map_address);
TLX_SIM_OPERATION(op_rank_of_address);
TLX_SIM_OPERATION(op_store_bulk);
// warp
TLX_SIM_OPERATION(op_shuffle);
TLX_SIM_OPERATION(op_vote);
TLX_SIM_OPERATION(op_match);
TLX_SIM_OPERATION(op_redux);
TLX_SIM_OPERATION(op_elect);
TLX_SIM_OPERATION(op_active_mask);
TLX_SIM_OPERATION(op_warp_barrier);
// barriers
TLX_SIM_OPERATION(op_cta_barrier);
TLX_SIM_OPERATION(op_cluster_barrier);
TLX_SIM_OPERATION(op_mbarrier);
TLX_SIM_OPERATION(op_mbarrier_wait);
TLX_SIM_OPERATION(op_set_registers);
// asynchronous copies
TLX_SIM_OPERATION(op_copy_async);
TLX_SIM_OPERATION(op_copy_async_group);
TLX_SIM_OPERATION(op_copy_async_arrive);
TLX_SIM_OPERATION(op_bulk_copy);
TLX_SIM_OPERATION(op_bulk_group);
TLX_SIM_OPERATION(op_tensor_copy);
TLX_SIM_OPERATION(op_tensormap_replace);
TLX_SIM_OPERATION(op_tensormap_copy);
TLX_SIM_OPERATION(op_store_async);
TLX_SIM_OPERATION(op_launch_cancel);
TLX_SIM_OPERATION(op_launch_query);
// matrices
TLX_SIM_OPERATION(op_ldmatrix);
TLX_SIM_OPERATION(op_stmatrix);
TLX_SIM_OPERATION(op_ldmatrix_bytes);
TLX_SIM_OPERATION(op_stmatrix_bytes);
TLX_SIM_OPERATION(op_movmatrix);
TLX_SIM_OPERATION(op_mma_quads);
TLX_SIM_OPERATION(op_wmma_move);
TLX_SIM_OPERATION(op_wmma_mma);
TLX_SIM_OPERATION(op_mma_sync);
TLX_SIM_OPERATION(op_wgmma);
TLX_SIM_OPERATION(op_wgmma_fence);
TLX_SIM_OPERATION(op_wgmma_group);
TLX_SIM_OPERATION(op_tmem_alloc);
TLX_SIM_OPERATION(op_tmem_move);
TLX_SIM_OPERATION(op_tmem_copy);
TLX_SIM_OPERATION(op_tmem_commit);
TLX_SIM_OPERATION(op_tmem_wait);
TLX_SIM_OPERATION(op_tmem_fence);
TLX_SIM_OPERATION(op_tmem_mma);
#undef TLX_SIM_OPERATION

}  // namespace tlx::sim
