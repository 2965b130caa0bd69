#include "jit/base/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

#include <dwell/error.hpp>

#include "base/file.hpp"

namespace dwell::jit {

namespace {

constexpr std::size_t kLongestOutput = std::size_t{1} << 20U;

using Clock = std::chrono::steady_clock;

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> list;
  for (std::string& text : strings) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

// Returns this process's environment, overridden by `variables`.
std::vector<std::string> environment_with(std::vector<std::string> variables) {
  const std::size_t given = variables.size();
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view variable = *at;
    const std::string_view name = variable.substr(0, variable.find('='));
    const auto is_same = [&](std::string_view other) { return other.starts_with(name) && other.substr(name.size()).starts_with('='); };
    const auto end = variables.begin() + static_cast<std::ptrdiff_t>(given);
    if (std::none_of(variables.begin(), end, is_same)) variables.emplace_back(variable);
  }
  return variables;
}

// Settings of posix_spawn: no input, all output to `output`, its own process group.
class SpawnSettings {
 public:
  explicit SpawnSettings(int output) {
    posix_spawn_file_actions_init(&files_);
    posix_spawnattr_init(&attributes_);
    posix_spawn_file_actions_addopen(&files_, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&files_, output, 1);
    posix_spawn_file_actions_adddup2(&files_, output, 2);
    // The child must not inherit signals that this program ignores or blocks: a compiler that ignores SIGCHLD loses its own children.
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  ~SpawnSettings() {
    posix_spawnattr_destroy(&attributes_);
    posix_spawn_file_actions_destroy(&files_);
  }
  SpawnSettings(const SpawnSettings&) = delete;
  SpawnSettings& operator=(const SpawnSettings&) = delete;

  // Returns 0 and sets `child`, or an errno.
  int spawn(std::vector<std::string> arguments, std::vector<std::string> variables, pid_t& child) const {
    const std::vector<char*> argument_list = pointers(arguments);
    const std::vector<char*> variable_list = pointers(variables);
    return posix_spawn(&child, argument_list[0], &files_, &attributes_, argument_list.data(), variable_list.data());
  }

 private:
  posix_spawn_file_actions_t files_;
  posix_spawnattr_t attributes_;
};

// A started child. The destructor kills its process group and waits for it, unless it was reaped.
class Child {
 public:
  explicit Child(pid_t id) : id_(id) {}
  ~Child() {
    if (id_ == 0) return;
    kill(-id_, SIGKILL);
    kill(id_, SIGKILL);
    int status = 0;
    while (waitpid(id_, &status, 0) < 0 && errno == EINTR) {}
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Waits for the child's end; false at `deadline`. A program that ignores SIGCHLD gets no status; this counts as success, and the caller
  // checks for the output file anyway.
  bool reap(int& status, Clock::time_point deadline) {
    for (;;) {
      status = 0;
      const pid_t got = waitpid(id_, &status, WNOHANG);
      if (got == id_ || (got < 0 && errno != EINTR)) {
        id_ = 0;
        return true;
      }
      if (Clock::now() >= deadline) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }

 private:
  pid_t id_;
};

// Reads until all writers have closed `input`; false at `deadline`.
bool drain(const File& input, std::string& output, Clock::time_point deadline) {
  std::vector<char> buffer(65536);
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd ready{input.get(), POLLIN, 0};
    const int count = poll(&ready, 1, static_cast<int>(std::min<long long>(left, 1000)));
    if (count <= 0) continue;
    const ssize_t got = read(input.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    output.append(buffer.data(), std::min(static_cast<std::size_t>(got), kLongestOutput - output.size()));
  }
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments, std::chrono::milliseconds limit, std::vector<std::string> variables) {
  // Request English messages: they are searched for phrases. LANGUAGE overrides LC_ALL for translations.
  variables.insert(variables.end(), {"LC_ALL=C", "LANGUAGE="});
  variables = environment_with(std::move(variables));
  const auto deadline = Clock::now() + limit;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(errc::io_failed, std::string("cannot make a pipe: ") + std::strerror(errno));
  const File input(ends[0]);
  File output(ends[1]);
  pid_t id = 0;
  if (const int error = SpawnSettings(output.get()).spawn(arguments, std::move(variables), id); error != 0)
    throw Error(errc::io_failed, "cannot start " + arguments[0] + ": " + std::strerror(error));
  Child child(id);
  output = File();  // only the child holds the write end now: its exit ends the input
  ProcessResult result;
  int status = 0;
  if (!drain(input, result.output, deadline) || !child.reap(status, deadline)) {
    result.end = ProcessResult::End::timed_out;
  } else if (WIFSIGNALED(status)) {
    result.end = ProcessResult::End::killed;
    result.code = WTERMSIG(status);
  } else {
    result.code = WEXITSTATUS(status);
  }
  return result;
}

std::string find_program(const std::string& name) {
  const auto executable = [](const std::string& path) {
    struct stat status {};
    return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && access(path.c_str(), X_OK) == 0;
  };
  if (name.empty()) return {};
  if (name.find('/') != std::string::npos) return executable(name) ? name : std::string();
  const char* const variable = secure_getenv("PATH");
  std::string_view path = variable == nullptr ? "/usr/bin:/bin" : variable;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find(':'), path.size());
    const std::string folder(path.substr(0, end));
    // Skip relative folders: they would select another compiler in every working directory.
    if (folder.starts_with('/') && executable(folder + "/" + name)) return folder + "/" + name;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return {};
}

}  // namespace dwell::jit
