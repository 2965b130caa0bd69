// What outlives a runtime and its generations: where handles point.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <dwell/error.hpp>
#include <dwell/options.hpp>
#include <dwell/runtime.hpp>

#include "runtime/devices.hpp"

namespace dwell::runtime {
class Core;
}

namespace dwell::detail {

// What all generations of one Runtime have in common.
struct Lineage {
  using Open = std::function<runtime::Device(const Options&)>;
  Lineage(std::uint64_t number, Open open_device) : runtime(number), open(std::move(open_device)) {}
  // Whether this process is a fork of the one that opened the runtime. It has none of the runtime's threads, and its locks may be held by
  // them for ever: destructors leave everything as it is.
  bool is_forked() const { return process != getpid(); }

  const std::uint64_t runtime;  // which one of this process, from 1
  const Open open;              // how its device is opened
  const pid_t process = getpid();
  // Whoever finds that a generation has no core learns here why: `closed` is set before the last one is let go; `generation` once the next
  // one has its own. In between Shell::failure says it.
  std::atomic<std::uint32_t> generation{1};  // the newest
  std::atomic<bool> closed{false};
};

// One generation of a runtime: from the opening of its device to the device's loss or to the end of the runtime. Never freed (a few
// hundred bytes, and what became of the tasks that did not succeed), so that no handle can dangle. Members may be called from any thread,
// but next() must not overlap others on the newest generation of a runtime, apart from core, gone and fate.
struct Shell {
  Shell(std::shared_ptr<Lineage> of, std::uint32_t number) : lineage(std::move(of)), generation(number) {}

  // Opens the device of a new runtime. Throws as Runtime::Runtime.
  static Shell* first(Options options, Lineage::Open open = runtime::open_device);
  // A runtime on a device of the caller's, who is a test.
  static Runtime runtime_on(Options options, Lineage::Open open);
  // Opens the device again after this generation has lost it: the next generation. Throws as Runtime::rebuild.
  Shell* next();

  // The core while there is one.
  std::shared_ptr<runtime::Core> core() const {
    const std::lock_guard lock(mutex);
    return open;
  }
  // The core of a runtime, of which `shell` is the newest generation, or null. Throws errc::closed, and the failure of a device that
  // could not be opened again.
  static std::shared_ptr<runtime::Core> require(const Shell* shell);

  // Why a handle of this generation leads to no core: errc::stale_handle, or the failure of a device that is not open again yet.
  // `handle` names it, "operator 'axpy'"; `again` says how to get a new one.
  Error gone(const std::string& handle, const std::string& again) const;

  // Ends a runtime whose device is lost and was not opened again. Throws the failure. Nothing to do the second time.
  void close();

  // What became of a task whose core is gone.
  struct Fate {
    int status;
    Error error;
  };
  // Nothing for one that succeeded.
  std::optional<Fate> fate(std::uint64_t position) const;

  const std::shared_ptr<Lineage> lineage;
  const std::uint32_t generation;

  mutable std::mutex mutex;        // guards all that follows but `alive`
  std::atomic<bool> alive{false};  // whether there is a core, be it only one that another thread has not let go of yet
  std::shared_ptr<runtime::Core> open;
  std::map<std::uint64_t, Fate> ended;                        // tasks that did not succeed, by position
  std::vector<std::pair<std::uint64_t, std::uint64_t>> lost;  // ranges of positions [first, last) of tasks that the failure took
  std::optional<Error> failure;                               // of the device
  std::optional<Options> again;                               // what to open the next generation with, while there is none

 private:
  void populate(Options options);
  bool superseded() const { return lineage->generation.load() != generation; }
  std::string belongs(const std::string& handle) const;
};

}  // namespace dwell::detail
