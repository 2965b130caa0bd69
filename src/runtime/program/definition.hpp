// The state of operators: a definition, its instances, its versions.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <dwell/error.hpp>
#include <dwell/signature.hpp>

#include "jit/compiler.hpp"

namespace dwell::detail {
struct Shell;
}

namespace dwell::runtime {

struct Version;

// A version bound to versions of the operators that it uses: an entry of the image's table for each of its own. All bindings of a version
// share its code.
struct Binding {
  const Version* version = nullptr;
  std::vector<std::uint32_t> opcodes;  // of the version's entries
  std::vector<std::uint32_t> uses;     // opcodes of jit::Object::uses
  std::uint64_t needed_until = 0;      // with `retired`: tasks before this position, and their descendants, may still run it
  bool retired = false;                // no later task runs it
};

// One compiled source of a definition.
struct Version {
  std::uint32_t number = 0;
  jit::Unit unit;
  jit::Object object;
  jit::Object inlinable;                                  // as `object`, for Tier::lto; without entries if there is none (yet)
  std::vector<std::shared_ptr<const std::string>> names;  // of its entries: "axpy<float> (version 2)"
  std::vector<std::unique_ptr<Binding>> bindings;         // those in the image, the newest last
};

}  // namespace dwell::runtime

namespace dwell::detail {

struct DefinitionState;

// Shared by the handles of one instance. `alias` is the opcode of the next task.
struct OperatorState {
  std::string name;  // as requested: "axpy", "axpy<float>"
  Signature signature;
  std::atomic<std::uint32_t> alias{0};
  Shell* shell = nullptr;
  DefinitionState* definition = nullptr;  // contains this

  // Returns why its runtime is no longer available.
  Error gone() const;
};

// Returns whether two name expressions are equal except for blanks.
inline bool same_expression(std::string a, std::string b) {
  std::erase(a, ' ');
  std::erase(b, ' ');
  return a == b;
}

// The result of one call of Runtime::define. Handles share its ownership.
struct DefinitionState {
  std::string name;
  jit::Unit request;                      // the first request
  CompileOptions options;                 // of the newest version; guarded by the registry
  std::deque<OperatorState> instances;    // at least one; in the order of jit::Unit::exports
  std::atomic<std::uint32_t> current{0};  // number of the current version
  std::atomic<std::uint32_t> versions{0};
  std::vector<std::unique_ptr<runtime::Version>> history;  // guarded by the image table

  // Null before the first version; else a version with a binding in the image.
  runtime::Version* current_version() const { return current.load() == 0 ? nullptr : history[current.load() - 1].get(); }
};

}  // namespace dwell::detail
