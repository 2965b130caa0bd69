#include "jit/elf.hpp"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include <dwell/error.hpp>

namespace dwell::jit {

namespace {

// The part [offset, offset + size) of `bytes`, or nothing where it does not lie inside.
std::optional<std::span<const std::byte>> part(std::span<const std::byte> bytes, std::uint64_t offset, std::uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
  return bytes.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(size));
}

// A T at `offset`, which need not be aligned.
template <class T>
std::optional<T> value_at(std::span<const std::byte> bytes, std::uint64_t offset) {
  const auto from = part(bytes, offset, sizeof(T));
  if (!from) return std::nullopt;
  T value;
  std::memcpy(&value, from->data(), sizeof(T));
  return value;
}

// The string at `offset` of a string table; empty where it has no end.
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
  std::vector<Elf64_Shdr> headers;
  const auto table = part(bytes, header->e_shoff, std::uint64_t{header->e_shnum} * sizeof(Elf64_Shdr));
  if (!table) return std::nullopt;
  for (std::uint64_t i = 0; i < header->e_shnum; ++i) headers.push_back(*value_at<Elf64_Shdr>(*table, i * sizeof(Elf64_Shdr)));

  const auto bytes_of = [&](const Elf64_Shdr& from) -> std::span<const std::byte> {
    if (from.sh_type == SHT_NOBITS) return {};
    return part(bytes, from.sh_offset, from.sh_size).value_or(std::span<const std::byte>{});
  };
  const auto names = header->e_shstrndx < headers.size() ? bytes_of(headers[header->e_shstrndx]) : std::span<const std::byte>{};
  for (const Elf64_Shdr& from : headers) {
    elf.sections_.push_back({string_at(names, from.sh_name), from.sh_type, from.sh_info, from.sh_addr, from.sh_size, bytes_of(from)});
  }

  for (const std::uint32_t type : {std::uint32_t{SHT_SYMTAB}, std::uint32_t{SHT_DYNSYM}}) {
    const auto at = std::find_if(headers.begin(), headers.end(), [&](const Elf64_Shdr& from) { return from.sh_type == type; });
    if (at == headers.end()) continue;
    const auto entries = bytes_of(*at);
    const auto strings = at->sh_link < headers.size() ? bytes_of(headers[at->sh_link]) : std::span<const std::byte>{};
    for (std::uint32_t i = 0; i < entries.size() / sizeof(Elf64_Sym); ++i) {
      const auto from = *value_at<Elf64_Sym>(entries, std::uint64_t{i} * sizeof(Elf64_Sym));
      elf.symbols_.push_back({string_at(strings, from.st_name), i, from.st_shndx, from.st_other, from.st_value, from.st_size});
    }
    break;
  }
  return elf;
}

const Elf::Section* Elf::section(std::string_view name) const {
  const auto at = std::find_if(sections_.begin(), sections_.end(), [&](const Section& section) { return section.name == name; });
  return at == sections_.end() ? nullptr : &*at;
}

const Elf::Symbol* Elf::symbol(std::string_view name) const {
  const auto at = std::find_if(symbols_.begin(), symbols_.end(),
                               [&](const Symbol& symbol) { return symbol.section != SHN_UNDEF && symbol.name == name; });
  return at == symbols_.end() ? nullptr : &*at;
}

std::span<const std::byte> Elf::symbol_bytes(std::string_view name) const {
  const Symbol* const at = symbol(name);
  if (at == nullptr || at->section >= sections_.size()) return {};
  const Section& home = sections_[at->section];
  // In a relocatable file sections have no address, so this is right for both kinds of value.
  if (at->value < home.address) return {};
  return part(home.bytes, at->value - home.address, at->size).value_or(std::span<const std::byte>{});
}

std::optional<Signature> read_signature(std::span<const std::byte> object, const std::string& symbol) {
  const auto elf = Elf::open(object);
  if (!elf) return std::nullopt;
  const auto bytes = elf->symbol_bytes(symbol + "_signature");
  if (bytes.size() != sizeof(SignatureRecord)) return std::nullopt;
  SignatureRecord record;
  std::memcpy(&record, bytes.data(), sizeof(record));
  if (record.magic != kSignatureMagic || record.count > kMaxParameters) return std::nullopt;
  for (const Parameter& parameter : std::span(record.parameters).first(record.count)) {
    if (parameter.kind > Kind::const_span || parameter.element >= Kind::span) return std::nullopt;
  }
  return Signature(record);
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

namespace {

// Attributes of .nv.info, the section in which NVIDIA's tools keep what they know of an image. Undocumented; the numbers are those that
// cuobjdump -elf prints. What is read from them agrees with cuFuncGetAttribute on an H200: registers, local and shared bytes.
constexpr std::uint32_t kReservedShared = 1024;  // from sm_90 on, the section counts what CUDA keeps of every block's shared memory
constexpr std::uint8_t kFormatSized = 4;         // format byte: two bytes of length and that many bytes follow
constexpr std::uint8_t kMinStackSize = 0x12;     // of a kernel and whatever it calls
constexpr std::uint8_t kRegisterCount = 0x2f;

// The value that `attribute` gives the symbol `index`: attributes of a function are pairs {symbol, value}.
std::optional<std::uint32_t> attribute_of(std::span<const std::byte> info, std::uint8_t attribute, std::uint32_t index) {
  std::uint64_t at = 0;
  while (const auto head = value_at<std::uint32_t>(info, at)) {
    at += 4;
    if ((*head & 0xFFU) != kFormatSized) continue;  // the value of any other format lies in the head itself
    const std::uint32_t size = *head >> 16U;
    const auto symbol = value_at<std::uint32_t>(info, at);
    const auto value = value_at<std::uint32_t>(info, at + 4);
    if (((*head >> 8U) & 0xFFU) == attribute && size == 8 && symbol == index && value) return value;
    at += size;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Resources> read_resources(std::span<const std::byte> cubin, std::string_view kernel) {
  const auto elf = Elf::open(cubin);
  if (!elf) return std::nullopt;
  const std::string name(kernel);
  const Elf::Symbol* const symbol = elf->symbol(kernel);
  const Elf::Section* const code = elf->section(".text." + name);
  const Elf::Section* const info = elf->section(".nv.info");
  if (symbol == nullptr || code == nullptr || info == nullptr) return std::nullopt;

  Resources resources;
  // Older formats keep the registers in the upper byte of the code section's info instead.
  resources.registers = attribute_of(info->bytes, kRegisterCount, symbol->index).value_or(code->info >> 24U);
  resources.stack_bytes = attribute_of(info->bytes, kMinStackSize, symbol->index).value_or(0);
  if (const Elf::Section* const shared = elf->section(".nv.shared." + name)) {
    const auto reserves = [](const Elf::Symbol& one) { return one.name == ".nv.reservedSmem.offset0"; };
    const bool reserved = std::any_of(elf->symbols().begin(), elf->symbols().end(), reserves);
    const std::uint64_t own = reserved && shared->size >= kReservedShared ? shared->size - kReservedShared : shared->size;
    resources.shared_bytes = static_cast<std::uint32_t>(own);
  }
  if (resources.registers == 0) return std::nullopt;
  return resources;
}

}  // namespace dwell::jit
