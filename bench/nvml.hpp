// NVIDIA's management library, if present: power, utilisation, clocks.
#pragma once

#include <optional>
#include <string>

namespace dwell::bench {

// One device. Used from one thread at a time.
class Nvml {
 public:
  // Opens the device with this PCI address ("0000:01:00.0"); nothing if the library or the device is missing.
  static std::optional<Nvml> open(const std::string& bus);

  // Nothing if the device does not report it.
  std::optional<double> watts() const;
  std::optional<double> utilisation() const;  // per cent of the last sampling period in which a kernel ran
  std::optional<double> clock_mhz() const;    // of the multiprocessors
  std::string driver() const;                 // "580.159.04"; empty when unknown

 private:
  Nvml(void* library, void* device) : library_(library), device_(device) {}
  template <class Function>
  Function* find(const char* name) const;

  void* library_;  // never closed
  void* device_;
};

}  // namespace dwell::bench
