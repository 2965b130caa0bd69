// Operators for the CPU, by the host's own C++ compiler.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "jit/compiler.hpp"

namespace dwell::jit {

// Compiles each operator to a shared object of its own. Images are bundles (bundle.hpp): the loop is part of libdwell, so linking only
// puts the objects together and needs no compiler.
class HostCompiler final : public Compiler {
 public:
  struct Options {
    // A file, or a name on PATH. Empty: $DWELL_CXX, else the compiler that built dwell, else c++, g++ or clang++ on PATH.
    std::string compiler;
    // Added to the flags from dwell's own build (sanitizers).
    std::vector<std::string> flags;
    // A longer compile is killed, and fails.
    std::chrono::milliseconds limit = std::chrono::seconds(120);
  };

  HostCompiler();
  explicit HostCompiler(Options options);
  ~HostCompiler() override;

  Object compile(const Unit& unit) override;
  std::string fingerprint(const Unit& unit) override;
  using Compiler::link;
  Image link(std::span<const Opcode> table, Tier tier, std::uint32_t parts) override;
  // "host compiler: none" when there is none; then compile() throws with the names that were tried.
  std::string identity() const override;

 private:
  struct Toolchain;
  // Returns the compiler; searched by the first call that needs it, and again when its file has changed. Throws errc::compiler_unavailable.
  std::shared_ptr<const Toolchain> toolchain() const;

  struct State;
  Options options_;
  std::unique_ptr<State> state_;
};

}  // namespace dwell::jit
