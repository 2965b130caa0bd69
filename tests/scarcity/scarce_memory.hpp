// Memory that runs out when a test says so.
#pragma once

namespace dwell::test {

// operator new of this program fails while the count of allocations, of all threads, lies in [first, first + many).
class ScarceMemory {
 public:
  // From now on allocations count from 1.
  static void fail(long first, long many);
  // None fails any more. Returns how many there were before the first call of it behind `fail`.
  static long relent();
  // Writes to stderr which allocations fail, and the stack of the first one that did. Takes no memory, and may be called at any time.
  static void tell();

  // While it lives, allocations of this thread neither count nor fail.
  class Spared {
   public:
    Spared();
    ~Spared();
    Spared(const Spared&) = delete;
    Spared& operator=(const Spared&) = delete;

   private:
    const bool before_;
  };
};

}  // namespace dwell::test
