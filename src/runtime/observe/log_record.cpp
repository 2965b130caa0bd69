#include <algorithm>
#include <ctime>

#include <dwell/log.hpp>

#include "base/utf8.hpp"
#include "runtime/graphs.hpp"
#include "runtime/observe/format_library.hpp"
#include "runtime/observe/log_memory.hpp"

namespace dwell {

std::string_view text_of(level severity) noexcept {
  constexpr std::string_view kNames[] = {"trace", "debug", "info", "warning", "error"};
  const auto index = static_cast<std::size_t>(severity);
  return index < std::size(kNames) ? kNames[index] : "off";
}

std::string to_string(const LogRecord& record) {
  using std::chrono::microseconds;
  const auto ago = std::chrono::steady_clock::now() - record.at;
  const auto at = std::chrono::time_point_cast<microseconds>(std::chrono::system_clock::now() - ago);
  const std::time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::floor<std::chrono::seconds>(at));
  std::tm local{};
  localtime_r(&seconds, &local);
  char time[16];
  const std::size_t length = std::strftime(time, sizeof(time), "%H:%M:%S.", &local);
  std::string text(time, length);
  const auto fraction = at.time_since_epoch() % std::chrono::seconds(1);
  runtime::append_formatted(text, "{:06}", std::chrono::duration_cast<microseconds>(fraction).count());
  text += ' ';
  text += text_of(record.severity);
  text += " " + printable(record.op);
  if (!record.node.empty()) text += " node '" + printable(record.node) + "' of " + printable(runtime::title_of(record.graph));
  text += " worker " + std::to_string(record.worker);
  if (record.has_position) text += " ticket " + std::to_string(record.position);
  // Always one line: a format may end with a newline, as printf's do.
  const std::string_view said = record.text;
  return text + ": " + printable(said.substr(0, said.find_last_not_of("\r\n") + 1), "\t");
}

std::optional<LogRecord> Logs::next(std::chrono::nanoseconds wait) {
  constexpr std::chrono::nanoseconds kForEver = std::chrono::hours(24 * 365);
  const std::uint64_t wanted = at_;
  auto record = memory_->next(at_, std::chrono::steady_clock::now() + std::min(wait, kForEver));
  missed_ += at_ - wanted;
  if (record) ++at_;
  return record;
}

}  // namespace dwell
