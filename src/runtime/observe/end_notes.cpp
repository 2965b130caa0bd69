#include "runtime/observe/end_notes.hpp"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <string_view>

#include "base/notes_of_worker.hpp"

namespace dwell::runtime {

namespace {

using live::FlightEnd;
using live::FlightFile;

constexpr std::array kSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr std::size_t kMostFiles = 64;  // further files get no note

// Read by the handler. Without destructors: it may be called until the process ends.
constinit std::array<std::atomic<FlightFile*>, kMostFiles> flight_files{};
constinit std::array<struct sigaction, kSignals.size()> previous{};
static_assert(std::atomic<FlightFile*>::is_always_lock_free);

// Returns whether the file is this process's: a forked child has the same memory.
bool is_ours(const FlightFile& file) { return file.pid == getpid(); }

FlightEnd load(FlightFile& file) { return std::atomic_ref(file.end).load(std::memory_order_relaxed); }
void store(FlightFile& file, const FlightEnd& end) { std::atomic_ref(file.end).store(end, std::memory_order_relaxed); }

// Returns the number of the worker on this thread, if its records are in the file.
std::uint16_t worker_in(const FlightFile& file) {
  const auto at = reinterpret_cast<std::uintptr_t>(notes_of_worker) - reinterpret_cast<std::uintptr_t>(&file) - FlightFile::entries_at();
  const std::size_t worker = at / (sizeof(live::FlightEntry) * live::kFlightEntries);
  return notes_of_worker != nullptr && worker < file.workers ? static_cast<std::uint16_t>(worker) : FlightEnd::kNoWorker;
}

// Keeps the first cause.
void note(int signal) noexcept {
  for (const std::atomic<FlightFile*>& each : flight_files) {
    FlightFile* const file = each.load(std::memory_order_acquire);
    if (file == nullptr || !is_ours(*file) || load(*file).signal != 0) continue;
    store(*file, {static_cast<std::uint32_t>(syscall(SYS_gettid)), static_cast<std::uint16_t>(signal), worker_in(*file)});
  }
}

void unnote(int signal) noexcept {
  for (const std::atomic<FlightFile*>& each : flight_files) {
    FlightFile* const file = each.load(std::memory_order_acquire);
    if (file != nullptr && is_ours(*file) && load(*file).signal == signal) store(*file, {});
  }
}

// Async-signal-safe.
void on_signal(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  note(signal);
  std::size_t index = 0;
  while (kSignals[index] != signal) ++index;
  const struct sigaction& was = previous[index];
  if ((was.sa_flags & SA_SIGINFO) != 0 && was.sa_sigaction != nullptr) {
    was.sa_sigaction(signal, info, context);
  } else if (was.sa_handler != SIG_DFL && was.sa_handler != SIG_IGN) {
    was.sa_handler(signal);
  } else if (was.sa_handler == SIG_DFL || info->si_code > 0) {
    // A fault recurs when this returns; a sent signal is sent again. It stays blocked until then.
    struct sigaction none {};
    none.sa_handler = SIG_DFL;
    sigaction(signal, &none, nullptr);
    if (info->si_code <= 0) syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal);
    errno = error;
    return;
  }
  // The previous handler has recovered, or the signal was ignored.
  unnote(signal);
  errno = error;
}

void on_exit() noexcept { note(FlightEnd::kExit); }

bool is_on() {
  const char* const set = secure_getenv("DWELL_SIGNALS");
  return set == nullptr || std::string_view(set) != "off";
}

// Leaked: runtimes may end until the last static object is destroyed.
std::mutex& mutex() {
  static auto& one = *new std::mutex;
  return one;
}
constinit std::size_t open_files = 0;  // guarded by mutex()

constinit std::array<bool, kSignals.size()> set{};  // our handler, or one that calls it; guarded by mutex()

void install() {
  static const bool exits = std::atexit(on_exit) == 0;
  static_cast<void>(exits);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    // A handler set over ours still calls ours: if it were also our previous one, each would call the other.
    if (set[i] || sigaction(kSignals[i], nullptr, &previous[i]) != 0) continue;
    struct sigaction ours {};
    ours.sa_sigaction = on_signal;
    ours.sa_mask = previous[i].sa_mask;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | (previous[i].sa_flags & (SA_NODEFER | SA_RESTART));
    set[i] = sigaction(kSignals[i], &ours, nullptr) == 0;
  }
}

void uninstall() {
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    struct sigaction now {};
    // Another handler set over ours may call it. Then ours stays, and only passes signals on.
    if (!set[i] || sigaction(kSignals[i], nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) == 0 || now.sa_sigaction != on_signal)
      continue;
    set[i] = sigaction(kSignals[i], &previous[i], nullptr) != 0;
  }
}

}  // namespace

void note_end_in(FlightFile& file) noexcept {
  if (!is_on()) return;
  const std::lock_guard lock(mutex());
  for (std::atomic<FlightFile*>& each : flight_files) {
    if (each.load(std::memory_order_relaxed) != nullptr) continue;
    each.store(&file, std::memory_order_release);
    if (open_files++ == 0) install();
    return;
  }
}

void forget_end_in(FlightFile& file) noexcept {
  const std::lock_guard lock(mutex());
  for (std::atomic<FlightFile*>& each : flight_files) {
    if (each.load(std::memory_order_relaxed) != &file) continue;
    each.store(nullptr, std::memory_order_release);
    if (--open_files == 0) uninstall();
    return;
  }
}

}  // namespace dwell::runtime
