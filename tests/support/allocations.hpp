// Counts this thread's allocations. For one source of a test program: it replaces operator new. (Not inlined: g++ would see the free() of one without the malloc() of the other.)
#pragma once
#include <cstdlib>
#include <new>

namespace tlx::test {
inline thread_local long allocations = 0;
}

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++tlx::test::allocations;
  if (void* where = std::malloc(bytes ? bytes : 1)) return where;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* where) noexcept { std::free(where); }
[[gnu::noinline]] void operator delete(void* where, std::size_t) noexcept { std::free(where); }
