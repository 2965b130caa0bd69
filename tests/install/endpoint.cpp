// Uses the component `prometheus` from outside the tree.
#include <dwell/prometheus.hpp>

int main() {
  const dwell::PrometheusEndpoint endpoint([] { return dwell::Metrics(); }, "127.0.0.1:0");
  return endpoint.port() != 0 ? 0 : 1;
}
