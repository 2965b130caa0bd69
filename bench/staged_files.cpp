#include "bench/staged_files.hpp"

#include <ostream>
#include <stdexcept>
#include <utility>

#include <dwell/error.hpp>

namespace dwell::bench {

namespace {

// Rethrows with the plain message: the programs print no error codes of the library.
template <class Work>
void in_plain_words(const Work& work) {
  try {
    work();
  } catch (const Error& error) {
    throw std::runtime_error(error.message());
  }
}

}  // namespace

void StagedFiles::check(const std::filesystem::path& target) {
  in_plain_words([&] { OutputFile::check(target, OutputFile::Links::replace); });
}

void StagedFiles::add(const std::filesystem::path& target, const std::function<void(std::ostream&)>& write) {
  in_plain_words([&] {
    OutputFile file(target, OutputFile::Links::replace);
    write(file.stream());
    file.finish();
    files_.push_back(std::move(file));
  });
}

void StagedFiles::commit() {
  in_plain_words([&] {
    while (!files_.empty()) {
      files_.front().commit();
      files_.pop_front();
    }
  });
}

}  // namespace dwell::bench
