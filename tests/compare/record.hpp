// What a machine gave for each sample, on disk: outputs in full (to study differences without the machine), or digests (to hold a machine to them).
#pragma once
#include <map>
#include <string>

#include "tests/compare/run.hpp"

namespace tlx::compare {

/// Outcomes by name; memories that are no outputs are left empty.
using outcomes = std::map<std::string, outcome>;

/// One outcome as bytes; several may follow each other in a file.
std::string to_text(const std::string& name, const sample& s, const outcome& o);
/// Raises user_error [record-malformed] when `text` ends inside an outcome. `from` is named in the message.
outcomes outcomes_of(const std::string& text, const std::string& from);
outcomes read_outcomes(const std::string& file);

/// One line a sample: name, digest of the inputs, digest of the outputs ("bounded" where outputs are not compared bit by bit).
struct golden { std::string inputs, outputs; };
std::map<std::string, golden> read_golden(const std::string& file);
std::string golden_line(const std::string& name, const sample& s, const outcome& o);
bool is_bounded(const sample& s);

}  // namespace tlx::compare
