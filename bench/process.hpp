// Runs another program, for what can only be measured from outside.
#pragma once

#include <string>
#include <vector>

namespace dwell::bench {

struct Finished {
  int code = -1;       // exit status; -1 when it could not be started or was killed
  std::string output;  // its standard output
};

// Runs `arguments` (the first is looked for on PATH), with `environment` ("NAME=value") in place of variables of the same name, no shell,
// and standard error left alone or dropped. Returns when it has ended.
Finished run_process(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {}, bool quiet = false);

// The file of this program.
std::string own_file();

}  // namespace dwell::bench
