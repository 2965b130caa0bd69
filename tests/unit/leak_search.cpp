// Disables the leak sanitizer's search. NVIDIA's compilers leak, and the search sometimes crashes on their leftovers. In a forked process,
// memory that only the parent's other threads refer to looks lost.
#include <link.h>
#include <unistd.h>

#include <cstring>

namespace {
const pid_t kStarted = getpid();
}  // namespace

extern "C" int __lsan_is_turned_off() {
  if (getpid() != kStarted) return 1;
  const auto is_compiler = [](dl_phdr_info* info, std::size_t, void*) -> int {
    return std::strstr(info->dlpi_name, "/libnvrtc") != nullptr || std::strstr(info->dlpi_name, "/libnvJitLink") != nullptr ? 1 : 0;
  };
  return dl_iterate_phdr(is_compiler, nullptr);
}
