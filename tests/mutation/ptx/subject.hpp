// A launch of a kernel on the simulator, kept so that it can be made again with other PTX.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tlx/sim/machine.hpp"

namespace mutation {

/// A simulated machine that keeps every launch with what memory held before and after.
class recorder : public tlx::device::machine {
 public:
  explicit recorder(const std::string& target);
  const tlx::device::properties& about() const override { return on->about(); }
  tlx::device::address allocate(std::size_t bytes) override;
  void release(tlx::device::address where) override;
  void write(tlx::device::address to, const void* from, std::size_t bytes) override { on->write(to, from, bytes); }
  void read(void* to, tlx::device::address from, std::size_t bytes) override { on->read(to, from, bytes); }
  void fill(tlx::device::address to, std::uint8_t value, std::size_t bytes) override { on->fill(to, value, bytes); }
  std::shared_ptr<tlx::device::module> load(const tlx::device::image& code) override;
  void run(tlx::device::module& code, const std::string& entry, const tlx::device::launch& how) override;
  void wait() override {}

  struct block { tlx::device::address where; std::vector<std::byte> bytes; };
  struct kept {
    std::string ptx, entry;
    tlx::device::launch how;
    std::vector<block> before, after;
  };
  std::vector<kept> launches;
  std::unique_ptr<tlx::sim::machine> on;

 private:
  std::vector<block> snapshot();
  std::vector<std::pair<tlx::device::address, std::size_t>> live_;
  std::vector<std::pair<std::weak_ptr<tlx::device::module>, std::string>> loaded_;
};

/// One kernel with one launch of it. What a run of other PTX gives is compared bit by bit with what the right PTX gave.
struct subject {
  std::string name, target;
  std::shared_ptr<recorder> from;
  recorder::kept launch;
  bool of_many = false;  // one of a long list of similar kernels: a share of the operators, or of the places
  std::vector<subject> others = {};  // the same kernel on problems of other sizes, for mutants that show nothing on this one
  /// The same kernel on problems of one tile with more and more rounds, so that each ring is left at each of its slots; made when first asked for.
  std::function<const std::vector<subject>&()> rounds = {};
};

struct outcome {
  enum class what { same, differs, fault, stalled, refused };
  what kind = what::same;
  std::uint64_t seed = 0;
  tlx::sim::fault_report report;
  std::string text;      // of the error; where the result differs
};

/// Runs `ptx` in place of the subject's own.
outcome run(const subject& s, tlx::device::module& code, std::uint64_t seed, bool strict = false);

/// Whether a subject of that name is to be made: compiling and running all of them takes a minute.
using wanted = std::function<bool(const std::string& name)>;
/// The one-call functions in a few shapes, every kernel of the library, the examples, and small kernels of clusters. Only on `target`.
std::vector<subject> shipped(const std::string& target, const wanted& is_wanted);
std::vector<subject> library(const std::string& target, const wanted& is_wanted, std::int64_t extent);
std::vector<subject> examples(const std::string& target, const wanted& is_wanted);
std::vector<subject> clusters(const std::string& target, const wanted& is_wanted);

}  // namespace mutation
