#include "runtime/generation/shell.hpp"

#include <algorithm>
#include <cassert>

#include <dwell/device/status.hpp>

namespace dwell::detail {

namespace {

bool is_in(const Shell::Ranges& ranges, std::uint64_t word) {
  const auto after = std::ranges::upper_bound(ranges, word, {}, [](const auto& range) { return range.first; });
  return after != ranges.begin() && word < std::prev(after)->second;
}

}  // namespace

std::string name_of_ticket(std::uint64_t word) {
  std::string name = ((word & kLaunch) != 0 ? "launch " : "ticket ") + std::to_string(word & kPosition);
  if (const std::uint32_t device = device_of(word); device != 0) name += " of device " + std::to_string(device);
  return name;
}

void Shell::add(std::uint64_t word, Ranges& into) {
  if (!into.empty() && into.back().second == word)
    ++into.back().second;
  else
    into.emplace_back(word, word + 1);
}

void Shell::enter(Stage next) noexcept {
  const Stage now = stage();
  assert(next == Stage::closing    ? now == Stage::open
         : next == Stage::lost     ? now == Stage::closing
         : next == Stage::replaced ? now == Stage::lost
                                   : now == Stage::closing || now == Stage::lost);
  static_cast<void>(now);
  stage_.store(next, std::memory_order_relaxed);
}

void Shell::close() {
  if (lineage->closed.exchange(true)) return;
  enter(Stage::closed);
  const Lock lock(mutex);
  again.reset();
  throw Error(failure.value());
}

void Shell::hold(const std::shared_ptr<runtime::Core>& core) {
  const Lock lock(mutex);
  alive.store(true);
  open = core;
  current.store(core.get(), std::memory_order_release);  // pairs with core_of in runtime/api/runtime.cpp
}

void Shell::released() noexcept {
  alive.store(false);
  alive.notify_all();
}

std::shared_ptr<runtime::Core> Shell::require(const Shell* shell) {
  if (shell == nullptr) throw Error(errc::closed, "the handle is empty: it names no runtime");
  if (auto core = shell->core()) return core;
  if (shell->lineage->closed.load()) throw Error(errc::closed, "the runtime is closed");
  const Lock lock(shell->mutex);
  throw Error(shell->failure.value());
}

std::string Shell::belongs(const std::string& handle) const {
  const std::uint32_t newest = lineage->generation.load();
  std::string text =
      handle + " belongs to generation " + std::to_string(generation) + " of runtime " + std::to_string(lineage->runtime) + ", which is ";
  if (!lineage->closed.load()) return text + "at generation " + std::to_string(newest) + " since it was rebuilt";
  text += "closed";
  return newest == generation ? text : text + ", at generation " + std::to_string(newest);
}

Error Shell::gone(const std::string& handle, const std::string& again_by) const {
  if (lineage->closed.load()) return Error(errc::stale_handle, belongs(handle));
  if (superseded()) return Error(errc::stale_handle, belongs(handle) + ": " + again_by);
  const Lock lock(mutex);
  return failure.value();
}

std::optional<Shell::TaskEnd> Shell::end_of(std::uint64_t word) const {
  const Lock lock(mutex);
  std::optional<TaskEnd> end;
  if (const auto at = ended.find(word); at != ended.end()) {
    end = at->second;
  } else if (is_in(cancelled, word)) {
    return TaskEnd{status::cancelled,
                   Error(errc::cancelled, name_of_ticket(word) + " was cancelled: the runtime was closed before it ran")};
  } else {
    if (!is_in(lost, word)) return std::nullopt;
    end = TaskEnd{failure->kind() == errc::task_timeout ? status::timed_out : status::lost, *failure};
  }
  const bool with_device = end->error.kind() == errc::device_lost || end->error.kind() == errc::task_timeout;
  if (!with_device || !superseded()) return end;
  end->error = Error(errc::stale_handle, belongs(name_of_ticket(word)) + "; it was lost with the device: " + end->error.message());
  return end;
}

}  // namespace dwell::detail
