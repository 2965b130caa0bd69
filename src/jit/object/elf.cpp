#include "jit/object/elf.hpp"

#include <elf.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include <dwell/device/uses.hpp>
#include <dwell/error.hpp>

namespace dwell::jit {

namespace {

// Returns `bytes` [offset, offset + size), or nothing if out of range.
std::optional<std::span<const std::byte>> part(std::span<const std::byte> bytes, std::uint64_t offset, std::uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
  return bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
}

// Returns the T at `offset`, which need not be aligned.
template <class T>
std::optional<T> value_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  const auto from = part(bytes, offset, sizeof(T));
  if (!from) return std::nullopt;
  T value;
  std::memcpy(&value, from->data(), sizeof(T));
  return value;
}

// Returns the string at `offset` of a string table; empty if it is not terminated.
std::string_view string_at(std::span<const std::byte> table, std::uint64_t offset) {
  if (offset >= table.size()) return {};
  const auto from = table.subspan(static_cast<std::size_t>(offset));
  const void* const end = std::memchr(from.data(), 0, from.size());
  if (end == nullptr) return {};
  return {reinterpret_cast<const char*>(from.data()), static_cast<std::size_t>(static_cast<const std::byte*>(end) - from.data())};
}

}  // namespace

std::optional<Elf> Elf::open(std::span<const std::byte> bytes) {
  const auto header = value_at<Elf64_Ehdr>(bytes, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return std::nullopt;
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB) return std::nullopt;
  if (header->e_shentsize != sizeof(Elf64_Shdr)) return std::nullopt;

  Elf elf;
  elf.machine_ = header->e_machine;
  elf.flags_ = header->e_flags;
  elf.abi_version_ = header->e_ident[EI_ABIVERSION];
  // Numbers that do not fit the file header are in the first section header.
  const auto first = header->e_shoff != 0 ? value_at<Elf64_Shdr>(bytes, header->e_shoff) : std::nullopt;
  const std::uint64_t count = header->e_shnum == 0 && first ? first->sh_size : header->e_shnum;
  const std::uint64_t name_table = header->e_shstrndx == SHN_XINDEX && first ? first->sh_link : header->e_shstrndx;
  if (count > bytes.size() / sizeof(Elf64_Shdr)) return std::nullopt;
  const auto table = part(bytes, header->e_shoff, count * sizeof(Elf64_Shdr));
  if (!table) return std::nullopt;
  std::vector<Elf64_Shdr> headers;
  for (std::uint64_t i = 0; i < count; ++i) headers.push_back(*value_at<Elf64_Shdr>(*table, i * sizeof(Elf64_Shdr)));

  const auto bytes_of = [&](const Elf64_Shdr& from) -> std::span<const std::byte> {
    if (from.sh_type == SHT_NOBITS) return {};
    return part(bytes, from.sh_offset, from.sh_size).value_or(std::span<const std::byte>{});
  };
  const auto names = name_table < headers.size() ? bytes_of(headers[name_table]) : std::span<const std::byte>{};
  for (const Elf64_Shdr& from : headers) {
    elf.sections_.push_back(
        {string_at(names, from.sh_name), from.sh_type, from.sh_info, from.sh_flags, from.sh_addr, from.sh_size, bytes_of(from)});
  }

  for (const std::uint32_t type : {std::uint32_t{SHT_SYMTAB}, std::uint32_t{SHT_DYNSYM}}) {
    const auto at = std::find_if(headers.begin(), headers.end(), [&](const Elf64_Shdr& from) { return from.sh_type == type; });
    if (at == headers.end()) continue;
    const auto entries = bytes_of(*at);
    const auto strings = at->sh_link < headers.size() ? bytes_of(headers[at->sh_link]) : std::span<const std::byte>{};
    const auto own_index = static_cast<std::uint64_t>(at - headers.begin());
    const auto wide = std::find_if(headers.begin(), headers.end(),
                                   [&](const Elf64_Shdr& from) { return from.sh_type == SHT_SYMTAB_SHNDX && from.sh_link == own_index; });
    const auto wide_indexes = wide == headers.end() ? std::span<const std::byte>{} : bytes_of(*wide);
    for (std::uint32_t i = 0; i < entries.size() / sizeof(Elf64_Sym); ++i) {
      const auto from = *value_at<Elf64_Sym>(entries, std::uint64_t{i} * sizeof(Elf64_Sym));
      constexpr std::uint32_t none = 0xFFFF'FFFF;
      std::uint32_t home = from.st_shndx;
      if (home == SHN_XINDEX)
        home = value_at<std::uint32_t>(wide_indexes, std::uint64_t{i} * 4).value_or(none);
      else if (home >= SHN_LORESERVE)
        home = none;
      elf.symbols_.push_back({string_at(strings, from.st_name), i, home, from.st_other, from.st_value, from.st_size});
    }
    break;
  }
  for (std::size_t i = 0; i < elf.sections_.size(); ++i) elf.section_of_.try_emplace(elf.sections_[i].name, i);
  for (std::size_t i = 0; i < elf.symbols_.size(); ++i)
    if (elf.symbols_[i].section != SHN_UNDEF) elf.symbol_of_.try_emplace(elf.symbols_[i].name, i);
  return elf;
}

const Elf::Section* Elf::section(std::string_view name) const {
  const auto at = section_of_.find(name);
  return at == section_of_.end() ? nullptr : &sections_[at->second];
}

const Elf::Symbol* Elf::symbol(std::string_view name) const {
  const auto at = symbol_of_.find(name);
  return at == symbol_of_.end() ? nullptr : &symbols_[at->second];
}

std::span<const std::byte> Elf::symbol_bytes(std::string_view name) const {
  const Symbol* const at = symbol(name);
  if (at == nullptr || at->section >= sections_.size()) return {};
  const Section& home = sections_[at->section];
  // Correct for relocatable files too: their sections have address 0.
  if (at->value < home.address) return {};
  return part(home.bytes, at->value - home.address, at->size).value_or(std::span<const std::byte>{});
}

namespace {

// Returns nothing if the record is invalid.
std::optional<Signature> signature_in(std::span<const std::byte> bytes) {
  const auto record = value_at<SignatureRecord>(bytes, 0);
  if (!record || record->magic != kSignatureMagic || record->count > kMaxParameters) return std::nullopt;
  for (const Parameter& parameter : std::span(record->parameters).first(record->count)) {
    // The kinds in between belong to ordinary kernels.
    if (parameter.kind > Kind::const_span && parameter.kind != Kind::exec && parameter.kind != Kind::ring) return std::nullopt;
    if (parameter.element >= Kind::span && parameter.element != Kind::exec) return std::nullopt;
  }
  return Signature(*record);
}

}  // namespace

std::optional<Signature> read_signature(std::span<const std::byte> object, const std::string& symbol) {
  const auto elf = Elf::open(object);
  if (!elf) return std::nullopt;
  const auto bytes = elf->symbol_bytes(symbol + "_signature");
  return signature_in(bytes);  // clang's address sanitizer appends bytes
}

std::optional<std::vector<Use>> read_uses(std::span<const std::byte> object, const std::string& symbol) {
  const auto elf = Elf::open(object);
  if (!elf) return std::nullopt;
  const auto bytes = elf->symbol_bytes(symbol + "_uses");
  const auto head = value_at<UsesRecord<0>>(bytes, 0);
  if (!head || head->magic != kUsesMagic || head->count > kMaxUses) return std::nullopt;
  const auto records = part(bytes, sizeof(UsesRecord<0>), head->count * sizeof(UseRecord));
  if (!records) return std::nullopt;
  std::vector<Use> uses;
  for (std::size_t at = 0; at < records->size(); at += sizeof(UseRecord)) {
    const std::string_view name = string_at(records->subspan(at).first(kMaxUseLength), 0);
    auto signature = signature_in(records->subspan(at + offsetof(UseRecord, signature)));
    if (name.empty() || !signature) return std::nullopt;
    uses.push_back({std::string(name), *std::move(signature)});
  }
  return uses;
}

std::vector<Entry> read_entries(const Unit& unit, std::span<const std::byte> object) {
  std::vector<Entry> entries;
  for (const Export& one : unit.exports) {
    const auto signature = read_signature(object, one.symbol);
    if (!signature) throw Error(errc::compile_failed, "operator " + one.expression + ": the object holds no signature");
    entries.push_back({one.symbol, *signature});
  }
  return entries;
}

std::vector<Use> read_uses(const Unit& unit, std::span<const std::byte> object) {
  if (unit.exports.empty()) return {};
  auto uses = read_uses(object, unit.exports.front().symbol);
  if (!uses) throw Error(errc::compile_failed, "operator " + unit.name + ": the object does not say which operators it uses");
  return *std::move(uses);
}

}  // namespace dwell::jit
