// Small programs of gangs by which the times of a cost model are measured, each run again and again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "tensor/gang/cost_model.hpp"
#include "tensor/gang/plan.hpp"

namespace dwell::tensor::gang {

// A probe repeats operations of one kind, each on the last one's result.
//   steps      of few elements, in one member
//   elements   steps of many elements, in one member
//   products   in one member, which has the weights in its memory
//   exchanges  products that members share out
//   barriers   steps on tensors in global memory
enum class Probe : std::uint8_t { steps, elements, products, exchanges, barriers };
inline constexpr std::size_t kProbes = 5;

// Floats of device memory that the probes use, all of them zeros.
inline constexpr std::size_t kProbeFloats = std::size_t{3} << 14U;

// The plan of a probe, to be run with any number of repeats. `memory`: the address of the floats, aligned to 256 bytes.
// `limits` of the device, which has at least two multiprocessors.
Plan plan_of_probe(Probe probe, std::uint64_t memory, const Limits& limits);

// Returns how long a run with so many repeats takes from launch to end, in nanoseconds.
using TimeProbe = std::function<double(Probe probe, std::uint32_t repeats)>;

// Measures with each probe the difference of runs of two lengths, so that launch and wait drop out: medians of several, in three rounds.
// Takes about half a second. Rounds that differ by more than a quarter are taken again, twice at most; then throws errc::unsupported.
CostTimes measure_times(const TimeProbe& time, const Limits& limits);

}  // namespace dwell::tensor::gang
