#include "jit/base/temporary_directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>

#include <dwell/error.hpp>

namespace dwell::jit {

void remove_folder(const std::filesystem::path& path) noexcept {
  try {
    std::error_code error;
    std::filesystem::remove_all(path, error);
  } catch (const std::bad_alloc&) {
    // The folder stays until another process cleans up.
  }
}

TemporaryDirectory::TemporaryDirectory() : owner_(getpid()) {
  std::string tried;
  for (const char* const name : {"XDG_RUNTIME_DIR", "TMPDIR", ""}) {
    const char* const parent = *name == 0 ? "/tmp" : secure_getenv(name);
    if (parent == nullptr || *parent != '/') continue;
    std::string path = std::string(parent) + "/dwell-XXXXXX";
    const std::string problem = make(path);
    if (problem.empty()) return;
    tried += (tried.empty() ? "" : "; ") + std::string(parent) + ": " + problem;
  }
  throw Error(errc::io_failed, "cannot make a temporary folder (" + tried + "); set TMPDIR to a folder that you may write to");
}

// Creates the folder from the template `path`. Returns the reason for a failure; empty on success.
std::string TemporaryDirectory::make(std::string& path) {
  if (mkdtemp(path.data()) == nullptr) return std::strerror(errno);
  struct Removal {
    const char* path;
    ~Removal() {
      if (path != nullptr) rmdir(path);
    }
  } removal{path.c_str()};
  File folder(open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder) return std::strerror(errno);
  // Some network file systems do not keep owner and mode: others could replace files there.
  struct stat status {};
  if (fstat(folder.get(), &status) != 0 || status.st_uid != geteuid() || (status.st_mode & 0777U) != 0700U)
    return "it does not keep owner and mode of a folder";
  path_ = path;
  folder_ = std::move(folder);
  removal.path = nullptr;
  return {};
}

TemporaryDirectory::~TemporaryDirectory() {
  if (stands()) remove_folder(path_);
}

bool TemporaryDirectory::stands() const {
  struct stat made {};
  struct stat found {};
  return !path_.empty() && owner_ == getpid() && fstat(folder_.get(), &made) == 0 && lstat(path_.c_str(), &found) == 0 &&
         made.st_dev == found.st_dev && made.st_ino == found.st_ino;
}

}  // namespace dwell::jit
