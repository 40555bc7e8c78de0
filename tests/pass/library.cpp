// Every kernel of the library through every pass: the text form keeps each state, and barriers expect the arrivals that are made.
#include <doctest/doctest.h>

#include <map>

#include "steps.hpp"
#include "tlx/host/library.hpp"
#include "tlx/support/text.hpp"

using namespace tlx;
using ir::opcode;

namespace {

// The first byte of the barrier array behind an address, and of which slot it is where that is fixed.
std::int64_t array_of(ir::value address) {
  const ir::op* o = address->owner;
  if (!o) return -1;
  if (o->is(opcode::shared_base)) return o->integer("offset");
  if (o->is(opcode::add)) return array_of(o->operands[0]);
  return -1;
}

bool is_elect(const ir::op& branch) {
  const ir::op* c = branch.operands[0]->owner;
  return c && c->is(opcode::elect);
}
bool is_first_warp(const ir::op& branch) {
  const ir::op* c = branch.operands[0]->owner;
  return c && c->is(opcode::compare) && c->text("is") == "eq" && c->operands[0]->owner && (c->operands[0]->owner->is(opcode::role_warp) || c->operands[0]->owner->is(opcode::warp_id));
}

// Of a pair of CTAs one runs the role that multiplies.
bool in_leader(const ir::op& o) {
  for (const ir::region* r = o.parent; r && r->parent; r = r->parent->parent)
    if (r->parent->has("leads")) return true;
  return false;
}

// How many threads of the agent arrive when this op is reached once.
std::int64_t arrivals(const ir::kernel& k, const ir::op& o, std::string& agent) {
  bool elected = false, first = false;
  std::int64_t warps = k.warps;
  agent = "cta";
  for (const ir::region* r = o.parent; r && r->parent; r = r->parent->parent) {
    const ir::op& around = *r->parent;
    if (around.is(opcode::if_then)) {
      elected = elected || is_elect(around);
      first = first || is_first_warp(around);
    }
    if (around.is(opcode::role)) {
      warps = around.integer("warps");
      agent = around.text("name");
      if (around.has("turn")) agent.erase(agent.rfind('_'));  // of roles in turns one drains a slot
    }
  }
  const bool one_lane = elected || o.operands.size() == (o.is(opcode::mbarrier_remote) ? 3 : 2);  // an arrive with a condition is that of a leader
  if (warps == 1 && !one_lane) return 1;                     // a role of one lane
  if (!one_lane) return warps * 32;
  return first ? 1 : warps;
}

}  // namespace

TEST_CASE("the text form keeps every library kernel after every pass") {
  int states = 0;
  for (const char* target : {"sm_90a", "sm_100a"})
    for (const host::library_kernel& each : host::library_kernels(target)) {
      CAPTURE(each.name);
      CAPTURE(target);
      const auto k = each.trace(target);
      CHECK(k->name == each.name);
      auto round_trip = [&](const std::string& stage, const ir::kernel& now) {
        CAPTURE(stage);
        const std::string text = ir::print(now);
        const auto back = ir::parse(text);
        CHECK(ir::print(*back) == text);
        CHECK(ir::verify(*back).empty());
        CHECK(ir::print(*ir::clone(now)) == text);
        ++states;
      };
      round_trip("trace", *k);
      test::run_passes(*k, "simplify", round_trip);
    }
  CHECK(states > 2 * 30 * 12);
}

TEST_CASE("every barrier of every library kernel counts the arrivals that its roles make") {
  for (const char* target : {"sm_90a", "sm_100a"})
    for (const host::library_kernel& each : host::library_kernels(target)) {
      CAPTURE(each.name);
      CAPTURE(target);
      const auto k = each.trace(target);
      test::run_passes(*k, "insert-barriers");
      std::map<std::int64_t, std::int64_t> expected;                             // by address of the barrier
      std::map<std::int64_t, std::map<std::string, std::int64_t>> made;          // by array and agent
      std::map<std::int64_t, int> waits;
      ir::walk(k->body, [&](const ir::op& o) {
        std::string agent;
        if (o.is(opcode::mbarrier_init)) expected[array_of(o.operands[0])] = o.integer("count");
        if (o.is(opcode::mbarrier_wait)) ++waits[array_of(o.operands[0])];
        const bool everywhere = o.is(opcode::mbarrier_remote) || (o.integer("multicast") != 0 && !in_leader(o));  // each CTA of the cluster arrives in all of them
        if (!o.is(opcode::mbarrier_arrive) && !o.is(opcode::mbarrier_expect) && !o.is(opcode::tcgen05_commit) && !o.is(opcode::mbarrier_remote)) return;
        const std::int64_t n = arrivals(*k, o, agent) * o.integer("count", 1) * (everywhere ? k->cluster[0] : 1);
        // The commit of the products is an arrival beside those of warps that read the slot, too.
        std::int64_t& most = made[array_of(o.operands[0])][o.is(opcode::tcgen05_commit) ? agent + ", products" : agent];
        most = std::max(most, n);
      });
      const auto is = [&](const char* start) { return each.name.rfind(start, 0) == 0; };
      CHECK(made.empty() == (is("sum_parts") || is("flash_attention_delta") || is("flash_attention_prepare") || is("flash_attention_finish") || is("flash_attention_without_keys")));  // they move nothing in bulk
      for (const auto& entry : made) {
        const auto array = entry.first;  // clang 14 cannot capture a structured binding
        const auto& by_agent = entry.second;
        std::int64_t sum = 0;
        for (const auto& [agent, n] : by_agent) sum += n;
        CAPTURE(array);
        REQUIRE(expected.count(array) == 1);
        CHECK(expected[array] == sum);
        CHECK(waits[array] > 0);
      }
    }
}

TEST_CASE("no library kernel asks for more than its target has, and GEMM fills most of shared memory") {
  for (const char* target : {"sm_90a", "sm_100a"})
    for (const host::library_kernel& each : host::library_kernels(target)) {
      CAPTURE(each.name);
      const auto k = each.trace(target);
      test::run_passes(*k);
      CHECK(k->shared_bytes <= 232448);
      CHECK(k->warps * 32 <= 1024);
      if (each.name.find("128x256") != std::string::npos) CHECK(k->shared_bytes > (each.name.rfind("normed_", 0) == 0 || each.name.rfind("scaled_", 0) == 0 ? 180000 : 190000));  // what is staged of a normed tile takes the place of a stage, as scales do
      ir::walk(k->body, [&](const ir::op& o) {
        if (o.is(opcode::tma_load) || o.is(opcode::tma_store)) CHECK(static_cast<size_t>(o.integer("map")) < k->maps.size());
      });
    }
}
