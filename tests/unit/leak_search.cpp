// NVIDIA's compilers leak, and now and then the search for leaks crashes over what they leave behind. So the leak sanitizer's runtime is
// told not to search a program that has opened them.
#include <link.h>

#include <cstring>

extern "C" int __lsan_is_turned_off() {
  const auto is_compiler = [](dl_phdr_info* info, std::size_t, void*) -> int {
    return std::strstr(info->dlpi_name, "/libnvrtc") != nullptr || std::strstr(info->dlpi_name, "/libnvJitLink") != nullptr ? 1 : 0;
  };
  return dl_iterate_phdr(is_compiler, nullptr);
}
