#include "runtime/membarrier.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace dwell::runtime {

namespace {

bool registered() { return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0; }

}  // namespace

const bool kHaveMembarrier = registered();

void membarrier() {
  if (!kHaveMembarrier || syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0) __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

}  // namespace dwell::runtime
