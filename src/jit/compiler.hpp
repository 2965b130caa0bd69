// The interface of a compiler: operator source to object, objects to image. Produces bytes and never touches a device, so every step can be
// tested on a machine without one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dwell/compile_options.hpp>
#include <dwell/error.hpp>
#include <dwell/signature.hpp>
#include <dwell/tier.hpp>

namespace dwell::jit {

using Bytes = std::vector<std::byte>;

// One function of a source that becomes an entry of the image. `expression` is its C++ name after dwell_operator_, "axpy" or "axpy<float>";
// `symbol` is its external name, unique among all objects ever linked together.
struct Export {
  std::string expression;
  std::string symbol;
};

// The form of an object's bytes.
enum class Form : std::uint8_t {
  native,  // machine code
  lto,     // intermediate code, compiled to machine code with the rest of an image at its link
};

// One source to compile. `text` defines DWELL_OPERATOR(name), and every expression begins with `name`. Diagnostics show `file` and `line`
// for the first line of `text`.
struct Unit {
  std::string name;
  std::string text;
  std::string file;
  int line = 1;
  std::vector<Export> exports;
  CompileOptions options = {};
  Form form = Form::native;      // requested form; the object is native if its options must apply to it alone
  std::string fingerprint = {};  // from Compiler::fingerprint; empty: the object is not cached
  bool program = false;          // for compile_module: a whole program of ordinary kernels, not an operator
  // Files that a compiler has read for this unit without an #include; part of the fingerprint.
  std::vector<std::string> unnamed_files = {};
};

// A function of an object that can be an opcode, with the signature read from the object.
struct Entry {
  std::string symbol;
  Signature signature;
};

// An operator that a source uses by DWELL_USES, with its declared parameters.
struct Use {
  std::string name;
  Signature signature;

  bool operator==(const Use&) const = default;
};

// A compiled source: bytes that `link` accepts, its entries in the order of Unit::exports, and the compiler's warnings.
struct Object {
  std::vector<Entry> entries;
  Bytes bytes;
  std::string log;
  Form form = Form::native;
  std::string assembly = {};  // in the target's assembly language (PTX); empty if the compiler provides none
  // Files read for it that are missing from Unit::fingerprint. Empty if the compiler does not report them.
  std::vector<std::string> unnamed_files = {};
  std::vector<Use> uses = {};  // of all entries, by index
};

// One opcode of an image: an entry of an object, or nothing. Refers to the object.
struct Opcode {
  const Object* object = nullptr;
  std::uint32_t index = 0;
  std::vector<std::uint32_t> uses = {};  // opcodes to which Object::uses are bound

  Opcode() = default;
  Opcode(const Object* from, std::uint32_t at = 0) : object(from), index(at) {}  // NOLINT(google-explicit-constructor)
  const std::string& symbol() const { return object->entries[index].symbol; }
};

// Returns the words of device::Context::uses: for each opcode of the table the start of its list, then the lists.
inline std::vector<std::uint32_t> words_of_uses(std::span<const Opcode> table) {
  std::vector<std::uint32_t> words(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    words[i] = static_cast<std::uint32_t>(words.size());
    words.insert(words.end(), table[i].uses.begin(), table[i].uses.end());
  }
  return words;
}

// Resources of a linked program, or of one of its functions and its callees; read from the image. All zero on the CPU.
struct Resources {
  std::uint32_t registers = 0;       // a thread
  std::uint32_t stack_bytes = 0;     // a thread
  std::uint32_t shared_bytes = 0;    // a worker, static
  std::uint32_t constant_bytes = 0;  // an image: __constant__ variables, not the parameters of kernels
  std::uint32_t barriers = 0;        // a worker: the highest barrier in use and all below it
  std::uint32_t threads = 0;         // a worker; 0 for a single function
};

// One entry's share of its image. The image's registers and barriers are the maximum over the entries and the loop, its stack is the loop's
// plus an entry's. Shared memory and constants are summed, and reported for the entry's whole source.
struct EntryResources {
  std::string symbol;
  Resources resources;
};

// A linked program: the loop, every entry of the table, and its resources. Self-contained bytes that a backend loads.
struct Image {
  Bytes bytes;
  Resources resources = {};
  std::vector<EntryResources> entries = {};  // one a symbol, in the order of the first opcode; empty on the CPU
};

// A kernel of a compiled program.
struct ModuleKernel {
  std::string symbol;   // as the image has it
  std::string name;     // the C++ name without parameters: "reduce<double, 256>"; the symbol if it cannot be demangled
  Signature signature;  // see kernel_signature.hpp
};

// A compiled program of kernels: bytes that a backend loads, the same in the target's assembly language, its kernels, the symbol behind
// each of Unit::exports in their order, and the compiler's warnings.
struct ModuleObject {
  Bytes bytes;
  std::string assembly;
  std::vector<ModuleKernel> kernels;
  std::vector<std::pair<std::string, std::string>> expressions;
  std::string log;
  std::vector<std::string> unnamed_files = {};  // as in Object
};

// The object does not match the unit's fingerprint, and is not cached: a file has changed since the fingerprint was computed, or the
// compiler has read a file missing from it. A new fingerprint and compilation may succeed.
class IncludesChanged final : public Error {
 public:
  explicit IncludesChanged(const Unit& unit)
      : Error(errc::compile_failed, unit.file + ": a file that it includes was changed while it was compiled; compile it again") {}
};

// Counts of a compiler's work. Hits in memory are not counted.
struct CompileCounts {
  std::uint64_t compiled = 0;            // sources
  std::uint64_t linked = 0;              // images
  std::uint64_t cache_hits = 0;          // sources and images read from the cache on disk
  std::chrono::nanoseconds last_hit{0};  // the last one: lookup, read and verification
};

// Compiles and links for one target. All members may be called from several threads at once. A lack of memory is errc::out_of_memory or
// std::bad_alloc, and changes nothing.
class Compiler {
 public:
  virtual ~Compiler() = default;

  // Compiles one source. Throws dwell::Error with errc::compile_failed (its message holds the compiler's own text with the user's
  // file and lines), errc::operator_not_found when `text` does not define DWELL_OPERATOR(unit.name), errc::invalid_argument and
  // errc::unsupported for options that it cannot honour, errc::compiler_unavailable. With unit.form lto the object is native all the same
  // if one of its options would apply to the whole image. With options.lto such options are refused.
  virtual Object compile(const Unit& unit) = 0;

  // Returns a digest of everything that the object of `unit` depends on: this compiler, its flags, the text, the contents of its includes.
  // Excludes the symbols, which may be derived from it. Empty if the dependencies cannot be determined. Throws as compile.
  virtual std::string fingerprint(const Unit& unit) = 0;

  // Links the loop and `table` into one image: table[i] becomes opcode i. Objects of both forms may be linked together for either tier;
  // Tier::lto inlines those of form lto. The loop is compiled with at least these bits of DWELL_PARTS; an inlining one has all. Throws
  // dwell::Error with errc::link_failed, and errc::unsupported for a tier that it lacks.
  static constexpr std::uint32_t kAllParts = ~std::uint32_t{0};
  virtual Image link(std::span<const Opcode> table, Tier tier, std::uint32_t parts) = 0;
  Image link(std::span<const Opcode> table, Tier tier = Tier::relocatable) { return link(table, tier, kAllParts); }

  // Compiles the loop with these parts unless it is compiled already. May be called from any thread. Throws as link, and
  // errc::compile_failed.
  virtual void prepare(std::uint32_t /*parts*/) {}

  // Compiles a program of ordinary kernels: unit.text unchanged; unit.exports are the instantiations of kernel templates in their C++
  // spelling ("reduce<double, 256>"), and their symbols are ignored. Throws dwell::Error with errc::compile_failed,
  // errc::operator_not_found when an expression names no kernel of the text, errc::compiler_unavailable, and errc::unsupported where the
  // target has no such kernels.
  virtual ModuleObject compile_module(const Unit& unit) {
    throw Error(errc::unsupported,
                unit.file + ": ordinary kernels are CUDA C++ (grid, block, threadIdx), which this device does not run; define an operator");
  }

  // Returns compiler, version, target and flags in one line: compilers with equal identities produce equal bytes for equal units.
  virtual std::string identity() const = 0;

  virtual CompileCounts counts() const { return {}; }
};

}  // namespace dwell::jit
