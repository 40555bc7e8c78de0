// Streams, events and graphs: owners of driver handles. A destroyed handle whose context is lost is no error: it went with the context.
#include <utility>

#include "runtime/gpu_machine.hpp"
#include "tlx/runtime/gpu.hpp"

namespace tlx::runtime {

namespace {

// Runs a destroy call in the context, without throwing.
template <class Destroy>
void quietly(const std::shared_ptr<gpu_context>& context, Destroy&& destroy) {
  if (!context) return;
  const driver& d = context->d;
  cu::context now = nullptr, popped = nullptr;
  const bool push = d.context_current(&now) != cu::success || now != context->handle;
  if (push && d.context_push(context->handle) != cu::success) return;
  destroy(d);
  if (push) d.context_pop(&popped);
}

cu::stream as_stream(std::uint64_t handle) { return reinterpret_cast<cu::stream>(handle); }

}  // namespace

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
  if (handle_) quietly(context_, [&](const driver& d) { d.stream_destroy(static_cast<cu::stream>(handle_)); });
}
std::uint64_t stream::handle() const { return reinterpret_cast<std::uint64_t>(handle_); }
void stream::wait() {
  const current scope(*context_);
  if (context_->flights.limited()) context_->flights.wait_for_stream(static_cast<cu::stream>(handle_));
  check(context_->d, context_->d.stream_synchronize(static_cast<cu::stream>(handle_)), "cuStreamSynchronize");
  context_->watched_modules.look(false, context_->flights);
}
void stream::begin_capture() {
  const current scope(*context_);
  check(context_->d, context_->d.capture_begin(static_cast<cu::stream>(handle_), cu::capture_thread_local), "cuStreamBeginCapture");
}
graph stream::end_capture() {
  const current scope(*context_);
  const driver& d = context_->d;
  cu::graph recorded = nullptr;
  check(d, d.capture_end(static_cast<cu::stream>(handle_), &recorded), "cuStreamEndCapture");
  cu::graph_exec executable = nullptr;
  const cu::result made = d.graph_instantiate(&executable, recorded, 0);
  d.graph_destroy(recorded);
  check(d, made, "cuGraphInstantiate");
  graph out;
  out.context_ = context_;
  out.executable_ = executable;
  return out;
}

graph::graph(graph&& other) noexcept : context_(std::move(other.context_)), executable_(std::exchange(other.executable_, nullptr)) {}
graph& graph::operator=(graph&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(executable_, other.executable_);
  return *this;
}
graph::~graph() {
  if (executable_) quietly(context_, [&](const driver& d) { d.graph_exec_destroy(static_cast<cu::graph_exec>(executable_)); });
}
void graph::launch(std::uint64_t stream_handle) {
  const current scope(*context_);
  check(context_->d, context_->d.graph_launch(static_cast<cu::graph_exec>(executable_), as_stream(stream_handle)), "cuGraphLaunch");
  if (context_->flights.limited()) context_->flights.launched(as_stream(stream_handle), "(a graph)");
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
  if (handle_) quietly(context_, [&](const driver& d) { d.event_destroy(static_cast<cu::event>(handle_)); });
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
