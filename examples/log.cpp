// Operators that log: the host makes texts of the lines while the loop runs, and keeps the last of them.
#include <chrono>
#include <cstdio>
#include <string>

#include <dwell/dwell.hpp>

int main() {
  using namespace std::chrono_literals;
  dwell::Options options;
  options.log.from = dwell::level::debug;
  options.log.sink = [](const dwell::LogRecord& record) { std::printf("%s\n", to_string(record).c_str()); };
  dwell::Runtime runtime(options);
  auto root = runtime.define<void(float)>("root", R"(
    DWELL_OPERATOR(root)(dwell::Group g, float x) {
      if (g.rank() != 0) return;
      if (x < 0) {
        dwell::log(g, dwell::level::error, "no root of {:.3f}", x);
        return;
      }
      float y = 1;
      for (int i = 0; i < 8; ++i) {
        y = (y + x / y) / 2;
        dwell::log(g, dwell::level::trace, "step {}: {}", i, y);
      }
      dwell::log(g, dwell::level::debug, "the root of {} is {:.6f}", x, y);
    })");
  for (const float x : {2.0F, -1.0F, 9.0F}) runtime.submit(root, x).wait();

  unsigned debugged = 0;
  unsigned errors = 0;
  for (const dwell::LogRecord& record : runtime.logs(50ms)) {
    debugged += record.severity == dwell::level::debug ? 1 : 0;
    errors += record.severity == dwell::level::error ? 1 : 0;
  }
  std::printf("log: %u roots and %u error; steps are below the threshold\n", debugged, errors);
  return debugged == 2 && errors == 1 ? 0 : 1;
}
