// Ways to make the PTX of a kernel wrong, each applied at every place where it can be.
#pragma once
#include <string>
#include <vector>

namespace mutation {

struct mutant {
  std::string of;         // the operator
  bool protocol = true;   // a mistake of synchronisation: a fault, if there is one, must name the place
  int line = 0;           // of the PTX, where it was changed
  std::string site;       // what stood there, without register numbers, and what stood before it: survives unrelated edits
  std::string changed;    // what stands there now
  std::vector<int> also;  // other lines that a report may name: the partner of what was changed
  std::string text(const std::vector<std::string>& lines) const;
};

std::vector<std::string> lines_of(const std::string& text);
std::vector<mutant> mutants(const std::string& ptx);
/// Names of all operators, in the order of the table.
std::vector<std::string> operators();

}  // namespace mutation
