#include "tlx/bundle/write.hpp"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "bundle/codec.hpp"
#include "bundle/format.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/sha256.hpp"
#include "tlx/support/text.hpp"

namespace tlx::bundle {

namespace {

using json = nlohmann::ordered_json;

auto order(const compiled& c) { return std::tie(c.name, c.configuration, c.kernel.target); }

std::string little_endian(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}

std::string padded(std::string bytes) {
  bytes.resize(aligned(bytes.size()), '\0');
  return bytes;
}

// Parts in the order in which they come; equal ones once.
class payload {
 public:
  explicit payload(bool compress) : compress_(compress) {}

  json add(const std::string& bytes) {
    const auto found = places_.find(bytes);
    if (found != places_.end()) return found->second;
    const std::string small = compress_ ? compressed(bytes) : "";
    const std::string& stored = small.empty() ? bytes : small;
    const json row = json::array({bytes_.size(), stored.size(), bytes.size(), small.empty() ? "none" : "zstd", sha256_hex(stored)});
    bytes_ += padded(stored);
    places_.emplace(bytes, row);
    return row;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  bool compress_;
  std::string bytes_;
  std::map<std::string, json> places_;
};

}  // namespace

std::string pack(const package& about, std::vector<compiled> kernels, const write_options& how) {
  std::stable_sort(kernels.begin(), kernels.end(), [](const compiled& a, const compiled& b) { return order(a) < order(b); });
  payload parts(how.compress);
  json list{{"format", "tlx-bundle-list"}, {"package", {{"name", about.name}, {"version", about.version}}},
            {"made_with", {{"tlx", about.tlx}, {"llvm", about.llvm}, {"assembler", about.assembler}}}, {"kernels", json::array()}};
  for (size_t i = 0; i < kernels.size(); ++i) {
    const compiled& c = kernels[i];
    if (i > 0 && order(kernels[i - 1]) == order(c))
      raise(user_error({.id = "bundle-kernel-twice", .what = cat("kernel \"", c.kernel.name, "\" for ", c.kernel.target, " comes twice"), .because = "kernels are found by name, configuration and target",
                        .fix = {"give two kernels two names"}}));
    json row{{"name", c.name}, {"configuration", c.configuration}, {"target", c.kernel.target}, {"description", parts.add(device::to_manifest(c.kernel))}};
    if (how.cubin && !c.kernel.code.cubin.empty()) row["cubin"] = parts.add(c.kernel.code.cubin);
    if (how.ptx && !c.kernel.code.ptx.empty()) row["ptx"] = parts.add(c.kernel.code.ptx);
    list["kernels"].push_back(std::move(row));
  }
  const std::string text = list.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
  return std::string(magic) + little_endian(format_version, 4) + little_endian(0, 4) + little_endian(text.size(), 8) + little_endian(parts.bytes().size(), 8) + sha256_hex(text) + padded(text) + parts.bytes();
}

std::string with_signature(const std::string& bundle, const std::string& signature) {
  const class bundle opened = bundle::of_memory(bundle.data(), bundle.size());
  const std::uint64_t old = opened.signature().empty() ? 0 : signature_mark.size() + 8 + opened.signature().size();
  const std::string unsigned_bytes = bundle.substr(0, bundle.size() - old);
  return signature.empty() ? unsigned_bytes : unsigned_bytes + std::string(signature_mark) + little_endian(signature.size(), 8) + signature;
}

}  // namespace tlx::bundle
