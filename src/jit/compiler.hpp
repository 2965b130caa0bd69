// The contract of a compiler: operator source to object, objects to image. It yields bytes and never touches a device, so every
// step can run and be tested on a machine without one.
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

// One function of a source that becomes an entry of the image: `expression` names it as C++ does behind dwell_operator_, "axpy" or
// "axpy<float>"; `symbol` is its external name, unique among all objects that are ever linked together.
struct Export {
  std::string expression;
  std::string symbol;
};

// The form of an object's bytes.
enum class Form : std::uint8_t {
  native,  // machine code
  lto,     // intermediate code, made into machine code with all else of an image when that is linked
};

// One source to compile. `name` is what DWELL_OPERATOR(name) defines in `text`, and every expression begins with it; `file` and `line` are
// what diagnostics show for the first line of `text`.
struct Unit {
  std::string name;
  std::string text;
  std::string file;
  int line = 1;
  std::vector<Export> exports;
  CompileOptions options = {};
  Form form = Form::native;      // of the object that is wanted; it comes out native where the options have to hold for it alone
  std::string fingerprint = {};  // from Compiler::fingerprint; with an empty one the object is not kept
  bool program = false;          // for compile_module: a whole program of ordinary kernels, not an operator
  // Files that a compiler was seen to read for this unit and that no #include names; a part of the fingerprint.
  std::vector<std::string> unnamed_files = {};
};

// A function of an object that can be an opcode, with the signature read from the object.
struct Entry {
  std::string symbol;
  Signature signature;
};

// An operator that a source names with DWELL_USES, and the parameters that it declares.
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
  std::string assembly = {};  // the same in the target's assembly language (PTX); empty where the compiler gives none
  // Files that were read for it and that Unit::fingerprint does not hold. Empty where the compiler does not tell.
  std::vector<std::string> unnamed_files = {};
  std::vector<Use> uses = {};  // of all entries, by their place
};

// One opcode of an image: an entry of an object, or nothing. Refers to the object.
struct Opcode {
  const Object* object = nullptr;
  std::uint32_t index = 0;
  std::vector<std::uint32_t> uses = {};  // opcodes: what each of Object::uses is bound to

  Opcode() = default;
  Opcode(const Object* from, std::uint32_t at = 0) : object(from), index(at) {}  // NOLINT(google-explicit-constructor)
  const std::string& symbol() const { return object->entries[index].symbol; }
};

// The words behind device::Context::uses: for each opcode of the table where its own begin, and those.
inline std::vector<std::uint32_t> words_of_uses(std::span<const Opcode> table) {
  std::vector<std::uint32_t> words(table.size());
  for (std::size_t i = 0; i < table.size(); ++i) {
    words[i] = static_cast<std::uint32_t>(words.size());
    words.insert(words.end(), table[i].uses.begin(), table[i].uses.end());
  }
  return words;
}

// Resources of a linked program, or of one function of it with all that it calls; read from the image. All zero on the CPU.
struct Resources {
  std::uint32_t registers = 0;       // a thread
  std::uint32_t stack_bytes = 0;     // a thread
  std::uint32_t shared_bytes = 0;    // a worker, static
  std::uint32_t constant_bytes = 0;  // an image: __constant__ variables, not the parameters of kernels
  std::uint32_t barriers = 0;        // a worker: the highest barrier that is named and those below it
  std::uint32_t threads = 0;         // a worker; 0 for a single function
};

// One entry's share of its image. The image's registers and barriers are the most that any entry or the loop needs, its stack is the
// loop's and an entry's. Shared memory and constants add up, and are told as those of the entry's whole source.
struct EntryResources {
  std::string symbol;
  Resources resources;
};

// A linked program: the loop, every entry of the table, and what it needs. Self-contained bytes that a backend loads.
struct Image {
  Bytes bytes;
  Resources resources = {};
  std::vector<EntryResources> entries = {};  // one a symbol, in the order of the first opcode; empty on the CPU
};

// A kernel of a compiled program.
struct ModuleKernel {
  std::string symbol;   // as the image has it
  std::string name;     // as C++ has it, without parameters: "reduce<double, 256>"; the symbol where that tells no name
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

// The object is not the one that the unit's fingerprint stands for, and is not kept: a file has changed since the fingerprint was taken, or
// the compiler has read one that it does not hold. Another fingerprint of the unit, and another compilation, may do.
class IncludesChanged final : public Error {
 public:
  explicit IncludesChanged(const Unit& unit)
      : Error(errc::compile_failed, unit.file + ": a file that it includes was changed while it was compiled; compile it again") {}
};

// A compiler's work so far. Hits in memory count nowhere.
struct CompileCounts {
  std::uint64_t compiled = 0;            // sources
  std::uint64_t linked = 0;              // images
  std::uint64_t cache_hits = 0;          // sources and images that came out of the cache on disk
  std::chrono::nanoseconds last_hit{0};  // the last of those: looked up, read, verified
};

// Compiles and links for one target. All members may be called from several threads at once. A lack of memory is errc::out_of_memory or
// std::bad_alloc, and leaves everything as it was before the call.
class Compiler {
 public:
  virtual ~Compiler() = default;

  // Compiles one source. Throws dwell::Error with errc::compile_failed (its message holds the compiler's own text with the user's
  // file and lines), errc::operator_not_found when `text` does not define DWELL_OPERATOR(unit.name), errc::invalid_argument and
  // errc::unsupported for options that it cannot honour, errc::compiler_unavailable. With unit.form the object is in form lto, unless one
  // of its options would have to hold for the whole image then: such a source stays native. With options.lto such options are refused.
  virtual Object compile(const Unit& unit) = 0;

  // A digest of all that the object of `unit` depends on: this compiler, its flags, the text, the contents of what it includes. Not of
  // the symbols, which may be made from it. Empty when it cannot be told. Throws as compile.
  virtual std::string fingerprint(const Unit& unit) = 0;

  // Links the loop and `table` into one image: table[i] becomes opcode i. Objects of both forms may be linked together for either tier;
  // Tier::lto inlines those of form lto. The loop is compiled with these bits of DWELL_PARTS at least; one that inlines has all. Throws
  // dwell::Error with errc::link_failed, and errc::unsupported for a tier that it has not.
  static constexpr std::uint32_t kAllParts = ~std::uint32_t{0};
  virtual Image link(std::span<const Opcode> table, Tier tier, std::uint32_t parts) = 0;
  Image link(std::span<const Opcode> table, Tier tier = Tier::relocatable) { return link(table, tier, kAllParts); }

  // Compiles the loop with these parts unless that is done. Called by any thread. Throws as link, and errc::compile_failed.
  virtual void prepare(std::uint32_t /*parts*/) {}

  // Compiles a program of ordinary kernels: unit.text as it is; unit.exports are the instantiations wanted of kernel templates, as C++
  // spells them ("reduce<double, 256>"), and their symbols say nothing. Throws dwell::Error with errc::compile_failed,
  // errc::operator_not_found when an expression names no kernel of the text, errc::compiler_unavailable, and errc::unsupported where the
  // target has no such kernels.
  virtual ModuleObject compile_module(const Unit& unit) {
    throw Error(errc::unsupported,
                unit.file + ": ordinary kernels are CUDA C++ (grid, block, threadIdx), which this device does not run; define an operator");
  }

  // Compiler, version, target and flags in one line: two compilers with the same identity give the same bytes for the same unit.
  virtual std::string identity() const = 0;

  virtual CompileCounts counts() const { return {}; }
};

}  // namespace dwell::jit
