#include "jit/base/temporary_directory.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include <dwell/error.hpp>

namespace dwell::jit {

TemporaryDirectory::TemporaryDirectory() : owner_(getpid()) {
  std::string tried;
  for (const char* const name : {"XDG_RUNTIME_DIR", "TMPDIR", ""}) {
    const char* const parent = *name == 0 ? "/tmp" : secure_getenv(name);
    if (parent == nullptr || *parent != '/') continue;
    std::string path = std::string(parent) + "/dwell-XXXXXX";
    struct stat status {};
    if (mkdtemp(path.data()) == nullptr) {
      tried += (tried.empty() ? "" : "; ") + std::string(parent) + ": " + std::strerror(errno);
    } else if (lstat(path.c_str(), &status) != 0 || status.st_uid != geteuid() || (status.st_mode & 0777U) != 0700U) {
      // Some network file systems do not keep owner and mode; what is compiled there could be replaced by someone else.
      rmdir(path.c_str());
      tried += (tried.empty() ? "" : "; ") + std::string(parent) + ": does not keep owner and mode of a folder";
    } else {
      folder_ = File(open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      path_ = path;
      return;
    }
  }
  throw Error(errc::io_failed, "cannot make a temporary folder (" + tried + "); set TMPDIR to a folder that you may write to");
}

TemporaryDirectory::~TemporaryDirectory() {
  if (!stands()) return;
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

bool TemporaryDirectory::stands() const {
  struct stat made {};
  struct stat found {};
  return !path_.empty() && owner_ == getpid() && fstat(folder_.get(), &made) == 0 && lstat(path_.c_str(), &found) == 0 &&
         made.st_dev == found.st_dev && made.st_ino == found.st_ino;
}

}  // namespace dwell::jit
