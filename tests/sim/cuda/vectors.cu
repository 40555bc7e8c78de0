// Vector loads and stores of every width, packed structs, byte shuffles, constant and global arrays.
#include "case.h"
struct mixed { char a; short b; int c; double d; unsigned char e[3]; };
__constant__ int coefficients[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ float scale[4] = {0.5f, 2.0f, -1.0f, 8.0f};
static const int hc[8] = {3, 1, 4, 1, 5, 9, 2, 6}; static const float hs[4] = {0.5f, 2.0f, -1.0f, 8.0f};
extern "C" __global__ void vectors(const float4* a, const uchar4* b, const longlong2* c, const mixed* m, float4* ya, uchar4* yb, longlong2* yc, mixed* ym) {
  __shared__ uchar4 sb[128]; __shared__ double2 sd[128];
  int t = threadIdx.x;
  float4 v = a[t]; uchar4 u = b[t]; longlong2 l = c[t]; mixed s = m[t];
  sb[t ^ 1] = u; sd[(t + 5) % 128] = make_double2(v.x, s.d);
  __syncthreads();
  uchar4 w = sb[t]; double2 d = sd[t];
  ya[t] = make_float4(v.y * scale[t & 3], v.x + (float)d.x, v.w - 1, v.z * (float)coefficients[t & 7]);
  yb[t] = make_uchar4(w.w, w.x, (unsigned char)(w.y + u.z), (unsigned char)(w.z * 3));
  yc[t] = make_longlong2(l.y * 3, l.x ^ ((long long)s.c << 20));
  mixed r; r.a = (char)(s.a + 1); r.b = (short)(s.b * 2); r.c = __byte_perm(s.c, u.x, 0x4123); r.d = d.y * 2; r.e[0] = s.e[2]; r.e[1] = s.e[0]; r.e[2] = s.e[1];
  ym[t] = r;
}
#ifndef __CUDA_ARCH__
int main(int, char** ar) {
  uint32_t s = 6; const int n = 128; std::vector<float> a(n * 4), ya(n * 4); std::vector<unsigned char> b(n * 4), yb(n * 4); std::vector<long long> c(n * 2), yc(n * 2); std::vector<unsigned char> m(n * sizeof(mixed), 0), ym(n * sizeof(mixed), 0);
  std::vector<mixed> M(n); for (auto& v : a) v = (float)(lcg(s) % 100); for (auto& v : b) v = lcg(s); for (auto& v : c) v = (long long)lcg(s) << 20 | lcg(s);
  for (int i = 0; i < n; ++i) { mixed q; memset(&q, 0, sizeof q); q.a = lcg(s); q.b = lcg(s); q.c = lcg(s) * 77; q.d = lcg(s) % 1000; for (auto& e : q.e) e = lcg(s); memcpy(&M[i], &q, sizeof q); memcpy(&m[i * sizeof(mixed)], &q, sizeof q); }
  for (int t = 0; t < n; ++t) {
    const unsigned char* w = &b[(t ^ 1) * 4]; const unsigned char* u = &b[t * 4]; int from = (t + 123) % 128; double dx = a[from * 4], dy = M[from].d;
    ya[t * 4] = a[t * 4 + 1] * hs[t & 3]; ya[t * 4 + 1] = a[t * 4] + (float)dx; ya[t * 4 + 2] = a[t * 4 + 3] - 1; ya[t * 4 + 3] = a[t * 4 + 2] * (float)hc[t & 7];
    yb[t * 4] = w[3]; yb[t * 4 + 1] = w[0]; yb[t * 4 + 2] = w[1] + u[2]; yb[t * 4 + 3] = w[2] * 3;
    yc[t * 2] = c[t * 2 + 1] * 3; yc[t * 2 + 1] = c[t * 2] ^ ((long long)M[t].c << 20);
    mixed r; memset(&r, 0, sizeof r); r.a = M[t].a + 1; r.b = M[t].b * 2; unsigned x = M[t].c; unsigned char by[8] = {(unsigned char)x, (unsigned char)(x >> 8), (unsigned char)(x >> 16), (unsigned char)(x >> 24), u[0], 0, 0, 0}; r.c = by[3] | by[2] << 8 | by[1] << 16 | by[4] << 24; r.d = dy * 2; r.e[0] = M[t].e[2]; r.e[1] = M[t].e[0]; r.e[2] = M[t].e[1];
    memcpy(&ym[t * sizeof(mixed)], &r, sizeof r);
  }
  case_writer c2{ar[1], "vectors", "sm_90a", 1, 128}; c2.input("a", "f32", a); c2.input("b", "u8", b); c2.input("c", "s64", c); c2.input("m", "u8", m); c2.output("ya", "f32", ya); c2.output("yb", "u8", yb); c2.output("yc", "s64", yc); c2.output("ym", "u8", ym, "\"exact\": true", "zero"); c2.write();
}
#endif
