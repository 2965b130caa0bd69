// Fork-join quicksort: an operator makes tasks of itself, and the host waits for all of them with one ticket.
#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

#include <dwell/dwell.hpp>

constexpr const char* kQuicksort = R"(
  DWELL_USES(quicksort, dwell::Span<dwell::u32>)

  // Sorts a few values by one thread.
  DWELL_DEVICE void insert(dwell::Span<dwell::u32> x) {
    for (dwell::u64 i = 1; i < x.size(); ++i) {
      const dwell::u32 value = x[i];
      dwell::u64 at = i;
      for (; at > 0 && x[at - 1] > value; --at) x[at] = x[at - 1];
      x[at] = value;
    }
  }

  // Moves what is less than the pivot, the middle value of three, ahead of the others. Returns how many values that are.
  DWELL_DEVICE dwell::u64 split(dwell::Span<dwell::u32> x) {
    const dwell::u32 a = x[0], b = x[x.size() / 2], c = x[x.size() - 1];
    const dwell::u32 pivot = a < b ? (b < c ? b : a < c ? c : a) : (a < c ? a : b < c ? c : b);
    dwell::u64 low = 0, high = x.size() - 1;
    for (;;) {
      while (x[low] < pivot) ++low;
      while (x[high] > pivot) --high;
      if (low >= high) return low;
      const dwell::u32 other = x[low];
      x[low++] = x[high];
      x[high--] = other;
    }
  }

  DWELL_OPERATOR(quicksort)(dwell::Group g, dwell::Span<dwell::u32> x) {
    if (x.size() <= 32) {
      if (g.rank() == 0) insert(x);
      return;
    }
    const dwell::u64 less = g.sum(g.rank() == 0 ? split(x) : 0);  // one thread splits, all know where
    g.spawn(uses::quicksort, x.subspan(0, less));
    g.spawn(uses::quicksort, x.subspan(less, x.size() - less));
  })";

int main() {
  dwell::Runtime runtime;
  auto quicksort = runtime.define<void(dwell::Span<dwell::u32>)>("quicksort", kQuicksort);

  std::vector<dwell::u32> values(100'000);
  std::mt19937 random(1);
  for (dwell::u32& value : values) value = static_cast<dwell::u32>(random() % 50'000);
  auto x = runtime.allocate<dwell::u32>(values.size());
  x.write(values);

  runtime.submit(quicksort, x).wait();  // complete when all tasks are that descend from it

  std::vector<dwell::u32> sorted(values.size());
  x.read(sorted);
  std::sort(values.begin(), values.end());
  std::printf("%zu values sorted on %s: %s\n", sorted.size(), runtime.info().device.c_str(), sorted == values ? "right" : "wrong");
  return sorted == values ? 0 : 1;
}
