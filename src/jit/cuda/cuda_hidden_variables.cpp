#include "jit/cuda/cuda_hidden_variables.hpp"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include <dwell/device/inspect.hpp>

#include "jit/object/elf.hpp"

namespace dwell::jit {

namespace {

template <class T>
T at(std::span<const std::byte> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

void hide_variables(std::span<std::byte> cubin) {
  const auto elf = Elf::open(cubin);
  if (!elf) return;
  const Elf::Section* const table = elf->section(".symtab");
  if (table == nullptr) return;
  const std::size_t count = table->bytes.size() / sizeof(Elf64_Sym);
  std::vector<bool> named(count);
  const auto name = [&](std::uint64_t info) {
    if (const std::uint64_t symbol = ELF64_R_SYM(info); symbol < count) named[symbol] = true;
  };
  for (const Elf::Section& section : elf->sections()) {
    if (section.type == SHT_RELA)
      for (std::size_t i = 0; i < section.bytes.size() / sizeof(Elf64_Rela); ++i) name(at<Elf64_Rela>(section.bytes, i).r_info);
    if (section.type == SHT_REL)
      for (std::size_t i = 0; i < section.bytes.size() / sizeof(Elf64_Rel); ++i) name(at<Elf64_Rel>(section.bytes, i).r_info);
  }
  // The host looks these up through the driver (DWELL_INSPECT).
  const auto is_asked_for = [](const Elf::Symbol& symbol) {
    return symbol.name.ends_with("_inspects") && symbol.size > sizeof(InspectsRecord<0>);
  };
  for (const Elf::Symbol& symbol : elf->symbols())
    if (symbol.index < count && is_asked_for(symbol)) named[symbol.index] = true;
  const auto start = static_cast<std::size_t>(table->bytes.data() - cubin.data());
  for (std::size_t i = 0; i < count; ++i) {
    auto symbol = at<Elf64_Sym>(table->bytes, i);
    if (named[i] || ELF64_ST_TYPE(symbol.st_info) != STT_OBJECT) continue;
    symbol.st_info = ELF64_ST_INFO(STB_LOCAL, STT_NOTYPE);
    std::memcpy(cubin.data() + start + i * sizeof(symbol), &symbol, sizeof(symbol));
  }
}

}  // namespace dwell::jit
