#include "tlx/device/launcher.hpp"

#include <array>
#include <mutex>

#include "tlx/device/binder.hpp"

namespace tlx::device {

void copy(const value_ref& from, value& into) {
  into.base = from.base;
  into.extents.assign(from.extents, from.extents + from.rank);
  into.strides.assign(from.strides, from.strides + from.stride_count);
  into.bytes.assign(from.bytes, from.bytes + from.byte_count);
}

void launcher::launch(const std::vector<value>& arguments, std::uint64_t stream) {
  std::array<value_ref, 24> few;
  if (arguments.size() <= few.size()) {
    for (size_t i = 0; i < arguments.size(); ++i) few[i] = refer(arguments[i]);
    return launch(few.data(), arguments.size(), stream);
  }
  std::vector<value_ref> many;
  many.reserve(arguments.size());
  for (const value& v : arguments) many.push_back(refer(v));
  launch(many.data(), many.size(), stream);
}

namespace {

// For machines that take a launch as plain data.
class bound_launcher final : public launcher {
 public:
  bound_launcher(machine& on, const kernel& k, std::shared_ptr<module> code) : on_(on), kernel_(k), code_(std::move(code)), bind_(k, on.about()) {}
  void launch(const value_ref* arguments, std::size_t count, std::uint64_t stream) override {
    const std::lock_guard lock(guard_);
    values_.resize(count);
    for (size_t i = 0; i < count; ++i) copy(arguments[i], values_[i]);
    on_.run(*code_, kernel_.entry, bind_(values_, stream));
  }

 private:
  machine& on_;
  const kernel& kernel_;
  std::shared_ptr<module> code_;
  std::mutex guard_;  // for what follows
  binder bind_;
  std::vector<value> values_;
};

}  // namespace

std::unique_ptr<launcher> make_launcher(machine& on, const kernel& k, std::shared_ptr<module> code) {
  if (auto* own = dynamic_cast<makes_launchers*>(&on)) return own->make_launcher(k, std::move(code));
  return std::make_unique<bound_launcher>(on, k, std::move(code));
}

}  // namespace tlx::device
