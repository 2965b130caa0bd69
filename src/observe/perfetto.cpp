// https://perfetto.dev/docs/reference/trace-packet-proto: a stream of TracePacket, which this library writes without Perfetto's SDK.
#include <unistd.h>

#include <algorithm>
#include <ostream>
#include <string>
#include <unordered_map>
#include <vector>

#include <dwell/trace.hpp>

#include "observe/protobuf_writer.hpp"
#include "observe/trace_arrows.hpp"
#include "observe/trace_text.hpp"

namespace dwell {

namespace {

using observe::kKindTexts;

// Numbers of fields, by message of protos/perfetto/trace.
namespace trace_field {
constexpr std::uint32_t packet = 1;
}
namespace packet_field {
constexpr std::uint32_t timestamp = 8, trusted_packet_sequence_id = 10, track_event = 11, interned_data = 12, sequence_flags = 13,
                        track_descriptor = 60;
constexpr std::uint64_t incremental_state_cleared = 1, needs_incremental_state = 2;
}  // namespace packet_field
namespace track_field {
constexpr std::uint32_t uuid = 1, name = 2, process = 3, thread = 4, parent_uuid = 5, counter = 8, child_ordering = 11,
                        sibling_order_rank = 12;
constexpr std::uint64_t explicit_ordering = 3;
}  // namespace track_field
namespace process_field {
constexpr std::uint32_t pid = 1, process_name = 6;
}
namespace thread_field {
constexpr std::uint32_t pid = 1, tid = 2, thread_name = 5;
}
namespace counter_field {
constexpr std::uint32_t unit = 3;
constexpr std::uint64_t time_ns = 1, count = 2;
}  // namespace counter_field
namespace event_field {
constexpr std::uint32_t category_iids = 3, debug_annotations = 4, type = 9, name_iid = 10, track_uuid = 11, flow_ids = 47,
                        terminating_flow_ids = 48, double_counter_value = 44;
constexpr std::uint64_t slice_begin = 1, slice_end = 2, instant = 3, counter = 4;
}  // namespace event_field
namespace interned_field {
constexpr std::uint32_t event_categories = 1, event_names = 2, debug_annotation_names = 3;
constexpr std::uint32_t iid = 1, name = 2;  // of each of them
}  // namespace interned_field
namespace annotation_field {
constexpr std::uint32_t name_iid = 1, bool_value = 2, uint_value = 3;
}

// Interned ids, which begin at 1: a kind's name serves as category and as name of events that have none; Trace::names come behind.
constexpr std::uint64_t kFirstName = kKindTexts.size() + 1;
std::uint64_t iid_of(TraceEvent::Kind kind) { return static_cast<std::uint64_t>(kind) + 1; }
enum Annotation : std::uint64_t { kId = 1, kCount, kFailed };

class PerfettoWriter final : public TraceWriter {
 public:
  explicit PerfettoWriter(std::ostream& out) : out_(out) {}

  void write(const Trace& piece) override {
    if (!begun_) begin(piece);
    arrows_.add(piece.arrows);
    for (const TraceEvent& event : piece.events) write(event, piece.names);
    dropped_ += piece.dropped;
    write_counter(kDropped, static_cast<double>(dropped_), dropped_written_);
    write_counter(kClockError, piece.clock_error_ns, clock_error_written_);
    out_ << proto_.bytes();
    proto_.clear();
  }
  void finish() override { out_.flush(); }

 private:
  // Tracks of one trace, in the low 48 bits of their uuid. The upper ones are the runtime's number, so that traces of several runtimes may
  // be joined by joining their files.
  static constexpr std::uint64_t kProcess = 1, kDropped = 2, kClockError = 3, kWorkers = 1ULL << 32, kThreads = 2ULL << 32,
                                 kBeside = 3ULL << 32;

  std::uint64_t global(std::uint64_t local) const { return runtime_ << 48 | local; }
  // A flow from a submission is a position in the ring, as one from the begin of a launch to its end; one between tasks or nodes an arrow's
  // number. 0 is no flow.
  std::uint64_t flow_of(std::uint64_t position) const { return global(position + 1); }
  std::uint64_t flow_of_end(std::uint64_t position) const { return global(1ULL << 46 | (position + 1)); }
  std::uint64_t flow_of_arrow(std::uint64_t number) const { return global(1ULL << 47 | number); }
  std::uint64_t flow_of_node(std::uint64_t number) const { return global(3ULL << 46 | number); }

  template <typename Fill>
  void packet(std::uint64_t flags, Fill fill) {
    proto_.message(trace_field::packet, [&] {
      proto_.varint(packet_field::trusted_packet_sequence_id, runtime_ + 1);
      proto_.varint(packet_field::sequence_flags, flags);
      fill();
    });
  }
  template <typename Fill>
  void event_packet(std::int64_t at, std::uint64_t type, std::uint64_t track, Fill fill) {
    packet(packet_field::needs_incremental_state, [&] {
      proto_.varint(packet_field::timestamp, static_cast<std::uint64_t>(at));
      proto_.message(packet_field::track_event, [&] {
        proto_.varint(event_field::type, type);
        proto_.varint(event_field::track_uuid, global(track));
        fill();
      });
    });
  }
  template <typename Fill>
  void track(std::uint64_t track, Fill fill) {
    packet(packet_field::needs_incremental_state, [&] {
      proto_.message(packet_field::track_descriptor, [&] {
        proto_.varint(track_field::uuid, global(track));
        if (track != kProcess) proto_.varint(track_field::parent_uuid, global(kProcess));
        fill();
      });
    });
  }
  void intern(std::uint32_t table, std::uint64_t iid, std::string_view name) {
    proto_.message(table, [&] {
      proto_.varint(interned_field::iid, iid);
      proto_.text(interned_field::name, name);
    });
  }

  void begin(const Trace& piece) {
    begun_ = true;
    runtime_ = piece.runtime;
    packet(packet_field::incremental_state_cleared, [&] {
      proto_.message(packet_field::interned_data, [&] {
        for (std::uint64_t kind = 0; kind < kKindTexts.size(); ++kind) {
          intern(interned_field::event_categories, kind + 1, kKindTexts[kind].name);
          intern(interned_field::event_names, kind + 1, kKindTexts[kind].name);
        }
        intern(interned_field::debug_annotation_names, kId, "id");
        intern(interned_field::debug_annotation_names, kCount, "count");
        intern(interned_field::debug_annotation_names, kFailed, "failed");
      });
    });
    track(kProcess, [&] {
      proto_.varint(track_field::child_ordering, track_field::explicit_ordering);
      proto_.message(track_field::process, [&] {
        proto_.varint(process_field::pid, pid_);
        proto_.text(process_field::process_name, observe::process_name(piece));
      });
    });
    counter_track(kDropped, "dropped events", counter_field::count);
    counter_track(kClockError, "clock error, at most", counter_field::time_ns);
  }
  void counter_track(std::uint64_t id, std::string_view name, std::uint64_t unit) {
    track(id, [&] {
      proto_.text(track_field::name, name);
      proto_.message(track_field::counter, [&] { proto_.varint(counter_field::unit, unit); });
    });
  }
  void event_track(std::uint64_t id, const TraceEvent& event) {
    track(id, [&] {
      if (event.worker != TraceEvent::kHost) {
        const std::string worker = "worker " + std::to_string(event.worker);
        proto_.text(track_field::name, is_beside(event) ? worker + ", queues and launches" : worker);
        proto_.varint(track_field::sibling_order_rank, 2ULL * event.worker + (is_beside(event) ? 1 : 0));
        return;
      }
      proto_.message(track_field::thread, [&] {
        proto_.varint(thread_field::pid, pid_);
        proto_.varint(thread_field::tid, event.thread);
        proto_.text(thread_field::thread_name, "thread " + std::to_string(event.thread));
      });
    });
  }

  // What a worker does within or beside calls of operators has a track of its own, where slices do not overlap either.
  static bool is_beside(const TraceEvent& event) {
    return event.kind == TraceEvent::Kind::fetch || event.kind == TraceEvent::Kind::take || event.kind == TraceEvent::Kind::begin ||
           event.kind == TraceEvent::Kind::complete || event.kind == TraceEvent::Kind::barrier;
  }
  static std::uint64_t track_of(const TraceEvent& event) {
    if (event.worker == TraceEvent::kHost) return kThreads + event.thread;
    return (is_beside(event) ? kBeside : kWorkers) + event.worker;
  }

  void write(const TraceEvent& event, const std::vector<std::string>& names) {
    const std::uint64_t id = track_of(event);
    const auto [last_end, is_new] = last_end_.try_emplace(id, event.begin_ns);
    if (is_new) event_track(id, event);
    if (event.name < names.size()) intern_name(event.name, names[event.name]);

    std::int64_t begin = event.begin_ns;
    std::int64_t end = begin + event.took_ns;
    if (event.worker != TraceEvent::kHost) {
      // An end closes the slice of its track that was begun last, and of two that begin at once the one written last. A lease is written
      // after what it holds, so it begins earlier; others must not overlap by the nanoseconds that a clock was corrected by.
      begin = event.kind == TraceEvent::Kind::lease ? begin - 1 : std::max(begin, last_end->second);
      end = last_end->second = std::max({begin, end, last_end->second});
    }
    last_time_ = std::max(last_time_, end);
    event_packet(begin, event.took_ns == 0 ? event_field::instant : event_field::slice_begin, id, [&] { describe(event, names.size()); });
    if (event.took_ns != 0) event_packet(end, event_field::slice_end, id, [] {});
  }
  void intern_name(std::uint32_t index, std::string_view name) {
    if (index >= interned_.size()) interned_.resize(index + 1);
    if (interned_[index]) return;
    interned_[index] = true;
    packet(packet_field::needs_incremental_state,
           [&] { proto_.message(packet_field::interned_data, [&] { intern(interned_field::event_names, kFirstName + index, name); }); });
  }
  void describe(const TraceEvent& event, std::size_t names) {
    const observe::KindText& kind = observe::text_of(event.kind);
    proto_.varint(event_field::category_iids, iid_of(event.kind));
    proto_.varint(event_field::name_iid, event.name < names ? kFirstName + event.name : iid_of(event.kind));
    const auto annotate = [this](Annotation name, std::uint32_t type, std::uint64_t value) {
      proto_.message(event_field::debug_annotations, [&] {
        proto_.varint(annotation_field::name_iid, name);
        proto_.varint(type, value);
      });
    };
    if (kind.has_id) annotate(kId, annotation_field::uint_value, event.id);
    if (kind.has_count) annotate(kCount, annotation_field::uint_value, event.count);
    if (event.failed) annotate(kFailed, annotation_field::bool_value, 1);
    if (event.kind == TraceEvent::Kind::submit) {
      for (std::uint32_t i = 0; i < std::min(event.count, observe::kMostFlows); ++i)
        proto_.fixed64(event_field::flow_ids, flow_of(event.id + i));
    } else if (event.kind == TraceEvent::Kind::task) {
      for (const std::uint64_t arrow : arrows_.begin(event.id)) proto_.fixed64(event_field::flow_ids, flow_of_arrow(arrow));
      for (const std::uint64_t arrow : arrows_.end(event.id)) proto_.fixed64(event_field::terminating_flow_ids, flow_of_arrow(arrow));
      proto_.fixed64(event_field::terminating_flow_ids, flow_of(event.id));
    } else if (event.kind == TraceEvent::Kind::launch) {
      proto_.fixed64(event_field::flow_ids, flow_of(event.id));
    } else if (event.kind == TraceEvent::Kind::complete) {
      // The call of one that has made others has the flow from its submission.
      if (event.count != 0)
        proto_.fixed64(event_field::terminating_flow_ids, flow_of(event.id));
      else if (arrows_.end_launch(event.id))
        proto_.fixed64(event_field::terminating_flow_ids, flow_of_end(event.id));
    } else if (event.kind == TraceEvent::Kind::node || event.kind == TraceEvent::Kind::begin) {
      if (event.kind == TraceEvent::Kind::begin) {
        proto_.fixed64(event_field::terminating_flow_ids, flow_of(event.id));
        proto_.fixed64(event_field::flow_ids, flow_of_end(event.id));
        arrows_.begin_launch(event.id);
      }
      // Before it is known which of them end anywhere: one that does not is not shown.
      for (std::uint32_t i = 0; i < event.arrows; ++i) proto_.fixed64(event_field::flow_ids, flow_of_node(event.number + i));
      for (const std::uint64_t arrow : arrows_.end_at_node(event.number))
        proto_.fixed64(event_field::terminating_flow_ids, flow_of_node(arrow));
    }
  }

  void write_counter(std::uint64_t id, double value, double& written) {
    if (value == written || last_end_.empty()) return;  // before the first event nothing says what time it is
    written = value;
    event_packet(last_time_, event_field::counter, id, [&] { proto_.number(event_field::double_counter_value, value); });
  }

  std::ostream& out_;
  observe::ProtobufWriter proto_;
  observe::TraceArrows arrows_;
  const std::uint64_t pid_ = static_cast<std::uint64_t>(getpid());
  bool begun_ = false;
  std::uint64_t runtime_ = 0;
  std::unordered_map<std::uint64_t, std::int64_t> last_end_;  // by track that has its descriptor
  std::vector<bool> interned_;                                // by index in Trace::names
  std::int64_t last_time_ = 0;
  std::uint64_t dropped_ = 0;
  double dropped_written_ = -1;
  double clock_error_written_ = -1;
};

}  // namespace

std::unique_ptr<TraceWriter> perfetto_writer(std::ostream& out) { return std::make_unique<PerfettoWriter>(out); }

}  // namespace dwell
