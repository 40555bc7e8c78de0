// Looks into a cubin: which kernels, which instructions. Volta and later: 16 bytes an instruction; bits 0-8 say which, bits 9-11 the form of its
// operands, so a mnemonic has several 12-bit codes (HGMMA: 0x9f0 and 0xdf0).
#include <elf.h>

#include <array>
#include <cstdio>
#include <cstring>

#include "tlx/jit/assemble.hpp"
#include "tlx/support/error.hpp"
#include "tlx/support/text.hpp"

namespace tlx::jit {

namespace {

struct opcode {
  unsigned bits;
  const char* name;
};

// Established by disassembling the kernels of tests and others for sm_90a and sm_100a with nvdisasm; tests/assemble checks the ones gates rely on.
// UTCHMMA, UTCQMMA and UTCOMMA differ in further bits and count as UTCMMA.
constexpr opcode opcodes[] = {
    {0x002, "MOV"}, {0x003, "P2R"}, {0x004, "R2P"}, {0x005, "CS2R"}, {0x006, "VOTE"}, {0x007, "SEL"}, {0x008, "FSEL"},
    {0x009, "FMNMX"}, {0x00b, "FSETP"}, {0x00c, "ISETP"}, {0x010, "IADD3"}, {0x011, "LEA"}, {0x012, "LOP3"}, {0x016, "PRMT"},
    {0x019, "SHF"}, {0x01a, "SGXT"}, {0x01c, "PLOP3"}, {0x020, "FMUL"}, {0x021, "FADD"}, {0x023, "FFMA"}, {0x024, "IMAD"},
    {0x025, "IMAD"}, {0x028, "DMUL"}, {0x02f, "ELECT"}, {0x031, "HFMA2"}, {0x035, "HFMA2"}, {0x036, "VIADD"}, {0x03b, "LDSM"},
    {0x03c, "HMMA"}, {0x03e, "F2FP"}, {0x044, "STSM"}, {0x045, "I2FP"}, {0x048, "VIMNMX"}, {0x04c, "UVIRTCOUNT"}, {0x076, "FMNMX3"},
    {0x082, "UMOV"}, {0x086, "VOTEU"}, {0x087, "USEL"}, {0x08c, "UISETP"}, {0x090, "UIADD3"}, {0x091, "ULEA"}, {0x092, "ULOP3"},
    {0x096, "UPRMT"}, {0x097, "UIADD3"}, {0x099, "USHF"}, {0x09a, "USGXT"}, {0x09c, "UPLOP3"}, {0x0a4, "UIMAD"}, {0x0a5, "UIMAD"},
    {0x0b9, "ULDC"}, {0x0bd, "UFLO"}, {0x0ca, "R2UR"}, {0x0cc, "CREDUX"}, {0x105, "F2I"}, {0x107, "FRND"}, {0x108, "MUFU"},
    {0x110, "F2F"}, {0x112, "I2F"}, {0x118, "NOP"}, {0x119, "S2R"}, {0x11a, "DEPBAR"}, {0x11d, "BAR"}, {0x141, "BSYNC"},
    {0x144, "CALL"}, {0x145, "BSSY"}, {0x147, "BRA"}, {0x148, "WARPSYNC"}, {0x14d, "EXIT"}, {0x150, "RET"}, {0x15c, "BPT"},
    {0x15d, "NANOSLEEP"}, {0x181, "LDG"}, {0x182, "LDC"}, {0x183, "LDL"}, {0x184, "LDS"}, {0x186, "STG"}, {0x187, "STL"},
    {0x188, "STS"}, {0x189, "SHFL"}, {0x18c, "ATOMS"}, {0x18e, "REDG"}, {0x18f, "CCTL"}, {0x192, "MEMBAR"}, {0x1a6, "REDG"},
    {0x1a7, "SYNCS"}, {0x1a8, "ATOMG"}, {0x1ab, "ERRBAR"}, {0x1ac, "LDCU"}, {0x1ae, "LDGSTS"}, {0x1af, "LDGDEPBAR"}, {0x1b1, "SYNCS"},
    {0x1b2, "SYNCS"}, {0x1b4, "UTMALDG"}, {0x1b5, "UTMASTG"}, {0x1b7, "UTMACMDFLUSH"}, {0x1ba, "UBLKCP"}, {0x1bb, "UBLKRED"}, {0x1bc, "UBLKPF"},
    {0x1c3, "S2UR"}, {0x1c4, "REDUX"}, {0x1c5, "WARPGROUP"}, {0x1c6, "FENCE"}, {0x1c8, "USETMAXREG"}, {0x1e3, "UTCATOMSWS"}, {0x1e9, "UTCBAR"},
    {0x1ea, "UTCMMA"}, {0x1ed, "STTM"}, {0x1ee, "LDTM"}, {0x1f0, "HGMMA"}, {0x1f1, "IGMMA"}, {0x1f3, "QGMMA"},
};

std::string name_of(unsigned bits) {
  for (const opcode& o : opcodes) {
    if (o.bits == bits) return o.name;
  }
  char text[16];
  std::snprintf(text, sizeof text, "0x%03x", bits);
  return text;
}

[[noreturn]] void malformed(const std::string& what) {
  raise(user_error({.id = "cubin-malformed",
                    .what = what,
                    .because = "a cubin is a 64-bit ELF file with one .text section a kernel",
                    .fix = {"assemble the PTX again"}}));
}

struct text_section {
  std::string entry;
  std::uint64_t offset, size;
};

// Every offset is checked against the file: cubins come from caches and bundles.
std::vector<text_section> text_sections(const std::string& cubin) {
  const auto inside = [&](std::uint64_t offset, std::uint64_t size) { return offset <= cubin.size() && size <= cubin.size() - offset; };
  Elf64_Ehdr head;
  if (cubin.size() < sizeof head) malformed(cat("a cubin of ", cubin.size(), " bytes"));
  std::memcpy(&head, cubin.data(), sizeof head);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64) malformed("the cubin does not start as a 64-bit ELF file");
  if (head.e_shentsize != sizeof(Elf64_Shdr) || !inside(head.e_shoff, std::uint64_t{head.e_shnum} * sizeof(Elf64_Shdr)) || head.e_shstrndx >= head.e_shnum) {
    malformed("the cubin's section table lies outside the file");
  }
  if (!inside(head.e_phoff, std::uint64_t{head.e_phnum} * head.e_phentsize)) malformed("the cubin's segment table lies outside the file");
  const auto section = [&](unsigned i) {
    Elf64_Shdr s;
    std::memcpy(&s, cubin.data() + head.e_shoff + i * sizeof s, sizeof s);
    return s;
  };
  const Elf64_Shdr names = section(head.e_shstrndx);
  if (!inside(names.sh_offset, names.sh_size)) malformed("the cubin's section names lie outside the file");
  std::vector<text_section> out;
  for (unsigned i = 0; i < head.e_shnum; ++i) {
    const Elf64_Shdr s = section(i);
    if (s.sh_name >= names.sh_size) malformed(cat("section ", i, " has no name"));
    const char* name = cubin.data() + names.sh_offset + s.sh_name;
    const std::string text(name, strnlen(name, names.sh_size - s.sh_name));
    if (text.rfind(".text.", 0) != 0 || s.sh_type == SHT_NOBITS) continue;
    if (!inside(s.sh_offset, s.sh_size)) malformed("section " + text + " lies outside the file");
    out.push_back({text.substr(6), s.sh_offset, s.sh_size});
  }
  return out;
}

}  // namespace

std::vector<std::string> cubin_entries(const std::string& cubin) {
  std::vector<std::string> out;
  for (const text_section& s : text_sections(cubin)) out.push_back(s.entry);
  return out;
}

std::map<std::string, int> sass_opcode_counts(const std::string& cubin, const std::string& entry) {
  const std::vector<text_section> sections = text_sections(cubin);
  for (const text_section& s : sections) {
    if (s.entry != entry) continue;
    std::array<int, 512> counts{};
    for (std::uint64_t at = 0; at + 16 <= s.size; at += 16) {
      std::uint16_t low = 0;
      std::memcpy(&low, cubin.data() + s.offset + at, sizeof low);
      ++counts[low & 0x1ffu];
    }
    std::map<std::string, int> out;
    for (unsigned bits = 0; bits < counts.size(); ++bits) {
      if (counts[bits]) out[name_of(bits)] += counts[bits];
    }
    return out;
  }
  std::vector<std::string> names;
  for (const text_section& s : sections) names.push_back(s.entry);
  raise(user_error({.id = "cubin-entry-missing",
                    .what = cat("the cubin has no kernel \"", entry, "\""),
                    .because = "its kernels are: " + join(names, ", "),
                    .fix = {"use one of these names"}}));
}

}  // namespace tlx::jit
