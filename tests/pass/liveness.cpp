// What lies where something else has died: slots of shared memory, columns of tensor memory, groups of products that may stay in flight.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "steps.hpp"
#include "tlx/kernels/attention.hpp"

using namespace tlx;
using ir::opcode;

namespace {

std::unique_ptr<ir::kernel> backward(const char* target) {
  return trace<kernels::attention_backward_arguments<bf16>>("k", target, [](block& cta, const auto& in) { kernels::block_attention_backward<bf16, 64, 64>(cta, in); });
}

std::map<std::string, std::int64_t> slots_of(ir::kernel& k) {
  std::map<std::string, std::int64_t> at;
  ir::walk(k.body, [&](const ir::op& o) {
    if (o.is(opcode::ring_make)) at[o.text("name")] = o.integer("offset");
  });
  return at;
}

std::vector<std::int64_t> pending_waits(const ir::kernel& k) {
  std::vector<std::int64_t> found;
  ir::walk(k.body, [&](const ir::op& o) {
    if (o.is(opcode::wgmma_wait)) found.push_back(o.integer("pending"));
  });
  return found;
}

}  // namespace

TEST_CASE("results of attention's backward pass are staged where operands were, and ds where v was") {
  auto k = backward("sm_90a");
  test::run_passes(*k, "assign-shared-memory");
  const auto at = slots_of(*k);
  CHECK(at.at("ds") == at.at("v"));
  CHECK(at.at("p") != at.at("v"));
  std::vector<std::int64_t> stages;
  ir::walk(k->body, [&](const ir::op& o) {
    if (!o.is(opcode::tile_store)) return;
    stages.push_back(o.integer("stage"));
    CHECK(o.integer("meet") == 1);
    CHECK(o.integer("pending") == -1);
  });
  CHECK(stages.size() == 3);
  CHECK(std::set<std::int64_t>(stages.begin(), stages.end()).size() == 3);  // each in a slot of its own
  CHECK(stages[0] != at.at("q"));                                           // dq and dk still read q and k when dv leaves
  CHECK(stages[0] != at.at("k"));
  CHECK(stages[1] != at.at("q"));
  CHECK(k->shared_bytes < 5 * 8192 + 1024);
}

TEST_CASE("what threads have read and rotated takes the slot that it came from, and results the slots of rotated operands") {
  using kernels::rotary_pairs;
  auto k = trace<kernels::attention_rotary_backward_arguments<bf16>>("k", "sm_90a", [](block& cta, const auto& in) {
    kernels::block_attention_rotary_backward<bf16, 64, 64, rotary_pairs::halves>(cta, in);
  });
  test::run_passes(*k, "assign-shared-memory");
  const auto at = slots_of(*k);
  CHECK(at.at("rotated q") == at.at("q"));
  CHECK(at.at("rotated k") == at.at("k"));
  CHECK(at.at("ds") == at.at("v"));
  std::vector<std::int64_t> stages;  // dv, the halves of dq, the halves of dk
  ir::walk(k->body, [&](const ir::op& o) {
    if (o.is(opcode::tile_store)) stages.push_back(o.integer("stage"));
  });
  CHECK(stages == std::vector<std::int64_t>{at.at("do"), at.at("k"), at.at("k") + 4096, at.at("q"), at.at("q") + 4096});
}

TEST_CASE("every part of a slot of jagged rows is zeroed beyond the valid ones, by one meeting of the warps") {
  auto k = trace<kernels::attention_rotary_arguments<bf16>>("k", "sm_90a", [](block& cta, const auto& in) {
    kernels::block_attention_rotary<bf16, 64, 64, kernels::rotary_pairs::halves>(cta, in);
  });
  test::run_passes(*k, "insert-barriers");
  std::map<const ir::region*, std::set<ir::value>> zeroed;
  ir::walk(k->body, [&](const ir::op& o) {
    if (o.is(opcode::shared_zero)) zeroed[o.parent].insert(o.operands[0]);
  });
  std::multiset<size_t> tiles;
  for (const auto& [region, addresses] : zeroed) tiles.insert(addresses.size());
  CHECK(tiles == std::multiset<size_t>{1, 2, 2});  // v, the halves of q and of k
}

TEST_CASE("a slot that a product of a loop reads is not dead inside of the loop") {
  for (const char* target : {"sm_90a", "sm_100a"}) {
    auto k = trace<kernels::attention_backward_arguments<bf16>>("k", target, [](block& cta, const auto& in) { kernels::block_attention_backward_grouped<bf16, 64, 128>(cta, in); });
    test::run_passes(*k, "assign-shared-memory");
    const auto at = slots_of(*k);
    std::set<std::int64_t> places;
    for (const auto& [name, offset] : at) places.insert(offset);
    CHECK(places.size() == 6);
    ir::walk(k->body, [&](const ir::op& o) {
      if (o.is(opcode::tile_store)) CHECK(o.integer("stage") >= 4 * 16384 + 2 * 8192);  // behind all slots
    });
  }
}

TEST_CASE("accumulators whose values have been read give their columns away, and the warps meet before that") {
  auto k = backward("sm_100a");
  test::run_passes(*k, "assign-tensor-memory");
  std::vector<std::int64_t> columns;
  int again = 0;
  ir::walk(k->body, [&](const ir::op& o) {
    if (!o.is(opcode::acc_make)) return;
    columns.push_back(o.integer("tensor_column"));
    again += o.integer("reuses") == 1;
  });
  CHECK(columns == std::vector<std::int64_t>{0, 64, 0, 0, 0});  // s and dp live together, then dv, dq, dk one after another
  CHECK(again == 3);
}

TEST_CASE("a read waits for its own product and leaves newer ones in flight") {
  auto k = backward("sm_90a");
  test::run_passes(*k, "lower-mma");
  CHECK(pending_waits(*k) == std::vector<std::int64_t>{1, 0, 0, 0, 0});  // s while dp is in flight
}
