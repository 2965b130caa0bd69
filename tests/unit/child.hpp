// Child processes of tests.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>

namespace dwell::test {

// Runs `work` in a child, which exits with its result, or with 99 after an exception.
template <class Work>
pid_t start_child(Work work) {
  const pid_t child = fork();
  if (child != 0) return child;
  // Intended crashes need no core file.
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  try {
    _exit(work());
  } catch (...) {
    _exit(99);
  }
}

// Waits for the child. Returns its status, as from waitpid.
inline int end_of(pid_t child) {
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

template <class Work>
int run_child(Work work) {
  return end_of(start_child(work));
}

inline bool ended_well(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

// A value shared by this process and its children.
template <class T>
class SharedWithChildren {
 public:
  SharedWithChildren() : at_(mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (at_ == MAP_FAILED) throw std::bad_alloc();
    new (at_) T();
  }
  ~SharedWithChildren() { munmap(at_, sizeof(T)); }
  SharedWithChildren(const SharedWithChildren&) = delete;
  SharedWithChildren& operator=(const SharedWithChildren&) = delete;

  T& operator*() const { return *static_cast<T*>(at_); }
  T* operator->() const { return static_cast<T*>(at_); }

 private:
  void* at_;
};

}  // namespace dwell::test
