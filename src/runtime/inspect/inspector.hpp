// Reads structures of a runtime and variables of its operators, by name.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include <dwell/inspect.hpp>
#include <dwell/runtime.hpp>

#include "backend/backend.hpp"
#include "runtime/device/keeper.hpp"
#include "runtime/inspect/variables.hpp"
#include "runtime/inspect/watches.hpp"
#include "runtime/program/image_table.hpp"

namespace dwell::runtime {

// As Runtime::inspect, watch and assign. Members may be called from any thread.
class Inspector {
 public:
  // Reads the runtime's own structures.
  struct Tell {
    std::function<Metrics()> metrics;
    std::function<RuntimeInfo()> info;
    std::function<Diagnosis()> diagnosis;
  };
  // `runtime`: as of Callback.
  Inspector(backend::Backend& backend, Keeper& keeper, const ImageTable& table, Tell tell, Watches::Warn warn, std::uint64_t runtime)
      : keeper_(keeper), tell_(std::move(tell)), variables_(backend, keeper, table), watches_(std::move(warn), runtime) {}

  Inspection inspect(std::string_view name);
  // Starts a watch, which calls this object until it ends; stop_watches ends all.
  std::shared_ptr<WatchState> watch(std::string name, std::chrono::nanoseconds every, Watches::Callback callback);
  void stop_watches() noexcept { watches_.stop_all(); }
  void assign(std::string_view name, const Parameter& type, std::size_t count, std::span<const std::byte> bytes);

 private:
  Keeper& keeper_;
  const Tell tell_;
  Variables variables_;
  Watches watches_;
};

}  // namespace dwell::runtime
