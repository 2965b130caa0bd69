// What steps and exchanges cost on a device. The planner of compiled recordings (gang_program.hpp, step.hpp) decides by these how
// many members there are, and what they share out. Not part of dwell.hpp.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace dwell {

// One constant of the planner.
struct CostFigure {
  std::string name;  // "step_ns"
  double value = 0;  // by which the planner decides; times in nanoseconds
  double usual = 0;  // the default
  std::string what;  // "a step of a member"
};

struct DeviceCosts {
  std::string device;               // "cuda:0"
  std::string name;                 // of the device, as the vendor has it
  bool measured = false;            // by measure_costs; else these are the defaults
  bool kept = false;                // measured ones: they are on disk, and programs are planned by them
  std::vector<CostFigure> figures;  // times, and the limits that follow from them
};

// Measured costs are kept on disk beside the cache of compiled operators, for a device's name, target, number of multiprocessors, driver,
// and version of dwell. Clearing the cache leaves them. A process reads them once, with the first plan for the device: plans that it makes,
// and so the bits of sums, do not change while it runs. Nothing is measured unless a program or `dwell doctor --measure` asks for it; with
// DWELL_COSTS=off in the environment, and where there is no cache, the planner keeps to its defaults. On a CPU it uses no costs.
//
// All may be called from any thread. `device` is as DeviceSummary has it. They throw errc::invalid_argument for a device that does not
// exist, errc::unsupported for the CPU. `warn` takes a line for each kept file that is damaged or cannot be used; it counts as absent.

// Returns the costs by which this process plans for the device.
DeviceCosts costs_of(std::string_view device, const std::function<void(std::string_view)>& warn = {});

// Measures the costs of the device by small programs, keeps them, and has this process use them for all later plans. Takes less than a
// second beyond compiling, and opens a runtime of its own. Nothing else should use the device. If the figures cannot be kept, or
// DWELL_COSTS is off, the result has them, and no program is planned by them. Throws errc::unsupported, and keeps nothing, if repeated
// measurements differ by more than a quarter. Throws as the constructor of Runtime, and as Runtime::compile.
DeviceCosts measure_costs(std::string_view device, const std::function<void(std::string_view)>& warn = {});

// Removes measured costs of the device: all later plans of this process, and other processes, use the defaults. Returns whether there were
// any.
bool forget_costs(std::string_view device, const std::function<void(std::string_view)>& warn = {});

}  // namespace dwell
