// A fork-join tree of tasks that do next to nothing, and the interface of a module that runs one on the CPU: plain C, so that it may bring
// a C++ library of its own.
//
// Task `first` of a tree of `count` tasks stores `mark` into its cell and makes two tasks, for halves of the tasks behind it:
//   left = (count - 1) / 2 tasks from first + 1 on, if there are any; count - 1 - left tasks from first + 1 + left on.
// It is complete when those are.
#pragma once

#include <cstdint>

namespace dwell::bench {

struct TreeModule {
  const char* name;
  // Opens threads; one of them is for the caller.
  void* (*open)(int threads);
  void (*close)(void* threads);
  // Runs a tree of `count` tasks, from number 0 on. Returns when all are complete.
  void (*run)(void* threads, unsigned char* cells, std::uint32_t count, unsigned char mark);
};

}  // namespace dwell::bench
