#include "tlx/host/warm_up.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

namespace tlx::host {

namespace {

using clock = std::chrono::steady_clock;

// One kernel for one target.
struct job {
  const library_kernel* kernel;
  std::vector<session*> on;  // machines of that target
};

std::vector<job> jobs_of(const std::vector<session*>& on, const std::vector<library_kernel>& kernels) {
  std::vector<std::vector<session*>> by_target;
  for (session* s : on) {
    const auto same = [&](const std::vector<session*>& group) { return group[0]->on().about().target == s->on().about().target; };
    const auto found = std::find_if(by_target.begin(), by_target.end(), same);
    if (found == by_target.end()) by_target.push_back({s});
    else found->push_back(s);
  }
  std::vector<job> all;
  for (const library_kernel& k : kernels)
    for (const std::vector<session*>& group : by_target) all.push_back({&k, group});
  return all;
}

class warming {
 public:
  warming(std::vector<job> jobs, const warm_up_options& how) : jobs_(std::move(jobs)), how_(how) {}

  // A thread's work: job after job.
  void work() {
    for (std::size_t i = next_++; i < jobs_.size(); i = next_++) finish(jobs_[i], make(jobs_[i]));
  }
  warm_up_result result() { return std::move(result_); }

 private:
  struct outcome {
    warm_up_step step;
    bool ready_before = false;
  };

  static outcome make(const job& j) {
    const auto start = clock::now();
    session& first = *j.on[0];
    outcome out;
    out.step.kernel = j.kernel->name;
    out.step.target = first.on().about().target;
    try {
      const std::optional<kernel_origin> from = first.prepare(j.kernel->name, j.kernel->trace);
      out.ready_before = !from;
      if (from) out.step.from = *from;
      for (std::size_t other = 1; other < j.on.size(); ++other) j.on[other]->adopt(*first.find(j.kernel->name));
    } catch (const std::exception& e) {
      out.step.error = e.what();
    }
    out.step.ms = std::chrono::duration<double, std::milli>(clock::now() - start).count();
    return out;
  }

  void finish(const job&, outcome o) {
    const std::lock_guard lock(guard_);
    o.step.done = ++done_;
    o.step.total = jobs_.size();
    if (!o.step.error.empty()) result_.failed.push_back(o.step);
    else if (o.ready_before) ++result_.ready_before;
    else ++(o.step.from == kernel_origin::bundle ? result_.from_bundle : o.step.from == kernel_origin::cache ? result_.from_cache : result_.compiled);
    if (how_.progress) how_.progress(o.step);
  }

  std::vector<job> jobs_;
  const warm_up_options& how_;
  std::atomic<std::size_t> next_{0};
  std::mutex guard_;
  std::size_t done_ = 0;
  warm_up_result result_;
};

}  // namespace

warm_up_result warm_up(const std::vector<session*>& on, const std::vector<library_kernel>& kernels, const warm_up_options& how) {
  const auto start = clock::now();
  std::vector<job> jobs = jobs_of(on, kernels);
  const std::size_t wanted = how.threads > 0 ? static_cast<std::size_t>(how.threads) : std::max(1u, std::thread::hardware_concurrency());
  const std::size_t threads = std::min(wanted, jobs.size());
  warming all(std::move(jobs), how);
  std::vector<std::thread> helpers;
  for (std::size_t t = 1; t < threads; ++t) helpers.emplace_back([&] { all.work(); });
  all.work();
  for (std::thread& t : helpers) t.join();
  warm_up_result out = all.result();
  out.seconds = std::chrono::duration<double>(clock::now() - start).count();
  return out;
}

warm_up_result warm_up(session& on, const std::vector<library_kernel>& kernels, const warm_up_options& how) { return warm_up(std::vector<session*>{&on}, kernels, how); }

}  // namespace tlx::host
