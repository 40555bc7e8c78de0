// Rows of benchmark results: printed as a table, written as one JSON document.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tlx::bench {

struct row {
  std::string name, impl;                                  // the case, and who ran it
  std::vector<std::pair<std::string, std::int64_t>> shape;  // in order
  double ms_p50 = 0, ms_p99 = 0;
  double tflops = 0, gbs = 0;  // 0: does not apply
  bool ok = false;             // the result was right before timing began
  std::string note = {};
};

/// Text fields and numbers that hold for the whole file.
struct facts {
  std::vector<std::pair<std::string, std::string>> text;
  std::vector<std::pair<std::string, double>> numbers;
};

std::string to_json(const facts& of, const std::vector<row>& rows);
void print_row(const row& r);
void write_file(const std::string& path, const std::string& text);  // raises user_error [bench-output]

/// The value below which `share` of the sample lies. Of a copy: the order of the sample stays.
double quantile(std::vector<double> sample, double share);

}  // namespace tlx::bench
