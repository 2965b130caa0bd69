#include "top_command.hpp"

#include <langinfo.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <clocale>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <dwell/error.hpp>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "json.hpp"
#include "screen_text.hpp"
#include "table.hpp"
#include "terminal.hpp"
#include "top_screen.hpp"
#include "top_state.hpp"

namespace dwell::tool {

namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

// Samples one process into a state.
class Top {
 public:
  Top(const live::Client& client, const LookOptions& look) : client_(client) {
    state_.pid = client.process().pid;
    state_.runtimes = client.runtimes();
    if (look.runtime != 0) state_.runtime = choose_runtime(client, look);
    std::setlocale(LC_CTYPE, "");
    state_.blocks = std::string_view(nl_langinfo(CODESET)) == "UTF-8";
  }

  TopState& state() { return state_; }

  // Takes a snapshot. Throws errc::closed if the process has no runtime left.
  void sample() {
    try {
      state_.runtimes = client_.runtimes();
      if (state_.runtimes.empty()) throw Error(errc::closed, "process " + std::to_string(state_.pid) + " has no runtime");
      if (std::ranges::count(state_.runtimes, state_.runtime) == 0) state_.show(state_.runtimes.front());
      if (logged_ != state_.runtime) place_ = 0;  // a place belongs to one runtime
      logged_ = state_.runtime;
      state_.uptime = client_.process().age();
      state_.take(client_.metrics(state_.runtime));
      take_log();
      state_.notice.clear();
    } catch (const Error& error) {
      if (error.kind() == errc::closed && is_gone()) throw;
      state_.notice = error.message();
    }
  }

 private:
  bool is_gone() const {
    try {
      return client_.runtimes().empty();
    } catch (const Error& error) {
      return error.kind() == errc::closed;
    }
  }

  void take_log() {
    constexpr std::size_t kMost = 1000;
    constexpr int kMostPages = 100;
    // Bounded, so that a process that logs without pause does not keep this from drawing.
    bool more = true;
    for (int pages = 0; more && pages < kMostPages; ++pages) {
      live::LogPage page = client_.logs(state_.runtime, place_, kMost);
      more = page.records.size() == kMost;
      place_ = page.next;
      state_.take(std::move(page.records));
    }
  }

  const live::Client& client_;
  TopState state_;
  std::uint64_t logged_ = 0;  // the runtime of `place_`
  std::uint64_t place_ = 0;
};

// Draws until the user quits. Returns a signal that asks the program to end, or 0.
int watch(Top& top, std::chrono::nanoseconds delay) {
  constexpr std::chrono::milliseconds kFirst{200};  // a short first interval, to show figures soon
  Terminal terminal;
  TopState& state = top.state();
  Clock::time_point due = Clock::now();
  for (;;) {
    if (!state.paused && Clock::now() >= due) {
      const std::uint64_t shown = state.runtime;
      top.sample();
      due = Clock::now() + (state.interval && shown == state.runtime ? delay : std::min<std::chrono::nanoseconds>(delay, kFirst));
    }
    const Terminal::Size size = terminal.size();
    terminal.show(render(state, size.width, size.height));
    const Terminal::Event event = terminal.wait(state.paused ? Clock::now() + std::chrono::hours(1) : due);
    if (event.signal != 0 || event.closed) return event.signal;
    const std::uint64_t shown = state.runtime;
    for (const int key : event.keys)
      if (!press(state, key)) return 0;
    if (state.runtime != shown) due = Clock::now();
  }
}

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json json_of(const TopState& state) {
  const Metrics& now = *state.now;
  const auto rate = [&](std::uint64_t Metrics::*count) {
    return state.interval ? Json(state.per_second((*state.interval).*count)) : Json(nullptr);
  };
  Json operators = Json::array();
  for (const OperatorRow& row : state.operators()) {
    operators.push_back({{"name", row.name},
                         {"version", row.version},
                         {"tasks", row.tasks},
                         {"failures", row.failures},
                         {"tasks_per_s", row.tasks_per_s},
                         {"p50_ns", or_null(row.p50_ns)},
                         {"p99_ns", or_null(row.p99_ns)},
                         {"mean_ns", or_null(row.mean_ns)},
                         {"share", or_null(row.share)}});
  }
  Json workers = Json::array();
  const bool times = now.metering == Metering::times;
  const std::vector<double> shares = state.workers();
  for (std::size_t i = 0; i < now.workers.size(); ++i)
    workers.push_back({{"tasks", now.workers[i].tasks}, {"busy", times && i < shares.size() ? Json(shares[i]) : Json(nullptr)}});
  Json log = Json::array();
  for (const LogRecord& line : state.log) log.push_back(to_string(line));
  return {{"pid", state.pid},
          {"uptime_s", std::chrono::duration<double>(state.uptime).count()},
          {"runtime", now.runtime},
          {"generation", now.generation},
          {"device", now.device},
          {"metering", text_of(now.metering)},
          {"interval_s", state.seconds},
          {"tasks_per_s", state.interval ? Json(state.tasks_per_second()) : Json(nullptr)},
          {"submitted_per_s", rate(&Metrics::submitted)},
          {"leases_per_s", rate(&Metrics::leases)},
          {"in_flight_slots", now.in_flight_slots},
          {"ring_slots", now.ring_slots},
          {"queued", now.queued},
          {"credit_waits", now.credit_waits},
          {"parks", now.parks},
          {"images", now.images},
          {"workers", workers},
          {"operators", operators},
          {"log", log}};
}

std::size_t width_of_output() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0 ? size.ws_col : 120;
}

void print_once(Top& top, std::chrono::nanoseconds delay, bool json, std::ostream& out) {
  top.sample();
  std::this_thread::sleep_for(delay);
  top.sample();
  if (!top.state().now) throw Failure(Exit::failed, "dwell: error: " + top.state().notice);
  if (json) {
    out << json_text(json_of(top.state())) << '\n';
  } else {
    for (const Line& line : render(top.state(), width_of_output(), std::nullopt)) out << line.text() << '\n';
  }
}

std::string command_of(pid_t pid) {
  const File file = open_to_read("/proc/" + std::to_string(pid) + "/cmdline");
  std::string words(4096, '\0');
  const ssize_t got = file ? file.read_at(std::as_writable_bytes(std::span(words)), 0) : 0;
  words.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  while (words.ends_with('\0')) words.pop_back();
  std::ranges::replace(words, '\0', ' ');
  return cut(printable(words), 80);
}

void list(const std::vector<live::Process>& processes, std::ostream& out) {
  Table table({"process", "command"}, {true, false});
  for (const live::Process& process : processes) table.add({std::to_string(process.pid), command_of(process.pid)});
  table.print(out);
}

}  // namespace

Exit top_command(const TopOptions& options, std::ostream& out) {
  if (!(options.delay >= 0.01 && options.delay <= 3600)) throw Failure(Exit::mistake, "dwell: error: a delay is 0.01 to 3600 seconds");
  if (options.json && !options.once) throw Failure(Exit::mistake, "dwell: error: --json is for --once");
  const std::vector<live::Process> processes = options.look.pid == 0 ? live::Client::processes() : std::vector<live::Process>();
  if (processes.size() > 1) {
    list(processes, out);
    return Exit::success;
  }
  const live::Client client = open_process(options.look);
  Top top(client, options.look);
  const auto delay = std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(options.delay));
  if (options.once) {
    print_once(top, delay, options.json, out);
    return Exit::success;
  }
  int signal = 0;
  try {
    signal = watch(top, delay);
  } catch (const Error& error) {
    if (error.kind() != errc::closed) throw;
    out << error.message() << '\n';
  }
  if (signal != 0) raise(signal);  // the terminal is restored: end by the signal, as if it had not been caught
  return Exit::success;
}

}  // namespace dwell::tool
