// Runs another program and collects its output.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace dwell::jit {

struct ProcessResult {
  enum class End { exited, killed, timed_out };
  End end = End::exited;
  int code = 0;        // exit status, or the signal that killed it
  std::string output;  // stdout and stderr together, at most the first megabyte
};

// Runs `arguments` (the first is the file of the program) without a shell, in the C locale, with no input, and waits for it. Its
// environment is that of this process, with `variables` ("NAME=VALUE") in place of those of the same names. A program that takes longer
// than `limit` is killed with all processes it started. Throws dwell::Error with errc::io_failed when it cannot be started; the message
// names it.
ProcessResult run_process(const std::vector<std::string>& arguments, std::chrono::milliseconds limit,
                          std::vector<std::string> variables = {});

// Returns the file of `name`: itself when it contains a slash, else the first executable of that name on PATH. Empty if there is none.
std::string find_program(const std::string& name);

}  // namespace dwell::jit
