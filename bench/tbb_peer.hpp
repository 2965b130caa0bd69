// oneTBB, if its module is next to the program.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "bench/tbb/module.hpp"

namespace dwell::bench {

class TbbPeer {
 public:
  // Opens it with `threads` threads, the caller's included. Nothing, with the reason in `why`, if there is no such module.
  static std::unique_ptr<TbbPeer> open(int threads, std::string* why);
  ~TbbPeer();
  TbbPeer(const TbbPeer&) = delete;
  TbbPeer& operator=(const TbbPeer&) = delete;

  std::string version() const { return module_->version; }

  // Each calls task(index); it must live until the tasks are complete.
  template <class Task>
  void run_and_wait(Task& task, std::size_t index) {
    module_->run_and_wait(arena_, call<Task>, &task, index);
  }
  template <class Task>
  void enqueue(Task& task, std::size_t index) {
    module_->enqueue(arena_, call<Task>, &task, index);
  }
  template <class Task>
  void run_all(Task& task, std::size_t count) {
    module_->run_all(arena_, call<Task>, &task, count);
  }

 private:
  TbbPeer(const TbbModule* module, int threads) : module_(module), arena_(module->open(threads)) {}
  template <class Task>
  static void call(void* task, std::size_t index) {
    (*static_cast<Task*>(task))(index);
  }

  const TbbModule* module_;
  void* arena_;
};

}  // namespace dwell::bench
