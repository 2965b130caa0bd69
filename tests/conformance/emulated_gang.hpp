// The program of a gang as a GPU would run it, on the CPU: its text is compiled for the CPU, and threads of all members take turns in one
// thread of the host, in a random order. Some warps are slow: they go on when all others wait.
#pragma once

#include <ucontext.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <dwell/runtime.hpp>

#include "tensor/device/resident_member.hpp"
#include "tensor/gang/plan.hpp"
#include "tensor/gang/source.hpp"

namespace dwell::test {

class EmulatedGang {
 public:
  // Runs the operations `repeats` times in a run, if the plan repeats.
  EmulatedGang(Runtime& runtime, const tensor::gang::Plan& plan, std::uint32_t seed, std::uint32_t repeats = 1)
      : plan_(plan), random_(seed) {
    const std::size_t count = std::size_t{plan.members} * plan.threads;
    threads_ = std::vector<Thread>(count);
    for (Thread& thread : threads_) thread.stack.reset(new std::byte[kStackBytes]);
    local_.resize(plan.members);
    for (auto& memory : local_) memory.resize(plan.local_bytes / sizeof(Aligned) + 1);
    words_.resize(2 * std::size_t{plan.exchanged} + 1);
    numbers_.resize(device::kNumbersLine + std::size_t{plan.members} * 2 * device::kNumbersOfMember);
    static int number = 0;
    const std::string name = "emulated_gang_" + std::to_string(number++);
    Definition how;
    how.options = runtime.options().compile.with_header("emulated.hpp", kHeader);
    how.options->contract = false;
    const Operator<> op = runtime.define(name, Source(text_of(plan, name, repeats)), how);
    const std::array<std::uint64_t, 4> calls{reinterpret_cast<std::uint64_t>(&meet), reinterpret_cast<std::uint64_t>(&shuffle),
                                             reinterpret_cast<std::uint64_t>(&wait), 0};
    Buffer<std::uint64_t> places = runtime.allocate<std::uint64_t>(calls.size());
    places.write(calls);
    runtime.submit(op, places).wait();
    std::array<std::uint64_t, 4> answer{};
    places.read(answer);
    function_ = reinterpret_cast<Function>(answer[3]);
  }

  // Runs the program once. `host` is called when all threads wait, and returns whether it has done something; `step`: for a plan whose runs
  // the host calls. Throws if it gets stuck.
  void run(const std::function<bool()>& host = {}, const device::StepMemory* step = nullptr) {
    host_ = host;
    step_ = step;
    // Memory begins with NaN: a step that reads it unwritten is seen.
    for (auto& memory : local_) std::memset(memory.data(), 0xFF, memory.size() * sizeof(Aligned));
    meeting_.assign(plan_.members, 0);
    shuffling_.assign(threads_.size() / kWarp, 0);
    std::vector<bool> is_slow;
    for (std::size_t warp = 0; warp < shuffling_.size(); ++warp) is_slow.push_back(random_() % 4 == 0);
    ready_.clear(), polling_.clear(), slow_.clear();
    done_ = 0;
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      Thread& thread = threads_[i];
      thread.is_slow = is_slow[i / kWarp];
      getcontext(&thread.context);
      thread.context.uc_stack.ss_sp = thread.stack.get();
      thread.context.uc_stack.ss_size = kStackBytes;
      thread.context.uc_link = nullptr;
      makecontext(&thread.context, &begin, 0);
      make_ready(i);
    }
    running() = this;
    while (done_ < threads_.size()) {
      if (ready_.empty()) rouse();
      const std::size_t at = random_() % ready_.size();
      std::swap(ready_[at], ready_.back());
      current_ = ready_.back();
      ready_.pop_back();
      threads_[current_].state = State::running;
      swapcontext(&scheduler_, &threads_[current_].context);
      settle(current_);
    }
    running() = nullptr;
  }

 private:
  static constexpr std::size_t kStackBytes = std::size_t{64} << 10U;
  static constexpr std::size_t kWarp = 32;
  using Function = void (*)(std::uint32_t rank, std::uint32_t thread, void* local, const std::uint32_t* list, std::uint64_t* words,
                            std::uint32_t* numbers, const device::StepMemory* step);
  struct alignas(16) Aligned {
    std::byte bytes[16];
  };
  enum class State : std::uint8_t { running, meets, shuffles, waits, done };
  struct Thread {
    ucontext_t context = {};
    std::unique_ptr<std::byte[]> stack;
    State state = State::running;
    bool is_slow = false;
    std::uint32_t value = 0;  // that it hands to the lane so far away, then what it gets
    std::uint32_t distance = 0;
  };

  // The text with functions of the emulation where a GPU has instructions.
  static std::string text_of(const tensor::gang::Plan& plan, const std::string& name, std::uint32_t repeats) {
    std::string text = tensor::gang::source_of(plan, tensor::gang::Runner::cuda).text;
    text = text.substr(text.find("using namespace dwell;"));
    // The kernel, and the structure in front of it.
    std::size_t kernel = text.find("extern \"C\" __global__");
    if (const std::size_t list = text.find("struct List {"); list < kernel) kernel = list;
    return "#include \"emulated.hpp\"\n" + text.substr(0, kernel) + (plan.on_call ? kBeginOnCall : kBegin) +
           (plan.on_call ? "" : ", " + std::to_string(repeats)) + R"();
  m.end();
}
DWELL_OPERATOR()" +
           name + R"()(Group, Span<u64> addresses) {
  emulated::meet = reinterpret_cast<u32 (*)(u32)>(addresses[0]);
  emulated::shuffle = reinterpret_cast<u32 (*)(u32, u32)>(addresses[1]);
  emulated::wait = reinterpret_cast<void (*)()>(addresses[2]);
  addresses[3] = reinterpret_cast<u64>(&run_thread);
}
)";
  }
  static constexpr const char* kBegin =
      R"(static void run_thread(u32 rank, u32 thread, void* local, const u32* list, u64* words, u32* numbers, const void*) {
  Member m(rank, thread, static_cast<u8*>(local), words, kExchanged, numbers);
  run_all(m, list)";
  static constexpr const char* kBeginOnCall =
      R"(static void run_thread(u32 rank, u32 thread, void* local, const u32* list, u64* words, u32* numbers, const void* step) {
  ResidentMember m(rank, thread, static_cast<u8*>(local), words, kExchanged, numbers, kMembers, *static_cast<const StepMemory*>(step));
  run_all(m, list)";
  static constexpr const char* kHeader = R"(#pragma once
#include "tensor/device/element.hpp"
#include "tensor/device/lanes.hpp"
#include <dwell/device/atomic.hpp>
#include <dwell/device/pack.hpp>
#undef DWELL_PARALLEL_GROUP
#define DWELL_PARALLEL_GROUP 1
namespace emulated {
static dwell::u32 (*meet)(dwell::u32 predicate);
static dwell::u32 (*shuffle)(dwell::u32 value, dwell::u32 distance);
static void (*wait)();
}
static inline float __shfl_xor_sync(dwell::u32, float value, dwell::u32 distance) {
  return dwell::device::bits_as<float>(emulated::shuffle(dwell::device::bits_as<dwell::u32>(value), distance));
}
#define __syncthreads() ((void)emulated::meet(0))
#define __syncthreads_and(predicate) (emulated::meet(predicate) & 1U)
#define __syncthreads_or(predicate) (emulated::meet(predicate) & 2U)
#define relax(round) ((void)(round), emulated::wait())
#include "tensor/device/member_product.hpp"
#include "tensor/device/member_rows.hpp"
#include "tensor/device/resident_member.hpp"
)";

  // ---- Of the threads ------------------------------------------------------------------------------------------------------------------

  static EmulatedGang*& running() {
    static EmulatedGang* gang = nullptr;
    return gang;
  }
  static void leave(State state) {
    EmulatedGang& gang = *running();
    Thread& thread = gang.threads_[gang.current_];
    thread.state = state;
    swapcontext(&thread.context, &gang.scheduler_);
  }
  static void begin() {
    EmulatedGang& gang = *running();
    const auto rank = static_cast<std::uint32_t>(gang.current_ / gang.plan_.threads);
    const auto thread = static_cast<std::uint32_t>(gang.current_ % gang.plan_.threads);
    gang.function_(rank, thread, gang.local_[rank].data(), gang.plan_.list.data(), gang.words_.data(), gang.numbers_.data(), gang.step_);
    leave(State::done);
  }
  // Returns bit 0 if the predicate holds for all threads of the member, and bit 1 if it holds for one.
  static std::uint32_t meet(std::uint32_t predicate) {
    Thread& thread = running()->threads_[running()->current_];
    thread.value = predicate;
    leave(State::meets);
    return thread.value;
  }
  static void wait() { leave(State::waits); }
  static std::uint32_t shuffle(std::uint32_t value, std::uint32_t distance) {
    Thread& thread = running()->threads_[running()->current_];
    thread.value = value;
    thread.distance = distance;
    leave(State::shuffles);
    return thread.value;
  }

  // ---- Of the scheduler ----------------------------------------------------------------------------------------------------------------

  void make_ready(std::size_t i) { (threads_[i].is_slow ? slow_ : ready_).push_back(i); }
  // A thread has left.
  void settle(std::size_t i) {
    switch (threads_[i].state) {
      case State::meets: {
        const std::size_t member = i / plan_.threads;
        if (++meeting_[member] != plan_.threads) return;
        meeting_[member] = 0;
        const std::span<Thread> all(&threads_[member * plan_.threads], plan_.threads);
        const auto holds = [](const Thread& thread) { return thread.value != 0; };
        const std::uint32_t bits = (std::ranges::all_of(all, holds) ? 1U : 0U) | (std::ranges::any_of(all, holds) ? 2U : 0U);
        for (std::size_t t = 0; t < plan_.threads; ++t) {
          all[t].value = bits;
          make_ready(member * plan_.threads + t);
        }
        return;
      }
      case State::shuffles: {
        const std::size_t first = i / kWarp * kWarp;
        if (++shuffling_[i / kWarp] != kWarp) return;
        shuffling_[i / kWarp] = 0;
        std::array<std::uint32_t, kWarp> values{};
        for (std::size_t lane = 0; lane < kWarp; ++lane) values[lane] = threads_[first + (lane ^ threads_[first + lane].distance)].value;
        for (std::size_t lane = 0; lane < kWarp; ++lane) {
          threads_[first + lane].value = values[lane];
          make_ready(first + lane);
        }
        return;
      }
      case State::waits: polling_.push_back(i); return;
      default: ++done_;
    }
  }
  // All others wait: some of the slow threads go on, or all, and those that poll look again.
  void rouse() {
    if (slow_.empty() && polling_.empty()) throw std::runtime_error("the gang is stuck");
    if (host_ && host_()) rounds_ = 0;
    if (slow_.empty() && ++rounds_ > 100'000) throw std::runtime_error("the members wait for words that nobody puts");
    if (!slow_.empty()) rounds_ = 0;
    const bool all = random_() % 2 == 0;
    const std::size_t warp = slow_.empty() ? 0 : slow_[random_() % slow_.size()] / kWarp;
    std::vector<std::size_t> stay;
    for (const std::size_t i : slow_) (all || i / kWarp == warp ? ready_ : stay).push_back(i);
    slow_ = std::move(stay);
    ready_.insert(ready_.end(), polling_.begin(), polling_.end());
    polling_.clear();
  }

  const tensor::gang::Plan& plan_;
  std::mt19937 random_;
  Function function_ = nullptr;
  std::function<bool()> host_;
  const device::StepMemory* step_ = nullptr;
  std::vector<Thread> threads_;
  std::vector<std::vector<Aligned>> local_;
  std::vector<std::uint64_t> words_;
  std::vector<std::uint32_t> numbers_;
  ucontext_t scheduler_ = {};
  std::size_t current_ = 0;
  std::size_t done_ = 0;
  int rounds_ = 0;
  std::vector<std::uint32_t> meeting_;    // threads, by member
  std::vector<std::uint32_t> shuffling_;  // by warp
  std::vector<std::size_t> ready_;
  std::vector<std::size_t> polling_;
  std::vector<std::size_t> slow_;  // ready, but of slow warps
};

}  // namespace dwell::test
