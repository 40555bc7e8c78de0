// Writes a case folder: buffers, parameters, expectations. Host only.
#pragma once
#include <cstdio>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>
struct case_writer {
  std::string dir, entry, target; unsigned grid, block, cluster = 1, shared = 0;
  std::string buffers, params, expect;
  template <class T> void file(const std::string& f, const std::vector<T>& v) { FILE* o = fopen((dir + "/" + f).c_str(), "wb"); fwrite(v.data(), sizeof(T), v.size(), o); fclose(o); }
  void add(std::string& s, const std::string& x) { s += (s.empty() ? "\n" : ",\n") + std::string("  ") + x; }
  template <class T> void input(const std::string& n, const std::string& t, const std::vector<T>& v) { file(n + ".bin", v); add(buffers, "\"" + n + "\": {\"dtype\": \"" + t + "\", \"shape\": [" + std::to_string(v.size()) + "], \"file\": \"" + n + ".bin\"}"); add(params, "{\"buffer\": \"" + n + "\"}"); }
  template <class T> void output(const std::string& n, const std::string& t, const std::vector<T>& v, const std::string& how = "\"exact\": true", const std::string& fill = "nan") {
    file("expected_" + n + ".bin", v);
    add(buffers, "\"" + n + "\": {\"dtype\": \"" + t + "\", \"shape\": [" + std::to_string(v.size()) + "], \"fill\": \"" + fill + "\"}"); add(params, "{\"buffer\": \"" + n + "\"}");
    add(expect, "{\"buffer\": \"" + n + "\", \"file\": \"expected_" + n + ".bin\", \"file_dtype\": \"" + t + "\", " + how + "}");
  }
  void scalar(const std::string& t, const std::string& v) { add(params, "{\"" + t + "\": " + v + "}"); }
  void write() {
    FILE* o = fopen((dir + "/case.json").c_str(), "w");
    fprintf(o, "{\n \"ptx\": \"kernel.ptx\", \"entry\": \"%s\", \"target\": \"%s\",\n \"grid\": [%u, 1, 1], \"block\": [%u, 1, 1], \"cluster\": [%u, 1, 1], \"dynamic_shared_bytes\": %u,\n \"buffers\": {%s\n },\n \"params\": [%s\n ],\n \"expect\": [%s\n ],\n \"origin\": \"own kernel (tests/sim/cuda) compiled by nvcc 13.0\"\n}\n",
            entry.c_str(), target.c_str(), grid, block, cluster, shared, buffers.c_str(), params.c_str(), expect.c_str()); fclose(o);
  }
};
inline uint32_t lcg(uint32_t& s) { s = s * 1664525u + 1013904223u; return s >> 8; }
inline float uniform(uint32_t& s) { return (float)(int)(lcg(s) & 0xFFFF) / 32768.0f - 1.0f; }
