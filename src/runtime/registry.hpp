// Operators, their versions, and the image that holds them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <dwell/operator.hpp>

#include "backend/backend.hpp"
#include "jit/compiler.hpp"
#include "runtime/keeper.hpp"

namespace dwell::detail {
struct Shell;
}

namespace dwell::runtime {

// One compiled source of an operator.
struct Version {
  std::uint32_t number = 0;
  jit::Object object;
  std::uint32_t entry = 0;         // its opcode, while it is in the image
  bool linked = false;             // whether it is in the image
  std::uint64_t needed_until = 0;  // with `retired`: tasks before this position may still run it
  bool retired = false;            // no task submitted from now on runs it
};

}  // namespace dwell::runtime

namespace dwell::detail {

// What operator handles share. `alias` is the opcode that the next task gets.
struct OperatorState {
  std::string name;
  Signature signature;
  std::atomic<std::uint32_t> alias{0};
  std::atomic<std::uint32_t> current{0};  // number of the current version
  std::atomic<std::uint32_t> versions{0};
  Shell* shell = nullptr;
  std::vector<std::unique_ptr<runtime::Version>> history;  // guarded by the registry
};

}  // namespace dwell::detail

namespace dwell::runtime {

// Compiles operators, keeps the table of opcodes, and hands images over. Members may be called from any thread; definitions are taken
// one after the other.
//
// Invariants: an opcode means the same version in every image that holds it; a version leaves the image only when it is retired, is not
// the one that rollback would return to, and every task submitted before its retirement is complete. Modelled in tests/model/swap.pml.
class Registry {
 public:
  Registry(std::unique_ptr<jit::Compiler> compiler, backend::Backend& backend, Keeper& keeper, SubmissionQueue& queue,
           detail::Shell* shell);

  std::shared_ptr<detail::OperatorState> define(const std::string& name, const Source& source);
  void redefine(detail::OperatorState& op, const Source& source);
  void rollback(detail::OperatorState& op);

  // The operator whose version has this opcode, as "name (version n)"; "an unknown operator" if there is none.
  std::string name_of(std::uint32_t entry) const;

  jit::Resources resources() const;
  std::uint64_t images() const;
  std::chrono::nanoseconds last_pause() const;
  std::string compiler() const { return compiler_->identity(); }

  // From now on every member throws errc::closed.
  void close();

 private:
  std::unique_ptr<Version> compile(const std::string& name, const Source& source, std::uint32_t number);
  // The following need mutex_.
  void link_and_load(Version& fresh);
  std::uint32_t free_entry();
  void drop_unneeded();
  void make_current(detail::OperatorState& op, Version& version);
  void check_open() const;

  std::unique_ptr<jit::Compiler> compiler_;
  backend::Backend& backend_;
  Keeper& keeper_;
  SubmissionQueue& queue_;
  detail::Shell* shell_;  // for the handles

  mutable std::mutex mutex_;
  bool closed_ = false;
  std::map<std::string, std::shared_ptr<detail::OperatorState>> operators_;
  std::vector<Version*> table_;  // by opcode
  jit::Resources resources_;
  std::uint64_t images_ = 0;
  std::chrono::nanoseconds last_pause_{0};

  // Names for messages: a task that has failed may be asked about when its version is long gone.
  mutable std::mutex names_mutex_;
  std::vector<std::string> names_;
};

}  // namespace dwell::runtime
