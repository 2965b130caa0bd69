// An HTTP endpoint of metrics for Prometheus. A separate library, dwell::prometheus, which needs prometheus-cpp; dwell itself opens no
// port.
//
//   dwell::PrometheusEndpoint endpoint([&] { return runtime.metrics(); });  // http://127.0.0.1:9464/metrics
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <dwell/metrics.hpp>

namespace dwell {

// Serves metrics over HTTP from its constructor to its destructor. Any thread may call its members.
class PrometheusEndpoint {
 public:
  // Calls `source` for each scrape, on threads of the endpoint, possibly on several at once. If it throws (a closed runtime, for example),
  // the scrape gets no metrics. `address` is IP:PORT with an IPv4 address; port 0 selects any free one. Anyone who can connect can read the
  // metrics; by default only this machine can. Throws errc::invalid_argument for an invalid address, errc::io_failed when the endpoint
  // cannot listen there, for example on a port in use.
  explicit PrometheusEndpoint(std::function<Metrics()> source, const std::string& address = "127.0.0.1:9464");
  // Ends connections, and waits up to 2 s for that. `source` is not called afterwards.
  ~PrometheusEndpoint();
  PrometheusEndpoint(const PrometheusEndpoint&) = delete;
  PrometheusEndpoint& operator=(const PrometheusEndpoint&) = delete;

  // Returns the port on which it listens.
  std::uint16_t port() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dwell
