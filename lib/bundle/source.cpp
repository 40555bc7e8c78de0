#include "bundle/source.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::bundle {

namespace {

[[noreturn]] void short_of(const source& from, std::uint64_t offset, std::uint64_t bytes, const std::string& why) {
  raise(user_error({.id = "bundle-damaged", .what = cat(from.name(), " has no ", bytes, " bytes at ", offset, ": ", why), .because = "it was changed after it was opened, or its disk fails",
                    .fix = {"install the bundle again; replace files by renaming, not by writing into them"}}));
}

class file : public source {
 public:
  explicit file(const std::string& path) : source("\"" + path + "\""), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat about {};
    const bool regular = descriptor_ >= 0 && ::fstat(descriptor_, &about) == 0 && S_ISREG(about.st_mode);
    if (!regular) {
      const std::string why = descriptor_ < 0 ? std::strerror(errno) : "it is no regular file";
      if (descriptor_ >= 0) ::close(descriptor_);
      raise(user_error({.id = "file-unreadable", .what = cat("cannot read ", name(), ": ", why), .fix = {"check the path and its permissions"}}));
    }
    size_ = static_cast<std::uint64_t>(about.st_size);
  }
  ~file() override { ::close(descriptor_); }
  file(const file&) = delete;
  file& operator=(const file&) = delete;

  std::uint64_t size() const override { return size_; }

  std::string read(std::uint64_t offset, std::uint64_t bytes) const override {
    std::string out(bytes, '\0');
    for (std::uint64_t done = 0; done < bytes;) {
      const ssize_t got = ::pread(descriptor_, out.data() + done, bytes - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) short_of(*this, offset, bytes, std::strerror(errno));
      if (got == 0) short_of(*this, offset, bytes, "it ends before");
      done += static_cast<std::uint64_t>(got);
    }
    return out;
  }

 private:
  int descriptor_;
  std::uint64_t size_ = 0;
};

class memory : public source {
 public:
  memory(const void* bytes, std::size_t count) : source("the embedded bundle"), bytes_(static_cast<const char*>(bytes)), count_(count) {}
  std::uint64_t size() const override { return count_; }
  std::string read(std::uint64_t offset, std::uint64_t bytes) const override {
    if (offset > count_ || bytes > count_ - offset) short_of(*this, offset, bytes, "it ends before");
    return std::string(bytes_ + offset, bytes);
  }

 private:
  const char* bytes_;
  std::size_t count_;
};

}  // namespace

std::unique_ptr<source> open_file(const std::string& path) { return std::make_unique<file>(path); }
std::unique_ptr<source> of_bytes(const void* bytes, std::size_t count) { return std::make_unique<memory>(bytes, count); }

}  // namespace tlx::bundle
