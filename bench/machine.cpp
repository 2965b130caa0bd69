#include "bench/machine.hpp"

#include <sys/utsname.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "bench/cuda_peer.hpp"
#include "bench/nvml.hpp"
#include "bench/process.hpp"

namespace dwell::bench {

namespace {

using Json = nlohmann::ordered_json;

std::string date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32] = {};
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::string commit() {
  if (const char* const set = std::getenv("DWELL_COMMIT"); set != nullptr && *set != 0) return set;
#ifdef DWELL_COMMIT
  return DWELL_COMMIT;
#else
  const std::string folder = std::filesystem::path(own_file()).parent_path().string();
  Finished git = run_process({"git", "-C", folder, "describe", "--always", "--dirty", "--abbrev=12", "--exclude", "*"}, {}, true);
  while (!git.output.empty() && git.output.back() == '\n') git.output.pop_back();
  return git.code == 0 && !git.output.empty() ? git.output : "unknown";
#endif
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

}  // namespace

Json describe_run(const Context& context) {
  double load = 0;
  getloadavg(&load, 1);
  utsname system{};
  uname(&system);
  Json device = {{"device", context.info.device},
                 {"name", context.info.device_name},
                 {"compiler", context.info.compiler},
                 {"workers", context.info.workers},
                 {"crew", context.info.crew},
                 {"registers", context.info.registers},
                 {"stack_bytes", context.info.stack_bytes},
                 {"shared_bytes", context.info.shared_bytes},
                 {"constant_bytes", context.info.constant_bytes},
                 {"barriers", context.info.barriers}};
  if (context.cuda) {
    std::string why;
    if (const auto peer = open_cuda_peer(context.ordinal, &why)) {
      device["cuda"] = peer->version();
      if (const auto watch = Nvml::open(peer->bus())) {
        device["driver"] = watch->driver();
        peer->warm_up();
        if (const auto clock = watch->clock_mhz()) device["clock_mhz"] = *clock;
      }
    }
  }
  return {{"date", date()},
          {"commit", commit()},
          {"short", context.brief},
          {"host",
           {{"processor", processor()},
            {"processors", std::thread::hardware_concurrency()},
            {"system", std::string(system.sysname) + " " + system.release},
            {"load", load}}},
          {"device", std::move(device)}};
}

}  // namespace dwell::bench
