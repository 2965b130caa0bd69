#include "top_screen.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <string>
#include <string_view>

#include "table.hpp"

namespace dwell::tool {

namespace {

constexpr std::size_t kMostWorkerLines = 4;
constexpr std::size_t kMostLogLines = 5;
constexpr const char* kNone = "-";

struct ColumnFormat {
  const char* heading;
  std::size_t width;  // the last column gets the rest
};
// In the order of enum Column.
constexpr std::array<ColumnFormat, kColumns> kFormats = {
    {{"TASKS/s", 9}, {"FAILED", 8}, {"P50", 9}, {"P99", 9}, {"MEAN", 9}, {"TIME", 7}, {"VERSION", 8}, {"OPERATOR", 0}}};

constexpr std::array<std::string_view, 9> kBlocks = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<std::string_view, 9> kAscii = {" ", ".", ":", "-", "=", "+", "*", "#", "@"};

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f %%", share * 100);
  return text;
}

std::string time_text(const std::optional<double>& ns) {
  constexpr double kMost = 9e18;
  return ns ? text_of(std::chrono::nanoseconds(static_cast<std::int64_t>(std::llround(std::min(*ns, kMost))))) : kNone;
}

// Returns "3 d 04:05:06".
std::string uptime_text(std::chrono::nanoseconds time) {
  const long long seconds = std::chrono::floor<std::chrono::seconds>(time).count();
  char text[64];
  std::snprintf(text, sizeof(text), "%02lld:%02lld:%02lld", seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
  const long long days = seconds / 86400;
  return (days == 0 ? "" : std::to_string(days) + " d ") + text;
}

Style style_of(level severity) {
  switch (severity) {
    case level::error: return Style::bad;
    case level::warning: return Style::warning;
    case level::trace:
    case level::debug: return Style::faint;
    default: return Style::plain;
  }
}

// Adds "[||||| 12/256]", `width` columns wide.
void add_bar(Line& line, std::size_t width, std::uint64_t part, std::uint64_t whole) {
  const std::string figures = text_of_count(part) + "/" + text_of_count(whole);
  const std::size_t inside = std::max(width, figures.size() + 2) - 2;
  const double share = whole == 0 ? 0 : std::min(1.0, static_cast<double>(part) / static_cast<double>(whole));
  auto filled = static_cast<std::size_t>(std::lround(share * static_cast<double>(inside)));
  if (filled == 0 && part != 0) filled = 1;
  std::string text(inside, ' ');
  std::fill_n(text.begin(), filled, '|');
  std::ranges::copy(figures, text.end() - static_cast<std::ptrdiff_t>(figures.size()));
  const Style style = share < 0.5 ? Style::good : share < 0.9 ? Style::warning : Style::bad;
  line.add("[", Style::strong).add(text.substr(0, filled), style).add(text.substr(filled), Style::plain).add("]", Style::strong);
}

void add_figure(Line& line, const char* name, const std::string& value) {
  line.add(std::string(name) + " ", Style::faint).add(value + "   ", Style::strong);
}

Line title_of(const TopState& state) {
  Line line;
  line.add("dwell top", Style::strong).add("   process " + std::to_string(state.pid));
  if (state.now) {
    const std::size_t workers = state.now->workers.size();
    line.add("   runtime " + std::to_string(state.runtime) +
             (state.runtimes.size() > 1 ? " of " + std::to_string(state.runtimes.size()) : ""));
    line.add("   " + printable(state.now->device) + "   " + std::to_string(workers) + (workers == 1 ? " worker" : " workers"));
  }
  line.add("   up " + uptime_text(state.uptime));
  if (state.paused) line.add("   paused", Style::warning);
  if (!state.notice.empty()) line.add("   " + printable(state.notice), Style::bad);
  return line;
}

Line rates_of(const TopState& state) {
  const Metrics& now = *state.now;
  const auto rate = [&](double a_second) { return state.interval ? text_of_rate(a_second) : kNone; };
  Line line;
  add_figure(line, "tasks/s", rate(state.tasks_per_second()));
  add_figure(line, "leases/s", rate(state.interval ? state.per_second(state.interval->leases) : 0));
  add_figure(line, "parks", text_of_count(now.parks));
  add_figure(line, "images", text_of_count(now.images));
  add_figure(line, "ring full", text_of_count(now.credit_waits));
  return line;
}

Line bars_of(const TopState& state, std::size_t width) {
  const Metrics& now = *state.now;
  const std::size_t bar = std::clamp<std::size_t>(width / 2, 22, 60) - 8;
  Line line;
  line.add("ring  ", Style::faint);
  add_bar(line, bar, now.in_flight_slots, now.ring_slots);
  line.add("  queue ", Style::faint);
  add_bar(line, bar, now.queued, now.ring_slots);
  return line;
}

// Adds a character per worker, or per several workers if there are many.
void add_workers(std::vector<Line>& lines, const TopState& state, std::size_t width) {
  const std::vector<double> shares = state.workers();
  Line heading;
  const bool times = state.now->metering == Metering::times;
  if (shares.empty()) {
    lines.push_back(
        heading.add("workers ", Style::faint).add(kNone).add("   metering ", Style::faint).add(std::string(text_of(state.now->metering))));
    return;
  }
  const std::size_t columns = std::max<std::size_t>(width, 1);
  const std::size_t each = (shares.size() + columns * kMostWorkerLines - 1) / (columns * kMostWorkerLines);
  double sum = 0;
  for (const double share : shares) sum += share;
  heading.add("workers ", Style::faint);
  heading.add(times ? percent(sum / static_cast<double>(shares.size())) + " busy" : "by tasks, of the busiest one's", Style::strong);
  heading.add("   metering ", Style::faint).add(std::string(text_of(state.now->metering)));
  if (each > 1) heading.add("   a character for " + std::to_string(each), Style::faint);
  lines.push_back(heading);
  const auto& glyphs = state.blocks ? kBlocks : kAscii;
  std::string text;
  for (std::size_t i = 0; i < shares.size(); i += each) {
    const std::size_t end = std::min(i + each, shares.size());
    double group = 0;
    for (std::size_t k = i; k < end; ++k) group += shares[k];
    group /= static_cast<double>(end - i);
    auto height = static_cast<std::size_t>(std::lround(group * static_cast<double>(glyphs.size() - 1)));
    if (height == 0 && group > 0) height = 1;
    text += glyphs[height];
  }
  for (std::size_t at = 0; at < columns_of(text); at += columns) {
    const std::string before = cut(text, at);
    lines.push_back(Line().add(cut(std::string_view(text).substr(before.size()), columns), Style::good));
  }
}

Line heading_of(Column sort, std::size_t width) {
  Line line;
  std::size_t used = 0;
  for (std::size_t i = 0; i < kColumns; ++i) {
    const bool last = i + 1 == kColumns;
    const std::string mark = static_cast<std::size_t>(sort) == i ? "*" : "";
    const std::string text = last ? left(std::string(" ") + kFormats[i].heading + mark, std::max(width, used) - used)
                                  : right(kFormats[i].heading + mark, kFormats[i].width);
    used += kFormats[i].width;
    line.add(text, Style::heading);
  }
  return line;
}

Line line_of(const OperatorRow& row, bool known) {
  const auto& f = kFormats;
  Line line;
  line.add(right(known ? text_of_rate(row.tasks_per_s) : kNone, f[0].width), Style::strong);
  line.add(right(text_of_count(row.failures), f[1].width), row.failures == 0 ? Style::faint : Style::bad);
  line.add(right(time_text(row.p50_ns), f[2].width))
      .add(right(time_text(row.p99_ns), f[3].width))
      .add(right(time_text(row.mean_ns), f[4].width));
  line.add(right(row.share ? percent(*row.share) : kNone, f[5].width));
  line.add(right(row.version == 0 ? "older" : std::to_string(row.version), f[6].width), Style::faint);
  line.add(" " + printable(row.name), row.tasks_per_s > 0 ? Style::strong : Style::plain);
  return line;
}

std::vector<Line> help() {
  constexpr std::array<std::array<const char*, 2>, 9> kHelp = {{{"q", "quit"},
                                                                {"t p s f n", "sort by tasks/s, p99, time, failures, name"},
                                                                {"left right", "sort by the column beside"},
                                                                {"up down", "scroll; page up, page down, home, end"},
                                                                {"space", "pause, go on"},
                                                                {"tab", "the next runtime of the process"},
                                                                {"h", "this, and back"},
                                                                {"", ""},
                                                                {"TIME", "share of the time of all workers; times need Metering::times"}}};
  std::vector<Line> lines = {Line().add("keys", Style::strong), Line()};
  for (const auto& [key, what] : kHelp) lines.push_back(Line().add("  " + left(key, 12), Style::good).add(what));
  return lines;
}

}  // namespace

std::vector<Line> render(const TopState& state, std::size_t width, std::optional<std::size_t> height) {
  std::vector<Line> lines = {title_of(state)};
  std::vector<Line> below;
  if (state.help) {
    std::ranges::move(help(), std::back_inserter(lines));
  } else if (!state.now) {
    lines.push_back(Line().add("no figures yet", Style::faint));
  } else {
    lines.push_back(rates_of(state));
    lines.push_back(bars_of(state, width));
    add_workers(lines, state, width);
    lines.emplace_back();
    lines.push_back(heading_of(state.sort, width));
    // Log lines get a part of the height, the table the rest.
    const std::size_t log_lines = std::min({state.log.size(), kMostLogLines, height ? *height / 4 : kMostLogLines});
    if (log_lines != 0) below.emplace_back();
    for (std::size_t i = state.log.size() - log_lines; i < state.log.size(); ++i)
      below.push_back(Line().add(printable(to_string(state.log[i])), style_of(state.log[i].severity)));
  }
  if (height)
    below.push_back(Line().add(
        "q quit  h help  space pause  left/right sort  up/down scroll" + std::string(state.runtimes.size() > 1 ? "  tab runtime" : ""),
        Style::faint));
  if (!state.help && state.now) {
    const std::vector<OperatorRow> rows = state.operators();
    const std::size_t taken = lines.size() + below.size();
    const std::size_t room = !height ? rows.size() : *height > taken ? *height - taken : 0;
    const std::size_t first = height ? std::min(state.scroll, rows.size()) : 0;
    for (std::size_t i = first; i < std::min(first + room, rows.size()); ++i) lines.push_back(line_of(rows[i], state.interval.has_value()));
  }
  if (height) lines.resize(std::max(*height, below.size()) - below.size());
  std::ranges::move(below, std::back_inserter(lines));
  if (height) lines.resize(*height);
  for (Line& line : lines) line = line.fitted(width);
  return lines;
}

}  // namespace dwell::tool
