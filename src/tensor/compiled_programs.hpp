// Operators compiled for frequent programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <unordered_map>

#include <dwell/operator.hpp>
#include <dwell/runtime.hpp>

#include "base/mutex.hpp"
#include "tensor/program_source.hpp"

namespace dwell::tensor {

// The compiled programs of a runtime, shared by its batches.
class CompiledPrograms {
 public:
  // Returns those of the runtime's generation; they live as long as a batch holds them.
  static std::shared_ptr<CompiledPrograms> of(Runtime& runtime);

  explicit CompiledPrograms(Runtime& runtime);

  // Returns the operator compiled for the program with these words; null while there is none. `counts`: the
  // Options::compile_programs_after-th such call defines the operator in the background; Options::warn reports a failure. May be called
  // from any thread.
  const Operator<>* find(Runtime& runtime, std::span<const std::uint32_t> words, bool counts = true);
  // As find, but defines the operator and waits for it. Null if it cannot be defined.
  const Operator<>* get(Runtime& runtime, std::span<const std::uint32_t> words);

 private:
  struct Entry {
    std::uint32_t calls = 0;
    bool failed = false;                          // its compilation failed, not for lack of memory: always interpreted
    std::shared_future<Operator<>> defined = {};  // valid once requested
    Operator<> op = {};
  };
  struct Hash {
    std::size_t operator()(const ProgramForm& form) const { return hash_of(form); }
  };

  // Each enlarges the image, which every hand-over loads.
  static constexpr std::size_t kMostCompiled = 64;
  // Beyond these the counts are cleared.
  static constexpr std::size_t kMostCounted = 4096;

  // Returns the operator of an entry whose definition is complete.
  const Operator<>* take(Entry& entry) DWELL_REQUIRES(mutex_);
  // Resets an entry whose definition has failed for lack of memory.
  void forget(Entry& entry) DWELL_REQUIRES(mutex_);
  // Leaves the form in `form_`.
  Entry& entry_of(std::span<const std::uint32_t> words) DWELL_REQUIRES(mutex_);
  // Requests its operator, unless there are too many.
  void define(Runtime& runtime, Entry& entry) DWELL_REQUIRES(mutex_);

  const std::uint32_t after_;
  Mutex mutex_;
  std::unordered_map<ProgramForm, Entry, Hash> entries_ DWELL_GUARDED_BY(mutex_);
  std::size_t compiled_ DWELL_GUARDED_BY(mutex_) = 0;
  ProgramForm form_ DWELL_GUARDED_BY(mutex_);  // of the current call
};

}  // namespace dwell::tensor
