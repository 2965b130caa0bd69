// Operators that are compiled for programs which run often.
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

// Those of a runtime, which all its batches share.
class CompiledPrograms {
 public:
  // Of the runtime's generation; there as long as a batch holds it.
  static std::shared_ptr<CompiledPrograms> of(Runtime& runtime);

  explicit CompiledPrograms(Runtime& runtime);

  // The operator that is compiled for the program with these words; null, while there is none. `counts`: with the
  // Options::compile_programs_after-th such call the operator is defined in the background; Options::warn hears when that fails. Any
  // thread.
  const Operator<>* find(Runtime& runtime, std::span<const std::uint32_t> words, bool counts = true);
  // The same, but the operator is defined with this call, which waits for it. Null when it cannot be.
  const Operator<>* get(Runtime& runtime, std::span<const std::uint32_t> words);

 private:
  struct Entry {
    std::uint32_t calls = 0;
    bool failed = false;                          // its compilation, with memory: it is interpreted for ever
    std::shared_future<Operator<>> defined = {};  // valid from when it is asked for
    Operator<> op = {};
  };
  struct Hash {
    std::size_t operator()(const ProgramForm& form) const { return hash_of(form); }
  };

  // Each makes the image larger, which every hand-over loads.
  static constexpr std::size_t kMostCompiled = 64;
  // Above these, what has been counted is forgotten.
  static constexpr std::size_t kMostCounted = 4096;

  // Of an entry whose operator is defined.
  const Operator<>* take(Entry& entry) DWELL_REQUIRES(mutex_);
  // Its definition has found no memory, and may be asked for again.
  void forget(Entry& entry) DWELL_REQUIRES(mutex_);
  // Leaves the form in `form_`.
  Entry& entry_of(std::span<const std::uint32_t> words) DWELL_REQUIRES(mutex_);
  // Asks for its operator, unless there are too many.
  void define(Runtime& runtime, Entry& entry) DWELL_REQUIRES(mutex_);

  const std::uint32_t after_;
  Mutex mutex_;
  std::unordered_map<ProgramForm, Entry, Hash> entries_ DWELL_GUARDED_BY(mutex_);
  std::size_t compiled_ DWELL_GUARDED_BY(mutex_) = 0;
  ProgramForm form_ DWELL_GUARDED_BY(mutex_);  // of the call under way
};

}  // namespace dwell::tensor
