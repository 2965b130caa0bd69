// Which job is admitted next. Knows needs and limits, but neither a runtime, nor threads, nor a clock.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <dwell/orchestrator.hpp>

namespace dwell::orchestrator {

// Declared resources of a job.
struct PolicyNeed {
  std::uint64_t workers = 0;
  std::uint64_t memory = 0;
};

// Jobs that wait, and what those that are admitted need. Its users serialise their calls.
//
// Of the types whose first job has room under the type's own limits:
//   1. One whose first job was passed over kAge times goes first, the one submitted first among several. Nobody is admitted until there is
//      room for it: so it does not wait for ever, however large it is. It is passed over when a job of a higher priority is admitted, and
//      when it would have been next by rule 2 but had no room.
//   2. Else those whose first job has room under the common limits: by priority; then by weighted dominant resource fairness (Ghodsi et
//   al.,
//      "Dominant Resource Fairness", NSDI 2011): the type whose larger share, of workers or of memory, is the smallest for its weight;
//      among equals, the one that has had the smallest share so far, integrated over time; then by submission.
// A type that had nothing to do begins with the share so far of the type that was admitted last (the virtual time of start-time fair
// queueing, Goyal et al. 1996), so idle time earns nothing.
//
// Invariant: when jobs wait and none can be admitted, at least one is admitted.
class Policy {
 public:
  static constexpr std::uint32_t kAge = 64;  // as on the device (src/device/levels.hpp)
  using Time = std::chrono::nanoseconds;     // since any moment; never goes back
  using Type = std::size_t;

  using Need = PolicyNeed;
  struct Limits {
    std::uint64_t workers = 0;  // 0: none, as everywhere here
    std::uint64_t memory = 0;
  };
  // The limit that a job is over.
  struct Excess {
    const char* what;     // "workers", "memory", "waiting"
    bool of_type;         // a limit of the type, not of all
    std::uint64_t value;  // the figure
    std::uint64_t limit;
  };
  struct Waiting {
    Need need;
    std::uint32_t passed_over;
  };
  using Queue = std::map<std::uint64_t, Waiting>;  // by number
  struct Admitted {
    Type type;
    std::uint64_t job;
    Need need;
    Queue::node_type place;  // so that put_back takes no memory
  };
  struct Use {
    std::uint64_t jobs = 0;
    Need need;
  };

  explicit Policy(Limits limits) : limits_(limits) {}

  Type add(const JobOptions& options);
  // From now on. Jobs that wait and need more run alone.
  void limit(Limits limits) { limits_ = limits; }

  // Why such a job can never be admitted; nothing when it can.
  std::optional<Excess> never(Type type, Need need) const;
  // Why it may not wait; nothing when it may.
  std::optional<Excess> full(Type type) const;
  // A job waits. Returns its number, above all before.
  std::uint64_t enqueue(Type type, Need need);
  // It does not wait any more. False when it did not.
  bool remove(Type type, std::uint64_t job) noexcept;

  // The next job, which is admitted with this call; nothing when none can be now.
  std::optional<Admitted> admit(Time now) noexcept;
  // An admitted job could not start for want of memory that is not ours to count: it waits again in its old place, and its type until any
  // job ends. To be called only while another is admitted. Takes no memory, which is short when it is called.
  void put_back(Admitted job, Time now) noexcept;
  // An admitted job has ended.
  void end(Type type, Need need, Time now) noexcept;

  const Limits& limits() const { return limits_; }
  const Use& in_use() const { return in_use_; }
  const Use& in_use(Type type) const { return types_[type].in_use; }
  std::size_t waiting(Type type) const { return types_[type].waiting.size(); }

 private:
  struct State {
    JobOptions options;
    Queue waiting;
    Use in_use;
    bool stalled = false;  // see put_back
    double had = 0;        // share for its weight, times nanoseconds, until `since`
    Time since{0};
  };

  bool has_own_room(const State& type) const;
  bool has_common_room(const State& type) const;
  double share(const State& type) const;
  double had(const State& type, Time now) const;
  void settle(State& type, Time now);
  bool is_before(const State& one, const State& other, Time now) const;
  void take(State& type, Need need);
  void give(State& type, Need need);

  Limits limits_;
  std::vector<State> types_;
  Use in_use_;
  std::uint64_t last_ = 0;  // job
  double floor_ = 0;        // what the type admitted last had had
};

}  // namespace dwell::orchestrator
