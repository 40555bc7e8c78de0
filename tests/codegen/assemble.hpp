// ptxas as a judge: accepts PTX, without advisories that matter.
#pragma once
#include <string>

namespace test {

/// Path of ptxas (TLX_PTXAS, PATH, the toolkit's usual place), empty when there is none.
std::string ptxas();

/// Output of ptxas -v on `ptx`; `ok` says whether it accepted. Empty and ok when there is no ptxas: callers say so by has_ptxas().
struct assembled {
  bool ok = false;
  std::string log;
  int registers = 0, spill_bytes = 0;
};
assembled assemble(const std::string& ptx, const std::string& target);

}  // namespace test
