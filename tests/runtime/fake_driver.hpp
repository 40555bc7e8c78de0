// What the tests ask of the fake driver, a library with the driver's entry points that works on host memory and counts calls.
#pragma once
#include "runtime/driver_types.hpp"

struct fake_control {
  int (*calls)(const char* symbol);                  // since the last reset
  void (*reset)();
  void (*fail)(const char* symbol, int code);        // from now on, until reset
  int (*pushed)();                                   // contexts on this thread's stack
  tlx::runtime::cu::context (*primary)();
  int (*retained)();
  void (*on_launch)(void (*look)(const tlx::runtime::cu::launch_config*, void** arguments));
  std::uint64_t* (*watch_words)();                   // a watched module's two variables: state, address of the records
  void (*own_streams)(tlx::runtime::cu::context c);  // whose streams all are, until reset; any but the primary one is of GPU 1
  void (*peers)(int can);                            // whether GPUs reach each other, until reset
};
