// A pair of CTAs that multiplies together: what the protocol check says when one of the two is not told, announced, counted or met.
#include <doctest/doctest.h>

#include "tests/mutation/operators.hpp"
#include "tests/pass/steps.hpp"
#include "text.hpp"
#include "tlx/dsl/kernel.hpp"
#include "tlx/kernels/gemm.hpp"

using namespace tlx;
using ir::op;
using ir::opcode;
using test::id_of;

namespace {

struct arguments {
  TLX_ARGUMENTS(arguments, (view<bf16, 2>, a), (view<bf16, 2>, b), (view<bf16, 2>, c));
};

std::unique_ptr<ir::kernel> pair_product() {
  auto k = trace<arguments>("pair", "sm_100a", [](block& cta, const arguments& in) {
    kernels::gemm<bf16, kernels::paired<kernels::gemm_plan<128, 64, 64, 3>>>(cta, in, kernels::plain_epilogue{});
  });
  test::run_passes(*k);
  return k;
}

std::vector<op*> all_of(ir::kernel& k, opcode code) {
  std::vector<op*> found;
  ir::walk(k.body, [&](op& o) {
    if (o.is(code)) found.push_back(&o);
  });
  return found;
}

// What the check finds first after `change` of the n-th op of a kind.
template <class Change>
std::string finding(opcode code, size_t n, Change&& change) {
  const auto k = pair_product();
  const std::vector<op*> all = all_of(*k, code);
  REQUIRE(n < all.size());
  change(*all[n]);
  return id_of(check::check_protocol(*k));
}

std::int64_t count_of(const ir::kernel& k, const std::string& ring, const std::string& part) {
  for (const ir::place& p : k.places)
    if (p.ring == ring && p.part == part) {
      std::int64_t count = 0;
      ir::walk(k.body, [&](const op& o) {
        if (o.is(opcode::mbarrier_init) && o.operands[0]->owner->integer("offset") == p.offset) count = o.integer("count");
      });
      return count;
    }
  return -1;
}

}  // namespace

TEST_CASE("a pair's product is clean: operands count the leader's announcement and one commit, sums one commit and the warps of both") {
  const auto k = pair_product();
  const check::verdict v = check::check_protocol(*k);
  CHECK_MESSAGE(v.findings.empty(), check::to_string(v));
  CHECK(v.unchecked.empty());
  CHECK(count_of(*k, "ab", "full") == 1);
  CHECK(count_of(*k, "ab", "empty") == 1);
  CHECK(count_of(*k, "d", "full") == 1);
  CHECK(count_of(*k, "d", "empty") == 8);
  for (const op* mma : all_of(*k, opcode::tcgen05_mma)) CHECK((mma->integer("idesc") >> 24 & 31) == 16);  // M = 256
  for (const op* expect : all_of(*k, opcode::mbarrier_expect)) CHECK(expect->integer("bytes") == 2 * (128 + 32) * 64 * 2);
}

TEST_CASE("a commit that reaches one CTA of a pair leaves the other waiting") {
  for (size_t n : {0, 1})
    for (std::int64_t mask : {1, 2}) CHECK(finding(opcode::tcgen05_commit, n, [&](op& o) { o.set("multicast", mask); }) == "protocol-deadlock");
}

TEST_CASE("the bytes of both CTAs are announced, once") {
  const auto half = [](op& o) { o.set("bytes", o.integer("bytes") / 2); };
  const std::string id = finding(opcode::mbarrier_expect, 0, half);
  CHECK((id == "protocol-bytes" || id == "protocol-read-early" || id == "protocol-deadlock"));
  CHECK(finding(opcode::tma_load, 0, [](op& o) { o.set("group", std::int64_t{1}); }) != "");  // signals its own barrier
}

TEST_CASE("a pair meets before the first copy and before it frees tensor memory") {
  CHECK(finding(opcode::cluster_sync, 0, [](op& o) { ir::erase(o); }) == "protocol-barrier");
  const std::string end = finding(opcode::cluster_sync, 1, [](op& o) { ir::erase(o); });
  CHECK((end == "protocol-tensor-memory" || end == "protocol-exit"));
}

TEST_CASE("each warp of both epilogues gives the sums back to the leader") {
  CHECK(finding(opcode::mbarrier_remote, 0, [](op& o) { ir::erase(o); }) == "protocol-deadlock");
}

TEST_CASE("every mutant of a pair's product by these operators is found") {
  const auto k = pair_product();
  int sites = 0;
  mutation::for_each_mutant(*k, 0, 1, [&](mutation::mutant& m) {
    for (const char* name : {"drop-expect", "drop-init", "drop-tensor-commit", "drop-load", "count-more", "count-less", "bytes-more", "bytes-less", "wrong-phase"})
      if (m.name == name) {
        ++sites;
        CAPTURE(m.name + " at " + m.site);
        CHECK(!check::check_protocol(*m.kernel).findings.empty());
      }
  });
  CHECK(sites > 20);
}
