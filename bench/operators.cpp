#include "bench/operators.hpp"

#include <algorithm>
#include <limits>
#include <vector>

namespace dwell::bench {

namespace {

// Floats per copy between host and device.
constexpr std::size_t kChunk = std::size_t{1} << 22U;

std::uint32_t scramble(std::uint64_t index) {
  auto value = static_cast<std::uint32_t>(index) * 2654435761U;
  value ^= value >> 15U;
  return value * 2246822519U;
}

// Calls piece(from, floats) for pieces of 0 .. floats - 1.
template <class Piece>
void by_chunks(std::size_t floats, Piece piece) {
  for (std::size_t from = 0; from < floats; from += kChunk) piece(from, std::min(kChunk, floats - from));
}

}  // namespace

float first_term(std::uint64_t index) { return static_cast<float>(scramble(index) & 0xFFFFU); }
float second_term(std::uint64_t index) { return static_cast<float>(scramble(index) >> 16U); }

void fill_first(std::span<float> terms, std::uint64_t from) {
  for (std::size_t i = 0; i < terms.size(); ++i) terms[i] = first_term(from + i);
}

void fill_second(std::span<float> terms, std::uint64_t from) {
  for (std::size_t i = 0; i < terms.size(); ++i) terms[i] = second_term(from + i);
}

void fill_poison(std::span<float> sums) { std::fill(sums.begin(), sums.end(), std::numeric_limits<float>::quiet_NaN()); }

std::size_t count_wrong(std::span<const float> sums, std::uint64_t from) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const bool right = sums[i] == first_term(from + i) + second_term(from + i);  // false for the poison too
    wrong += right ? 0U : 1U;
  }
  return wrong;
}

Adds::Adds(Runtime& runtime, Add add, std::size_t floats)
    : runtime_(runtime),
      add_(std::move(add)),
      slices_(floats / kFloats),
      first_(runtime.allocate<float>(floats)),
      second_(runtime.allocate<float>(floats)),
      sums_(runtime.allocate<float>(floats)) {
  std::vector<float> chunk(std::min(kChunk, floats));
  by_chunks(floats, [&](std::size_t from, std::size_t size) {
    const std::span<float> part(chunk.data(), size);
    fill_first(part, from);
    first_.write(part, from);
    fill_second(part, from);
    second_.write(part, from);
  });
  poison();
}

void Adds::submit(std::size_t from, std::size_t count) {
  for (std::size_t task = from; task < from + count; ++task) {
    const std::size_t at = (task & (slices_ - 1)) * kFloats;
    runtime_.submit(add_, first_.slice(at, kFloats), second_.slice(at, kFloats), sums_.slice(at, kFloats));
  }
}

void Adds::submit_many(std::size_t from, std::size_t count) {
  runtime_.submit_many(add_, count, [&](std::size_t i, auto&& put) {
    const std::size_t at = ((from + i) & (slices_ - 1)) * kFloats;
    put(first_.slice(at, kFloats), second_.slice(at, kFloats), sums_.slice(at, kFloats));
  });
}

void Adds::poison() {
  std::vector<float> chunk(std::min(kChunk, sums_.size()));
  fill_poison(chunk);
  by_chunks(sums_.size(), [&](std::size_t from, std::size_t size) { sums_.write(std::span<const float>(chunk.data(), size), from); });
}

std::size_t Adds::wrong() const {
  std::vector<float> chunk(std::min(kChunk, sums_.size()));
  std::size_t wrong = 0;
  by_chunks(sums_.size(), [&](std::size_t from, std::size_t size) {
    const std::span<float> part(chunk.data(), size);
    sums_.read(part, from);
    wrong += count_wrong(part, from);
  });
  return wrong;
}

}  // namespace dwell::bench
