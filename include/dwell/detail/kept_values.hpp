// Small values that processes of one user keep on disk, in a folder of the cache. Internal: may change at any time.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace dwell::detail {

// A place for one value: in the folder `kept` within the cache's folder. Clearing the cache leaves it, and it is not part of the cache's
// size. Written atomically, with a checksum. Where there is no usable cache there is nothing, and nothing is kept. All members may be
// called from any thread, while other processes use the same place.
class KeptValue {
 public:
  using Warn = std::function<void(const std::string&)>;

  // `key`: what the value depends on. `warn` takes a line for a value that is damaged or not the user's own, which is removed and counts as
  // absent, and for a folder that cannot be used.
  explicit KeptValue(std::span<const std::string> key, Warn warn = {});

  std::optional<std::string> load() const;
  // Replaces the value. Returns whether it is kept.
  bool store(std::string_view value, std::string_view description) const;
  // Removes the value. Returns whether there was one.
  bool remove() const;

 private:
  std::string key_;
  Warn warn_;
};

}  // namespace dwell::detail
