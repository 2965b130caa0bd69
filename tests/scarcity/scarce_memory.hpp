// Memory that runs out when a test asks for it.
#pragma once

namespace dwell::test {

// operator new of this program fails while the number of the allocation, counted over all threads, lies in [first, first + many).
class ScarceMemory {
 public:
  // Counts allocations from 1 from here on.
  static void fail(long first, long many);
  // Ends the failures. Returns the number of allocations between `fail` and the first later call.
  static long relent();
  // Writes to stderr which allocations fail, and the stack of the first that did. Allocates nothing; may be called at any time.
  static void tell();

  // During its lifetime, allocations of this thread neither count nor fail.
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
