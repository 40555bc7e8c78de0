#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/bundle/sample.hpp"
#include "tlx/support/sha256.hpp"
#include "tlx/support/text.hpp"

using namespace tlx;
using namespace sample;

namespace {

std::vector<bundle::compiled> some() {
  return {{"scale", "", assembled("sm_90a")}, {"scale", "", assembled("sm_100a")}, {"sum", "16x64", assembled("sm_90a", "sum_16x64")}, {"sum", "32x64", assembled("sm_90a", "sum_32x64")}};
}

// Reads everything that is in it: whatever can be wrong is met.
std::string contents(const bundle::bundle& b) {
  std::string all = b.about().name + b.about().version;
  for (const bundle::entry& e : b.entries()) {
    const device::kernel k = b.load(e);
    all += e.full_name() + e.target + device::to_manifest(k) + k.code.cubin + k.code.ptx;
  }
  return all;
}

}  // namespace

TEST_CASE("a bundle gives back what went in") {
  const std::string bytes = bundle::pack(maker(), some(), {.ptx = true});
  const bundle::bundle b = opened(bytes);
  CHECK(b.about().name == "shop");
  CHECK(b.about().version == "2.1");
  CHECK(b.about().assembler == "ptxas 13.0");
  CHECK(b.targets() == std::vector<std::string>{"sm_100a", "sm_90a"});
  CHECK(b.file_bytes() == bytes.size());
  REQUIRE(b.entries().size() == 4);
  CHECK(b.entries()[2].full_name() == "sum_16x64");
  const device::kernel in = assembled("sm_90a", "sum_16x64"), out = b.load(b.entries()[2]);
  CHECK(device::to_manifest(out) == device::to_manifest(in));
  CHECK(out.code.cubin == in.code.cubin);
  CHECK(out.code.ptx == in.code.ptx);
  CHECK(b.read({}).empty());
}

TEST_CASE("the same kernels give the same bytes, in whatever order they come") {
  std::vector<bundle::compiled> turned = some();
  std::reverse(turned.begin(), turned.end());
  CHECK(bundle::pack(maker(), some()) == bundle::pack(maker(), turned));
}

TEST_CASE("code that two kernels share is stored once, and compressed") {
  const device::kernel k = assembled("sm_90a");
  const std::string one = bundle::pack(maker(), {{"a", "", k}}, {.compress = false}), two = bundle::pack(maker(), {{"a", "", k}, {"b", "", k}}, {.compress = false});
  CHECK(two.size() - one.size() < 1000);  // a row of the list
  CHECK(one.size() > 3000);
  CHECK(bundle::pack(maker(), {{"a", "", k}}).size() < one.size() - 2500);
}

TEST_CASE("the digest covers name, version and every kernel") {
  const std::string before = opened(bundle::pack(maker(), some())).sha256();
  std::vector<bundle::compiled> other = some();
  other[3].kernel.code.cubin[5] ^= 1;
  CHECK(opened(bundle::pack(maker(), other)).sha256() != before);
  bundle::package next = maker();
  next.version = "2.2";
  CHECK(opened(bundle::pack(next, some())).sha256() != before);
  CHECK(opened(bundle::pack(maker(), some())).sha256() == before);
}

TEST_CASE("two kernels of one name are refused") {
  CHECK(error_of([] { bundle::pack(maker(), {{"a", "", scale("sm_90a")}, {"a", "", scale("sm_90a")}}); }) == "bundle-kernel-twice");
}

TEST_CASE("a bundle that was cut short or grew is refused, wherever it was cut") {
  const std::string bytes = bundle::pack(maker(), some());
  for (size_t length = 0; length < bytes.size(); ++length) {
    CAPTURE(length);
    REQUIRE(error_of([&] { opened(bytes.substr(0, length)); }) == "bundle-malformed");
  }
  CHECK(error_of([&] { opened(bytes + "x"); }) == "bundle-malformed");
}

TEST_CASE("a byte that changed is found, or was of no meaning") {
  const std::string bytes = bundle::pack(maker(), some()), before = contents(opened(bytes));
  size_t harmless = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    CAPTURE(at);
    std::string changed = bytes;
    changed[at] ^= 0x10;
    std::string after;
    const std::string id = error_of([&] { after = contents(opened(changed)); });
    if (id.empty()) {
      ++harmless;
      REQUIRE(after == before);
    } else {
      REQUIRE((id == "bundle-malformed" || id == "bundle-damaged" || id == "bundle-too-new"));
    }
  }
  CHECK(harmless < 200);  // the zeros between parts
}

TEST_CASE("a bundle of a later format says so") {
  std::string bytes = bundle::pack(maker(), some()), text;
  bytes[8] = 2;
  CHECK(error_of([&] { opened(bytes); }, &text) == "bundle-too-new");
  CHECK(text.find("version 2") != std::string::npos);
}

TEST_CASE("the list cannot send a reader outside of the file") {
  for (const char* part : {R"([99999999,16,16,"none","0"])", R"([0,18446744073709551615,16,"none","0"])", R"([0,16,2000000000,"zstd","0"])", R"([0,16,17,"none","0"])", R"([0,16,16,"rar","0"])", R"([0])", R"(7)"}) {
    CAPTURE(part);
    const std::string list = cat(R"({"package":{"name":"","version":""},"made_with":{"tlx":"","llvm":"","assembler":""},"kernels":[{"name":"k","configuration":"","target":"sm_90a","description":)", part, "}]}");
    std::string bytes = bundle::pack({}, {});
    const std::string digest = sha256_hex(list);
    bytes = bytes.substr(0, 16) + static_cast<char>(list.size() & 255) + static_cast<char>(list.size() >> 8) + std::string(6, '\0') + std::string(1, 16) + std::string(7, '\0') + digest + list;
    bytes.resize((bytes.size() + 15) / 16 * 16 + 16);
    CHECK(error_of([&] { opened(bytes); }) == "bundle-malformed");
  }
}

TEST_CASE("an application gets the bundle it was built with, or an error") {
  const std::string bytes = bundle::pack(maker(), some());
  const std::string digest = opened(bytes).sha256();
  CHECK(digest.size() == 64);
  CHECK(error_of([&] { opened(bytes, {.name = "shop", .version = "2.1", .sha256 = digest}); }).empty());
  std::string text;
  CHECK(error_of([&] { opened(bytes, {.name = "other"}); }, &text) == "bundle-not-expected");
  CHECK(text.find("the package of the embedded bundle is \"shop\", the application wants \"other\"") != std::string::npos);
  CHECK(error_of([&] { opened(bytes, {.version = "2.0"}); }) == "bundle-not-expected");
  CHECK(error_of([&] { opened(bytes, {.sha256 = std::string(64, '0')}); }) == "bundle-not-expected");
}

TEST_CASE("a signature travels with the bundle and is judged by the application") {
  const std::string bytes = bundle::pack(maker(), some());
  const std::string with = bundle::with_signature(bytes, "signed by me");
  CHECK(opened(with).signature() == "signed by me");
  CHECK(opened(with).sha256() == opened(bytes).sha256());
  CHECK(bundle::with_signature(with, "other") == bundle::with_signature(bytes, "other"));
  CHECK(bundle::with_signature(with, "") == bytes);
  const auto by_me = [](const std::string& digest, const std::string& signature) { return digest.size() == 64 && signature == "signed by me"; };
  CHECK(error_of([&] { opened(with, {.verify = by_me}); }).empty());
  std::string text;
  CHECK(error_of([&] { opened(bytes, {.verify = by_me}); }, &text) == "bundle-signature-refused");
  CHECK(text.find("carries none") != std::string::npos);
  for (size_t cut = 1; cut < with.size() - bytes.size(); ++cut) CHECK(error_of([&] { opened(with.substr(0, with.size() - cut)); }) == "bundle-malformed");
}

TEST_CASE("a file is read like memory, and one that changes after it was opened is an error") {
  const std::string path = cat(std::filesystem::temp_directory_path().string(), "/tlx-bundle-", ::getpid(), ".tlxb");
  const std::string bytes = bundle::pack(maker(), some());
  write_file(path, bytes);
  const bundle::bundle b = bundle::bundle::open(path);
  CHECK(contents(b) == contents(opened(bytes)));
  std::filesystem::resize_file(path, bytes.size() - 300);
  CHECK(error_of([&] { contents(b); }) == "bundle-damaged");
  std::filesystem::remove(path);
  CHECK(error_of([&] { bundle::bundle::open(path); }) == "file-unreadable");
  CHECK(error_of([&] { bundle::bundle::open(std::filesystem::temp_directory_path().string()); }) == "file-unreadable");
}
