#include "bench/support/report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iomanip>
#include <sstream>

#include "tlx/support/error.hpp"

namespace tlx::bench {

namespace {

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out + "\"";
}

std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  std::ostringstream out;
  out << std::setprecision(7) << value;
  return out.str();
}

}  // namespace

std::string to_json(const facts& of, const std::vector<row>& rows) {
  std::ostringstream out;
  out << "{\n \"device\": {";
  const char* comma = "";
  for (const auto& [name, value] : of.text) out << comma << quoted(name) << ": " << quoted(value), comma = ", ";
  for (const auto& [name, value] : of.numbers) out << comma << quoted(name) << ": " << number(value), comma = ", ";
  out << "},\n \"rows\": [";
  comma = "\n  ";
  for (const row& r : rows) {
    out << comma << "{\"case\": " << quoted(r.name) << ", \"impl\": " << quoted(r.impl);
    for (const auto& [name, value] : r.shape) out << ", " << quoted(name) << ": " << value;
    out << ", \"ms_p50\": " << number(r.ms_p50) << ", \"ms_p99\": " << number(r.ms_p99);
    if (r.tflops > 0) out << ", \"tflops\": " << number(r.tflops);
    if (r.gbs > 0) out << ", \"gbs\": " << number(r.gbs);
    if (!r.note.empty()) out << ", \"note\": " << quoted(r.note);
    out << ", \"ok\": " << (r.ok ? "true" : "false") << "}";
    comma = ",\n  ";
  }
  out << "\n ]\n}\n";
  return out.str();
}

void print_row(const row& r) {
  std::string shape;
  for (const auto& [name, value] : r.shape) shape += name + "=" + std::to_string(value) + " ";
  std::printf("%-30s %-22s %-32s %10.5f %10.5f ", r.name.c_str(), r.impl.c_str(), shape.c_str(), r.ms_p50, r.ms_p99);
  if (r.tflops > 0) std::printf("%9.1f TFLOP/s", r.tflops);
  else if (r.gbs > 0) std::printf("%9.1f GB/s   ", r.gbs);
  else std::printf("%17s", "");
  std::printf("  %s %s\n", r.ok ? "right" : "WRONG", r.note.c_str());
  std::fflush(stdout);
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  if (!(file << text) || !file.flush())
    raise(user_error({.id = "bench-output", .what = "cannot write \"" + path + "\"", .because = "the results go there", .fix = {"give --json a file in a folder that exists and can be written"}}));
}

double quantile(std::vector<double> sample, double share) {
  if (sample.empty()) return std::nan("");
  std::sort(sample.begin(), sample.end());
  const double rank = std::ceil(share * static_cast<double>(sample.size())) - 1;
  return sample[static_cast<std::size_t>(std::clamp(rank, 0.0, static_cast<double>(sample.size() - 1)))];
}

}  // namespace tlx::bench
