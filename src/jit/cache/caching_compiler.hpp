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
class CachingCompiler final : public Compiler {
 public:
  // `compiler` must not be null. A cache that is off leaves the memory.
  explicit CachingCompiler(std::unique_ptr<Compiler> compiler, FileCache cache = {});
  ~CachingCompiler() override;

  Object compile(const Unit& unit) override;
  using Compiler::link;
  Image link(std::span<const Opcode> table, Tier tier) override;
  std::string fingerprint(const Unit& unit) override { return compiler_->fingerprint(unit); }
  ModuleObject compile_module(const Unit& unit) override;
  std::string identity() const override { return compiler_->identity(); }
  CompileCounts counts() const override;

 private:
  struct Memory;
  template <class Made>
  Made checked(Made made, const Unit& unit) const;

  std::unique_ptr<Compiler> compiler_;
  FileCache cache_;
  std::unique_ptr<Memory> memory_;
};

}  // namespace dwell::jit
