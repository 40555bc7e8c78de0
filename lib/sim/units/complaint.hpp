// What a unit model answers when it is misused: a kind and a sentence. The interpreter adds thread, instruction and line.
#pragma once
#include <cstdint>
#include <string>
#include <utility>

namespace tlx::sim {

/// The kinds are those a case folder can expect, plus the two that mean "refuse the program".
enum class misuse : std::uint8_t {
  none,
  out_of_bounds,
  misaligned,
  uninitialized,
  tmem_misuse,
  barrier_misuse,
  descriptor_misuse,
  illegal_shape,
  peer_exited,
  malformed,    // the instruction cannot be written this way
  unsupported,  // legal PTX that this simulator does not model
};

const char* to_string(misuse kind);  // "tmem_misuse", ...

struct complaint {
  misuse kind = misuse::none;
  std::string text = {};
  explicit operator bool() const { return kind != misuse::none; }
};

}  // namespace tlx::sim
