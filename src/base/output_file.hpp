// Files that are written for a person or a program: never half of one in a place, and never a device that became a file.
#pragma once

#include <sys/types.h>

#include <array>
#include <filesystem>
#include <memory>
#include <ostream>
#include <span>
#include <streambuf>
#include <string>

#include "base/file.hpp"

namespace dwell {

// A stream's buffer over a file that is written. It keeps why the first write failed: errno is another call's by the time that somebody
// asks. Used by one thread at a time.
class FileBuffer : public std::streambuf {
 public:
  explicit FileBuffer(File file);
  ~FileBuffer() override = default;
  FileBuffer(const FileBuffer&) = delete;
  FileBuffer& operator=(const FileBuffer&) = delete;

  const File& file() const { return file_; }
  // The errno of the first write that failed; 0: none has.
  int error() const { return error_; }
  // Writes what is left, brings a regular file to the disc, and closes. False when that, or anything before, has failed.
  bool close();

 private:
  int_type overflow(int_type next) override;
  int sync() override { return write_buffer() ? 0 : -1; }
  std::streamsize xsputn(const char* from, std::streamsize count) override;
  bool write_buffer();
  bool write(std::span<const char> text);

  File file_;
  int error_ = 0;
  std::array<char, 65536> buffer_;
};

// A file that appears in its place whole or not at all. What is there and is no regular file, as a pipe or a device, stays what it is and
// is written at once. Used by one thread at a time.
class OutputFile {
 public:
  // Links in the target's place. `follow`: the file to which one leads is replaced. `replace`: the link is, as others may have planted it,
  // but for one of this user's or of root's that leads to no regular file (/dev/stdout).
  enum class Links { replace, follow };

  // Throws errc::io_failed when `target` could not be written as things stand: its folder is not there or not writable, or it is a folder
  // or a disc. For telling the user before the work is done.
  static void check(const std::filesystem::path& target, Links links);

  // Waits for somebody who reads, where `target` is a pipe, a few seconds at most. Throws errc::io_failed; the message names the target.
  OutputFile(std::filesystem::path target, Links links);
  // Removes the file unless it has come to its place.
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;

  // Before finish().
  std::ostream& stream() { return *stream_; }
  // Writes what is left, and closes. Throws errc::io_failed with the reason of the first write that failed.
  void finish();
  // Brings the finished file to its place. Throws errc::io_failed.
  void commit();

 private:
  std::filesystem::path target_;  // as it was named
  std::filesystem::path place_;   // where the file comes to
  std::filesystem::path staged_;  // a name beside it, until then; empty: the place itself is written
  std::unique_ptr<FileBuffer> buffer_;
  std::unique_ptr<std::ostream> stream_;
};

}  // namespace dwell
