#include "runtime/registry.hpp"

#include <unistd.h>

#include <algorithm>
#include <cctype>

namespace dwell::runtime {

namespace {

constexpr std::uint32_t kMostEntries = 0xFFFF;

bool is_identifier(const std::string& name) {
  if (name.empty() || (std::isdigit(static_cast<unsigned char>(name[0])) != 0)) return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

// Symbols name their content: equal sources give equal symbols, so that caches and loaded code can be shared.
std::string symbol_for(const jit::Unit& unit) {
  static std::atomic<unsigned> unknown{0};
  return "dwell_" + unit.name + "_" +
         (unit.fingerprint.empty() ? std::to_string(getpid()) + "_" + std::to_string(unknown++) : unit.fingerprint.substr(0, 32));
}

Error no_room(const jit::Resources& takes, std::uint32_t scratch_bytes) {
  return Error(errc::link_failed, "with this operator the image leaves no room for a single worker: a thread needs " +
                                      std::to_string(takes.registers) + " registers, a worker " + std::to_string(takes.shared_bytes) +
                                      " bytes of shared memory and " + std::to_string(scratch_bytes) +
                                      " more for Group::shared (Options::scratch_bytes)");
}

}  // namespace

Registry::Registry(std::unique_ptr<jit::Compiler> compiler, backend::Backend& backend, Keeper& keeper, SubmissionQueue& queue,
                   detail::Shell* shell)
    : compiler_(std::move(compiler)), backend_(backend), keeper_(keeper), queue_(queue), shell_(shell) {}

void Registry::check_open() const {
  if (closed_) throw Error(errc::closed, "the runtime of this operator is closed");
}

std::unique_ptr<Version> Registry::compile(const std::string& name, const Source& source, std::uint32_t number) {
  jit::Unit unit;
  unit.name = name;
  unit.text = source.text;
  unit.file = source.file.empty() ? name + ".op" : source.file;
  unit.line = source.line;
  unit.exports = {{name, {}}};
  unit.fingerprint = compiler_->fingerprint(unit);
  unit.exports[0].symbol = symbol_for(unit);
  auto version = std::make_unique<Version>();
  version->number = number;
  version->object = compiler_->compile(unit);
  return version;
}

std::shared_ptr<detail::OperatorState> Registry::define(const std::string& name, const Source& source) {
  if (!is_identifier(name)) throw Error(errc::invalid_argument, "'" + name + "' is no name for an operator: use letters, digits and _");
  {
    const std::lock_guard lock(mutex_);
    check_open();
    if (operators_.contains(name))
      throw Error(errc::invalid_argument, "operator '" + name + "' is defined already: use Operator::redefine to replace it");
  }
  auto version = compile(name, source, 1);
  const std::lock_guard lock(mutex_);
  check_open();
  if (operators_.contains(name)) throw Error(errc::invalid_argument, "operator '" + name + "' was defined twice at once");
  auto op = std::make_shared<detail::OperatorState>();
  op->name = name;
  op->signature = version->object.entries[0].signature;
  op->shell = shell_;
  link_and_load(*version);
  op->history.push_back(std::move(version));
  op->versions.store(1);
  make_current(*op, *op->history.back());
  operators_.emplace(name, op);
  return op;
}

void Registry::redefine(detail::OperatorState& op, const Source& source) {
  auto version = compile(op.name, source, 0);
  if (version->object.entries[0].signature != op.signature)
    throw Error(errc::signature_mismatch, "operator '" + op.name + "' takes " + op.signature.text() + ", its new source takes " +
                                              version->object.entries[0].signature.text() + ": define it under another name");
  const std::lock_guard lock(mutex_);
  check_open();
  version->number = op.versions.load() + 1;
  link_and_load(*version);
  op.history.push_back(std::move(version));
  op.versions.store(op.history.back()->number);
  make_current(op, *op.history.back());
}

void Registry::rollback(detail::OperatorState& op) {
  const std::lock_guard lock(mutex_);
  check_open();
  const std::uint32_t current = op.current.load();
  if (current <= 1) throw Error(errc::no_previous_version, "operator '" + op.name + "' has no version before version 1");
  Version& previous = *op.history[current - 2];
  if (!previous.linked) link_and_load(previous);
  make_current(op, previous);
}

void Registry::make_current(detail::OperatorState& op, Version& version) {
  {
    const std::lock_guard names(names_mutex_);
    if (names_.size() <= version.entry) names_.resize(version.entry + 1);
    names_[version.entry] = op.name + " (version " + std::to_string(version.number) + ")";
  }
  const std::uint32_t before = op.current.load();
  version.retired = false;
  const std::uint64_t tail = queue_.switch_alias(op.alias, version.entry);
  op.current.store(version.number);
  if (before != 0 && before != version.number) {
    Version& old = *op.history[before - 1];
    old.retired = true;
    old.needed_until = tail;
  }
}

std::uint32_t Registry::free_entry() {
  const auto at = std::find(table_.begin(), table_.end(), nullptr);
  if (at != table_.end()) return static_cast<std::uint32_t>(at - table_.begin());
  if (table_.size() >= kMostEntries) throw Error(errc::link_failed, "an image holds at most 65535 operators");
  table_.push_back(nullptr);
  return static_cast<std::uint32_t>(table_.size() - 1);
}

void Registry::drop_unneeded() {
  queue_.reap();
  const std::uint64_t reaped = queue_.reaped();
  for (const auto& [name, op] : operators_) {
    const std::uint32_t current = op->current.load();
    for (const auto& version : op->history) {
      // The version that rollback returns to stays, so that rolling back needs no new image.
      if (!version->linked || !version->retired || version->number + 1 == current || version->needed_until > reaped) continue;
      table_[version->entry] = nullptr;
      version->linked = false;
    }
  }
}

void Registry::link_and_load(Version& fresh) {
  drop_unneeded();
  const std::uint32_t entry = free_entry();
  table_[entry] = &fresh;
  std::vector<jit::Opcode> entries;
  entries.reserve(table_.size());
  for (const Version* version : table_) entries.emplace_back(version == nullptr ? nullptr : &version->object);
  try {
    const jit::Image image = compiler_->link(entries);
    keeper_.hold();
    const auto start = std::chrono::steady_clock::now();
    try {
      if (!keeper_.install(backend_.load(image.bytes))) throw no_room(image.resources, keeper_.scratch_bytes());
    } catch (...) {
      keeper_.resume();
      throw;
    }
    keeper_.resume();
    last_pause_ = std::chrono::steady_clock::now() - start;
    resources_ = image.resources;
  } catch (...) {
    table_[entry] = nullptr;
    throw;
  }
  fresh.entry = entry;
  fresh.linked = true;
  ++images_;
}

std::string Registry::name_of(std::uint32_t entry) const {
  const std::lock_guard lock(names_mutex_);
  return entry < names_.size() && !names_[entry].empty() ? names_[entry] : "an unknown operator";
}

jit::Resources Registry::resources() const {
  const std::lock_guard lock(mutex_);
  return resources_;
}

std::uint64_t Registry::images() const {
  const std::lock_guard lock(mutex_);
  return images_;
}

std::chrono::nanoseconds Registry::last_pause() const {
  const std::lock_guard lock(mutex_);
  return last_pause_;
}

void Registry::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

}  // namespace dwell::runtime
