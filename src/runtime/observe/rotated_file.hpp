// A file that grows up to a size and is then put aside.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/file.hpp"

namespace dwell::runtime {

// Appends to "<path>"; when that has so many bytes, it becomes "<path>.1", which becomes "<path>.2", and so on; the oldest goes when there
// would be more than `files`. Text that is written at once stays in one file. What is no file, as a pipe or a device, is never put aside.
// Used by one thread at a time.
class RotatedFile {
 public:
  // `bytes` 0: never put aside. Throws errc::invalid_argument with the system's reason when the file cannot be opened.
  RotatedFile(std::string path, std::uint64_t bytes, unsigned files);

  // Writes all of it. Returns what went wrong, with the file's name; empty when nothing did.
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

// Writes all of the text to a descriptor. 0, or the errno of what went wrong.
int write_all(int descriptor, std::string_view text) noexcept;

}  // namespace dwell::runtime
