// A file that is rotated at a size limit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/file.hpp"

namespace dwell::runtime {

// Appends to "<path>". At the size limit "<path>" is renamed to "<path>.1", that one to "<path>.2", and so on; the oldest beyond `files` is
// deleted. A single write stays in one file. Pipes and devices are never rotated. Used by one thread at a time.
class RotatedFile {
 public:
  // `bytes` 0: no rotation. Throws errc::invalid_argument with the system's reason when the file cannot be opened.
  RotatedFile(std::string path, std::uint64_t bytes, unsigned files);

  // Writes all of the text. Returns the error with the file's name; empty on success.
  std::string write(std::string_view text);

 private:
  // 0, or an errno.
  int open();
  void rotate();
  std::string name(unsigned number) const { return number == 0 ? path_ : path_ + "." + std::to_string(number); }

  const std::string path_;
  const std::uint64_t limit_;
  const unsigned files_;
  File file_;
  bool regular_ = false;
  std::uint64_t size_ = 0;
};

// Writes all of the text to a descriptor. Returns 0 or an errno.
int write_all(int descriptor, std::string_view text) noexcept;

}  // namespace dwell::runtime
