// A compiler that does nothing twice.
#pragma once

#include <memory>

#include "jit/cache/file_cache.hpp"
#include "jit/compiler.hpp"

namespace dwell::jit {

// Compiles and links through another compiler, and keeps what that made: in memory, so that going back and forth between sources is
// free, and in a file cache, so that the next process starts from it. Of many threads and processes that ask for the same thing at once,
// one makes it and the others wait: a thread without end, a process for FileCache::kLockTimeout. A failed compile is not kept; the threads
// that waited for it get its error. Nor is one kept during which an include has changed: compile and compile_module throw IncludesChanged.
// They do so too when the compiler has read files that the fingerprint does not hold; these are remembered, also on disk, and from then on
// are part of it. A lack of memory is errc::out_of_memory, as far as there is memory for the error; nothing is kept then.
class CachingCompiler final : public Compiler {
 public:
  // `compiler` must not be null. A cache that is off leaves the memory.
  explicit CachingCompiler(std::unique_ptr<Compiler> compiler, FileCache cache = {});
  ~CachingCompiler() override;

  Object compile(const Unit& unit) override;
  using Compiler::link;
  Image link(std::span<const Opcode> table, Tier tier, std::uint32_t parts) override;
  void prepare(std::uint32_t parts) override { compiler_->prepare(parts); }
  std::string fingerprint(const Unit& unit) override;
  ModuleObject compile_module(const Unit& unit) override;
  std::string identity() const override { return compiler_->identity(); }
  CompileCounts counts() const override;

 private:
  struct Memory;
  // The files that were read for a source with this fingerprint, and that it does not hold.
  std::vector<std::string> unnamed_files(const std::string& fingerprint) const;
  template <class Compile>
  auto checked(const Unit& unit, Compile compile);

  std::unique_ptr<Compiler> compiler_;
  FileCache cache_;
  std::unique_ptr<Memory> memory_;
};

}  // namespace dwell::jit
