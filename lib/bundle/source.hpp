// Where a bundle's bytes are: a file that stays open, or memory. Reading, not mapping: a file that is cut short while a program runs is an error then, and no
// signal.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

namespace tlx::bundle {

class source {
 public:
  virtual ~source() = default;
  virtual std::uint64_t size() const = 0;
  /// Exactly these bytes, or user_error [bundle-damaged].
  virtual std::string read(std::uint64_t offset, std::uint64_t bytes) const = 0;
  const std::string& name() const { return name_; }  // for messages

 protected:
  explicit source(std::string name) : name_(std::move(name)) {}

 private:
  std::string name_;
};

std::unique_ptr<source> open_file(const std::string& path);
std::unique_ptr<source> of_bytes(const void* bytes, std::size_t count);

}  // namespace tlx::bundle
