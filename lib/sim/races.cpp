// Happens-before between the agents of a launch.
#include "sim/ops.hpp"

namespace tlx::sim {

void engine::arrive_named(warp&, cta&, std::uint32_t, bool) {}
void engine::synchronise_named(cta&, std::uint32_t) {}
void engine::arrive_cluster(warp&, cluster&, bool) {}
void engine::synchronise_cluster(cluster&) {}
void engine::acquire_cluster(warp&, cluster&) {}
void engine::init_barrier(warp&, cta&, std::uint32_t) {}
void engine::arrive_mbarrier(warp&, cta&, std::uint32_t) {}
void engine::complete_phase(cta&, std::uint32_t) {}
void engine::acquire_mbarrier(warp&, cta&, std::uint32_t) {}
void engine::synchronise_warp(warp&) {}

void engine::async_read(warp&, cta&, std::uint32_t, std::size_t, const instruction*, int) {}
void engine::async_write(warp&, cta&, std::uint32_t, std::size_t, const instruction*, int) {}
void engine::generic_write(warp&, cta&, std::uint32_t, std::size_t, const instruction*, int) {}
void engine::async_landed(cta&, std::uint32_t, std::size_t, cta&, std::uint32_t) {}
void engine::observe_operation(warp&, std::uint64_t) {}
void engine::commit_issued(warp&, std::uint64_t) {}
void engine::commit_landed(cta&, std::uint32_t, std::uint64_t) {}

step op_fence(engine&, warp&, context&, const instruction&, lanes) { return step::next; }

}  // namespace tlx::sim
