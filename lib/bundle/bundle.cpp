#include "tlx/bundle/bundle.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "bundle/codec.hpp"
#include "bundle/format.hpp"
#include "bundle/source.hpp"
#include "tlx/device/binder.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/sha256.hpp"
#include "tlx/support/text.hpp"

namespace tlx::bundle {

struct bundle::state {
  std::unique_ptr<source> from;
  std::uint64_t payload_at = 0, payload_bytes = 0;
  std::string sha256, signature;
  package about;
  std::vector<entry> entries;
};

namespace {

using json = nlohmann::ordered_json;  // that of manifests: one parser in a small program

[[noreturn]] void malformed(const source& from, const std::string& what) {
  raise(user_error({.id = "bundle-malformed", .what = cat(from.name(), " is no whole bundle: ", what), .because = "a bundle is one file that tlxc build wrote",
                    .fix = {"check that the file was copied whole and as bytes, not as text", "build it again"}}));
}

[[noreturn]] void damaged(const source& from, const std::string& what, const std::string& expected, const std::string& found) {
  raise(user_error({.id = "bundle-damaged", .what = cat(what, " of ", from.name(), " has SHA-256 ", found, ", expected ", expected), .because = "its bytes are not those that tlxc build wrote",
                    .fix = {"install the bundle again"}}));
}

std::uint64_t number_at(const std::string& head, size_t offset, int bytes) {
  std::uint64_t n = 0;
  for (int i = bytes - 1; i >= 0; --i) n = n << 8 | static_cast<unsigned char>(head[offset + static_cast<size_t>(i)]);
  return n;
}

// The list came through its digest, so what is wrong in it was written so: a few checks that keep reading inside the file.
part part_of(const json& row, std::uint64_t payload_bytes, const source& from) {
  part p;
  const std::string codec = row.at(3).get<std::string>();
  p.offset = row.at(0).get<std::uint64_t>();
  p.stored_bytes = row.at(1).get<std::uint64_t>();
  p.bytes = row.at(2).get<std::uint64_t>();
  p.compressed = codec != "none";
  p.sha256 = row.at(4).get<std::string>();
  if (p.offset > payload_bytes || p.stored_bytes > payload_bytes - p.offset || p.bytes > part_limit) malformed(from, "a part lies outside of it");
  if (!p.compressed && p.stored_bytes != p.bytes) malformed(from, "a part has two lengths");
  if (p.compressed && codec != "zstd") malformed(from, cat("a part is stored as \"", codec, "\""));
  return p;
}

entry entry_of(const json& row, std::uint64_t payload_bytes, const source& from) {
  entry e;
  e.name = row.at("name").get<std::string>();
  e.configuration = row.at("configuration").get<std::string>();
  e.target = row.at("target").get<std::string>();
  e.description = part_of(row.at("description"), payload_bytes, from);
  if (const auto found = row.find("cubin"); found != row.end()) e.cubin = part_of(*found, payload_bytes, from);
  if (const auto found = row.find("ptx"); found != row.end()) e.ptx = part_of(*found, payload_bytes, from);
  return e;
}

std::string signature_of(const source& from, std::uint64_t at) {
  if (from.size() == at) return {};
  const std::uint64_t rest = from.size() - at, head = signature_mark.size() + 8;
  const std::string bytes = from.read(at, rest);
  if (rest < head || bytes.compare(0, signature_mark.size(), signature_mark) != 0 || number_at(bytes, signature_mark.size(), 8) != rest - head)
    malformed(from, cat(rest, " bytes follow its end that are no signature"));
  return bytes.substr(head);
}

void check_expected(const source& from, const std::string& what, const std::string& wanted, const std::string& found) {
  if (wanted.empty() || wanted == found) return;
  raise(user_error({.id = "bundle-not-expected", .what = cat(what, " of ", from.name(), " is \"", found, "\", the application wants \"", wanted, "\""),
                    .because = "an application runs the kernels it was tested with", .fix = {"install the bundle that belongs to this application", "build the application with the new bundle"}}));
}

}  // namespace

bundle bundle::opened(std::unique_ptr<source> from, const expectation& wanted) {
  const source& file = *from;
  if (file.size() < head_bytes) malformed(file, cat("it has ", file.size(), " bytes"));
  const std::string head = file.read(0, head_bytes);
  if (head.compare(0, magic.size(), magic) != 0) malformed(file, "it does not start as one");
  if (const std::uint64_t version = number_at(head, 8, 4); version != format_version)
    raise(user_error({.id = "bundle-too-new", .what = cat(file.name(), " has format version ", version), .because = cat("this tlx reads version ", format_version),
                      .fix = {"build the bundle with the tlx that the application uses", "update the application's tlx"}}));
  const std::uint64_t list_bytes = number_at(head, 16, 8), rest = file.size() - head_bytes;
  auto made = std::make_shared<state>();
  made->payload_bytes = number_at(head, 24, 8);
  if (list_bytes > rest || aligned(list_bytes) > rest || made->payload_bytes > rest - aligned(list_bytes))
    malformed(file, cat("it has ", file.size(), " bytes and says that a list of ", list_bytes, " and a payload of ", made->payload_bytes, " are in it"));
  made->payload_at = head_bytes + aligned(list_bytes);
  made->sha256 = head.substr(32, digest_digits);
  made->signature = signature_of(file, made->payload_at + made->payload_bytes);
  check_expected(file, "the SHA-256", wanted.sha256, made->sha256);
  const std::string list = file.read(head_bytes, list_bytes);
  if (const std::string found = sha256_hex(list); found != made->sha256) damaged(file, "the list", made->sha256, found);
  try {
    const json document = json::parse(list);
    const json& package = document.at("package");
    const json& tools = document.at("made_with");
    made->about = {package.at("name").get<std::string>(), package.at("version").get<std::string>(), tools.at("tlx").get<std::string>(), tools.at("llvm").get<std::string>(),
                   tools.at("assembler").get<std::string>()};
    for (const json& row : document.at("kernels")) made->entries.push_back(entry_of(row, made->payload_bytes, file));
  } catch (const json::exception& e) {
    malformed(file, e.what());
  }
  check_expected(file, "the package", wanted.name, made->about.name);
  check_expected(file, "the version", wanted.version, made->about.version);
  if (wanted.verify && !wanted.verify(made->sha256, made->signature))
    raise(user_error({.id = "bundle-signature-refused", .what = cat("the application refuses the signature of ", file.name()),
                      .because = made->signature.empty() ? "the bundle carries none" : "it does not belong to this bundle, or its key is not trusted",
                      .fix = {"sign the bundle with the key that the application trusts: tlxc sign"}}));
  made->from = std::move(from);
  return bundle(std::move(made));
}

bundle bundle::open(const std::string& path, const expectation& wanted) { return opened(open_file(path), wanted); }
bundle bundle::of_memory(const void* bytes, std::size_t count, const expectation& wanted) { return opened(of_bytes(bytes, count), wanted); }

const package& bundle::about() const { return state_->about; }
const std::string& bundle::sha256() const { return state_->sha256; }
const std::string& bundle::signature() const { return state_->signature; }
const std::vector<entry>& bundle::entries() const { return state_->entries; }
std::uint64_t bundle::file_bytes() const { return state_->from->size(); }

std::vector<std::string> bundle::targets() const {
  std::set<std::string> all;
  for (const entry& e : entries()) all.insert(e.target);
  return {all.begin(), all.end()};
}

std::string bundle::read(const part& what) const {
  if (what.bytes == 0) return {};
  std::string stored = state_->from->read(state_->payload_at + what.offset, what.stored_bytes);
  if (const std::string found = sha256_hex(stored); found != what.sha256) damaged(*state_->from, cat("the part at ", what.offset), what.sha256, found);
  return what.compressed ? decompressed(stored, what.bytes, state_->from->name()) : stored;
}

device::kernel bundle::load(const entry& what) const {
  device::kernel k = device::from_manifest(read(what.description));
  if (k.target != what.target) malformed(*state_->from, cat("kernel \"", what.full_name(), "\" is listed for ", what.target, " and made for ", k.target));
  k.code.cubin = read(what.cubin);
  k.code.ptx = read(what.ptx);
  return k;
}

}  // namespace tlx::bundle
