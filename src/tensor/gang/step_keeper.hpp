// A thread that looks after the kernels of a step.
#pragma once

#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>

namespace dwell::tensor::gang {

// Calls a function from time to time in a thread of its own, which sleeps while there is nothing to do.
class StepKeeper {
 public:
  // `look`: called by the thread, again behind `interval` while it returns true, else at the next wake. Must not throw.
  StepKeeper(std::chrono::nanoseconds interval, std::function<bool()> look);
  // Ends the thread: waits for a look under way. Leaves all as it is in a forked child, which has no such thread.
  ~StepKeeper();
  StepKeeper(const StepKeeper&) = delete;
  StepKeeper& operator=(const StepKeeper&) = delete;

  // Has the thread look. The first call starts it; if none can be started nobody looks. Any thread, also in `look`.
  void wake() noexcept;

 private:
  struct State;

  const pid_t process_ = getpid();
  std::unique_ptr<State> state_;
};

}  // namespace dwell::tensor::gang
