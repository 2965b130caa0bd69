// Memory that runs out when a test says so.
#pragma once

#include <atomic>
#include <functional>

namespace dwell::test {

// operator new of this program fails while the count of allocations, of all threads, lies in [first, first + many).
class ScarceMemory {
 public:
  // From now on allocations count from 1.
  static void fail(long first, long many);
  // None fails any more. Returns how many there were.
  static long relent();

  // While it lives, allocations of this thread neither count nor fail.
  class Spared {
   public:
    Spared();
    ~Spared();
    Spared(const Spared&) = delete;
    Spared& operator=(const Spared&) = delete;
  };
};

}  // namespace dwell::test
