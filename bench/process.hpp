// Runs another program, for measurements from outside.
#pragma once

#include <string>
#include <vector>

namespace dwell::bench {

struct Finished {
  int code = -1;       // exit status; -1 when it could not be started or was killed
  std::string output;  // its standard output
};

// Runs `arguments` (the first is searched on PATH) without a shell and waits for the end. `environment` ("NAME=value") replaces variables
// of the same name. Standard error is inherited or dropped.
Finished run_process(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {}, bool quiet = false);

// Returns the file of this program.
std::string own_file();

}  // namespace dwell::bench
