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

// The environment of this process, with messages in English: they are searched for phrases.
std::vector<std::string> c_environment() {
  std::vector<std::string> variables;
  for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view variable = *at;
    if (!variable.starts_with("LC_ALL=") && !variable.starts_with("LANGUAGE=")) variables.emplace_back(variable);
  }
  variables.emplace_back("LC_ALL=C");
  return variables;
}

// Starts `arguments` as the leader of a process group of its own, its output going to `output`. Returns 0 and sets `child`, or an errno.
int spawn(std::vector<std::string> arguments, int output, pid_t& child) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&files);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, output, 1);
  posix_spawn_file_actions_adddup2(&files, output, 2);
  // The child must not inherit signals that this program ignores or blocks: a compiler that ignores SIGCHLD loses its own children.
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  std::vector<std::string> variables = c_environment();
  const int error = posix_spawn(&child, arguments[0].c_str(), &files, &attributes, pointers(arguments).data(), pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

// Reads until every writer is gone; false when `deadline` comes first.
bool drain(int input, std::string& output, Clock::time_point deadline) {
  std::vector<char> buffer(65536);
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd ready{input, POLLIN, 0};
    const int count = poll(&ready, 1, static_cast<int>(std::min<long long>(left, 1000)));
    if (count <= 0) continue;
    const ssize_t got = read(input, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return true;
    output.append(buffer.data(), std::min(static_cast<std::size_t>(got), kLongestOutput - output.size()));
  }
}

// Waits for the child; false when `deadline` comes first. A program that ignores SIGCHLD gets no status, which counts as success: the
// caller looks for the file it asked for anyway.
bool reap(pid_t child, int& status, Clock::time_point deadline) {
  status = 0;
  for (;;) {
    const pid_t got = waitpid(child, &status, WNOHANG);
    if (got == child || (got < 0 && errno != EINTR)) return true;
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments, std::chrono::milliseconds limit) {
  const auto deadline = Clock::now() + limit;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw Error(errc::io_failed, std::string("cannot make a pipe: ") + std::strerror(errno));
  pid_t child = 0;
  const int error = spawn(arguments, ends[1], child);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    throw Error(errc::io_failed, "cannot start " + arguments[0] + ": " + std::strerror(error));
  }
  ProcessResult result;
  int status = 0;
  const bool in_time = drain(ends[0], result.output, deadline) && reap(child, status, deadline);
  if (!in_time) {
    kill(-child, SIGKILL);
    kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  }
  close(ends[0]);
  if (!in_time) {
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
    // A relative folder would mean another compiler in every working directory.
    if (folder.starts_with('/') && executable(folder + "/" + name)) return folder + "/" + name;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return {};
}

}  // namespace dwell::jit
