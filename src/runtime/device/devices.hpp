// The devices of an open runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <dwell/error.hpp>
#include <dwell/ticket.hpp>

#include "runtime/device/device.hpp"

namespace dwell::runtime {

// 1 to n devices, by the indices in tickets. A runtime opens one so far. `add` ends before another thread calls a member; then all may be
// called from any thread.
class Devices {
 public:
  // Adds the next device. Throws as its constructor.
  Device& add(Device::Parts parts) { return *all_.emplace_back(std::make_unique<Device>(std::move(parts))); }

  std::size_t count() const { return all_.size(); }
  Device& first() const { return *all_.front(); }
  // Returns the device of a ticket with this word. Throws errc::invalid_argument when there is none with its index.
  Device& of(std::uint64_t word) const {
    if (detail::device_of(word) >= all_.size()) [[unlikely]]
      refuse(word);
    return *all_[detail::device_of(word)];
  }

 private:
  [[noreturn]] void refuse(std::uint64_t word) const {
    throw Error(errc::invalid_argument,
                "a ticket of device " + std::to_string(detail::device_of(word)) + ": the runtime has " + std::to_string(all_.size()) +
                    " device" + (all_.size() == 1 ? "" : "s") + ", from 0",
                {"device", "", detail::device_of(word), all_.size()});
  }

  std::vector<std::unique_ptr<Device>> all_;
};

}  // namespace dwell::runtime
