#include "jit/object/occupancy.hpp"

#include <algorithm>
#include <charconv>

namespace dwell::jit {

namespace {

constexpr std::uint32_t kLanes = 32;
constexpr std::uint32_t kRegisterFile = 65536;  // per multiprocessor; also the limit per block
constexpr std::uint32_t kMaxRegisters = 255;
constexpr std::uint32_t kRegisterGranule = 256;
constexpr std::uint32_t kParts = 4;  // per multiprocessor, each with its own registers
constexpr std::uint32_t kMaxThreads = 1024;
constexpr std::uint32_t kReserved = 1024;

// The resources of a multiprocessor, by compute capability.
struct Multiprocessor {
  std::uint32_t architecture;
  std::uint32_t warps;
  std::uint32_t blocks;
  std::uint32_t shared_bytes;
  std::uint32_t barriers;  // 0: not counted
};
constexpr std::uint32_t kKb = 1024;
constexpr Multiprocessor kKnown[] = {
    {70, 64, 32, 96 * kKb, 0},    {72, 64, 32, 96 * kKb, 0},    {75, 32, 16, 64 * kKb, 0},    {80, 64, 32, 164 * kKb, 0},
    {86, 48, 16, 100 * kKb, 0},   {87, 48, 16, 164 * kKb, 0},   {88, 48, 16, 100 * kKb, 0},   {89, 48, 24, 100 * kKb, 0},
    {90, 64, 32, 228 * kKb, 64},  {100, 64, 32, 228 * kKb, 64}, {103, 64, 32, 228 * kKb, 64}, {110, 48, 24, 228 * kKb, 24},
    {120, 48, 24, 100 * kKb, 24}, {121, 48, 24, 100 * kKb, 24},
};

constexpr std::uint32_t round_up(std::uint64_t value, std::uint32_t granule) {
  return static_cast<std::uint32_t>((value + granule - 1) / granule * granule);
}

std::uint32_t by_registers(std::uint32_t registers, std::uint32_t warps) {
  if (registers > kMaxRegisters) return 0;
  const std::uint32_t a_warp = round_up(std::uint64_t{registers} * kLanes, kRegisterGranule);
  if (a_warp == 0) return kRegisterFile;
  // The driver checks a launch as if each part held the same number of the block's warps.
  if (std::uint64_t{a_warp} * round_up(warps, kParts) > kRegisterFile) return 0;
  return kRegisterFile / kParts / a_warp * kParts / warps;
}

std::uint32_t by_shared_memory(const Multiprocessor& on, std::uint64_t bytes) {
  const std::uint32_t reserved = on.architecture >= 80 ? kReserved : 0;
  const std::uint64_t granule = on.architecture >= 80 ? 128 : 256;
  const std::uint64_t a_block = (bytes + reserved + granule - 1) / granule * granule;
  return a_block == 0 ? on.blocks : static_cast<std::uint32_t>(on.shared_bytes / a_block);
}

}  // namespace

std::string_view name_of(Bottleneck bottleneck) {
  switch (bottleneck) {
    case Bottleneck::threads: return "threads";
    case Bottleneck::blocks: return "blocks";
    case Bottleneck::registers: return "registers";
    case Bottleneck::shared_memory: return "shared memory";
    case Bottleneck::barriers: return "barriers";
  }
  return "";
}

std::optional<Occupancy> occupancy(std::uint32_t architecture, const Resources& resources, std::uint32_t scratch_bytes) {
  const auto* const on =
      std::find_if(std::begin(kKnown), std::end(kKnown), [&](const Multiprocessor& one) { return one.architecture == architecture; });
  if (on == std::end(kKnown) || resources.threads == 0) return std::nullopt;
  const std::uint32_t warps = (resources.threads - 1) / kLanes + 1;
  Occupancy least{resources.threads > kMaxThreads ? 0 : on->warps / warps, Bottleneck::threads};
  const auto limit = [&](std::uint32_t workers, Bottleneck bottleneck) {
    if (workers < least.workers) least = {workers, bottleneck};
  };
  limit(on->blocks, Bottleneck::blocks);
  limit(by_registers(resources.registers, warps), Bottleneck::registers);
  limit(by_shared_memory(*on, std::uint64_t{resources.shared_bytes} + scratch_bytes), Bottleneck::shared_memory);
  if (on->barriers != 0 && resources.barriers != 0) limit(on->barriers / resources.barriers, Bottleneck::barriers);
  return least;
}

std::uint32_t architecture_of(std::string_view target) {
  if (!target.starts_with("sm_")) return 0;
  std::uint32_t number = 0;
  const char* const end = target.data() + target.size();
  const auto [rest, problem] = std::from_chars(target.data() + 3, end, number);
  return problem == std::errc() && end - rest <= 1 ? number : 0;
}

}  // namespace dwell::jit
