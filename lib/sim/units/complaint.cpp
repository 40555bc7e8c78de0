#include "sim/units/complaint.hpp"

namespace tlx::sim {

const char* to_string(misuse kind) {
  switch (kind) {
    case misuse::none: return "none";
    case misuse::out_of_bounds: return "out_of_bounds";
    case misuse::misaligned: return "misaligned";
    case misuse::uninitialized: return "uninitialized";
    case misuse::tmem_misuse: return "tmem_misuse";
    case misuse::barrier_misuse: return "barrier_misuse";
    case misuse::descriptor_misuse: return "descriptor_misuse";
    case misuse::illegal_shape: return "illegal_shape";
    case misuse::peer_exited: return "peer_exited";
    case misuse::malformed: return "malformed";
    case misuse::unsupported: return "unsupported";
  }
  return "unknown";
}

}  // namespace tlx::sim
