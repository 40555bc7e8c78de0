// Vector clocks. A component is an actor (the elected lane of a warp, or its other lanes) or a queue of asynchronous work whose parts end in order.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

namespace tlx::check {

class clock {
 public:
  std::uint32_t get(int c) const { return static_cast<size_t>(c) < t_.size() ? t_[static_cast<size_t>(c)] : 0; }
  void raise(int c, std::uint32_t t) {
    if (static_cast<size_t>(c) >= t_.size()) t_.resize(static_cast<size_t>(c) + 1, 0);
    t_[static_cast<size_t>(c)] = std::max(t_[static_cast<size_t>(c)], t);
  }
  void join(const clock& other) {
    if (other.t_.size() > t_.size()) t_.resize(other.t_.size(), 0);
    for (size_t i = 0; i < other.t_.size(); ++i) t_[i] = std::max(t_[i], other.t_[i]);
  }
  void clear() { t_.clear(); }
  /// Whether something of `other` is not known here, but for components of which `skip` holds.
  template <class Skip>
  bool lacks(const clock& other, Skip&& skip) const {
    for (size_t i = 0; i < other.t_.size(); ++i)
      if (other.t_[i] > get(static_cast<int>(i)) && !skip(static_cast<int>(i))) return true;
    return false;
  }

 private:
  std::vector<std::uint32_t> t_;
};

/// What somebody knows to have happened before now.
struct knowledge {
  clock order;    // everything
  clock proxied;  // of that, what a proxy fence has made safe for asynchronous accesses (ordinary accesses to shared memory)
  void join(const knowledge& k) {
    order.join(k.order);
    proxied.join(k.proxied);
  }
  void clear() {
    order.clear();
    proxied.clear();
  }
};

/// A point in time: ticks of one or two components (a warp's elected lane and its other lanes).
struct event {
  int a = -1, b = -1;
  std::uint32_t at_a = 0, at_b = 0;
  bool in(const clock& c) const { return (a < 0 || c.get(a) >= at_a) && (b < 0 || c.get(b) >= at_b); }
};

}  // namespace tlx::check
