#include "runtime/captures.hpp"

namespace tlx::runtime {

namespace {

struct capture_state {
  bool active = false;
  std::uint64_t id = 0;
  const cu::graph_node* last = nullptr;  // what the next piece of work of the stream would wait for
  size_t last_count = 0;
};

capture_state ask(const driver& d, cu::stream where) {
  capture_state s;
  int status = 0;
  cu::graph graph = nullptr;
  s.active = d.capture_info(where, &status, &s.id, &graph, &s.last, &s.last_count) == cu::success && status == cu::capture_active;
  return s;
}

}  // namespace

void captures::begin(const driver& d, cu::stream where) {
  const capture_state s = ask(d, where);
  if (!s.active) return;
  std::lock_guard lock(guard_);
  if (all_.emplace(s.id, std::vector<cu::graph_node>()).second) running_.fetch_add(1, std::memory_order_release);
}

void captures::remember(const driver& d, cu::stream where) {
  const capture_state s = ask(d, where);
  if (!s.active || s.last_count != 1) return;
  std::lock_guard lock(guard_);
  const auto found = all_.find(s.id);  // a capture that another library began is its own business
  if (found != all_.end()) found->second.push_back(*s.last);
}

std::vector<cu::graph_node> captures::end(const driver& d, cu::stream where) {
  const capture_state s = ask(d, where);
  std::lock_guard lock(guard_);
  const auto found = all_.find(s.id);
  if (found == all_.end()) return {};
  std::vector<cu::graph_node> nodes = std::move(found->second);
  all_.erase(found);
  running_.fetch_sub(1, std::memory_order_release);
  return nodes;
}

}  // namespace tlx::runtime
