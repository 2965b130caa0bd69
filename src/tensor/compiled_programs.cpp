#include "tensor/compiled_programs.hpp"

#include <chrono>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include <dwell/error.hpp>

#include "tensor/operators.hpp"

namespace dwell::tensor {

std::shared_ptr<CompiledPrograms> CompiledPrograms::of(Runtime& runtime) {
  struct All {
    Mutex mutex;
    std::map<std::pair<std::uint64_t, std::uint32_t>, std::weak_ptr<CompiledPrograms>> of DWELL_GUARDED_BY(mutex);
  };
  static auto* const all = new All;  // leaked: batches may be destroyed at the end of the process
  const RuntimeInfo info = runtime.info();
  const Lock lock(all->mutex);
  std::erase_if(all->of, [](const auto& known) { return known.second.expired(); });
  std::weak_ptr<CompiledPrograms>& known = all->of[{info.runtime, info.generation}];
  std::shared_ptr<CompiledPrograms> programs = known.lock();
  if (programs == nullptr) known = programs = std::make_shared<CompiledPrograms>(runtime);
  return programs;
}

CompiledPrograms::CompiledPrograms(Runtime& runtime) : after_(runtime.options().compile_programs_after) {}

namespace {

bool is_for_good(const Error& error) { return error.kind() != errc::out_of_memory; }

// Calls `found`, which gets an operator. Null if that fails: permanently, which Options::warn reports, or for lack of memory; then the next
// call tries again.
template <class Found>
const Operator<>* or_interpreted(const Runtime& runtime, const Found& found) {
  std::optional<Error> failure;
  try {
    return found();
  } catch (const Error& error) {
    failure = error;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  if (!is_for_good(*failure)) return nullptr;
  if (const auto warn = runtime.options().warn) warn(std::string("a program over tensors stays interpreted: ") + failure->what());
  return nullptr;
}

}  // namespace

const Operator<>* CompiledPrograms::find(Runtime& runtime, std::span<const std::uint32_t> words, bool counts) {
  if (after_ == 0) return nullptr;
  return or_interpreted(runtime, [&]() -> const Operator<>* {
    const Lock lock(mutex_);
    Entry& entry = entry_of(words);
    if (entry.op) return &entry.op;
    if (entry.failed) return nullptr;
    if (!entry.defined.valid()) {
      if (counts && ++entry.calls >= after_) define(runtime, entry);
      return nullptr;
    }
    return entry.defined.wait_for(std::chrono::seconds(0)) == std::future_status::ready ? take(entry) : nullptr;
  });
}

const Operator<>* CompiledPrograms::get(Runtime& runtime, std::span<const std::uint32_t> words) {
  if (after_ == 0) return nullptr;
  return or_interpreted(runtime, [&]() -> const Operator<>* {
    std::shared_future<Operator<>> defined;
    {
      const Lock lock(mutex_);
      Entry& entry = entry_of(words);
      if (entry.op) return &entry.op;
      if (entry.failed) return nullptr;
      if (!entry.defined.valid()) define(runtime, entry);
      defined = entry.defined;
    }
    if (!defined.valid()) return nullptr;
    defined.wait();
    const Lock lock(mutex_);
    Entry& entry = entry_of(words);  // another thread may have failed for lack of memory
    return entry.op || entry.defined.valid() ? take(entry) : nullptr;
  });
}

const Operator<>* CompiledPrograms::take(Entry& entry) {
  if (entry.op) return &entry.op;
  if (entry.failed) return nullptr;
  try {
    entry.op = entry.defined.get();
  } catch (const Error& error) {
    entry.failed = is_for_good(error);
    if (!entry.failed) forget(entry);
    throw;
  } catch (const std::bad_alloc&) {
    forget(entry);
    throw;
  }
  return &entry.op;
}

void CompiledPrograms::forget(Entry& entry) {
  entry.defined = {};
  --compiled_;
}

CompiledPrograms::Entry& CompiledPrograms::entry_of(std::span<const std::uint32_t> words) {
  take_form(words, form_);
  const auto known = entries_.find(form_);
  if (known != entries_.end()) return known->second;
  if (entries_.size() >= kMostCounted) std::erase_if(entries_, [](const auto& entry) { return !entry.second.defined.valid(); });
  return entries_[form_];
}

void CompiledPrograms::define(Runtime& runtime, Entry& entry) {
  if (compiled_ == kMostCompiled) return;
  Definition how;
  how.options = program_options(runtime);
  const std::string name = operator_name_of(form_);
  try {
    entry.defined = runtime.define_async(name, Source(source_of(form_), "dwell/" + name + ".op"), how);
  } catch (const Error& error) {
    entry.failed = is_for_good(error);
    throw;
  }
  ++compiled_;
}

}  // namespace dwell::tensor
