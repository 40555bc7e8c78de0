// Functions of the CUDA maths library: range reduction, tables, subnormals, double precision; against the host's libm.
#include <cmath>
#include "case.h"
extern "C" __global__ void maths(const float* x, const double* z, float* y, double* w) {
  int i = threadIdx.x, n = blockDim.x; float v = x[i]; double q = z[i];
  y[i] = sinf(v); y[n + i] = cosf(v * 1e5f); y[2 * n + i] = expf(v); y[3 * n + i] = logf(fabsf(v) + 1e-3f); y[4 * n + i] = powf(fabsf(v) + 0.1f, v); y[5 * n + i] = tanhf(v); y[6 * n + i] = erff(v); y[7 * n + i] = sqrtf(fabsf(v)); y[8 * n + i] = 1.0f / v; y[9 * n + i] = fmodf(v, 0.7f); y[10 * n + i] = atan2f(v, 0.3f); y[11 * n + i] = cbrtf(v); y[12 * n + i] = log1pf(fabsf(v)); y[13 * n + i] = ldexpf(v, i % 40 - 20); y[14 * n + i] = roundf(v * 10); y[15 * n + i] = rsqrtf(fabsf(v) + 0.01f);
  w[i] = sin(q * 1e3); w[n + i] = exp(q); w[2 * n + i] = log(fabs(q) + 1e-3); w[3 * n + i] = q / 3.0; w[4 * n + i] = sqrt(fabs(q)); w[5 * n + i] = pow(fabs(q) + 0.1, q); w[6 * n + i] = tanh(q); w[7 * n + i] = fmod(q, 0.3); w[8 * n + i] = (double)(long long)(q * 1e6); w[9 * n + i] = lgamma(fabs(q) + 0.5);
}
#ifndef __CUDA_ARCH__
int main(int, char** a) {
  uint32_t s = 8; const int n = 64; std::vector<float> x(n), y(16 * n); std::vector<double> z(n), w(10 * n);
  for (auto& v : x) v = uniform(s) * 5 + 1e-4f; for (auto& v : z) v = uniform(s) * 5 + 1e-4;
  for (int i = 0; i < n; ++i) { float v = x[i]; double q = z[i];
  float* Y[16]; for (int k = 0; k < 16; ++k) Y[k] = &y[k * n + i]; double* W[10]; for (int k = 0; k < 10; ++k) W[k] = &w[k * n + i];
  *Y[0] = sinf(v); *Y[1] = cosf(v * 1e5f); *Y[2] = expf(v); *Y[3] = logf(fabsf(v) + 1e-3f); *Y[4] = powf(fabsf(v) + 0.1f, v); *Y[5] = tanhf(v); *Y[6] = erff(v); *Y[7] = sqrtf(fabsf(v)); *Y[8] = 1.0f / v; *Y[9] = fmodf(v, 0.7f); *Y[10] = atan2f(v, 0.3f); *Y[11] = cbrtf(v); *Y[12] = log1pf(fabsf(v)); *Y[13] = ldexpf(v, i % 40 - 20); *Y[14] = roundf(v * 10); *Y[15] = 1.0f / sqrtf(fabsf(v) + 0.01f);
  *W[0] = sin(q * 1e3); *W[1] = exp(q); *W[2] = log(fabs(q) + 1e-3); *W[3] = q / 3.0; *W[4] = sqrt(fabs(q)); *W[5] = pow(fabs(q) + 0.1, q); *W[6] = tanh(q); *W[7] = fmod(q, 0.3); *W[8] = (double)(long long)(q * 1e6); *W[9] = lgamma(fabs(q) + 0.5); }
  case_writer c{a[1], "maths", "sm_90a", 1, 64}; c.input("x", "f32", x); c.input("z", "f64", z); c.output("y", "f32", y, "\"rtol\": 2e-6, \"atol\": 1e-7"); c.output("w", "f64", w, "\"rtol\": 1e-14, \"atol\": 1e-14"); c.write();
}
#endif
