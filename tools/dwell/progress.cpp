#include "progress.hpp"

#include <unistd.h>

#include <iostream>
#include <utility>

#include "base/utf8.hpp"
#include "table.hpp"

namespace dwell::tool {

namespace {
constexpr const char* kEraseLine = "\r\x1b[K";
}

Progress::Progress(std::string_view label, std::string unit, std::uint64_t total)
    : on_(isatty(STDERR_FILENO) == 1),
      label_(printable(label)),
      unit_(std::move(unit)),
      total_(total),
      next_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (shown_) std::cerr << kEraseLine << std::flush;
}

void Progress::show(std::uint64_t done) {
  if (!due()) return;
  next_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  shown_ = true;
  const std::uint64_t percent =
      total_ == 0 ? 100 : static_cast<std::uint64_t>(100.0 * static_cast<double>(done) / static_cast<double>(total_));
  std::cerr << kEraseLine << label_ << ": " << text_of_count(done) << " of " << text_of_count(total_) << ' ' << unit_ << ", " << percent
            << " %" << std::flush;
}

}  // namespace dwell::tool
