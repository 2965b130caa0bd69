// A pipeline that is built once and launched for each frame, with the frame's own input and gain: GraphExec::set costs a few stores.
#include <cstdio>
#include <vector>

#include <dwell/dwell.hpp>

int main() {
  constexpr unsigned kFrames = 300;
  constexpr unsigned kSamples = 4096;
  constexpr unsigned kStages = 8;
  dwell::Runtime runtime;
  auto amplify = runtime.define<void(dwell::Span<const float>, dwell::Span<float>, float)>("amplify", R"(
    DWELL_OPERATOR(amplify)(dwell::Group g, dwell::Span<const float> from, dwell::Span<float> to, float gain) {
      for (auto i : g.range(from.size())) to[i] = from[i] * gain;
    })");
  auto offset = runtime.define<void(dwell::Span<float>, float)>("offset", R"(
    DWELL_OPERATOR(offset)(dwell::Group g, dwell::Span<float> samples, float by) {
      for (auto i : g.range(samples.size())) samples[i] += by;
    })");
  auto level = runtime.define<void(dwell::Span<const float>, dwell::Span<float>, dwell::u32)>("level", R"(
    DWELL_OPERATOR(level)(dwell::Group g, dwell::Span<const float> samples, dwell::Span<float> levels, dwell::u32 frame) {
      float mine = 0;
      for (auto i : g.range(samples.size())) mine += samples[i];
      const float all = g.sum(mine);
      if (g.rank() == 0) levels[frame] = all / samples.size();
    })");

  dwell::Buffer<float> inputs[] = {runtime.allocate<float>(kSamples), runtime.allocate<float>(kSamples)};
  auto work = runtime.allocate<float>(kSamples);
  auto levels = runtime.allocate<float>(kFrames);
  for (unsigned i = 0; i < 2; ++i) inputs[i].write(std::vector<float>(kSamples, 1.0F + static_cast<float>(i)));

  // A chain: each stage waits for the one before it, on the worker that has run that.
  dwell::Graph graph;
  const dwell::Node head = graph.add("amplify", amplify, inputs[0], work, 1.0F);
  dwell::Node last = head;
  for (unsigned i = 0; i < kStages; ++i) last = graph.add(offset, work, 1.0F).after(last);
  const dwell::Node tail = graph.add("level", level, work, levels, 0U).after(last);

  dwell::GraphExec exec = runtime.instantiate(graph);
  for (dwell::u32 frame = 0; frame < kFrames; ++frame) {
    // For this launch and those that follow; launches so far keep their own.
    exec.set(head, 0, inputs[frame % 2]);
    exec.set(head, 2, static_cast<float>(frame));
    exec.set(tail, 2, frame);
    runtime.launch(exec);
  }
  runtime.wait_all();

  std::vector<float> result(kFrames);
  levels.read(result);
  for (unsigned frame = 0; frame < kFrames; ++frame) {
    const float expected = static_cast<float>(frame * (1 + frame % 2) + kStages);
    if (result[frame] != expected) {
      std::printf("pipeline: frame %u has level %g, not %g\n", frame, static_cast<double>(result[frame]), static_cast<double>(expected));
      return 1;
    }
  }
  std::printf("pipeline: %u frames through %u stages\n", kFrames, kStages + 2);
  return 0;
}
