#include "object.hpp"

#include <elf.h>

#include <cstring>
#include <vector>

#include "arguments.hpp"
#include "tlx/support/text.hpp"

namespace tlxc {

namespace {

enum section : unsigned { none, data, symbols, names, section_names, no_stack, count };

template <class T>
void put(std::string& to, const T& what) {
  to.append(reinterpret_cast<const char*>(&what), sizeof what);
}

void pad(std::string& to, size_t multiple) { to.resize((to.size() + multiple - 1) / multiple * multiple, '\0'); }

Elf64_Sym symbol_at(std::uint32_t name, std::uint64_t offset, std::uint64_t size) {
  Elf64_Sym s{};
  s.st_name = name;
  s.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
  s.st_other = STV_HIDDEN;  // of the program or shared library that it is linked into, and of no other
  s.st_shndx = data;
  s.st_value = offset;
  s.st_size = size;
  return s;
}

}  // namespace

std::string host_machine() {
#ifdef __aarch64__
  return "aarch64";
#else
  return "x86_64";
#endif
}

std::string object_file(const std::string& bytes, const std::string& symbol, const std::string& machine) {
  if (machine != "x86_64" && machine != "aarch64") throw usage_error(tlx::cat("--machine is x86_64 or aarch64, not \"", machine, "\""));
  std::string out(sizeof(Elf64_Ehdr), '\0');
  std::vector<Elf64_Shdr> sections(count);
  const std::string section_text("\0.rodata\0.symtab\0.strtab\0.shstrtab\0.note.GNU-stack\0", 52);
  const auto add = [&](section which, std::uint32_t name, std::uint32_t type, const std::string& content, std::uint64_t align) {
    pad(out, align);
    Elf64_Shdr& s = sections[which];
    s.sh_name = name;
    s.sh_type = type;
    s.sh_offset = out.size();
    s.sh_size = content.size();
    s.sh_addralign = align;
    out += content;
  };

  const std::string symbol_text = std::string(1, '\0') + symbol + '\0' + symbol + "_end" + '\0';
  std::string table;
  put(table, Elf64_Sym{});
  put(table, symbol_at(1, 0, bytes.size()));
  put(table, symbol_at(static_cast<std::uint32_t>(symbol.size()) + 2, bytes.size(), 0));
  add(data, 1, SHT_PROGBITS, bytes, 64);
  add(symbols, 9, SHT_SYMTAB, table, 8);
  add(names, 17, SHT_STRTAB, symbol_text, 1);
  add(section_names, 25, SHT_STRTAB, section_text, 1);
  add(no_stack, 35, SHT_PROGBITS, "", 1);
  sections[data].sh_flags = SHF_ALLOC;
  sections[symbols].sh_link = names;
  sections[symbols].sh_info = 1;  // the first global symbol
  sections[symbols].sh_entsize = sizeof(Elf64_Sym);

  pad(out, 8);
  Elf64_Ehdr head{};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_ident[EI_DATA] = ELFDATA2LSB;
  head.e_ident[EI_VERSION] = EV_CURRENT;
  head.e_type = ET_REL;
  head.e_machine = machine == "x86_64" ? EM_X86_64 : EM_AARCH64;
  head.e_version = EV_CURRENT;
  head.e_shoff = out.size();
  head.e_ehsize = sizeof(Elf64_Ehdr);
  head.e_shentsize = sizeof(Elf64_Shdr);
  head.e_shnum = count;
  head.e_shstrndx = section_names;
  for (const Elf64_Shdr& s : sections) put(out, s);
  std::memcpy(out.data(), &head, sizeof head);
  return out;
}

}  // namespace tlxc
