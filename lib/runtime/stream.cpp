// Streams, events and graphs: owners of driver handles. A destroyed handle whose context is lost is no error: it went with the context.
#include <utility>

#include "runtime/gpu_machine.hpp"
#include "tlx/runtime/gpu.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::runtime {

namespace {

cu::stream as_stream(std::uint64_t handle) { return reinterpret_cast<cu::stream>(handle); }

}  // namespace

struct graph::state {
  std::shared_ptr<gpu_context> context;
  cu::graph recorded;  // the nodes are its
  cu::graph_exec executable;
  std::vector<cu::graph_node> kernels;
  state(std::shared_ptr<gpu_context> c, cu::graph r, cu::graph_exec e, std::vector<cu::graph_node> k) : context(std::move(c)), recorded(r), executable(e), kernels(std::move(k)) {}
  state(const state&) = delete;
  state& operator=(const state&) = delete;
  ~state();
};

stream::stream(device::machine& gpu) : context_(as_gpu(gpu).context()) {
  const current scope(*context_);
  cu::stream made = nullptr;
  check(context_->d, context_->d.stream_create(&made, cu::stream_non_blocking), "cuStreamCreate");
  handle_ = made;
}
stream::stream(stream&& other) noexcept : context_(std::move(other.context_)), handle_(std::exchange(other.handle_, nullptr)) {}
stream& stream::operator=(stream&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(handle_, other.handle_);
  return *this;
}
stream::~stream() {
  if (handle_) quietly(*context_, [&](const driver& d) { d.stream_destroy(static_cast<cu::stream>(handle_)); });
}
std::uint64_t stream::handle() const { return reinterpret_cast<std::uint64_t>(handle_); }
void stream::wait() {
  const current scope(*context_);
  if (context_->flights.limited()) context_->flights.wait_for_stream(static_cast<cu::stream>(handle_));
  check(context_->d, context_->d.stream_synchronize(static_cast<cu::stream>(handle_)), "cuStreamSynchronize");
  context_->watched_modules.look(false, context_->flights);
}
void stream::wait_for(const event& point) {
  const current scope(*context_);
  check(context_->d, context_->d.stream_wait_event(static_cast<cu::stream>(handle_), static_cast<cu::event>(point.handle_), 0), "cuStreamWaitEvent");
}
void stream::begin_capture() {
  const current scope(*context_);
  check(context_->d, context_->d.capture_begin(static_cast<cu::stream>(handle_), cu::capture_thread_local), "cuStreamBeginCapture");
  context_->recorded.begin(context_->d, static_cast<cu::stream>(handle_));
}
graph stream::end_capture() {
  const current scope(*context_);
  const driver& d = context_->d;
  std::vector<cu::graph_node> kernels = context_->recorded.end(d, static_cast<cu::stream>(handle_));
  cu::graph recorded = nullptr;
  check(d, d.capture_end(static_cast<cu::stream>(handle_), &recorded), "cuStreamEndCapture");
  cu::graph_exec executable = nullptr;
  const cu::result made = d.graph_instantiate(&executable, recorded, 0);
  if (made != cu::success) d.graph_destroy(recorded);
  check(d, made, "cuGraphInstantiate");
  graph out;
  out.state_ = std::make_unique<graph::state>(context_, recorded, executable, std::move(kernels));
  return out;
}

graph::graph() = default;
graph::graph(graph&& other) noexcept = default;
graph& graph::operator=(graph&& other) noexcept = default;
graph::~graph() = default;
graph::state::~state() {
  quietly(*context, [&](const driver& d) {
    d.graph_exec_destroy(executable);
    d.graph_destroy(recorded);
  });
}

size_t graph::kernel_count() const { return state_->kernels.size(); }

void graph::update(size_t index, device::machine& gpu, device::module& code, const std::string& entry, const device::launch& how) {
  if (index >= state_->kernels.size()) {
    raise(user_error({.id = "graph-kernel-index",
                      .what = cat("the graph has ", state_->kernels.size(), " kernels that tlx launched, not ", index, " + 1"),
                      .because = "kernels are numbered from 0 in the order in which they were recorded",
                      .fix = {"ask kernel_count() first"}}));
  }
  as_gpu(gpu).change(state_->executable, state_->kernels[index], code, entry, how);
}

void graph::launch(std::uint64_t stream_handle) {
  gpu_context& in = *state_->context;
  const current scope(in);
  check(in.d, in.d.graph_launch(state_->executable, as_stream(stream_handle)), "cuGraphLaunch");
  if (in.flights.limited()) in.flights.launched(as_stream(stream_handle), "(a graph)");
}

event::event(device::machine& gpu) : context_(as_gpu(gpu).context()) {
  const current scope(*context_);
  cu::event made = nullptr;
  check(context_->d, context_->d.event_create(&made, cu::event_default), "cuEventCreate");
  handle_ = made;
}
event::event(event&& other) noexcept : context_(std::move(other.context_)), handle_(std::exchange(other.handle_, nullptr)) {}
event& event::operator=(event&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(handle_, other.handle_);
  return *this;
}
event::~event() {
  if (handle_) quietly(*context_, [&](const driver& d) { d.event_destroy(static_cast<cu::event>(handle_)); });
}
void event::record(std::uint64_t stream_handle) {
  const current scope(*context_);
  check(context_->d, context_->d.event_record(static_cast<cu::event>(handle_), as_stream(stream_handle)), "cuEventRecord");
}
void event::wait() {
  const current scope(*context_);
  if (context_->flights.limited()) context_->flights.wait_for_event(static_cast<cu::event>(handle_));
  check(context_->d, context_->d.event_synchronize(static_cast<cu::event>(handle_)), "cuEventSynchronize");
  context_->watched_modules.look(false, context_->flights);
}
float event::ms_since(const event& start) const {
  const current scope(*context_);
  float ms = 0;
  check(context_->d, context_->d.event_elapsed(&ms, static_cast<cu::event>(start.handle_), static_cast<cu::event>(handle_)), "cuEventElapsedTime");
  return ms;
}

}  // namespace tlx::runtime
