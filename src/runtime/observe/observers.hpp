// Observers of opcodes and code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/observe/flight_recorder.hpp"
#include "runtime/observe/host_events.hpp"
#include "runtime/observe/meters.hpp"

namespace dwell::runtime {

// Each may be null.
struct Observers {
  Meters* meters = nullptr;
  FlightRecorder* flight = nullptr;
  HostEvents* events = nullptr;

  // Reports the number of opcodes. Throws errc::out_of_memory.
  void reserve(std::size_t opcodes) const {
    if (meters != nullptr) meters->reserve(opcodes);
  }
  // Binds the opcode to this version of an operator: "add", 2, "add (version 2)".
  void assign(std::uint32_t opcode, const std::string& name, std::uint32_t version, const std::string& full_name,
              const Signature& signature) const noexcept {
    if (meters != nullptr) meters->assign(opcode, name, version, signature);
    if (flight != nullptr) flight->assign(opcode, full_name, signature);
  }
};

}  // namespace dwell::runtime
