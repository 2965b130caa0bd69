#include "runtime/image_table.hpp"

#include <algorithm>

namespace dwell::runtime {

namespace {

constexpr std::uint32_t kMostEntries = 0xFFFF;

Error no_room(const jit::Resources& takes, std::uint32_t scratch_bytes) {
  return Error(errc::link_failed, "with this operator the image leaves no room for a single worker: a thread needs " +
                                      std::to_string(takes.registers) + " registers, a worker " + std::to_string(takes.shared_bytes) +
                                      " bytes of shared memory and " + std::to_string(scratch_bytes) +
                                      " more for Group::shared (Options::scratch_bytes)");
}

}  // namespace

ImageTable::ImageTable(jit::Compiler& compiler, backend::Backend& backend, Keeper& keeper, SubmissionQueue& queue)
    : compiler_(compiler), backend_(backend), keeper_(keeper), queue_(queue) {}

void ImageTable::apply(std::span<Change> changes) {
  const std::lock_guard lock(mutex_);
  std::vector<Version*> fresh;
  for (const Change& change : changes) fresh.push_back(change.fresh.get());
  link_and_load(fresh);
  for (Change& change : changes) {
    detail::DefinitionState& definition = *change.definition;
    if (definition.history.empty()) definitions_.push_back(change.definition);
    definition.history.push_back(std::move(change.fresh));
    Version& version = *definition.history.back();
    version.number = definition.versions.load() + 1;
    definition.versions.store(version.number);
    make_current(definition, version);
  }
}

void ImageTable::rollback(detail::DefinitionState& definition) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t current = definition.current.load();
  if (current <= 1) throw Error(errc::no_previous_version, "operator '" + definition.name + "' has no version before version 1");
  Version& previous = *definition.history[current - 2];
  if (!previous.linked) {
    Version* const again[] = {&previous};
    link_and_load(again);
  }
  make_current(definition, previous);
}

void ImageTable::make_current(detail::DefinitionState& definition, Version& version) {
  {
    const std::lock_guard facts(facts_mutex_);
    if (names_.size() < table_.size()) names_.resize(table_.size());
    for (std::size_t i = 0; i < version.opcodes.size(); ++i)
      names_[version.opcodes[i]] = definition.instances[i].name + " (version " + std::to_string(version.number) + ")";
  }
  const std::uint32_t before = definition.current.load();
  version.retired = false;
  std::uint64_t tail = 0;
  for (std::size_t i = 0; i < version.opcodes.size(); ++i) tail = queue_.switch_alias(definition.instances[i].alias, version.opcodes[i]);
  definition.current.store(version.number);
  if (before != 0 && before != version.number) {
    Version& old = *definition.history[before - 1];
    old.retired = true;
    old.needed_until = tail;
  }
}

std::uint32_t ImageTable::free_opcode() {
  const auto at = std::ranges::find(table_, nullptr, &Place::version);
  if (at != table_.end()) return static_cast<std::uint32_t>(at - table_.begin());
  if (table_.size() >= kMostEntries) throw Error(errc::link_failed, "an image holds at most 65535 operators");
  table_.emplace_back();
  return static_cast<std::uint32_t>(table_.size() - 1);
}

void ImageTable::give_back(const Version& version) {
  for (const std::uint32_t opcode : version.opcodes) table_[opcode] = Place{};
}

void ImageTable::drop_unneeded() {
  queue_.reap();
  const std::uint64_t reaped = queue_.reaped();
  for (const auto& definition : definitions_) {
    const std::uint32_t current = definition->current.load();
    for (const auto& version : definition->history) {
      // The version that rollback returns to stays, so that rolling back needs no new image.
      if (!version->linked || !version->retired || version->number + 1 == current || version->needed_until > reaped) continue;
      give_back(*version);
      version->linked = false;
    }
  }
}

void ImageTable::link_and_load(std::span<Version* const> fresh) {
  drop_unneeded();
  try {
    for (Version* const version : fresh) {
      version->opcodes.clear();
      for (std::uint32_t i = 0; i < version->object.entries.size(); ++i) {
        const std::uint32_t opcode = free_opcode();
        table_[opcode] = Place{version, i};
        version->opcodes.push_back(opcode);
      }
    }
    std::vector<jit::Opcode> table;
    table.reserve(table_.size());
    for (const Place& place : table_) table.emplace_back(place.version == nullptr ? nullptr : &place.version->object, place.index);
    auto image = std::make_shared<const jit::Image>(compiler_.link(table));
    keeper_.hold();
    const auto start = std::chrono::steady_clock::now();
    try {
      if (!keeper_.install(backend_.load(image->bytes))) throw no_room(image->resources, keeper_.scratch_bytes());
    } catch (...) {
      keeper_.resume();
      throw;
    }
    keeper_.resume();
    image_ = std::move(image);
    const std::lock_guard facts(facts_mutex_);
    last_pause_ = std::chrono::steady_clock::now() - start;
    resources_ = image_->resources;
    ++images_;
  } catch (...) {
    for (const Version* const version : fresh) give_back(*version);
    throw;
  }
  for (Version* const version : fresh) version->linked = true;
}

std::string ImageTable::name_of(std::uint32_t opcode) const {
  const std::lock_guard facts(facts_mutex_);
  return opcode < names_.size() && !names_[opcode].empty() ? names_[opcode] : "an unknown operator";
}

std::shared_ptr<const detail::ImageState> ImageTable::snapshot() const {
  const std::lock_guard lock(mutex_);
  if (image_ == nullptr) return nullptr;
  auto state = std::make_shared<detail::ImageState>();
  state->image = image_;
  for (const Place& place : table_) {
    const bool there = place.version != nullptr && place.version->linked;
    state->symbols.push_back(there ? place.version->object.entries[place.index].symbol : std::string());
  }
  state->is_cubin = backend_.info().target.starts_with("sm_");
  return state;
}

std::vector<std::string> ImageTable::symbols(const detail::DefinitionState& definition) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> symbols;
  for (const jit::Entry& entry : definition.history[definition.current.load() - 1]->object.entries) symbols.push_back(entry.symbol);
  return symbols;
}

jit::Resources ImageTable::resources() const {
  const std::lock_guard facts(facts_mutex_);
  return resources_;
}

std::uint64_t ImageTable::images() const {
  const std::lock_guard facts(facts_mutex_);
  return images_;
}

std::chrono::nanoseconds ImageTable::last_pause() const {
  const std::lock_guard facts(facts_mutex_);
  return last_pause_;
}

}  // namespace dwell::runtime
