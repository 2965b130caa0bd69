// Collections and moves of a heap in memory of the test, led by the last of its workers.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "device/heap_collect.hpp"
#include "tests/unit/heap_fixture.hpp"

namespace dwell::device {

class HeapCollectFixture : public HeapFixture {
 protected:
  Group group(u32 worker) { return {&contexts_[worker], 0, 1}; }

  // Leaves the processor to the thread that the caller waits for, also on a busy machine, where a yield does not.
  static void wait_a_little() { std::this_thread::sleep_for(std::chrono::microseconds(20)); }
  // Does a part of a collection, as the last worker.
  void part(u32 verb, u64 first = 0, u64 end = 0, const std::vector<u32>& units = {}) {
    u64 result[heap::kTold] = {};
    const Collect what{verb, 0, 1, ticks_, first, end, units.data(), units.size(), result};
    if (verb < heap::verb::first_of_move)
      heap::collect(&contexts_[workers_ - 1], what);
    else
      heap::move_objects(&contexts_[workers_ - 1], what);
    left_ = result[0];
    freed_ = result[2];
    leaving_ = result[6];
    moved_ = result[7];
  }
  void on_all_pages(u32 verb, const std::vector<u32>& units = {}) { part(verb, heap_.header().first_page, heap_.header().pages, units); }
  void enter(u32 phase) {
    part(heap::verb::phase, phase);
    handshake();
  }
  // Waits until each worker has ended its task and begun another lease.
  void handshake() {
    contexts_[workers_ - 1].heap_state = 0;
    if (!threads_) {
      for (u32 i = 0; i < workers_; ++i) contexts_[i].heap_state = 0;
      return;
    }
    allowed_ += 50;
    const u32 now = ++wanted_;
    for (u32 i = 0; i + 1 < workers_; ++i)
      while (seen_[i] != now) wait_a_little();
  }
  // Called by a worker between two tasks.
  void begin_lease(u32 worker) {
    const u32 wanted = wanted_;
    if (seen_[worker] == wanted) return;
    contexts_[worker].heap_state = 0;
    seen_[worker] = wanted;
  }
  // Lets the workers work for a while.
  void let_work() {
    if (!threads_) return;
    allowed_ += 20;
    while (work_ < allowed_) wait_a_little();
  }
  bool may_work() const { return !gate_ && work_ < allowed_; }
  void visit_all() {
    u32 round = 0;
    do {
      part(heap::verb::visit);
      // The others come to work in between.
      if (++round % 16 == 0) let_work();
    } while (left_ != 0);
  }
  void collect(const std::vector<u32>& roots = {}) {
    enter(heap::phase::clearing);
    on_all_pages(heap::verb::clear);
    enter(heap::phase::guarding);
    handshake();
    handshake();
    enter(heap::phase::marking);
    part(heap::verb::roots, 0, heap_.header().handles, roots);
    for (bool more = true; more;) {
      visit_all();
      handshake();
      part(heap::verb::look);
      more = left_ != 0;
    }
    part(heap::verb::phase, heap::phase::sweeping);
    if (stops_) {
      gate_ = true;
      handshake();
    }
    on_all_pages(heap::verb::sweep);
    part(heap::verb::phase, heap::phase::rest);
    if (stops_) look_();
    gate_ = false;
  }
  // Moves objects out of slabs of which `hundredths` are used at most.
  void move_objects(u32 hundredths, const std::vector<u32>& roots = {}, u32 every = 1) {
    enter(heap::phase::clearing);
    on_all_pages(heap::verb::choose, {hundredths, every});
    enter(heap::phase::moving);
    part(heap::verb::roots, 0, heap_.header().handles, roots);
    let_work();
    on_all_pages(heap::verb::move);
    let_work();
    on_all_pages(heap::verb::renew);
    handshake();
    part(heap::verb::phase, heap::phase::rest);
    on_all_pages(heap::verb::release);
    part(heap::verb::trim);
  }
  void hold(u32 handle, u32 unit) { part(heap::verb::hold, handle, 0, {unit}); }
  u64 objects() {
    u64 all = 0;
    for (const heap::Sums& each : census().classes) all += each.objects;
    return all;
  }

  std::function<void()> look_;  // called after a collection that stops the threads before it sweeps
  bool stops_ = false;
  std::atomic<bool> gate_ = false;
  bool threads_ = false;
  std::atomic<u64> work_ = 0;     // that the threads have done
  std::atomic<u64> allowed_ = 0;  // what is lost stays for the look at the end if little is done
  u32 ticks_ = 1000;
  std::atomic<u32> wanted_ = 0;
  std::vector<std::atomic<u32>> seen_;
  u64 left_ = 0;
  u64 freed_ = 0;
  u64 leaving_ = 0;
  u64 moved_ = 0;
};

}  // namespace dwell::device
