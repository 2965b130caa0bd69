#include "top_state.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "keys.hpp"

namespace dwell::tool {

namespace {

constexpr char kControlC = 3;
constexpr std::size_t kPage = 10;

// Returns whether `a` is above `b`: larger figures come first, names are sorted alphabetically.
bool above(const OperatorRow& a, const OperatorRow& b, Column column) {
  switch (column) {
    case Column::tasks: return a.tasks_per_s > b.tasks_per_s;
    case Column::failures: return a.failures > b.failures;
    case Column::p50: return a.p50_ns > b.p50_ns;
    case Column::p99: return a.p99_ns > b.p99_ns;
    case Column::mean: return a.mean_ns > b.mean_ns;
    case Column::share: return a.share > b.share;
    case Column::version: return a.version > b.version;
    case Column::name: return a.name < b.name;
  }
  return false;
}

Column beside(Column column, std::size_t steps) { return static_cast<Column>((static_cast<std::size_t>(column) + steps) % kColumns); }

}  // namespace

void TopState::take(Metrics snapshot) {
  const bool follows = now && now->runtime == snapshot.runtime && now->generation == snapshot.generation && now->at < snapshot.at;
  interval = follows ? std::optional(difference(snapshot, *now)) : std::nullopt;
  seconds = follows ? std::chrono::duration<double>(snapshot.at - now->at).count() : 0;
  now = std::move(snapshot);
}

void TopState::take(std::vector<LogRecord> lines) {
  std::ranges::move(lines, std::back_inserter(log));
  while (log.size() > kLogLines) log.pop_front();
}

void TopState::show(std::uint64_t another) {
  runtime = another;
  now.reset();
  interval.reset();
  seconds = 0;
  log.clear();
  scroll = 0;
}

double TopState::tasks_per_second() const {
  if (!interval) return 0;
  if (interval->metering == Metering::off) return per_second(interval->submitted);
  std::uint64_t tasks = 0;
  for (const OperatorMetrics& one : interval->operators) tasks += one.tasks;
  return per_second(tasks);
}

std::vector<OperatorRow> TopState::operators() const {
  if (!now) return {};
  std::vector<OperatorRow> rows;
  const double time = seconds * 1e9 * static_cast<double>(now->workers.size());
  for (std::size_t i = 0; i < now->operators.size(); ++i) {
    const OperatorMetrics& total = now->operators[i];
    OperatorRow& row = rows.emplace_back();
    row.name = total.name;
    row.version = total.version;
    row.tasks = total.tasks;
    row.failures = total.failures;
    if (!interval) continue;
    const OperatorMetrics& lately = interval->operators[i];  // difference() keeps the order of the later snapshot
    row.tasks_per_s = per_second(lately.tasks);
    if (now->metering == Metering::times && time > 0) row.share = static_cast<double>(lately.total_ns) / time;
    if (lately.timed == 0) continue;
    row.p50_ns = lately.times.quantile(0.5);
    row.p99_ns = lately.times.quantile(0.99);
    row.mean_ns = lately.mean_ns();
  }
  std::ranges::stable_sort(rows, [this](const OperatorRow& a, const OperatorRow& b) { return above(a, b, sort); });
  return rows;
}

std::vector<double> TopState::workers() const {
  if (!interval || interval->metering == Metering::off) return {};
  const bool times = interval->metering == Metering::times;
  const auto figure = [&](const WorkerMetrics& worker) { return static_cast<double>(times ? worker.busy_ns : worker.tasks); };
  double whole = seconds * 1e9;
  if (!times) {
    whole = 0;
    for (const WorkerMetrics& worker : interval->workers) whole = std::max(whole, figure(worker));
  }
  std::vector<double> shares;
  for (const WorkerMetrics& worker : interval->workers) shares.push_back(whole > 0 ? std::min(figure(worker) / whole, 1.0) : 0);
  return shares;
}

std::string_view text_of(Metering metering) {
  switch (metering) {
    case Metering::off: return "off";
    case Metering::counts: return "counts";
    case Metering::times: return "times";
  }
  return {};
}

bool press(TopState& state, int key) {
  const std::size_t rows = state.now ? state.now->operators.size() : 0;
  const auto scroll_to = [&](std::size_t row) { state.scroll = std::min(row, rows == 0 ? 0 : rows - 1); };
  switch (key) {
    case 'q':
    case kControlC: return false;
    case 'h':
    case '?': state.help = !state.help; break;
    case ' ': state.paused = !state.paused; break;
    case 't': state.sort = Column::tasks; break;
    case 'f': state.sort = Column::failures; break;
    case 'p': state.sort = Column::p99; break;
    case 's': state.sort = Column::share; break;
    case 'n': state.sort = Column::name; break;
    case key_left: state.sort = beside(state.sort, kColumns - 1); break;
    case key_right: state.sort = beside(state.sort, 1); break;
    case key_up: scroll_to(state.scroll == 0 ? 0 : state.scroll - 1); break;
    case key_down: scroll_to(state.scroll + 1); break;
    case key_page_up: scroll_to(state.scroll < kPage ? 0 : state.scroll - kPage); break;
    case key_page_down: scroll_to(state.scroll + kPage); break;
    case key_home: scroll_to(0); break;
    case key_end: scroll_to(rows); break;
    case '\t': {
      if (state.runtimes.empty()) break;
      const auto at = std::ranges::find(state.runtimes, state.runtime);
      const bool last = at == state.runtimes.end() || std::next(at) == state.runtimes.end();
      const std::uint64_t next = last ? state.runtimes.front() : *std::next(at);
      if (next != state.runtime) state.show(next);
      break;
    }
    default: break;
  }
  return true;
}

}  // namespace dwell::tool
