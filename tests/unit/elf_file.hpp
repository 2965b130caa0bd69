// Builds ELF64 files with arbitrary contents.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace dwell::test {

using Bytes = std::vector<std::byte>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
inline Bytes bytes_of(const std::string& text) { return bytes_of(std::vector<char>(text.begin(), text.end())); }

// Layout: header, section contents, section table. Section 0 is empty, 1 holds section names, 2 symbol names, 3 symbols.
class ElfFile {
 public:
  // Public, so that a test can change anything before the file is written.
  Elf64_Ehdr head{};
  std::vector<Elf64_Shdr> sections;

  explicit ElfFile(std::uint16_t machine, std::uint8_t abi_version = 8, std::uint32_t flags = 90U << 8U) {
    std::memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_ident[EI_DATA] = ELFDATA2LSB;
    head.e_ident[EI_ABIVERSION] = abi_version;
    head.e_machine = machine;
    head.e_flags = flags;
    head.e_shentsize = sizeof(Elf64_Shdr);
    head.e_shstrndx = 1;
    sections.resize(1);
    contents_.resize(1);
    names_ = strings_ = std::string(1, '\0');
    add(".shstrtab", SHT_STRTAB, {});
    add(".strtab", SHT_STRTAB, {});
    add(".symtab", SHT_SYMTAB, {});
    sections[3].sh_link = 2;
    symbols_.resize(1);
  }

  // Returns its index. `size` applies to a section without bytes in the file (SHT_NOBITS).
  std::size_t add(const std::string& name, std::uint32_t type, Bytes bytes, std::uint64_t size = 0) {
    Elf64_Shdr section{};
    section.sh_name = static_cast<std::uint32_t>(names_.size());
    section.sh_type = type;
    section.sh_size = type == SHT_NOBITS ? size : bytes.size();
    names_ += name + '\0';
    sections.push_back(section);
    contents_.push_back(std::move(bytes));
    return sections.size() - 1;
  }
  // Returns its index.
  std::uint32_t symbol(const std::string& name, std::uint16_t section, std::uint8_t other = 0, std::uint64_t value = 0,
                       std::uint64_t size = 0) {
    Elf64_Sym symbol{};
    symbol.st_name = static_cast<std::uint32_t>(strings_.size());
    symbol.st_shndx = section;
    symbol.st_other = other;
    symbol.st_value = value;
    symbol.st_size = size;
    strings_ += name + '\0';
    symbols_.push_back(symbol);
    return static_cast<std::uint32_t>(symbols_.size() - 1);
  }

  // Returns the file. Calls `change` after all fields are set, just before writing.
  template <class Change>
  Bytes write(Change change) {
    contents_[1] = bytes_of(names_);
    contents_[2] = bytes_of(strings_);
    contents_[3] = bytes_of(symbols_);
    Bytes file(sizeof(head));
    for (std::size_t i = 1; i < sections.size(); ++i) {
      sections[i].sh_offset = file.size();
      if (sections[i].sh_type != SHT_NOBITS) sections[i].sh_size = contents_[i].size();
      file.insert(file.end(), contents_[i].begin(), contents_[i].end());
    }
    head.e_shoff = file.size();
    head.e_shnum = static_cast<std::uint16_t>(sections.size());
    change();
    const Bytes table = bytes_of(sections);
    file.insert(file.end(), table.begin(), table.end());
    std::memcpy(file.data(), &head, sizeof(head));
    return file;
  }
  Bytes write() {
    return write([] {});
  }

 private:
  std::string names_;
  std::string strings_;
  std::vector<Elf64_Sym> symbols_;
  std::vector<Bytes> contents_;
};

}  // namespace dwell::test
