// What is in a bundle: who made it, which kernels for which targets, what they need. Every part is read and checked.
#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "tlx/bundle/bundle.hpp"
#include "tlx/bundle/write.hpp"
#include "tlx/device/parameter_block.hpp"
#include "tlx/support/text.hpp"
#include "verbs.hpp"

namespace tlxc {

using tlx::cat;
using json = nlohmann::ordered_json;

namespace {

json part_row(const tlx::bundle::part& p) { return {{"bytes", p.bytes}, {"stored_bytes", p.stored_bytes}, {"sha256", p.sha256}}; }

json kernel_row(const tlx::bundle::entry& e, const tlx::device::kernel& k) {
  json row{{"name", e.name}, {"configuration", e.configuration}, {"target", e.target}};
  if (e.cubin.bytes) row["cubin"] = part_row(e.cubin);
  if (e.ptx.bytes) row["ptx"] = part_row(e.ptx);
  const tlx::device::parameter_block block = tlx::device::lay_out(k);
  row["parameter_bytes"] = block.bytes;
  for (const tlx::device::parameter_field& f : block.fields) row["parameter_block"].push_back({{"field", tlx::device::field_name(k, f)}, {"offset", f.offset}, {"bytes", f.bytes}});
  row["manifest"] = json::parse(tlx::device::to_manifest(k));
  return row;
}

void print_json(const tlx::bundle::bundle& b) {
  const tlx::bundle::package& p = b.about();
  json out{{"format", "tlx-bundle"}, {"sha256", b.sha256()}, {"signature_bytes", b.signature().size()}, {"package", {{"name", p.name}, {"version", p.version}}},
           {"tlx", p.tlx}, {"llvm", p.llvm}, {"assembler", p.assembler}, {"bytes", b.file_bytes()}, {"targets", b.targets()}, {"kernels", json::array()}};
  for (const tlx::bundle::entry& e : b.entries()) out["kernels"].push_back(kernel_row(e, b.load(e)));
  std::printf("%s\n", out.dump(2, ' ', false, json::error_handler_t::replace).c_str());
}

std::string resources_of(const tlx::device::kernel& k) {
  if (k.used.registers < 0) return "not assembled";
  return cat(k.used.registers, " registers", k.used.spill_bytes > 0 ? cat(", ", k.used.spill_bytes, " bytes spilled") : std::string(), ", ", k.dynamic_shared_bytes, " shared bytes, ", k.block.x, " threads");
}

void print_text(const tlx::bundle::bundle& b) {
  const tlx::bundle::package& p = b.about();
  std::printf("package    %s %s\nsha256     %s\nsignature  %s\nmade with  tlx %s, LLVM %s, %s\n\n", p.name.empty() ? "(no name)" : p.name.c_str(), p.version.c_str(), b.sha256().c_str(),
              b.signature().empty() ? "none" : cat(b.signature().size(), " bytes").c_str(), p.tlx.c_str(), p.llvm.c_str(), p.assembler.empty() ? "no assembler" : p.assembler.c_str());
  const std::vector<std::string> targets = b.targets();
  std::map<std::string, std::vector<const tlx::bundle::entry*>> kernels;
  for (const tlx::bundle::entry& e : b.entries()) kernels[e.full_name()].push_back(&e);
  std::uint64_t cubins = 0, stored = 0, ptx = 0;
  for (const auto& [name, entries] : kernels) {
    std::printf("%s\n", name.c_str());
    std::vector<std::string> missing = targets;
    for (const tlx::bundle::entry* e : entries) {
      const tlx::device::kernel k = b.load(*e);
      std::printf("  %-8s %s%s%s\n", e->target.c_str(), resources_of(k).c_str(), e->cubin.bytes ? cat("; cubin ", e->cubin.bytes, " bytes, stored in ", e->cubin.stored_bytes).c_str() : "",
                  e->ptx.bytes ? cat("; PTX ", e->ptx.bytes, " bytes").c_str() : "");
      for (const std::string& advisory : k.used.advisories) std::printf("           %s\n", advisory.c_str());
      missing.erase(std::remove(missing.begin(), missing.end(), e->target), missing.end());
      cubins += e->cubin.bytes;
      stored += e->cubin.stored_bytes;
      ptx += e->ptx.bytes;
    }
    for (const std::string& target : missing) std::printf("  %-8s MISSING\n", target.c_str());
  }
  std::printf("\n%zu kernels, %zu targets (%s); %llu bytes: cubins of %llu bytes stored in %llu, PTX of %llu\n", kernels.size(), targets.size(), tlx::join(targets, ", ").c_str(),
              static_cast<unsigned long long>(b.file_bytes()), static_cast<unsigned long long>(cubins), static_cast<unsigned long long>(stored), static_cast<unsigned long long>(ptx));
}

int inspect(const arguments& given) {
  const tlx::bundle::bundle b = tlx::bundle::bundle::open(given.words()[0], {.sha256 = given.text("--sha256")});
  if (given.has("--digest")) std::printf("%s\n", b.sha256().c_str());
  else if (given.has("--json")) print_json(b);
  else print_text(b);
  return 0;
}

int sign(const arguments& given) {
  const std::string path = given.words()[0];
  if (given.has("--signature") == given.has("--remove")) throw usage_error("expected --signature FILE or --remove");
  const std::string signature = given.has("--remove") ? "" : tlx::read_file(given.text("--signature"));
  if (signature.empty() && !given.has("--remove")) throw usage_error(cat("\"", given.text("--signature"), "\" is empty"));
  tlx::write_file(path, tlx::bundle::with_signature(tlx::read_file(path), signature));
  return 0;
}

}  // namespace

verb inspect_verb() {
  return {"inspect",
          "FILE.tlxb",
          1,
          1,
          "shows what a bundle holds: package, targets, kernels, resources; checks every part of it",
          "",
          {{"--json", nullptr, "the whole manifest: parameters with offsets, tensor maps, grid rule, resources, digests"},
           {"--digest", nullptr, "only the digest: what is signed, and what an application pins"},
           {"--sha256", "DIGEST", "the bundle must have this digest"}},
          inspect};
}

verb sign_verb() {
  return {"sign",
          "FILE.tlxb",
          1,
          1,
          "puts a signature into a bundle, made elsewhere over what tlxc inspect --digest prints",
          "The bundle keeps its digest. What a signature is, and who trusts it, is up to the application: docs/shipping.md.",
          {{"--signature", "FILE", "the signature, any bytes"}, {"--remove", nullptr, "take the signature away"}},
          sign};
}

}  // namespace tlxc
