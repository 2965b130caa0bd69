// Metrics where Prometheus scrapes them. A library of its own, dwell::prometheus, which needs prometheus-cpp: dwell itself opens no port.
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
  // `source` is called for each scrape, by threads of the endpoint, perhaps by several at once; while it throws (as of a closed runtime)
  // scrapes get no metrics. `address` is IP:PORT with an IPv4 address; port 0 takes any free one. Whoever reaches the address reads the
  // metrics: the default is this machine alone. Throws errc::invalid_argument when the address is none, errc::io_failed when the endpoint
  // cannot listen there, as when the port is taken.
  explicit PrometheusEndpoint(std::function<Metrics()> source, const std::string& address = "127.0.0.1:9464");
  // Ends connections, and waits up to 2 s for that. `source` is not called afterwards.
  ~PrometheusEndpoint();
  PrometheusEndpoint(const PrometheusEndpoint&) = delete;
  PrometheusEndpoint& operator=(const PrometheusEndpoint&) = delete;

  // Where it listens.
  std::uint16_t port() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dwell
