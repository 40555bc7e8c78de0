// Runs another program to its end, with a time limit, and takes what it prints.
#pragma once
#include <string>
#include <vector>

namespace tlx::jit {

struct process_result {
  bool started = false;     // false: `problem` says why
  bool timed_out = false;   // it and its children were killed
  int exit_code = -1;       // -1 if it did not exit by itself
  int signal = 0;           // that ended it
  std::string output;       // stdout and stderr as they came
  std::string problem;
};

/// argv[0] is the path of the program. Standard input is empty.
process_result run_process(const std::vector<std::string>& argv, double timeout_seconds);

/// A folder of our own under TMPDIR, removed with everything in it at the end of the scope. Raises device_error [temporary-folder-failed].
class temporary_folder {
 public:
  temporary_folder();
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;
  ~temporary_folder();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tlx::jit
