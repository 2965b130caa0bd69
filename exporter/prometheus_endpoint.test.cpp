#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <dwell/dwell.hpp>
#include <dwell/prometheus.hpp>

#include "tests/unit/expect_error.hpp"
#include "tests/unit/sample_metrics.hpp"

namespace dwell {
namespace {

using testing::HasSubstr;

constexpr const char* kAnyPort = "127.0.0.1:0";

// What a scraper gets: the answer to GET `path`, with its header. Nothing when nobody listens.
std::optional<std::string> answer(std::uint16_t port, const std::string& path) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    close(connection);
    return std::nullopt;
  }
  const std::string request = "GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(send(connection, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  std::string text;
  char piece[4096];
  for (ssize_t size = 0; (size = recv(connection, piece, sizeof piece, 0)) > 0;) text.append(piece, static_cast<std::size_t>(size));
  close(connection);
  return text;
}

struct Scrape {
  std::map<std::string, double> series;
  std::map<std::string, std::string> types;
};

Scrape scrape(std::uint16_t port) {
  Scrape result;
  const std::string text = answer(port, "/metrics").value_or("");
  EXPECT_TRUE(text.starts_with("HTTP/1.1 200 ")) << text.substr(0, 200);
  std::istringstream lines(text.substr(text.find("\r\n\r\n") + 4));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string hash, keyword, name, type;
    if (line.starts_with("# TYPE ")) {
      words >> hash >> keyword >> name >> type;
      result.types[name] = type;
    } else if (!line.starts_with("#")) {
      const std::size_t space = line.rfind(' ');
      EXPECT_NE(space, std::string::npos) << line;
      EXPECT_TRUE(result.series.emplace(line.substr(0, space), std::stod(line.substr(space + 1))).second) << "twice: " << line;
    }
  }
  return result;
}

TEST(PrometheusEndpoint, ServesTheFamiliesOfMetrics) {
  const PrometheusEndpoint endpoint(test::sample_metrics, kAnyPort);
  Scrape text = scrape(endpoint.port());
  EXPECT_EQ(text.types["dwell_operator_tasks_total"], "counter");
  EXPECT_EQ(text.types["dwell_in_flight_slots"], "gauge");
  EXPECT_EQ(text.types["dwell_operator_duration_seconds"], "histogram");
  const std::string axpy = R"(runtime="1",device="cuda:0",operator="axpy<float>")";
  EXPECT_EQ(text.series.at("dwell_operator_tasks_total{" + axpy + "}"), 6);
  EXPECT_EQ(text.series.at(R"(dwell_operator_tasks_total{runtime="1",device="cuda:0",operator="never \"run\"\\\n"})"), 0);
  EXPECT_EQ(text.series.at("dwell_operator_duration_seconds_count{" + axpy + "}"), 6);
  EXPECT_DOUBLE_EQ(text.series.at("dwell_operator_duration_seconds_sum{" + axpy + "}"), 1.000000387);
  EXPECT_EQ(text.series.at("dwell_operator_duration_seconds_bucket{" + axpy + ",le=\"+Inf\"}"), 6);
  EXPECT_EQ(text.series.at("dwell_operator_duration_seconds_bucket{" + axpy + ",le=\"1.27e-07\"}"), 4);
  EXPECT_EQ(text.series.at(R"(dwell_in_flight_slots{runtime="1",device="cuda:0"})"), 12);
}

TEST(PrometheusEndpoint, ServesWhatARuntimeHasDoneUntilThatIsClosed) {
  Options options;
  options.device = "cpu";
  options.workers = 2;
  Runtime runtime(options);
  const auto works = runtime.define<void(i32)>(
      "works", "DWELL_OPERATOR(works)(dwell::Group g, dwell::i32 status) { if (g.rank() == 0 && status != 0) g.fail(status); }\n");
  const PrometheusEndpoint endpoint([&] { return runtime.metrics(); }, kAnyPort);
  const std::string labels = R"(runtime=")" + std::to_string(runtime.info().runtime) + R"(",device="cpu")";
  const std::string tasks = "dwell_operator_tasks_total{" + labels + R"(,operator="works"})";
  const std::string failures = "dwell_operator_failures_total{" + labels + R"(,operator="works"})";
  for (int round = 1; round <= 3; ++round) {
    for (int i = 0; i < 100; ++i) runtime.submit(works, i % 10 == 0 ? 7 : 0);
    runtime.wait_all();
    const Scrape text = scrape(endpoint.port());
    EXPECT_EQ(text.series.at(tasks), 100 * round);
    EXPECT_EQ(text.series.at(failures), 10 * round);
    EXPECT_EQ(text.series.at("dwell_submitted_tasks_total{" + labels + "}"), 100 * round);
    double by_worker = 0;
    for (const auto& [series, value] : text.series)
      if (series.starts_with("dwell_worker_tasks_total{" + labels)) by_worker += value;
    EXPECT_EQ(by_worker, 100 * round);
  }
  const auto floats = runtime.allocate<float>(1000);
  EXPECT_EQ(scrape(endpoint.port()).series.at("dwell_buffer_bytes{" + labels + "}"), 4000);
  runtime.close();
  EXPECT_FALSE(scrape(endpoint.port()).series.contains(tasks));
}

TEST(PrometheusEndpoint, EachScrapeTakesASnapshot) {
  std::atomic<std::uint64_t> calls = 0;
  const PrometheusEndpoint endpoint(
      [&] {
        Metrics metrics;
        metrics.submitted = ++calls;
        return metrics;
      },
      kAnyPort);
  const std::string submitted = R"(dwell_submitted_tasks_total{runtime="0",device=""})";
  EXPECT_EQ(scrape(endpoint.port()).series.at(submitted), 1);
  EXPECT_EQ(scrape(endpoint.port()).series.at(submitted), 2);
}

TEST(PrometheusEndpoint, ASourceThatThrowsLeavesTheScrapeWithoutItsMetrics) {
  std::atomic<bool> closed = true;
  const PrometheusEndpoint endpoint(
      [&]() -> Metrics {
        if (closed) throw Error(errc::closed, "closed");
        return test::sample_metrics();
      },
      kAnyPort);
  EXPECT_FALSE(scrape(endpoint.port()).types.contains("dwell_operator_tasks_total"));
  closed = false;
  EXPECT_TRUE(scrape(endpoint.port()).types.contains("dwell_operator_tasks_total"));
}

TEST(PrometheusEndpoint, ConnectionsThatSayNothingHoldUpNoScrape) {
  const PrometheusEndpoint endpoint(test::sample_metrics, kAnyPort);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(endpoint.port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::vector<int> silent;
  for (int i = 0; i < 12; ++i) {
    silent.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(silent.back(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    if (i % 2 == 0) {
      EXPECT_EQ(send(silent.back(), "GET /met", 8, MSG_NOSIGNAL), 8);
    }
  }
  const auto begun = std::chrono::steady_clock::now();
  EXPECT_GT(scrape(endpoint.port()).series.size(), 0U);
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10)) << "as long as a scraper waits";
  for (const int connection : silent) close(connection);
}

TEST(PrometheusEndpoint, EndsWithItsObject) {
  std::optional<PrometheusEndpoint> endpoint;
  endpoint.emplace(test::sample_metrics, kAnyPort);
  const std::uint16_t port = endpoint->port();
  EXPECT_TRUE(answer(port, "/metrics").has_value());
  endpoint.reset();
  EXPECT_FALSE(answer(port, "/metrics").has_value());
}

TEST(PrometheusEndpoint, RefusesWhatIsNoAddress) {
  for (const char* address : {"", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:80s", "127.0.0.1:-1", "127.0.0.1:0,0.0.0.0:0",
                              "300.1.1.1:80", ":9464", "[::1]:9464"}) {
    DWELL_EXPECT_ERROR(PrometheusEndpoint(test::sample_metrics, address), errc::invalid_argument, HasSubstr(address));
  }
  DWELL_EXPECT_ERROR(PrometheusEndpoint(nullptr), errc::invalid_argument, HasSubstr("function"));
}

TEST(PrometheusEndpoint, SaysThatAPortIsTaken) {
  const PrometheusEndpoint first(test::sample_metrics, kAnyPort);
  const std::string address = "127.0.0.1:" + std::to_string(first.port());
  DWELL_EXPECT_ERROR(PrometheusEndpoint(test::sample_metrics, address), errc::io_failed, HasSubstr(address + ": Address already in use"));
}

TEST(PrometheusEndpoint, SaysThatAnAddressIsNotThisMachines) {
  DWELL_EXPECT_ERROR(PrometheusEndpoint(test::sample_metrics, "192.0.2.1:9464"), errc::io_failed, HasSubstr("Cannot assign"));
}

}  // namespace
}  // namespace dwell
