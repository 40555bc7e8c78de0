// Many compiled kernels in one file, or in the program itself: what `tlxc build` makes and a program without a compiler opens. docs/shipping.md has the
// format. Opening reads and checks the list of kernels; the code of a kernel is read, checked and decompressed when it is asked for.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tlx/device/kernel.hpp"

namespace tlx::bundle {

class source;

/// A run of bytes in the file.
struct part {
  std::uint64_t offset = 0;        // from the start of the payload
  std::uint64_t stored_bytes = 0;  // in the file
  std::uint64_t bytes = 0;         // after decompression; 0: there is no such part
  bool compressed = false;
  std::string sha256;  // of the stored bytes, 64 digits
};

/// One kernel for one target.
struct entry {
  std::string name, configuration, target;  // configuration "": the kernel has only one
  part description;                         // what device::from_manifest() reads
  part cubin, ptx;
  std::string full_name() const { return configuration.empty() ? name : name + "_" + configuration; }
};

/// Who made the bundle, and with what.
struct package {
  std::string name, version;         // the application's own; may be empty
  std::string tlx, llvm, assembler;  // versions; assembler "": no cubins
};

/// What an application insists on; what is empty is not asked. Whoever pins `sha256` needs nothing else.
struct expectation {
  std::string name = {}, version = {};
  std::string sha256 = {};  // 64 digits: bundle::sha256() of the one file that will do
  /// Sees sha256() and the signature ("" without one); false refuses the bundle. The cryptography is the application's.
  std::function<bool(const std::string& sha256, const std::string& signature)> verify = {};
};

/// An open bundle. Copies share it; reading is for any number of threads.
class bundle {
 public:
  /// Raises user_error [file-unreadable], [bundle-malformed], [bundle-too-new], [bundle-damaged], [bundle-not-expected], [bundle-signature-refused].
  static bundle open(const std::string& path, const expectation& wanted = {});
  /// Bytes that outlive every copy of the bundle: an embedded one. The same errors.
  static bundle of_memory(const void* bytes, std::size_t count, const expectation& wanted = {});

  const package& about() const;
  /// 64 digits over the list of kernels, which holds the digests of all parts: two bundles with the same digest hold the same kernels.
  const std::string& sha256() const;
  const std::string& signature() const;
  const std::vector<entry>& entries() const;     // by name, configuration, target
  std::vector<std::string> targets() const;      // each once, sorted
  std::uint64_t file_bytes() const;

  /// The entry for a machine of `target` ("sm_90a"): code for the very target before code for its family. A configuration of "" is enough where a kernel
  /// has only one. Raises user_error [bundle-kernel-missing], [bundle-configuration-missing] or [bundle-target-missing], each with what there is.
  const entry& choose(const std::string& name, const std::string& configuration, const std::string& target) const;

  /// The kernel with its code. Raises user_error [bundle-damaged], [bundle-codec-missing], and what device::from_manifest() raises.
  device::kernel load(const entry& what) const;
  /// One part, checked and decompressed; "" for one that is not there.
  std::string read(const part& what) const;

 private:
  struct state;
  static bundle opened(std::unique_ptr<source> from, const expectation& wanted);
  explicit bundle(std::shared_ptr<const state> opened) : state_(std::move(opened)) {}
  std::shared_ptr<const state> state_;
};

}  // namespace tlx::bundle
