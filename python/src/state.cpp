#include "state.hpp"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace dwell::python {

namespace {

// Leaked, as threads may come to it until the process is gone.
struct Mailbox {
  std::mutex mutex;
  std::vector<std::function<void()>> jobs;
  bool scheduled = false;
};
Mailbox* mailbox() {
  static Mailbox* const one = [] {
    auto* const made = new Mailbox;
    // A forked child must not find the lock taken by a thread that it does not have. What the jobs hold is leaked there.
    pthread_atfork(nullptr, nullptr, [] { new (mailbox()) Mailbox; });
    return made;
  }();
  return one;
}

std::atomic<bool> ending{false};
std::atomic<std::uint32_t> forks{0};
thread_local bool is_in_callback = false;
thread_local bool is_ending_thread = false;  // it has run close_all

std::vector<std::weak_ptr<Shared::Cell>>& shared_objects() {
  static auto* const all = new std::vector<std::weak_ptr<Shared::Cell>>;  // guarded by the GIL
  return *all;
}

std::vector<std::weak_ptr<RuntimeState>>& open_runtimes() {
  static auto* const all = new std::vector<std::weak_ptr<RuntimeState>>;  // guarded by the GIL
  return *all;
}

}  // namespace

void post(std::function<void()> job) {
  if (ending.load()) {
    // Nobody may hold the GIL any more: what the job holds is leaked.
    new std::function<void()>(std::move(job));
    return;
  }
  Mailbox& box = *mailbox();
  bool call = false;
  {
    const std::lock_guard lock(box.mutex);
    box.jobs.push_back(std::move(job));
    call = !std::exchange(box.scheduled, true);
  }
  // Refused while many calls are pending: the next call of this package comes to it, or the next post.
  const auto pending = [](void*) {
    run_posted();
    return 0;
  };
  if (call && Py_AddPendingCall(pending, nullptr) != 0) {
    const std::lock_guard lock(box.mutex);
    box.scheduled = false;
  }
}

void run_posted() {
  Mailbox& box = *mailbox();
  std::vector<std::function<void()>> jobs;
  {
    const std::lock_guard lock(box.mutex);
    box.scheduled = false;
    if (box.jobs.empty()) return;
    jobs.swap(box.jobs);
  }
  for (const auto& job : jobs) job();
}

std::uint32_t fork_epoch() { return forks.load(); }

bool in_callback() { return is_in_callback; }

Unlocked::~Unlocked() {
#if PY_VERSION_HEX >= 0x030d0000
  const auto finalizing = Py_IsFinalizing;
#else
  const auto finalizing = _Py_IsFinalizing;
#endif
  // The thread that ends the interpreter has closed the runtimes before, and goes on.
  while (finalizing() != 0 && !is_ending_thread) pause();
  try {
    PyEval_RestoreThread(state_);
  } catch (...) {
    // The unwinding of pthread_exit, which may not be caught for good.
    for (;;) pause();
  }
}

CallbackScope::CallbackScope() : entered_(!ending.load()), before_(is_in_callback) {
  if (!entered_) return;
  is_in_callback = true;
  try {
    state_ = PyGILState_Ensure();
  } catch (...) {
    // As in ~Unlocked: the interpreter has ended while this thread waited for the GIL.
    for (;;) pause();
  }
}

CallbackScope::~CallbackScope() {
  if (!entered_) return;
  PyGILState_Release(state_);
  is_in_callback = before_;
}

Shared::Shared(nb::object object)
    : held_(new Cell{object.release().ptr()}, [](Cell* dropped) {
        const auto drop = [dropped] {
          Py_XDECREF(dropped->object);
          delete dropped;
        };
        if (Py_IsInitialized() != 0 && PyGILState_Check() != 0)
          drop();
        else
          post(drop);
      }) {
  auto& all = shared_objects();
  if (all.size() == all.capacity()) std::erase_if(all, [](const std::weak_ptr<Cell>& one) { return one.expired(); });
  all.push_back(held_);
}

RuntimeState::RuntimeState(Options options, std::vector<Shared> callbacks, Shared progress)
    : runtime_(std::make_unique<Runtime>(std::move(options))), callbacks_(std::move(callbacks)), progress_(std::move(progress)) {
  callbacks_.push_back(progress_);
  device_ = runtime_->info().device;
  const std::string_view name = device_;
  if (name.starts_with("cuda:")) std::from_chars(name.data() + 5, name.data() + name.size(), cuda_);
}

RuntimeState::~RuntimeState() {
  if (is_in_callback) {
    // A callback of this runtime may have held it last, and it waits for its callbacks.
    std::thread([held = std::move(runtime_)]() mutable { held.reset(); }).detach();
  } else if (epoch_ == fork_epoch() && PyGILState_Check() != 0) {
    const Unlocked unlocked;
    runtime_.reset();
  } else {
    // In a forked child it does nothing.
    runtime_.reset();
  }
}

Runtime& RuntimeState::get() const {
  require_epoch(epoch_, "the runtime");
  return *runtime_;
}

State open_runtime(Options options, std::vector<Shared> callbacks, Shared progress) {
  State state;
  {
    const Unlocked unlocked;
    state = std::make_shared<RuntimeState>(std::move(options), std::move(callbacks), std::move(progress));
  }
  auto& all = open_runtimes();
  std::erase_if(all, [](const std::weak_ptr<RuntimeState>& one) { return one.expired(); });
  all.push_back(state);
  return state;
}

void close_all() {
  // After an exception that nobody has caught, only what runs is waited for.
  PyObject* const raised = PySys_GetObject("last_value");
  const Close how = raised != nullptr && raised != Py_None ? Close::now : Close::when_done;
  auto all = std::exchange(open_runtimes(), {});
  for (const auto& one : all) {
    const State state = one.lock();
    if (!state) continue;
    const Unlocked unlocked;
    try {
      state->get().close(how);
    } catch (const std::exception&) {
      // As the destructor does: there is nobody left to tell. A parent's runtime is none of a child's business.
    }
  }
  run_posted();
  is_ending_thread = true;
  ending = true;
  for (const auto& one : std::exchange(shared_objects(), {}))
    if (const auto cell = one.lock()) Py_CLEAR(cell->object);
}

void require_epoch(std::uint32_t epoch, const char* what) {
  if (epoch != fork_epoch()) [[unlikely]]
    throw Error(errc::closed, std::string(what) +
                                  " belongs to the parent of this forked process: open a dwell.Runtime in the child, "
                                  "or start processes with multiprocessing's 'spawn' or 'forkserver'");
}

bool wait_in_slices(double seconds, const std::function<bool(std::chrono::nanoseconds)>& slice) {
  using Clock = std::chrono::steady_clock;
  using namespace std::chrono_literals;
  constexpr std::chrono::nanoseconds kSlice = 50ms;
  // Longer than anybody waits, and far from an overflow.
  const std::chrono::nanoseconds whole(seconds < 0 || seconds > 1e9 ? std::int64_t{1'000'000'000'000'000'000}
                                                                    : std::int64_t(seconds * 1e9));
  const auto end = Clock::now() + whole;
  for (;;) {
    bool enough = false;
    const auto left = std::max<std::chrono::nanoseconds>(end - Clock::now(), 0ns);
    {
      const Unlocked unlocked;
      enough = slice(std::min(left, kSlice));
    }
    if (enough) return true;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (left <= kSlice) return false;
  }
}

namespace {
[[maybe_unused]] const int counts_forks = pthread_atfork(nullptr, nullptr, [] { forks.fetch_add(1); });
}

}  // namespace dwell::python
