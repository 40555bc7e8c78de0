#include "folder.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "header.hpp"
#include "tlx/support/sha256.hpp"
#include "tlx/support/text.hpp"

namespace tlxc {

using json = nlohmann::ordered_json;

namespace {

json file_entry(const std::string& folder, const std::string& name, const std::string& bytes) {
  tlx::write_file(folder + "/" + name, bytes);
  return {{"path", name}, {"bytes", bytes.size()}, {"sha256", tlx::sha256_hex(bytes)}};
}

// Files of one kernel: its own manifest, which tlx_load() takes as it is, PTX, and the cubin if there is one.
json kernel_row(const std::string& folder, const tlx::bundle::compiled& c) {
  const std::string stem = c.kernel.name + "." + c.kernel.target, manifest = tlx::device::to_manifest(c.kernel);
  json row{{"name", c.kernel.name}, {"kernel", c.name}, {"configuration", c.configuration}, {"target", c.kernel.target}};
  row["files"]["manifest"] = file_entry(folder, stem + ".json", manifest);
  row["files"]["ptx"] = file_entry(folder, stem + ".ptx", c.kernel.code.ptx);
  if (!c.kernel.code.cubin.empty()) row["files"]["cubin"] = file_entry(folder, stem + ".cubin", c.kernel.code.cubin);
  row["manifest"] = json::parse(manifest);
  return row;
}

}  // namespace

void write_folder(const std::string& folder, const std::vector<tlx::bundle::compiled>& kernels, const std::vector<std::string>& targets, const tlx::bundle::package& about) {
  std::filesystem::create_directories(folder);
  json list{{"format", "tlx-bundle"}, {"version", 1}, {"tlx", about.tlx}, {"llvm", about.llvm}, {"assembler", about.assembler.empty() ? json(nullptr) : json(about.assembler)},
            {"targets", targets}, {"kernels", json::array()}};
  for (const tlx::bundle::compiled& c : kernels) list["kernels"].push_back(kernel_row(folder, c));
  tlx::write_file(folder + "/manifest.json", list.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
  tlx::write_file(folder + "/kernels.h", plain_header(kernels));
}

}  // namespace tlxc
