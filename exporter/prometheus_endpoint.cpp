#include <arpa/inet.h>
#include <netinet/in.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <exception>
#include <system_error>
#include <utility>
#include <vector>

#include <dwell/error.hpp>
#include <dwell/prometheus.hpp>

#include "exporter/prometheus_families.hpp"

namespace dwell {

namespace {

// A connection takes a thread until its request is whole: those that say nothing must not hold up a scrape.
constexpr const char* kThreads = "8";
constexpr const char* kTimeout = "2000";  // ms that a request may take to arrive

class Collector final : public prometheus::Collectable {
 public:
  explicit Collector(std::function<Metrics()> source) : source_(std::move(source)) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    std::vector<prometheus::MetricFamily> result;
    try {
      for (const observe::MetricFamily& family : observe::metric_families(source_())) result.push_back(exporter::converted(family));
    } catch (const std::exception&) {
      // The server's thread has nobody who would catch it, and half of the families would look like all of them.
      result.clear();
    }
    return result;
  }

 private:
  std::function<Metrics()> source_;
};

sockaddr_in parsed(const std::string& address) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  const std::size_t colon = address.rfind(':');
  if (colon != std::string::npos && inet_pton(AF_INET, address.substr(0, colon).c_str(), &result.sin_addr) == 1) {
    std::uint16_t port = 0;
    const char* const end = address.data() + address.size();
    const auto [stop, error] = std::from_chars(address.data() + colon + 1, end, port);
    if (error == std::errc() && stop == end) {
      result.sin_port = htons(port);
      return result;
    }
  }
  throw Error(errc::invalid_argument, "PrometheusEndpoint: \"" + address + "\" is not IP:PORT, as 127.0.0.1:9464 is.",
              {.what = "argument", .which = "address"});
}

// The server does not say why it cannot listen; the system does, when asked for the same once more.
std::string why_not(const sockaddr_in& address) {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(probe, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const bool bound = bind(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  const int error = errno;
  close(probe);
  return bound ? "the server could not be started" : std::generic_category().message(error);
}

}  // namespace

struct PrometheusEndpoint::State {
  State(std::function<Metrics()> source, const std::string& address)
      : collector(std::make_shared<Collector>(std::move(source))),
        exposer({"listening_ports", address, "num_threads", kThreads, "request_timeout_ms", kTimeout}) {
    exposer.RegisterCollectable(collector);
  }

  std::shared_ptr<Collector> collector;
  prometheus::Exposer exposer;
};

PrometheusEndpoint::PrometheusEndpoint(std::function<Metrics()> source, const std::string& address) {
  if (!source) throw Error(errc::invalid_argument, "PrometheusEndpoint: there is no function to get metrics from.");
  const sockaddr_in parts = parsed(address);
  try {
    state_ = std::make_unique<State>(std::move(source), address);
  } catch (const std::exception&) {
    throw Error(
        errc::io_failed,
        "PrometheusEndpoint: cannot listen on " + address + ": " + why_not(parts) + ". Choose another port; port 0 takes any free one.",
        {.what = "argument", .which = "address", .value = ntohs(parts.sin_port)});
  }
}

PrometheusEndpoint::~PrometheusEndpoint() = default;

std::uint16_t PrometheusEndpoint::port() const noexcept { return static_cast<std::uint16_t>(state_->exposer.GetListeningPorts().at(0)); }

}  // namespace dwell
