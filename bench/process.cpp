#include "bench/process.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

namespace dwell::bench {

namespace {

std::string name_of(const std::string& variable) { return variable.substr(0, variable.find('=') + 1); }

// Returns this process's environment with some variables replaced.
std::vector<std::string> environment_with(const std::vector<std::string>& replaced) {
  std::vector<std::string> all = replaced;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string variable = *at;
    const bool taken =
        std::any_of(replaced.begin(), replaced.end(), [&](const std::string& other) { return name_of(other) == name_of(variable); });
    if (!taken) all.push_back(variable);
  }
  return all;
}

std::vector<char*> pointers_to(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

struct Actions {
  posix_spawn_file_actions_t list{};
  Actions() { posix_spawn_file_actions_init(&list); }
  ~Actions() { posix_spawn_file_actions_destroy(&list); }
  Actions(const Actions&) = delete;
  Actions& operator=(const Actions&) = delete;
};

}  // namespace

Finished run_process(const std::vector<std::string>& arguments, const std::vector<std::string>& environment, bool quiet) {
  Finished finished;
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) return finished;
  Actions actions;
  posix_spawn_file_actions_adddup2(&actions.list, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions.list, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (quiet) posix_spawn_file_actions_addopen(&actions.list, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<std::string> words = arguments;
  std::vector<std::string> variables = environment_with(environment);
  const std::vector<char*> argument_list = pointers_to(words);
  const std::vector<char*> variable_list = pointers_to(variables);
  pid_t child = -1;
  const int problem = posix_spawnp(&child, words.front().c_str(), &actions.list, nullptr, argument_list.data(), variable_list.data());
  close(ends[1]);
  if (problem == 0) {
    char part[4096];
    for (;;) {
      const ssize_t size = read(ends[0], part, sizeof(part));
      if (size > 0) finished.output.append(part, static_cast<std::size_t>(size));
      if (size == 0 || (size < 0 && errno != EINTR)) break;
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (WIFEXITED(status)) finished.code = WEXITSTATUS(status);
  }
  close(ends[0]);
  return finished;
}

std::string own_file() { return std::filesystem::read_symlink("/proc/self/exe").string(); }

}  // namespace dwell::bench
