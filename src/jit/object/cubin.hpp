// Reads a CUDA image's kernels, and the resources of its functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/compiler.hpp"
#include "jit/object/elf.hpp"

namespace dwell::jit {

// Static memory of one object. The linker only keeps the sum, so the image stores it for each entry of the object, in the variable
// SYMBOL_statics written by table_source.
struct Statics {
  std::uint32_t shared_bytes = 0;
  std::uint32_t constant_bytes = 0;
};

// Returns the static memory of a compiled operator (a relocatable cubin). Zero for other bytes.
Statics read_statics(std::span<const std::byte> object);

// A view of a linked cubin. The bytes are not trusted and must outlive the view.
class Cubin {
 public:
  // Empty when the bytes are no ELF file for CUDA.
  static std::optional<Cubin> open(std::span<const std::byte> bytes);

  // 90 for sm_90 and sm_90a.
  std::uint32_t architecture() const;
  // The kernels, in the order of the image.
  std::vector<std::string_view> kernels() const;
  // The entries of operators: functions with a signature beside them, in the order of the image.
  std::vector<std::string_view> entries() const;

  // Returns a kernel's resources, including the functions it may call: the values of cuFuncGetAttribute after loading, so without the
  // shared memory that CUDA reserves in every block; and the threads of its blocks, as compiled. Empty if the kernel does not exist or the
  // image lacks the data.
  std::optional<Resources> kernel(std::string_view name) const;
  // Returns an entry's resources, including the functions it calls. Empty as for a kernel; static memory is 0 if the image lacks it.
  std::optional<Resources> entry(std::string_view symbol) const;

 private:
  struct Function {
    std::uint32_t registers = 0;
    std::uint32_t frame_bytes = 0;                 // of its own
    std::optional<std::uint32_t> min_stack_bytes;  // including callees; kernels only
  };

  explicit Cubin(Elf elf) : elf_(std::move(elf)) {}
  void read_functions();
  void read_calls();
  std::span<const std::byte> info_of(std::string_view function) const;
  std::uint32_t barriers_of(std::string_view function, const Elf::Section& code) const;
  // Returns registers, stack and barriers of a function and all it calls by name. Empty as for a kernel.
  std::optional<Resources> function(std::string_view name) const;
  Resources reach(std::uint32_t symbol, std::map<std::uint32_t, Resources>& known, unsigned depth) const;

  Elf elf_;
  std::map<std::uint32_t, Function> functions_;        // by symbol
  std::multimap<std::uint32_t, std::uint32_t> calls_;  // caller to callee, by symbol
};

}  // namespace dwell::jit
