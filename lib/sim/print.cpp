// vprintf: the format string and the packed arguments are read from memory, the text goes to the statistics of the run.
#include <bit>
#include <cstring>

#include "sim/ops.hpp"
#include "tlx/support/text.hpp"

namespace tlx::sim {

step op_print(engine& e, warp& w, context&, const instruction& i, lanes active) {
  for (lanes m = active; m; m &= m - 1) {
    const int l = std::countr_zero(m);
    const std::byte* local = w.local.data() + std::size_t{e.code.local_bytes} * static_cast<unsigned>(l);
    std::uint64_t format = 0, arguments = 0;
    std::memcpy(&format, local + i.imm, 8);
    std::memcpy(&arguments, local + i.detail, 8);
    const auto byte_at = [&](std::uint64_t address) { return *e.resolve_one(w, i, l, space::generic, address, 1, engine::access::read); };
    std::string text;
    std::uint64_t at = 0;
    const auto next = [&](std::size_t bytes) {
      at = (at + bytes - 1) / bytes * bytes;
      std::uint64_t v = 0;
      for (std::size_t k = 0; k < bytes; ++k) v |= static_cast<std::uint64_t>(byte_at(arguments + at + k)) << (8 * k);
      at += bytes;
      return v;
    };
    for (std::uint64_t f = format;; ++f) {
      const char c = static_cast<char>(byte_at(f));
      if (!c) break;
      if (c != '%') { text += c; continue; }
      std::string spec = "%";
      bool is_long = false;
      char kind = 0;
      for (++f;; ++f) {
        const char s = static_cast<char>(byte_at(f));
        if (s == 'l' || s == 'j' || s == 'z' || s == 't') { is_long = true; continue; }
        if (s == 'h') continue;
        if (s == 0 || std::strchr("diouxXcsfFeEgGaAp%", s)) { kind = s; break; }
        spec += s;
      }
      char out[512];
      switch (kind) {
        case 0: --f; break;
        case '%': text += '%'; break;
        case 'd': case 'i': spec += "lld"; std::snprintf(out, sizeof out, spec.c_str(), is_long ? static_cast<long long>(next(8)) : static_cast<long long>(static_cast<std::int32_t>(next(4)))); text += out; break;
        case 'o': case 'u': case 'x': case 'X': spec += "ll"; spec += kind; std::snprintf(out, sizeof out, spec.c_str(), static_cast<unsigned long long>(is_long ? next(8) : next(4))); text += out; break;
        case 'c': text += static_cast<char>(next(4)); break;
        case 'p': std::snprintf(out, sizeof out, "0x%llx", static_cast<unsigned long long>(next(8))); text += out; break;
        case 's': for (std::uint64_t s = next(8); byte_at(s) != std::byte{0}; ++s) text += static_cast<char>(byte_at(s)); break;
        default: spec += kind; std::snprintf(out, sizeof out, spec.c_str(), std::bit_cast<double>(next(8))); text += out; break;
      }
    }
    if (e.printed.size() < 65536) e.printed.push_back(text);
    if (i.target != no_pc) { const std::uint32_t zero = 0; std::memcpy(w.local.data() + std::size_t{e.code.local_bytes} * static_cast<unsigned>(l) + i.target, &zero, 4); }
  }
  return step::next;
}

}  // namespace tlx::sim
