// Reads the output of perfetto_writer like a viewer, for tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dwell::test::perfetto {

// A message on the wire: numbers and texts by field.
struct Message {
  std::map<std::uint32_t, std::vector<std::uint64_t>> numbers;
  std::map<std::uint32_t, std::vector<std::string>> texts;

  std::uint64_t number(std::uint32_t field) const { return numbers.contains(field) ? numbers.at(field).back() : 0; }
  std::string text(std::uint32_t field) const { return texts.contains(field) ? texts.at(field).back() : ""; }
  double real(std::uint32_t field) const { return std::bit_cast<double>(number(field)); }
  std::vector<std::uint64_t> all_numbers(std::uint32_t field) const {
    return numbers.contains(field) ? numbers.at(field) : std::vector<std::uint64_t>();
  }
  std::vector<Message> messages(std::uint32_t field) const;
  Message message(std::uint32_t field) const { return messages(field).at(0); }
  bool has(std::uint32_t field) const { return numbers.contains(field) || texts.contains(field); }
};

inline Message decoded(std::string_view bytes) {
  Message message;
  const auto take = [&](std::size_t count) {
    EXPECT_LE(count, bytes.size()) << "a field goes past the end";
    const std::string_view taken = bytes.substr(0, count);
    bytes.remove_prefix(taken.size());
    return taken;
  };
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::string_view byte = take(1);
      if (byte.empty()) break;
      value |= static_cast<std::uint64_t>(byte[0] & 0x7F) << shift;
      if ((byte[0] & 0x80) == 0) break;
    }
    return value;
  };
  while (!bytes.empty()) {
    const std::uint64_t tag = varint();
    const auto field = static_cast<std::uint32_t>(tag >> 3);
    switch (tag & 7) {
      case 0: message.numbers[field].push_back(varint()); break;
      case 1: {
        std::uint64_t value = 0;
        const std::string_view raw = take(8);
        std::memcpy(&value, raw.data(), raw.size());
        message.numbers[field].push_back(value);
        break;
      }
      case 2: message.texts[field].emplace_back(take(varint())); break;
      default: ADD_FAILURE() << "wire type " << (tag & 7); return message;
    }
  }
  return message;
}

inline std::vector<Message> Message::messages(std::uint32_t field) const {
  std::vector<Message> result;
  if (texts.contains(field)) std::transform(texts.at(field).begin(), texts.at(field).end(), std::back_inserter(result), decoded);
  return result;
}

struct TrackSlice {
  std::string track, name, category;
  std::int64_t begin = 0;  // ns, from the start passed to view_of
  std::int64_t end = 0;    // of an instant: its begin
  std::size_t depth = 0;
  std::map<std::string, std::uint64_t> annotations;
  std::vector<std::uint64_t> flows, ending_flows;
};

// The view of a Perfetto viewer: ids resolved, events in order of time, each end closing the last open slice of its track.
struct View {
  std::map<std::uint64_t, Message> descriptors;
  std::vector<TrackSlice> slices;
  std::map<std::string, std::vector<double>> counters;
  std::size_t open = 0;        // slices without an end
  std::uint64_t sequence = 0;  // of the packets

  const TrackSlice& slice(const std::string& name, std::uint64_t id) const {
    for (const TrackSlice& slice : slices) {
      const auto found = slice.annotations.find("id");
      if (slice.name == name && found != slice.annotations.end() && found->second == id) return slice;
    }
    ADD_FAILURE() << "no slice " << name << ' ' << id;
    return slices.at(0);
  }
};

inline std::string track_name(const Message& descriptor) {
  return descriptor.has(4) ? descriptor.message(4).text(5) : descriptor.has(3) ? descriptor.message(3).text(6) : descriptor.text(2);
}

inline View view_of(const std::string& bytes, std::int64_t start) {
  View view;
  std::map<std::uint64_t, std::string> categories, names, annotations;
  struct Event {
    std::int64_t at;
    Message event;
    TrackSlice slice;
  };
  std::vector<Event> events;
  bool first = true;
  for (const Message& packet : decoded(bytes).messages(1)) {
    if (first) view.sequence = packet.number(10);
    EXPECT_EQ(packet.number(10), view.sequence) << "one sequence";
    EXPECT_EQ(packet.number(13), first ? 1U : 2U) << "interned ids are cleared once";
    first = false;
    for (const Message& interned : packet.messages(12)) {
      for (const auto& [field, table] : {std::pair(1U, &categories), {2U, &names}, {3U, &annotations}}) {
        for (const Message& entry : interned.messages(field)) {
          EXPECT_TRUE(table->emplace(entry.number(1), entry.text(2)).second) << "interned twice: " << entry.text(2);
        }
      }
    }
    for (const Message& descriptor : packet.messages(60)) {
      EXPECT_TRUE(view.descriptors.emplace(descriptor.number(1), descriptor).second) << "described twice: " << track_name(descriptor);
    }
    for (const Message& event : packet.messages(11)) {
      TrackSlice slice;
      EXPECT_TRUE(view.descriptors.contains(event.number(11))) << "described before its first event";
      slice.track = track_name(view.descriptors[event.number(11)]);
      slice.begin = slice.end = static_cast<std::int64_t>(packet.number(8)) - start;
      EXPECT_GE(slice.begin, 0) << "before the trace begins";
      if (event.has(10)) {
        EXPECT_TRUE(names.contains(event.number(10)));
        slice.name = names[event.number(10)];
      }
      if (event.has(3)) slice.category = categories.at(event.number(3));
      for (const Message& annotation : event.messages(4))
        slice.annotations[annotations.at(annotation.number(1))] = annotation.number(annotation.has(3) ? 3 : 2);
      slice.flows = event.all_numbers(47);
      slice.ending_flows = event.all_numbers(48);
      events.push_back({slice.begin, event, slice});
    }
  }
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.at < b.at; });
  std::map<std::string, std::vector<std::size_t>> open;
  for (Event& event : events) {
    std::vector<std::size_t>& stack = open[event.slice.track];
    switch (event.event.number(9)) {
      case 1:
        event.slice.depth = stack.size();
        stack.push_back(view.slices.size());
        view.slices.push_back(event.slice);
        break;
      case 2:
        if (stack.empty()) {
          ADD_FAILURE() << "nothing to end on " << event.slice.track;
          break;
        }
        view.slices[stack.back()].end = event.at;
        stack.pop_back();
        break;
      case 3:
        event.slice.depth = stack.size();
        view.slices.push_back(event.slice);
        break;
      case 4: view.counters[event.slice.track].push_back(event.event.real(44)); break;
      default: ADD_FAILURE() << "type " << event.event.number(9);
    }
  }
  for (const auto& [track, stack] : open) view.open += stack.size();
  return view;
}

}  // namespace dwell::test::perfetto
