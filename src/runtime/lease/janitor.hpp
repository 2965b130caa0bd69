// Gives back what must wait for the device, in a thread that may wait.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace dwell::runtime {

// Destroys what it is given later: when the loop is off the device, or beside it when much has come together or a second has passed. So
// nobody who submits or starts leases waits for the driver. Members may be called from any thread; what it is given is destroyed at the
// latest with it.
class Janitor {
 public:
  // Called by the janitor's thread around `destroy`: calls it when that blocks nobody. `urgent`: waits until it does not; otherwise it
  // returns false at once when the loop is on the device, with nothing destroyed. It may throw before it calls `destroy`.
  using Around = std::function<bool(bool urgent, const std::function<void()>& destroy)>;
  explicit Janitor(Around around = {}) : around_(std::move(around)) {}
  ~Janitor();
  Janitor(const Janitor&) = delete;
  Janitor& operator=(const Janitor&) = delete;

  // Takes a last reference. Destroys it here and now where there is no memory or thread left to put it off.
  void take(std::shared_ptr<void> waste) noexcept;
  // The loop has left the device: now is a good time.
  void now() noexcept;

 private:
  void work();

  Around around_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<std::shared_ptr<void>> waste_;
  bool now_ = false;
  bool busy_ = false;  // waste is outside waste_
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace dwell::runtime
