// A compiler with a cache.
#pragma once

#include <memory>

#include "jit/cache/file_cache.hpp"
#include "jit/compiler.hpp"

namespace dwell::jit {

// Compiles and links through another compiler, and caches the results: in memory, so that switching between sources is free, and in a file
// cache for later processes. Of concurrent equal requests, one compiles and the others wait: threads without a limit, processes for
// FileCache::kLockTimeout. A failed compile is not cached; waiting threads get its error. A compile during which an include has changed is
// not cached either: compile and compile_module throw IncludesChanged. They also throw it when the compiler has read files missing from the
// fingerprint; these are stored, also on disk, and become part of it. A lack of memory is errc::out_of_memory, if there is memory for the
// error; nothing is cached then.
class CachingCompiler final : public Compiler {
 public:
  // `compiler` must not be null. With a disabled file cache, caches in memory only.
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
  // Returns the files read for a source with this fingerprint that are missing from it.
  std::vector<std::string> unnamed_files(const std::string& fingerprint) const;
  template <class Compile>
  auto checked(const Unit& unit, Compile compile);

  std::unique_ptr<Compiler> compiler_;
  FileCache cache_;
  std::unique_ptr<Memory> memory_;
};

}  // namespace dwell::jit
