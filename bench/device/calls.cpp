// host:: calls for fused.py: plain C functions on addresses and a stream, bf16, one session on the device's primary context (PyTorch's). 0: done; else
// tlx_bench_error() says why.
#include <memory>
#include <string>

#include "tlx/host/gated.hpp"
#include "tlx/host/grouped.hpp"
#include "tlx/host/normed.hpp"
#include "tlx/jit/machines.hpp"

using namespace tlx;

namespace {

struct state {
  std::unique_ptr<device::machine> on;
  std::unique_ptr<host::session> with;
  std::string error;
};
state& here() {
  static state s;
  return s;
}

template <class Call>
int guarded(Call&& call) {
  try {
    call();
    return 0;
  } catch (const std::exception& e) {
    here().error = e.what();
    return 1;
  }
}

using address = std::uint64_t;
host::matrix rows(address data, std::int64_t r, std::int64_t c) { return {data, r, c}; }
host::matrix weights(address data, std::int64_t n, std::int64_t k) { return {data, k, n, 0, true}; }  // stored N x K
host::activation named(int activation) { return static_cast<host::activation>(activation); }          // none, relu, gelu, gelu_tanh, silu

}  // namespace

#define TLX_BENCH_CALL extern "C" __attribute__((visibility("default")))

TLX_BENCH_CALL const char* tlx_bench_error() { return here().error.c_str(); }
TLX_BENCH_CALL int tlx_bench_open(const char* device) {
  return guarded([&] {
    here().on = jit::open_machine(device);
    here().with = std::make_unique<host::session>(*here().on);
  });
}

/// c = activation(a b^T + bias) + residual
TLX_BENCH_CALL int tlx_bench_gemm(address a, address b, address c, std::int64_t m, std::int64_t n, std::int64_t k, address bias, address residual, int activation, address stream) {
  return guarded([&] {
    host::gemm_options how;
    how.bias = bias, how.activate = named(activation), how.stream = stream;
    if (residual) how.residual = rows(residual, m, n);
    host::gemm(*here().with, rows(a, m, k), weights(b, n, k), rows(c, m, n), how);
  });
}
/// c = activation(a g^T) * (a u^T)
TLX_BENCH_CALL int tlx_bench_gated(address a, address g, address u, address c, std::int64_t m, std::int64_t n, std::int64_t k, int activation, address stream) {
  return guarded([&] { host::gated_gemm(*here().with, rows(a, m, k), weights(g, n, k), weights(u, n, k), rows(c, m, n), {.activate = named(activation), .stream = stream}); });
}
/// c = (activation(a g^T) * (a u^T)) down^T; down: l x n
TLX_BENCH_CALL int tlx_bench_mlp(address a, address g, address u, address down, address c, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t l, int activation, address stream) {
  return guarded([&] {
    host::gated_mlp(*here().with, rows(a, m, k), weights(g, n, k), weights(u, n, k), weights(down, l, n), rows(c, m, l), {.activate = named(activation), .stream = stream});
  });
}
/// c = activation(rms(a) b^T + bias)
TLX_BENCH_CALL int tlx_bench_normed_gemm(address a, address b, address c, std::int64_t m, std::int64_t n, std::int64_t k, address bias, int activation, float epsilon, address stream) {
  return guarded([&] {
    host::normed_gemm(*here().with, rows(a, m, k), weights(b, n, k), rows(c, m, n), {.epsilon = epsilon, .bias = bias, .activate = named(activation), .stream = stream});
  });
}
/// c = gain * rms(a b^T + bias + residual)
TLX_BENCH_CALL int tlx_bench_gemm_normed(address a, address b, address c, std::int64_t m, std::int64_t n, std::int64_t k, address bias, address residual, address gain, float epsilon, address stream) {
  return guarded([&] {
    host::normed_options how{.epsilon = epsilon, .bias = bias, .gain = gain, .stream = stream};
    if (residual) how.residual = rows(residual, m, n);
    host::gemm_normed(*here().with, rows(a, m, k), weights(b, n, k), rows(c, m, n), how);
  });
}
/// c[rows of g] = a[rows of g] b[g]^T; offsets: groups + 1
TLX_BENCH_CALL int tlx_bench_grouped(address a, address b, address c, address offsets, std::int64_t groups, std::int64_t m, std::int64_t n, std::int64_t k, address stream) {
  return guarded([&] { host::grouped_gemm(*here().with, rows(a, m, k), weights(b, n, k), rows(c, m, n), offsets, groups, {.stream = stream}); });
}
