// dwell.Batch: operations on tensors, collected on the host and run as few tasks.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "guard.hpp"
#include "pack.hpp"
#include "tensor_operand.hpp"

namespace dwell::python {

// A dwell::Batch that Python objects share. Keeps the memory that it names until the flush; then the runtime keeps it until tasks have run.
// The caller of each member holds the GIL. Threads take turns.
class PyBatch {
 public:
  // Throws as dwell::Batch. Without the GIL: it may compile.
  explicit PyBatch(State runtime);

  const State& runtime() const { return runtime_; }

  // Calls `collect(batch)` without the GIL: it may compile an operator, or wait for room in the ring while tasks there wait for a callback.
  // `memory`: that of the operands.
  template <class Collect>
  void with(const std::vector<std::shared_ptr<HeldMemory>>& memory, Collect collect) {
    const Guard guard(mutex_);
    for (const auto& one : memory) kept_.try_emplace(one.get(), one);
    if (Kept* const kept = captured()) kept->insert(kept->end(), memory.begin(), memory.end());
    dwell::Batch& all = batch();
    const Unlocked unlocked;
    collect(all);
  }

  Receipt flush();
  BatchStats stats();

 private:
  dwell::Batch& batch();

  State runtime_;  // declared first, so that it goes last
  std::mutex mutex_;
  std::unordered_map<const void*, std::shared_ptr<HeldMemory>> kept_;
  std::optional<dwell::Batch> batch_;
};

}  // namespace dwell::python
