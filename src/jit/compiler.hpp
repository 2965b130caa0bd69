// The contract of a compiler: operator source to object, objects to image. It yields bytes and never touches a device, so every
// step can run and be tested on a machine without one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <dwell/signature.hpp>

namespace dwell::jit {

using Bytes = std::vector<std::byte>;

// One operator to compile. `name` is what DWELL_OPERATOR(name) defines in `text`; `file` and `line` are what diagnostics show for the
// first line of `text`. `symbol` is the entry's external name and is unique among all objects that are ever linked together.
struct Unit {
  std::string name;
  std::string text;
  std::string file;
  int line = 1;
  std::string symbol;
};

// A compiled operator: bytes that `link` accepts, its symbol, the signature read from the object, and the compiler's warnings.
struct Object {
  std::string symbol;
  Bytes bytes;
  Signature signature;
  std::string log;
};

// What the linked program takes of a worker, read from the image. All zero on the CPU.
struct Resources {
  std::uint32_t registers = 0;     // a thread
  std::uint32_t stack_bytes = 0;   // a thread
  std::uint32_t shared_bytes = 0;  // a worker, static
};

// A linked program: the loop, every entry of the table, and what it needs. Self-contained bytes that a backend loads.
struct Image {
  Bytes bytes;
  Resources resources;
};

// Compiles and links for one target. All members may be called from several threads at once.
class Compiler {
 public:
  virtual ~Compiler() = default;

  // Compiles one operator. Throws dwell::Error with errc::compile_failed (its message holds the compiler's own text with the user's
  // file and lines), errc::operator_not_found when `text` does not define DWELL_OPERATOR(unit.name), errc::compiler_unavailable.
  virtual Object compile(const Unit& unit) = 0;

  // Links the loop and `entries` into one image: entries[i] becomes opcode i; a null pointer leaves that opcode empty.
  // Throws dwell::Error with errc::link_failed.
  virtual Image link(std::span<const Object* const> entries) = 0;

  // Compiler, version, target and flags in one line: two compilers with the same identity give the same bytes for the same unit.
  virtual std::string identity() const = 0;
};

}  // namespace dwell::jit
