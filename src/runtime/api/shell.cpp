#include "runtime/api/shell.hpp"

#include <algorithm>
#include <cassert>

#include <dwell/detail/move_arena.hpp>
#include <dwell/detail/open_at.hpp>
#include <dwell/device/status.hpp>

#include "base/callback.hpp"
#include "runtime/core.hpp"

namespace dwell::detail {

namespace {

// The list is how leak checkers see that shells are meant to stay.
Shell* keep(std::unique_ptr<Shell> shell) {
  static Mutex mutex;
  static auto& all = *new std::vector<std::unique_ptr<Shell>>();
  const Lock lock(mutex);
  return all.emplace_back(std::move(shell)).get();
}

bool is_in(const Shell::Ranges& ranges, std::uint64_t position) {
  const auto after = std::ranges::upper_bound(ranges, position, {}, [](const auto& range) { return range.first; });
  return after != ranges.begin() && position < std::prev(after)->second;
}

}  // namespace

void Shell::add(std::uint64_t position, Ranges& into) {
  if (!into.empty() && into.back().second == position)
    ++into.back().second;
  else
    into.emplace_back(position, position + 1);
}

Shell* Shell::first(Options options, std::uint64_t first_position, Lineage::Open open) {
  static std::atomic<std::uint64_t> runtimes{0};
  auto shell = std::make_unique<Shell>(std::make_shared<Lineage>(++runtimes, std::move(open)), 1);
  shell->populate(std::move(options), first_position);
  return keep(std::move(shell));
}

Runtime Shell::runtime_on(Options options, Lineage::Open open, std::uint64_t first_position) {
  return Runtime(first(std::move(options), first_position, std::move(open)));
}

Runtime open_at(std::uint64_t first_position, Options options) {
  return Shell::runtime_on(std::move(options), runtime::open_device, first_position);
}

std::shared_ptr<runtime::Core> Shell::core_of(const Runtime& runtime) { return require(runtime.shell_); }

void move_arena(const Runtime& runtime) { Shell::core_of(runtime)->move_arena(); }

void Shell::enter(Stage next) noexcept {
  const Stage now = stage();
  assert(next == Stage::closing    ? now == Stage::open
         : next == Stage::lost     ? now == Stage::closing
         : next == Stage::replaced ? now == Stage::lost
                                   : now == Stage::closing || now == Stage::lost);
  static_cast<void>(now);
  stage_.store(next, std::memory_order_relaxed);
}

Shell* Shell::next() {
  if (lineage->closed.load()) throw Error(errc::closed, "the runtime is closed");
  if (const char* const what = Callback::inside(lineage->runtime); what != nullptr)
    throw Error(errc::invalid_argument,
                std::string("Runtime::rebuild was called by ") + what + ", for which it would wait: call it outside");
  if (const std::shared_ptr<runtime::Core> lost_core = core()) lost_core->give_up();
  // All that other threads still hold of the lost device must go first: it keeps the device from being opened as new.
  alive.wait(true);
  auto shell = std::make_unique<Shell>(lineage, generation + 1);
  const auto [options, position] = [this] {
    const Lock lock(mutex);
    return std::pair(again.value(), next_position);
  }();
  shell->populate(options, position);
  Shell* const kept = keep(std::move(shell));
  lineage->generation.store(kept->generation);
  enter(Stage::replaced);
  const Lock lock(mutex);
  again.reset();
  return kept;
}

void Shell::close() {
  if (lineage->closed.exchange(true)) return;
  enter(Stage::closed);
  const Lock lock(mutex);
  again.reset();
  throw Error(failure.value());
}

void Shell::populate(Options options, std::uint64_t first_position) {
  auto core = std::make_unique<runtime::Core>(std::move(options), first_position, this);
  alive.store(true);
  const std::shared_ptr<runtime::Core> opened(core.release(), [this](runtime::Core* last) {
    delete last;
    alive.store(false);
    alive.notify_all();
  });
  const Lock lock(mutex);
  open = opened;
  current.store(opened.get(), std::memory_order_release);  // pairs with core_of
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
  if (!lineage->closed.load()) return text + "at generation " + std::to_string(newest) + " since Runtime::rebuild";
  text += "closed";
  return newest == generation ? text : text + ", at generation " + std::to_string(newest);
}

Error Shell::gone(const std::string& handle, const std::string& again_by) const {
  if (lineage->closed.load()) return Error(errc::stale_handle, belongs(handle));
  if (superseded()) return Error(errc::stale_handle, belongs(handle) + ": " + again_by);
  const Lock lock(mutex);
  return failure.value();
}

std::optional<Shell::Fate> Shell::fate(std::uint64_t position) const {
  const Lock lock(mutex);
  std::optional<Fate> fate;
  if (const auto at = ended.find(position); at != ended.end()) {
    fate = at->second;
  } else if (is_in(cancelled, position)) {
    return Fate{status::cancelled,
                Error(errc::cancelled, "ticket " + std::to_string(position) + " was cancelled: the runtime was closed before it ran")};
  } else {
    if (!is_in(lost, position)) return std::nullopt;
    fate = Fate{failure->kind() == errc::task_timeout ? status::timed_out : status::lost, *failure};
  }
  const bool with_device = fate->error.kind() == errc::device_lost || fate->error.kind() == errc::task_timeout;
  if (!with_device || !superseded()) return fate;
  const std::string name = ((position & kLaunch) != 0 ? "launch " : "ticket ") + std::to_string(position & ~kLaunch);
  fate->error = Error(errc::stale_handle, belongs(name) + "; it was lost with the device: " + fate->error.message());
  return fate;
}

}  // namespace dwell::detail
