// The operators of the benchmarks, and their arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <dwell/dwell.hpp>
#include <span>

namespace dwell::bench {

// Does nothing.
inline constexpr const char* kEmpty = R"(
#include <dwell/device.hpp>
DWELL_OPERATOR(empty)(dwell::Group) {}
)";

// Does nothing, but names memory: the runtime orders what the task might have written to it.
inline constexpr const char* kTouch = R"(
#include <dwell/device.hpp>
DWELL_OPERATOR(touch)(dwell::Group, dwell::Span<float>) {}
)";

// Increments a cell.
inline constexpr const char* kCount = R"(
#include <dwell/device.hpp>
DWELL_OPERATOR(count)(dwell::Group g, dwell::Span<unsigned> cells, unsigned index) {
  if (g.index() == 0 && g.rank() == 0) cells[index] += 1;
}
)";

// Implements Work::visit (graph_side.hpp); takes the cells of a node and of up to four predecessors, 0 for none.
inline constexpr const char* kVisit = R"(
#include <dwell/device.hpp>
DWELL_OPERATOR(visit)(dwell::Group g, dwell::Span<unsigned> cells, unsigned node, unsigned a, unsigned b, unsigned c, unsigned d) {
  if (g.rank() != 0) return;
  const unsigned launches = cells[node];
  const unsigned counts[] = {cells[a], cells[b], cells[c], cells[d]};
  const unsigned rounds = cells[0];
  const bool correct = (a == 0 || counts[0] == launches + 1) && (b == 0 || counts[1] == launches + 1) &&
                       (c == 0 || counts[2] == launches + 1) && (d == 0 || counts[3] == launches + 1);
  unsigned busy = node;
  for (unsigned round = 0; round < rounds; ++round) {
    busy ^= busy << 13;
    busy ^= busy >> 17;
    busy ^= busy << 5;
  }
  cells[node] = correct && busy != 0 ? launches + 1 : 1u << 31;
}
)";

// sum[i] = first[i] + second[i]: by 16 bytes if aligned, and two steps at a time so that their loads overlap.
inline constexpr const char* kAdd = R"(
#include <dwell/device.hpp>
struct alignas(16) Four { float value[4]; };
static DWELL_DEVICE Four operator+(const Four& a, const Four& b) {
  return {{a.value[0] + b.value[0], a.value[1] + b.value[1], a.value[2] + b.value[2], a.value[3] + b.value[3]}};
}
DWELL_OPERATOR(add)(dwell::Group g, dwell::Span<const float> first, dwell::Span<const float> second, dwell::Span<float> sum) {
  const auto address = [](const float* data) { return reinterpret_cast<dwell::u64>(data); };
  dwell::u64 done = 0;
  if ((address(first.data()) | address(second.data()) | address(sum.data())) % 16 == 0) {
    const Four* const a = reinterpret_cast<const Four*>(first.data());
    const Four* const b = reinterpret_cast<const Four*>(second.data());
    Four* const c = reinterpret_cast<Four*>(sum.data());
    const dwell::u64 fours = sum.size() / 4;
    const dwell::u64 step = static_cast<dwell::u64>(g.count()) * g.size();
    dwell::u64 i = static_cast<dwell::u64>(g.index()) * g.size() + g.rank();
    for (; i + step < fours; i += 2 * step) {
      const Four a0 = a[i], b0 = b[i], a1 = a[i + step], b1 = b[i + step];
      c[i] = a0 + b0;
      c[i + step] = a1 + b1;
    }
    if (i < fours) c[i] = a[i] + b[i];
    done = fours * 4;
  }
  for (auto i : g.range(sum.size() - done)) sum[done + i] = first[done + i] + second[done + i];
}
)";

using Empty = Operator<void()>;
using Touch = Operator<void(Span<float>)>;
using Count = Operator<void(Span<unsigned>, unsigned)>;
using Add = Operator<void(Span<const float>, Span<const float>, Span<float>)>;

// The terms of our adds and of the peers': the terms and their sums are whole numbers that a float holds exactly.
float first_term(std::uint64_t index);
float second_term(std::uint64_t index);
void fill_first(std::span<float> terms, std::uint64_t from);
void fill_second(std::span<float> terms, std::uint64_t from);
void fill_poison(std::span<float> sums);
// Returns the number of wrong sums from index `from` on.
std::size_t count_wrong(std::span<const float> sums, std::uint64_t from);

// Tasks that add 1024 floats each, over three arrays of the runtime, cycling through their slices.
class Adds {
 public:
  static constexpr std::size_t kFloats = 1024;                     // per task
  static constexpr double kBytes = 3.0 * kFloats * sizeof(float);  // moved per task

  // Makes arrays of `floats`, a power of two. The sums are poisoned.
  Adds(Runtime& runtime, Add add, std::size_t floats);

  std::size_t slices() const { return slices_; }

  // Submit the tasks with numbers [from, from + count): with one call each, or all by submit_many. From any thread.
  void submit(std::size_t from, std::size_t count);
  void submit_many(std::size_t from, std::size_t count);

  // After the tasks so far: make every sum wrong; count the wrong sums.
  void poison();
  std::size_t wrong() const;

 private:
  Runtime& runtime_;
  Add add_;
  std::size_t slices_;
  Buffer<float> first_;
  Buffer<float> second_;
  Buffer<float> sums_;
};

}  // namespace dwell::bench
