// NVIDIA's compilers leak, and now and then the search for leaks crashes over what they leave behind.
// In a forked process, what only the parent's other threads refer to looks lost.
// So the leak sanitizer's runtime is told not to search there.
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
