#include "runtime/generations.hpp"

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include <dwell/detail/move_arena.hpp>
#include <dwell/detail/open_at.hpp>

#include "base/callback.hpp"
#include "base/mutex.hpp"
#include "runtime/core.hpp"

namespace dwell::detail {

namespace {

// The list keeps shells reachable for leak checkers.
Shell* keep(std::unique_ptr<Shell> shell) {
  static Mutex mutex;
  static auto& all = *new std::vector<std::unique_ptr<Shell>>();
  const Lock lock(mutex);
  return all.emplace_back(std::move(shell)).get();
}

void populate(Shell& shell, Options options, std::uint64_t first_position) {
  auto core = std::make_unique<runtime::Core>(std::move(options), first_position, &shell);
  shell.hold(std::shared_ptr<runtime::Core>(core.release(), [&shell](runtime::Core* last) {
    delete last;
    shell.released();
  }));
}

}  // namespace

Shell* open_first(Options options, std::uint64_t first_position, Lineage::Open open) {
  static std::atomic<std::uint64_t> runtimes{0};
  auto shell = std::make_unique<Shell>(std::make_shared<Lineage>(++runtimes, std::move(open)), 1);
  populate(*shell, std::move(options), first_position);
  return keep(std::move(shell));
}

Shell* open_next(Shell& lost) {
  Lineage& lineage = *lost.lineage;
  if (lineage.closed.load()) throw Error(errc::closed, "the runtime is closed");
  if (const char* const what = Callback::inside(lineage.runtime); what != nullptr)
    throw Error(errc::invalid_argument, std::string("`rebuild` was called by ") + what + ", for which it would wait: call it outside");
  if (const std::shared_ptr<runtime::Core> core = lost.core()) core->give_up();
  // Waits until other threads have released the lost device, which could not be reopened before.
  lost.alive.wait(true);
  auto shell = std::make_unique<Shell>(lost.lineage, lost.generation + 1);
  const auto [options, position] = [&lost] {
    const Lock lock(lost.mutex);
    return std::pair(lost.again.value(), lost.next_position);
  }();
  populate(*shell, options, position);
  Shell* const kept = keep(std::move(shell));
  lineage.generation.store(kept->generation);
  lost.enter(Stage::replaced);
  const Lock lock(lost.mutex);
  lost.again.reset();
  return kept;
}

Runtime runtime_on(Options options, Lineage::Open open, std::uint64_t first_position) {
  return Shell::handle(open_first(std::move(options), first_position, std::move(open)));
}

Runtime open_at(std::uint64_t first_position, Options options) {
  return runtime_on(std::move(options), runtime::open_device, first_position);
}

void move_arena(const Runtime& runtime) { Shell::require(Shell::of(runtime))->move_arena(); }

}  // namespace dwell::detail
