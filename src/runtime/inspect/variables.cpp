#include "runtime/inspect/variables.hpp"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include <dwell/device/atomic.hpp>
#include <dwell/device/inspect.hpp>
#include <dwell/error.hpp>
#include <dwell/signature.hpp>

namespace dwell::runtime {

namespace {

using device::Order;
using device::Scope;

constexpr int kTries = 1000;  // to read a Seqlock without a writer
constexpr std::size_t kWordBytes = 8;

template <class Word>
void copy_word(std::byte* to, const std::byte* from) {
  const Word word = device::load<Order::acquire, Scope::system>(reinterpret_cast<const Word*>(from));
  std::memcpy(to, &word, sizeof(word));
}

// Acquires, so that the count of a Seqlock is read after its words.
void copy_words(std::byte* to, const std::byte* from, std::size_t bytes) {
  while (bytes != 0) {
    const auto at = reinterpret_cast<std::uintptr_t>(from);
    std::size_t step = 1;
    if (at % kWordBytes == 0 && bytes >= kWordBytes) {
      copy_word<u64>(to, from);
      step = kWordBytes;
    } else if (at % sizeof(u32) == 0 && bytes >= sizeof(u32)) {
      copy_word<u32>(to, from);
      step = sizeof(u32);
    } else {
      copy_word<u8>(to, from);
    }
    to += step;
    from += step;
    bytes -= step;
  }
}

void store_words(std::byte* to, const std::byte* from, std::size_t bytes) {
  while (bytes != 0) {
    const auto at = reinterpret_cast<std::uintptr_t>(to);
    const auto put = [&]<class Word>(Word word) {
      std::memcpy(&word, from, sizeof(word));
      device::store<Order::relaxed, Scope::system>(reinterpret_cast<Word*>(to), word);
      return sizeof(word);
    };
    const std::size_t step = at % kWordBytes == 0 && bytes >= kWordBytes     ? put(u64{})
                             : at % sizeof(u32) == 0 && bytes >= sizeof(u32) ? put(u32{})
                                                                             : put(u8{});
    to += step;
    from += step;
    bytes -= step;
  }
}

// Returns whether the process may write there: const variables are in read-only memory.
bool is_writable(std::uint64_t address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    std::array<char, 5> mode{};  // "rw-p"
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s", &begin, &end, mode.data()) == 3 && address >= begin && address < end)
      return mode[1] == 'w';
  }
  return true;  // unknown
}

// Returns whether `full` is `name`, or a member of it.
bool goes_by(std::string_view full, std::string_view name) {
  return full.starts_with(name) && (full.size() == name.size() || full[name.size()] == '.');
}

std::string described(const Parameter& type, std::size_t count, bool array) {
  return array ? text_of(type) + "[" + std::to_string(count) + "]" : text_of(type);
}

}  // namespace

Variables::Variables(backend::Backend& backend, Keeper& keeper, const ImageTable& table)
    : backend_(backend), keeper_(keeper), table_(table), on_host_(backend.info().on_host) {}

void Variables::copy(void* to, std::uint64_t from, std::size_t bytes) const {
  if (on_host_)
    copy_words(static_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from), bytes);
  else
    backend_.copy_to_host(to, from, bytes);
}

std::shared_ptr<const Variables::List> Variables::list_of(const backend::LoadedImage& image, const std::string& symbol) {
  const std::uint64_t at = image.variable(symbol + "_inspects");
  if (at == 0) return nullptr;
  InspectsRecord<0> head{};
  backend_.copy_to_host(&head, at, sizeof(head));
  if (head.magic != kInspectsMagic || head.count == 0 || head.count > kMaxInspects) return nullptr;
  std::vector<InspectRecord> records(head.count);
  backend_.copy_to_host(records.data(), at + offsetof(InspectsRecord<1>, each), records.size() * sizeof(InspectRecord));
  auto list = std::make_shared<List>();
  for (const InspectRecord& record : records) {
    const std::string_view name(record.name, ::strnlen(record.name, sizeof(record.name)));
    list->push_back({std::string(name), record.type, record.count, reinterpret_cast<std::uint64_t>(record.address),
                     reinterpret_cast<std::uint64_t>(record.sequence)});
  }
  return list;
}

template <class Call>
auto Variables::with_all(Call call) {
  return keeper_.with_image([&](const std::shared_ptr<backend::LoadedImage>& image) {
    std::vector<Of> all;
    if (image == nullptr) return call(std::span<const Of>(all));
    const std::vector<ImageTable::Current> current = table_.current();
    {
      const Lock lock(mutex_);
      if (image_.lock() != image) {
        by_symbol_.clear();
        image_ = image;
      }
      for (const ImageTable::Current& op : current) {
        auto at = by_symbol_.find(op.symbol);
        if (at == by_symbol_.end()) at = by_symbol_.emplace(op.symbol, list_of(*image, op.symbol)).first;
        if (at->second != nullptr) all.push_back({op, at->second});
      }
    }
    return call(std::span<const Of>(all));
  });
}

std::optional<Variables::Found> Variables::find(std::span<const Of> all, std::string_view name) {
  std::vector<Found> found;
  for (const Of& one : all) {
    Found here{one.op, {}};
    const std::string behind = one.op.name + ".";
    for (const Variable& variable : *one.variables)
      if (goes_by(variable.name, name) || goes_by(behind + variable.name, name)) here.variables.push_back(variable);
    if (!here.variables.empty() && name != one.op.name) found.push_back(std::move(here));
  }
  if (found.empty()) return std::nullopt;
  if (found.size() == 1) return std::move(found.front());
  std::string list;
  for (const Found& one : found) list += (list.empty() ? "" : ", ") + one.op.name + "." + std::string(name);
  throw Error(errc::invalid_argument, "several operators show '" + std::string(name) + "': name one of " + list,
              {"name", std::string(name)});
}

bool Variables::read_guarded(std::span<const Variable> variables, std::vector<InspectedValue>& values) const {
  // Copied in one piece, because each copy of device memory takes microseconds.
  std::uint64_t begin = variables.front().address;
  std::uint64_t end = begin;
  for (const Variable& variable : variables) {
    begin = std::min(begin, variable.address);
    end = std::max(end, variable.address + variable.bytes());
  }
  const std::uint64_t sequence = variables.front().sequence;
  const auto count = [&] {
    u32 now = 0;
    copy(&now, sequence, sizeof(now));
    return now;
  };
  std::vector<std::byte> bytes(end - begin);
  bool whole = false;
  for (int i = 0; i < kTries && !whole; ++i) {
    const u32 before = count();
    copy(bytes.data(), begin, bytes.size());
    whole = before % 2 == 0 && count() == before;
  }
  for (std::size_t i = 0; i < variables.size(); ++i) {
    const auto from = bytes.begin() + static_cast<std::ptrdiff_t>(variables[i].address - begin);
    values[i].bytes.assign(from, from + static_cast<std::ptrdiff_t>(variables[i].bytes()));
  }
  return whole;
}

bool Variables::is_one_word(const List& list) { return list.size() == 1 && list.front().bytes() <= kWordBytes; }

std::optional<Inspection> Variables::read(std::string_view name) {
  return with_all([&](std::span<const Of> all) -> std::optional<Inspection> {
    const std::optional<Found> found = find(all, name);
    if (!found) return std::nullopt;
    Inspection inspection{std::string(name), found->op.name, found->op.version, {}, false};
    const List& list = found->variables;
    for (const Variable& variable : list)
      inspection.values.push_back({variable.name, variable.type, variable.elements(), variable.count != 0, {}, {}});
    const bool guarded = list.front().sequence != 0 &&
                         std::ranges::all_of(list, [&](const Variable& variable) { return variable.sequence == list.front().sequence; });
    if (guarded) {
      inspection.whole = read_guarded(list, inspection.values) || is_one_word(list);
      return inspection;
    }
    for (std::size_t i = 0; i < list.size(); ++i) {
      inspection.values[i].bytes.resize(list[i].bytes());
      copy(inspection.values[i].bytes.data(), list[i].address, list[i].bytes());
    }
    inspection.whole = is_one_word(list);
    return inspection;
  });
}

bool Variables::write(std::string_view name, const Parameter& type, std::size_t count, std::span<const std::byte> bytes) {
  return with_all([&](std::span<const Of> all) {
    const std::optional<Found> found = find(all, name);
    if (!found) return false;
    const std::string quoted = "'" + std::string(name) + "'";
    if (found->variables.size() != 1) throw Error(errc::invalid_argument, quoted + " has several members: name one of them");
    const Variable& variable = found->variables.front();
    if (variable.sequence != 0)
      throw Error(errc::unsupported, quoted + " is guarded by a dwell::Seqlock, which operators alone write: use a plain variable");
    if (variable.type != type || variable.elements() != count)
      throw Error(errc::signature_mismatch, quoted + " is " + described(variable.type, variable.elements(), variable.count != 0) +
                                                ", not " + described(type, count, variable.count != 0 || count != 1));
    if (on_host_ && !is_writable(variable.address)) throw Error(errc::unsupported, quoted + " is const: remove the const to write to it");
    if (on_host_)
      store_words(reinterpret_cast<std::byte*>(variable.address), bytes.data(), bytes.size());
    else
      backend_.copy_to_device(variable.address, bytes.data(), bytes.size());
    return true;
  });
}

std::vector<std::string> Variables::names() {
  return with_all([](std::span<const Of> all) {
    std::vector<std::string> names;
    for (const Of& one : all)
      for (const Variable& variable : *one.variables) names.push_back(one.op.name + "." + variable.name);
    return names;
  });
}

}  // namespace dwell::runtime
