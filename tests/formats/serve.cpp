// Serves a runtime with a known amount of work to Prometheus, for check.py: prints the port, and exits when its input ends.
#include <exception>
#include <iostream>
#include <string>

#include <dwell/dwell.hpp>
#include <dwell/prometheus.hpp>

int main() try {
  dwell::Options options;
  options.device = "cpu";
  options.workers = 2;
  options.metrics = dwell::Metering::times;
  dwell::Runtime runtime(options);
  const auto nothing = runtime.define<void()>("nothing", "DWELL_OPERATOR(nothing)(dwell::Group) {}\n");
  const auto fails = runtime.define<void()>("fails", "DWELL_OPERATOR(fails)(dwell::Group g) { if (g.rank() == 0) g.fail(7); }\n");
  const auto floats = runtime.allocate<float>(1000);
  dwell::Graph graph;
  graph.add(nothing);
  const dwell::GraphExec exec = runtime.instantiate(graph);
  for (int i = 0; i < 1000; ++i) runtime.submit(nothing);
  for (int i = 0; i < 10; ++i) runtime.submit(fails);
  for (int i = 0; i < 5; ++i) runtime.launch(exec);
  runtime.wait_all();
  runtime.park();  // a worker may count after a completion, but not after its lease

  const dwell::PrometheusEndpoint endpoint([&] { return runtime.metrics(); }, "127.0.0.1:0");
  std::cout << endpoint.port() << '\n' << std::flush;
  for (std::string line; std::getline(std::cin, line);) {}
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
