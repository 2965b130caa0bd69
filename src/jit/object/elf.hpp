// Reads ELF64 files: compiled operators and linked images.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <dwell/signature.hpp>

#include "jit/compiler.hpp"

namespace dwell::jit {

// A view of an ELF64 little-endian file. The bytes are untrusted and must outlive the view: it never reads outside them, and a section or
// symbol that does not fit into them counts as absent.
class Elf {
 public:
  struct Section {
    std::string_view name;
    std::uint32_t type = 0;
    std::uint32_t info = 0;
    std::uint64_t flags = 0;
    std::uint64_t address = 0;
    std::uint64_t size = 0;            // also for a section without bytes in the file
    std::span<const std::byte> bytes;  // empty for such a section
  };
  struct Symbol {
    std::string_view name;
    std::uint32_t index = 0;    // in its table
    std::uint32_t section = 0;  // 0: undefined; an index above the sections': special
    std::uint8_t other = 0;     // visibility, and machine-specific bits
    std::uint64_t value = 0;    // an address in a linked file, an offset into its section otherwise
    std::uint64_t size = 0;
  };

  // Empty when the bytes are no such file.
  static std::optional<Elf> open(std::span<const std::byte> bytes);

  std::uint16_t machine() const { return machine_; }
  std::uint32_t flags() const { return flags_; }  // e_flags, machine-specific
  std::uint8_t abi_version() const { return abi_version_; }

  const std::vector<Section>& sections() const { return sections_; }
  // The first section of that name, or null.
  const Section* section(std::string_view name) const;

  // The symbols of .symtab, or of .dynsym in a file without one.
  const std::vector<Symbol>& symbols() const { return symbols_; }
  // The first defined symbol of that name, or null.
  const Symbol* symbol(std::string_view name) const;
  // Returns the bytes of a symbol; empty if it does not exist or its section has no bytes.
  std::span<const std::byte> symbol_bytes(std::string_view name) const;

 private:
  std::uint16_t machine_ = 0;
  std::uint32_t flags_ = 0;
  std::uint8_t abi_version_ = 0;
  // By name, the first of each: a file may have millions, and each symbol of a cubin has its section.
  using Index = std::unordered_map<std::string_view, std::size_t>;

  std::vector<Section> sections_;
  std::vector<Symbol> symbols_;
  Index section_of_;
  Index symbol_of_;  // those that are defined
};

// Returns the signature that DWELL_EXPORT emitted as `symbol`_signature into a compiled operator (a relocatable cubin or a shared object).
// Empty if it is missing or invalid.
std::optional<Signature> read_signature(std::span<const std::byte> object, const std::string& symbol);

// Returns the uses that DWELL_EXPORT_USES emitted as `symbol`_uses. Empty if they are missing or invalid.
std::optional<std::vector<Use>> read_uses(std::span<const std::byte> object, const std::string& symbol);

// The entries of an object compiled from `unit`. Throws dwell::Error with errc::compile_failed when one has no signature in it.
std::vector<Entry> read_entries(const Unit& unit, std::span<const std::byte> object);
// Returns that object's uses. Throws the same if they are missing.
std::vector<Use> read_uses(const Unit& unit, std::span<const std::byte> object);

}  // namespace dwell::jit
