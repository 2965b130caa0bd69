// The Trace Event Format: one object whose list traceEvents holds an object an event. chrome://tracing and ui.perfetto.dev read it.
#include <unistd.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <string_view>
#include <unordered_set>

#include <dwell/trace.hpp>

#include "base/json_text.hpp"
#include "observe/trace_arrows.hpp"
#include "observe/trace_text.hpp"

namespace dwell {

namespace {

// Workers are threads of the same process. Linux gives no thread a number from here on (PID_MAX_LIMIT).
constexpr std::uint64_t kFirstWorker = 1U << 22;

// The format counts in microseconds; three decimals keep the nanoseconds.
std::string microseconds(std::int64_t ns) {
  std::string decimals = std::to_string(ns % 1000);
  decimals.insert(0, 3 - decimals.size(), '0');
  return std::to_string(ns / 1000) + '.' + decimals;
}

class ChromeWriter final : public TraceWriter {
 public:
  explicit ChromeWriter(std::ostream& out) : out_(out) { out_ << R"({"displayTimeUnit":"ns","traceEvents":[)"; }

  void write(const Trace& piece) override {
    if (events_ == 0) {
      device_ = piece.device;
      runtime_ = piece.runtime;
      write_name("process_name", pid_, observe::process_name(piece));
    }
    arrows_.add(piece.arrows);
    dropped_ += piece.dropped;
    clock_error_ns_ = std::max(clock_error_ns_, piece.clock_error_ns);
    for (const TraceEvent& event : piece.events) {
      if (named_.insert(thread_of(event)).second) name_thread(event);
      write(event, event.name < piece.names.size() ? std::string_view(piece.names[event.name]) : observe::text_of(event.kind).name);
      if (event.took_ns != 0) write_flows(event);
    }
  }

  void finish() override {
    json_.begin_object();
    json_.field("device", device_);
    json_.field("runtime", runtime_);
    json_.field("dropped", dropped_);
    json_.field("clock_error_ns", clock_error_ns_);
    json_.end_object();
    out_ << "\n],\"otherData\":" << json_.take() << "}\n";
    out_.flush();
  }

 private:
  static std::uint64_t thread_of(const TraceEvent& event) {
    return event.worker == TraceEvent::kHost ? event.thread : kFirstWorker + event.worker;
  }

  // One object of the list, with what all have; `fill` adds its own fields.
  template <typename Fill>
  void object(std::string_view phase, std::string_view name, std::uint64_t thread, Fill fill) {
    json_.begin_object();
    json_.field("ph", phase);
    json_.field("name", name);
    json_.field("pid", pid_);
    json_.field("tid", thread);
    fill();
    json_.end_object();
    out_ << (events_++ == 0 ? "\n" : ",\n") << json_.take();
  }
  void time(std::string_view name, std::int64_t ns) {
    json_.key(name);
    json_.append(microseconds(ns));
  }

  // "M": what a process or a thread is called, and where it stands.
  template <typename Value>
  void write_metadata(std::string_view what, std::uint64_t thread, std::string_view argument, const Value& value) {
    object("M", what, thread, [&] {
      json_.key("args");
      json_.begin_object();
      json_.field(argument, value);
      json_.end_object();
    });
  }
  void write_name(std::string_view what, std::uint64_t thread, const std::string& name) { write_metadata(what, thread, "name", name); }
  void name_thread(const TraceEvent& event) {
    const std::uint64_t thread = thread_of(event);
    const bool host = event.worker == TraceEvent::kHost;
    write_name("thread_name", thread, host ? "thread " + std::to_string(thread) : "worker " + std::to_string(event.worker));
    write_metadata("thread_sort_index", thread, "sort_index", thread);
  }

  // "X": a slice, "i": an instant.
  void write(const TraceEvent& event, std::string_view name) {
    object(event.took_ns == 0 ? "i" : "X", name, thread_of(event), [&] {
      const observe::KindText& kind = observe::text_of(event.kind);
      json_.field("cat", kind.name);
      time("ts", event.begin_ns);
      if (event.took_ns == 0) {
        json_.field("s", "t");  // as high as its thread
      } else {
        time("dur", event.took_ns);
      }
      if (event.failed) json_.field("cname", "terrible");  // red
      json_.key("args");
      json_.begin_object();
      if (kind.has_id) json_.field("id", event.id);
      if (kind.has_count) json_.field("count", event.count);
      if (event.failed) json_.field("failed", true);
      json_.end_object();
    });
  }

  // "s", "f": an arrow from the slice that is open at a time on one thread to that on another.
  void write_end(std::string_view phase, std::string_view kind, const TraceEvent& event, std::int64_t at, std::uint64_t id) {
    object(phase, kind, thread_of(event), [&] {
      json_.field("cat", kind);
      json_.field("id", id);
      time("ts", at);
      if (phase == "f") json_.field("bp", "e");
    });
  }
  void write_flows(const TraceEvent& event) {
    if (event.kind == TraceEvent::Kind::task) {
      write_end("f", "submit", event, event.begin_ns, event.id);
      for (const std::uint64_t arrow : arrows_.begin(event.id)) write_end("s", "after", event, event.begin_ns + event.took_ns - 1, arrow);
      for (const std::uint64_t arrow : arrows_.end(event.id)) write_end("f", "after", event, event.begin_ns, arrow);
    }
    if (event.kind == TraceEvent::Kind::launch) write_end("s", "launch", event, event.begin_ns, event.id);
    if (event.kind == TraceEvent::Kind::begin) {
      write_end("f", "launch", event, event.begin_ns, event.id);
      write_end("s", "complete", event, event.begin_ns, event.id);
      arrows_.begin_launch(event.id);
    }
    if (event.kind == TraceEvent::Kind::complete) {
      // The call of one that has made others has the arrow from its submission.
      if (event.count != 0)
        write_end("f", "submit", event, event.begin_ns, event.id);
      else if (arrows_.end_launch(event.id))
        write_end("f", "complete", event, event.begin_ns, event.id);
    }
    if (event.kind == TraceEvent::Kind::node || event.kind == TraceEvent::Kind::begin) {
      // Before it is known which of them end anywhere: one that does not is not shown.
      for (std::uint32_t i = 0; i < event.arrows; ++i) write_end("s", "edge", event, event.begin_ns + event.took_ns - 1, event.number + i);
      for (const std::uint64_t arrow : arrows_.end_at_node(event.number)) write_end("f", "edge", event, event.begin_ns, arrow);
    }
    if (event.kind != TraceEvent::Kind::submit) return;
    for (std::uint32_t i = 0; i < std::min(event.count, observe::kMostFlows); ++i)
      write_end("s", "submit", event, event.begin_ns, event.id + i);
  }

  std::ostream& out_;
  JsonText json_;  // of one object
  observe::TraceArrows arrows_;
  const std::uint64_t pid_ = static_cast<std::uint64_t>(getpid());
  std::uint64_t events_ = 0;  // objects in the list
  std::unordered_set<std::uint64_t> named_;
  std::string device_;
  std::uint64_t runtime_ = 0;
  std::uint64_t dropped_ = 0;
  double clock_error_ns_ = 0;
};

}  // namespace

std::unique_ptr<TraceWriter> chrome_writer(std::ostream& out) { return std::make_unique<ChromeWriter>(out); }

}  // namespace dwell
