// Programs that leave while their GPUs work: objects destroyed before or after the driver's own end, in any order, from any thread. Without arguments it starts
// itself once for each way to leave and counts; exit code 77: no GPU.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tlx/runtime/gpu.hpp"

using namespace tlx;

namespace {

// Writes 1 to a word a long time later.
const char* const slow_ptx = R"(
.version 8.0
.target sm_90a
.address_size 64
.visible .entry slow(.param .u64 out)
.reqntid 32
{
  .reg .pred %p; .reg .b32 %i; .reg .b64 %a;
  mov.u32 %i, 0;
again:
  nanosleep.u32 1000;
  add.u32 %i, %i, 1;
  setp.lt.u32 %p, %i, 20000;
  @%p bra again;
  ld.param.u64 %a, [out];
  st.global.u32 [%a], 1;
  ret;
}
)";

struct work {
  std::unique_ptr<device::machine> gpu;
  std::shared_ptr<device::module> code;
  device::buffer out;
  std::unique_ptr<runtime::stream> stream;
  std::unique_ptr<runtime::event> event;
  std::unique_ptr<runtime::graph> graph;

  void start(int ordinal) {
    gpu = runtime::open(ordinal);
    code = gpu->load({.ptx = slow_ptx, .cubin = {}});
    out = device::buffer(*gpu, 4);
    stream = std::make_unique<runtime::stream>(*gpu);
    event = std::make_unique<runtime::event>(*gpu);
    device::launch how;
    how.block = {32, 1, 1};
    how.arguments = {device::scalar(out.where())};
    how.stream = stream->handle();
    stream->begin_capture();
    gpu->run(*code, "slow", how);
    graph = std::make_unique<runtime::graph>(stream->end_capture());
    gpu->run(*code, "slow", how);
    graph->launch(stream->handle());
    event->record(stream->handle());
  }
};

// Destroyed after main, in the opposite order of these lines; the driver is loaded later than they are made, so its own exit handlers run before.
device::buffer early_buffer;
std::unique_ptr<runtime::stream> early_stream;
std::shared_ptr<device::module> early_code;
work late[8];
std::unique_ptr<device::machine> last_machine;

std::vector<int> gpus() {
  std::vector<int> all;
  for (int i = 0; i < runtime::gpu_count() && i < 8; ++i)
    if (runtime::open(i)->about().target == "sm_90a") all.push_back(i);
  return all;
}

int leave(const std::string& how) {
  for (int i : gpus()) late[i].start(i);
  const int one = gpus().front();
  if (how == "locals") {
    work mine;
    mine.start(one);
    return 0;
  }
  if (how == "machine-first") {  // its buffer, stream and module outlive the machine
    last_machine = runtime::open(one);
    early_buffer = device::buffer(*last_machine, 100);
    early_stream = std::make_unique<runtime::stream>(*last_machine);
    early_code = last_machine->load({.ptx = slow_ptx, .cubin = {}});
    return 0;
  }
  if (how == "statics") return 0;
  if (how == "exit") std::exit(0);
  if (how == "quick_exit") std::quick_exit(0);
  if (how == "_exit") _exit(0);
  if (how == "exit-from-thread") {
    std::thread([] { std::exit(0); }).join();
    return 1;
  }
  if (how == "threads-at-work") {  // a thread goes on launching while the process ends
    std::thread([one] {
      device::launch what;
      what.block = {32, 1, 1};
      what.arguments = {device::scalar(late[one].out.where())};
      what.stream = late[one].stream->handle();
      try {
        for (;;) late[one].gpu->run(*late[one].code, "slow", what);
      } catch (const std::exception&) {
        for (;;) pause();
      }
    }).detach();
    usleep(20000);
    std::quick_exit(0);
  }
  std::fprintf(stderr, "no such way to leave: %s\n", how.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2) return gpus().empty() ? 77 : leave(argv[1]);
  // The driver is not loaded here: children are new programs all the same.
  int passed = 0, failed = 0;
  for (const char* how : {"statics", "locals", "machine-first", "exit", "quick_exit", "_exit", "exit-from-thread", "threads-at-work"}) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(60);
      execl("/proc/self/exe", argv[0], how, static_cast<char*>(nullptr));
      _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    const bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) return std::puts("skipped: no GPU that runs sm_90a"), 77;
    std::printf("%s: %s\n", how, good ? "ends well" : WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "ends with an error");
    ++(good ? passed : failed);
  }
  std::printf("cases: %d passed, %d failed, 0 skipped\n", passed, failed);
  return failed ? 1 : 0;
}
