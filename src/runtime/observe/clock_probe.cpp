#include "runtime/observe/clock_probe.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "device/arena.hpp"
#include "runtime/observe/host_events.hpp"

namespace dwell::runtime {

namespace {

constexpr std::size_t kRounds = 64;

// One read of the host's clock word, and the device's clock before and after it.
struct Round {
  std::uint64_t before;
  std::uint64_t behind;
  std::uint64_t host;
};
struct alignas(128) Shared {
  u64 host;  // the host's clock
  alignas(128) u64 done;
  alignas(128) Round rounds[kRounds];
};

constexpr const char* kProbe = R"(
struct Round { unsigned long long before, behind, host; };
extern "C" __global__ void dwell_clock_probe(const unsigned long long* host, unsigned long long* done, Round* rounds, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    Round round;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(round.before) :: "memory");
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(round.host) : "l"(host) : "memory");
    // Behind the load: its value goes into the address.
    asm volatile("{ .reg .u64 t; and.b64 t, %1, 0; mov.u64 %0, %%globaltimer; add.u64 %0, %0, t; }" : "=l"(round.behind) : "l"(round.host) : "memory");
    rounds[i] = round;
  }
  asm volatile("fence.acq_rel.sys; st.relaxed.sys.global.u64 [%0], 1;" :: "l"(done) : "memory");
}
)";

}  // namespace

ClockReading ClockProbe::read() {
  if (module_ == nullptr) module_ = kernels_.compile(Source{kProbe});
  // Not reused if this throws: the kernel may still write to it.
  std::unique_ptr<backend::Allocation> memory = std::move(memory_);
  if (memory == nullptr) memory = kernels_.backend.allocate_host(sizeof(Shared));
  auto* const shared = new (memory->host()) Shared{};
  const std::uint64_t base = memory->device();
  const std::uint64_t host = base + offsetof(Shared, host);
  const std::uint64_t done = base + offsetof(Shared, done);
  const std::uint64_t rounds = base + offsetof(Shared, rounds);
  const auto count = static_cast<std::uint32_t>(kRounds);
  constexpr Parameter kWord = detail::kernel_parameter<std::uint64_t*>();
  const detail::LaunchArgument arguments[] = {{kWord, &host, nullptr},
                                              {kWord, &done, nullptr},
                                              {kWord, &rounds, nullptr},
                                              {detail::kernel_parameter<std::uint32_t>(), &count, nullptr}};
  std::vector<std::int64_t> written;  // what the host has written, in order
  written.reserve(1U << 16U);
  const auto write = [&] {
    const std::int64_t now = HostEvents::now();
    device::store<device::Order::relaxed, device::Scope::system>(&shared->host, static_cast<u64>(now));
    if (written.size() == written.capacity()) written.clear();
    written.push_back(now);
  };
  write();
  kernels_.run(module_, arguments, [&] {
    for (int i = 0; i < 16; ++i) write();
    return device::load<device::Order::acquire, device::Scope::system>(&shared->done) == 0;
  });

  ClockReading best;
  best.error_ns = std::numeric_limits<double>::infinity();
  for (const Round& round : shared->rounds) {
    const auto from = static_cast<std::int64_t>(round.host);
    const auto next = std::upper_bound(written.begin(), written.end(), from);
    if (next == written.end() || next == written.begin() || round.behind < round.before) continue;
    const double error = (static_cast<double>(round.behind - round.before) + static_cast<double>(*next - from)) / 2;
    if (error >= best.error_ns) continue;
    const std::int64_t middle = from + (*next - from) / 2;
    best = {middle, middle - static_cast<std::int64_t>(round.before + (round.behind - round.before) / 2), error};
  }
  memory_ = std::move(memory);
  if (best.host_ns == 0) throw Error(errc::device_lost, "the device's clock could not be read: its probe has written nothing");
  return best;
}

}  // namespace dwell::runtime
