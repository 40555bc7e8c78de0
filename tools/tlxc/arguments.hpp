// The words of a command line, checked against what a verb takes.
#pragma once
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tlxc {

/// The command line is wrong: exit code 2 (of `sim`: 3, where 2 is a fault).
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct option {
  const char* name;   // "--jobs"
  const char* value;  // "N" in the help; null: a flag
  const char* help;
};

class arguments;

struct verb {
  const char* name;
  const char* words;    // positional arguments in the help: "CASE_DIR"
  int least, most;      // how many of them
  const char* summary;  // one line
  const char* help;     // more, may be empty
  std::vector<option> options;
  int (*run)(const arguments&);
};

class arguments {
 public:
  /// Raises usage_error. `--name value` and `--name=value` are the same.
  arguments(const verb& of, const std::vector<std::string>& words);

  const std::vector<std::string>& words() const { return words_; }
  bool has(const std::string& option) const;
  std::string text(const std::string& option, const std::string& otherwise = "") const;  // the last one given
  std::vector<std::string> all(const std::string& option) const;
  /// Whole numbers from `least` up.
  long long number(const std::string& option, long long otherwise, long long least = 0) const;

 private:
  std::vector<std::string> words_;
  std::vector<std::pair<std::string, std::string>> given_;
};

std::vector<std::string> split(const std::string& text, char at);
std::string help_of(const verb& v);

}  // namespace tlxc
