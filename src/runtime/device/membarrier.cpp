#include "runtime/device/membarrier.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>

namespace dwell::runtime {

namespace {

bool registered() { return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0; }

}  // namespace

const bool kHaveMembarrier = registered();

void membarrier() {
  if (!kHaveMembarrier || syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0) full_fence();
}

// A read-modify-write of one word: the thread sanitizer does not support fences.
void full_fence() {
  static std::atomic<unsigned> order{0};
  order.fetch_add(1, std::memory_order_seq_cst);
}

}  // namespace dwell::runtime
