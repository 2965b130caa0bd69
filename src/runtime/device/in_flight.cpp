#include "runtime/device/in_flight.hpp"

#include <algorithm>

#include "device/graph_layout.hpp"

namespace dwell::runtime {

using device::InFlight;
using device::Order;
using device::Scope;

std::uint64_t InFlightTasks::word_of(std::uint32_t worker) const {
  return device::load<Order::relaxed, Scope::system>(&records_[worker].word);
}

void InFlightTasks::look() {
  const Lock lock(mutex_);
  now_ = running_.read(Clock::now());
  for (std::uint32_t worker = 0; worker < sightings_.size(); ++worker) {
    const std::uint64_t word = word_of(worker);
    Sighting& sighting = sightings_[worker];
    if (!sighting.since || sighting.word != word) sighting = {word, now_};
  }
}

std::vector<InFlightTasks::Record> InFlightTasks::records(std::uint32_t workers) const {
  std::vector<Record> all;
  const std::uint64_t tail = queue_.tail();
  const Lock lock(mutex_);
  workers = std::min<std::uint32_t>(workers, static_cast<std::uint32_t>(sightings_.size()));
  all.reserve(workers);
  for (std::uint32_t worker = 0; worker < workers; ++worker) {
    const std::uint64_t word = word_of(worker);
    const Sighting& sighting = sightings_[worker];
    const bool known = sighting.since && sighting.word == word;
    Record record{worker,
                  Record::Kind::other,
                  (word & InFlight::kOver) != 0,
                  0,
                  0,
                  0,
                  known ? now_ - *sighting.since : Clock::duration(),
                  word,
                  (word & InFlight::kLaunch) != 0};
    if ((word & InFlight::kValid) != 0) {
      record.opcode = static_cast<std::uint32_t>(word >> 32U) & device::Header::kOpcodeMask;
      if ((word & InFlight::kNode) != 0) {
        record.kind = Record::Kind::node;
        record.offset = device::offset_of(InFlight::node(word));
      } else {
        // The record holds the low 32 bits of the position: it is the last such position at or before the tail.
        record.position = tail - static_cast<std::uint32_t>(static_cast<std::uint32_t>(tail) - static_cast<std::uint32_t>(word));
        record.kind = Record::Kind::task;
        record.over = record.over || record.position >= tail || queue_.done(record.position);
      }
    }
    all.push_back(record);
  }
  return all;
}

std::vector<InFlightTasks::Holder> InFlightTasks::holders(std::uint32_t workers, bool ended) const {
  std::vector<Holder> all;
  const std::uint64_t tail = queue_.tail();
  for (const Record& record : records(workers)) {
    if (record.kind != Record::Kind::task || record.position >= tail) continue;
    if (ended ? !queue_.done(record.position) : record.over) continue;
    all.push_back({record.worker, record.position, record.opcode, record.launch, record.since});
  }
  return all;
}

void InFlightTasks::mark_over() {
  const Lock lock(mutex_);
  for (std::uint32_t worker = 0; worker < sightings_.size(); ++worker)
    device::store<Order::relaxed, Scope::system>(&records_[worker].word, word_of(worker) | InFlight::kOver);
}

}  // namespace dwell::runtime
