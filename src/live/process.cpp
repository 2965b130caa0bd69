#include "live/process.hpp"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/byte_stream.hpp"
#include "base/file.hpp"

namespace dwell::live {

Process Process::self() { return with(getpid()).value_or(Process{getpid(), 0}); }

std::optional<Process> Process::with(pid_t pid) {
  const auto bytes = read_file("/proc/" + std::to_string(pid) + "/stat", std::size_t{1} << 16U);
  if (!bytes) return std::nullopt;
  // "12 (name) S 1 ...": the name may hold blanks and brackets, so fields are counted from the last bracket, which ends the second.
  std::string_view rest = as_text(*bytes);
  rest.remove_prefix(std::min(rest.rfind(')'), rest.size()));
  for (int field = 2; field < 22; ++field) rest.remove_prefix(std::min(rest.find(' ') + 1, rest.size()));
  Process process{pid, 0};
  if (std::from_chars(rest.data(), rest.data() + rest.size(), process.start).ec != std::errc()) return std::nullopt;
  return process;
}

std::chrono::nanoseconds Process::age() const {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const auto a_second = static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
  const auto started = std::chrono::seconds(start / a_second) + std::chrono::nanoseconds(start % a_second * 1'000'000'000 / a_second);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec) - started;
}

}  // namespace dwell::live
