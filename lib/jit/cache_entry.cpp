#include "jit/cache_entry.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

#include "tlx/support/sha256.hpp"

namespace tlx::jit {

namespace {

constexpr std::string_view magic = "tlx cache 1\n";
constexpr size_t digits = 64;
constexpr size_t head_bytes = magic.size() + digits + 1 + digits + 1;

// Cached code runs in this process, so it must come from somebody whom the process trusts already.
bool is_foreign(const struct stat& file, const std::string& folder) {
  if (file.st_uid == geteuid() || file.st_uid == 0) return false;
  struct stat at {};
  return stat(folder.c_str(), &at) != 0 || at.st_uid != file.st_uid;
}

int read_all(int file, std::string& out) {
  char piece[65536];
  for (;;) {
    const ssize_t got = read(file, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : 0;
    out.append(piece, static_cast<size_t>(got));
  }
}

int write_all(int file, const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t put = write(file, bytes.data() + done, bytes.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return put < 0 ? errno : ENOSPC;
    done += static_cast<size_t>(put);
  }
  return 0;
}

// Holds back SIGXFSZ of this thread, and takes what came in between.
class without_size_signal {
 public:
  without_size_signal() {
    sigemptyset(&only_);
    sigaddset(&only_, SIGXFSZ);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &only_, &before_);
  }
  ~without_size_signal() {
    const timespec now{};
    if (!was_pending_) sigtimedwait(&only_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

 private:
  sigset_t only_, before_;
  bool was_pending_ = false;
};

}  // namespace

bool is_cache_key(std::string_view key) { return key.size() == digits && key.find_first_not_of("0123456789abcdef") == std::string_view::npos; }

std::uint64_t entry_bytes(std::uint64_t payload_bytes) { return head_bytes + payload_bytes; }

std::string make_entry(const std::string& key, std::string_view payload) {
  std::string out;
  out.reserve(head_bytes + payload.size());
  out.append(magic).append(key).append("\n").append(sha256_hex(payload)).append("\n").append(payload);
  return out;
}

std::optional<std::string> open_entry(const std::string& key, const std::string& file) {
  if (file.size() < head_bytes || file.compare(0, magic.size(), magic) != 0) return std::nullopt;
  if (file.compare(magic.size(), digits, key) != 0 || file[magic.size() + digits] != '\n' || file[head_bytes - 1] != '\n') return std::nullopt;
  std::string payload = file.substr(head_bytes);
  if (file.compare(magic.size() + digits + 1, digits, sha256_hex(payload)) != 0) return std::nullopt;
  return payload;
}

file_bytes read_entry_file(const std::string& path, const std::string& folder, bool use) {
  file_bytes out;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe in the place of an entry must not hold us
  if (file < 0) {
    out.error = errno == ENOENT || errno == ENOTDIR ? 0 : errno;
    return out;
  }
  struct stat info {};
  std::string bytes;
  if (fstat(file, &info) != 0) out.error = errno;
  else if (!S_ISREG(info.st_mode)) out.error = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
  else if (is_foreign(info, folder)) out.foreign = true;
  else out.error = read_all(file, bytes);
  const bool read = !out.error && !out.foreign;
  if (read && use) futimens(file, nullptr);  // a read-only folder does not mind
  close(file);
  if (read) out.bytes = std::move(bytes);
  return out;
}

int write_new_file(const std::string& path, const std::string& bytes) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return errno;
  const without_size_signal held_back;
  const int written = write_all(file, bytes);
  const int closed = close(file) != 0 ? errno : 0;  // a network file system may say only here that there was no room
  return written ? written : closed;
}

}  // namespace tlx::jit
