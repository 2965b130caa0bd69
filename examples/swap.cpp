// Replacing an operator while tasks flow: every task runs the version that its ticket demands.
#include <cstdio>
#include <string>
#include <vector>

#include <dwell/dwell.hpp>

namespace {

// An operator that writes `value` to one element.
std::string mark_with(int value) {
  return "DWELL_OPERATOR(mark)(dwell::Group g, dwell::Span<int> to, dwell::u32 at) { if (g.rank() == 0) to[at] = " + std::to_string(value) +
         "; }";
}

}  // namespace

int main() {
  constexpr unsigned kTasks = 3000;
  dwell::Runtime runtime;
  auto mark = runtime.define<void(dwell::Span<int>, dwell::u32)>("mark", mark_with(1));
  auto marks = runtime.allocate<int>(kTasks);

  // The first thousand may well still be waiting when the operator is replaced, and run the old version all the same.
  for (unsigned i = 0; i < 1000; ++i) runtime.submit(mark, marks, i);
  mark.redefine(mark_with(2));
  for (unsigned i = 1000; i < 2000; ++i) runtime.submit(mark, marks, i);
  mark.rollback();
  for (unsigned i = 2000; i < kTasks; ++i) runtime.submit(mark, marks, i);

  std::vector<int> result(kTasks);
  marks.read(result);  // waits for the tasks that name the buffer
  unsigned wrong = 0;
  for (unsigned i = 0; i < kTasks; ++i) wrong += result[i] == (i / 1000 == 1 ? 2 : 1) ? 0 : 1;
  std::printf("swap: 3 x 1000 tasks by versions 1, 2, 1 of mark, %u by a wrong one; the device paused %lld us\n", wrong,
              static_cast<long long>(runtime.metrics().last_hand_over_ns / 1000));
  return wrong == 0 ? 0 : 1;
}
