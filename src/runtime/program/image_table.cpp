#include "runtime/program/image_table.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "jit/object/heap_use.hpp"
#include "runtime/program/parts.hpp"

namespace dwell::runtime {

namespace {

constexpr std::uint32_t kMostEntries = device::Header::kOpcodeMask;
constexpr std::chrono::milliseconds kPatience{20};  // for leases to end by themselves

}  // namespace

jit::Object compile_inlinable(jit::Compiler& compiler, const Version& version) {
  // Its includes have changed, or cannot be shown to be unchanged.
  if (version.unit.fingerprint.empty() || compiler.fingerprint(version.unit) != version.unit.fingerprint) return version.object;
  jit::Unit unit = version.unit;
  unit.form = jit::Form::lto;
  unit.fingerprint = compiler.fingerprint(unit);
  try {
    return compiler.compile(unit);
  } catch (const jit::IncludesChanged&) {
    return version.object;
  }
}

ImageTable::ImageTable(jit::Compiler& compiler, backend::Backend& backend, Keeper& keeper, SubmissionQueue& queue, Tier tier, Parts parts,
                       const Limits& limits, const Observers& observers, std::function<void()> needs_heap)
    : compiler_(compiler),
      backend_(backend),
      device_(backend.info()),
      keeper_(keeper),
      queue_(queue),
      limits_(limits),
      tier_of_changes_(tier),
      observers_(observers),
      needs_heap_(std::move(needs_heap)),
      parts_(device_.on_host ? device::part::all : loop_bits(parts)),
      parts_wanted_(parts_) {}

namespace {

// Room for `more` elements, so that adding them cannot fail.
template <class T>
void make_room(std::vector<T>& vector, std::size_t more) {
  const std::size_t needed = vector.size() + more;
  if (vector.capacity() < needed) vector.reserve(std::max(needed, 2 * vector.capacity()));
}

}  // namespace

void ImageTable::apply(std::span<Change> changes) {
  const Lock lock(mutex_);
  std::vector<Move> moves;
  make_room(definitions_, changes.size());
  for (const Change& change : changes) {
    detail::DefinitionState& definition = *change.definition;
    Version& version = *change.fresh;
    const auto before = std::ranges::count(changes.first(moves.size()), change.definition, &Change::definition);
    make_room(definition.history, changes.size());
    version.number = definition.versions.load() + static_cast<std::uint32_t>(before) + 1;
    version.names.clear();
    for (const detail::OperatorState& instance : definition.instances)
      version.names.push_back(std::make_shared<const std::string>(instance.name + " (version " + std::to_string(version.number) + ")"));
    moves.push_back({&definition, &version});
  }
  Prepared prepared = prepare(moves);
  for (Change& change : changes) {
    detail::DefinitionState& definition = *change.definition;
    if (definition.history.empty()) definitions_.push_back(change.definition);
    definition.history.push_back(std::move(change.fresh));
    definition.versions.store(definition.history.back()->number);
  }
  commit(prepared);
}

void ImageTable::require(std::uint32_t parts) {
  const Lock lock(mutex_);
  if ((parts & ~parts_wanted_) == 0) return;
  const std::uint32_t before = std::exchange(parts_wanted_, device::part::all);  // compiled by now (Registry)
  try {
    if (image_ != nullptr && tier() != Tier::lto) link_and_load({}, 0);  // an inlined image has all parts
  } catch (...) {
    parts_wanted_ = before;
    throw;
  }
  // Pairs with parts(): a thread that sees them comes after the hand-over.
  parts_.store(parts_wanted_, std::memory_order_release);
}

void ImageTable::rollback(detail::DefinitionState& definition) {
  const Lock lock(mutex_);
  const std::uint32_t current = definition.current.load();
  if (current <= 1)
    throw Error(errc::no_previous_version, "operator '" + definition.name + "' has no version before version 1",
                {"operator", definition.name});
  const Move back[] = {{&definition, definition.history[current - 2].get()}};
  Prepared prepared = prepare(back);
  commit(prepared);
}

ImageTable::Prepared ImageTable::prepare(std::span<const Move> moves) {
  std::vector<detail::DefinitionState*> definitions;
  for (const auto& definition : definitions_) definitions.push_back(definition.get());
  for (const Move& move : moves)
    if (move.definition->history.empty()) definitions.push_back(move.definition);
  Prepared prepared{steps_for(moves, definitions), {}};
  std::size_t entries = 0;
  for (const Step& step : prepared.steps) {
    make_room(step.version->bindings, 1);
    entries += step.definition->instances.size();
  }
  prepared.switches.reserve(entries);
  if (std::ranges::any_of(prepared.steps, [](const Step& step) { return step.fresh != nullptr; }))
    link_and_load(prepared.steps, moves.size());
  return prepared;
}

void ImageTable::commit(Prepared& prepared) noexcept {
  auto& [steps, switches] = prepared;
  {
    const Lock facts(facts_mutex_);
    for (const Step& step : steps)
      for (std::size_t i = 0; i < step.binding->opcodes.size(); ++i) names_[step.binding->opcodes[i]] = step.version->names[i];
  }
  // No task runs them before the aliases change.
  for (const Step& step : steps)
    for (std::size_t i = 0; i < step.binding->opcodes.size(); ++i)
      observers_.assign(step.binding->opcodes[i], step.definition->instances[i].name, step.version->number, *step.version->names[i],
                        step.version->object.entries[i].signature);
  for (Step& step : steps)
    for (std::size_t i = 0; i < step.binding->opcodes.size(); ++i)
      switches.push_back({&step.definition->instances[i].alias, step.binding->opcodes[i]});
  const std::uint64_t tail = queue_.switch_aliases(switches);
  for (Step& step : steps) {
    if (step.before != nullptr && step.before != step.binding) {
      step.before->retired = true;
      step.before->needed_until = tail;
    }
    step.binding->retired = false;
    if (step.fresh != nullptr) step.version->bindings.push_back(std::move(step.fresh));
    step.definition->current.store(step.version->number);
  }
}

std::uint32_t ImageTable::free_opcode() {
  const auto at = std::ranges::find(table_, nullptr, &Place::binding);
  if (at != table_.end()) return static_cast<std::uint32_t>(at - table_.begin());
  if (table_.size() >= kMostEntries)
    throw Error(errc::link_failed, "an image holds at most " + std::to_string(kMostEntries) + " operators");
  table_.emplace_back();
  return static_cast<std::uint32_t>(table_.size() - 1);
}

void ImageTable::give_back(const Binding& binding) noexcept {
  for (const std::uint32_t opcode : binding.opcodes) table_[opcode] = Place{};
}

void ImageTable::drop_unneeded() noexcept {
  queue_.reap_done();
  const std::uint64_t reaped = queue_.reaped();
  for (const auto& definition : definitions_) {
    const std::uint32_t current = definition->current.load();
    for (const auto& version : definition->history) {
      // Keeps the version that rollback returns to if its binding would not change, so that rolling back needs no new image.
      const bool stays = version->number + 1 == current && is_bound_for_good(*version, definition->name);
      if (stays) continue;
      for (auto at = version->bindings.begin(); at != version->bindings.end();) {
        const bool needed = !(*at)->retired || (*at)->needed_until > reaped;
        if (!needed) give_back(**at);
        at = needed ? at + 1 : version->bindings.erase(at);
      }
    }
  }
}

void ImageTable::place(std::span<Step> steps) {
  for (const Step& step : steps) {
    if (step.fresh == nullptr) continue;
    const std::size_t entries = step.version->object.entries.size();
    step.fresh->opcodes.reserve(entries);
    for (std::uint32_t i = 0; i < entries; ++i) {
      const std::uint32_t opcode = free_opcode();
      table_[opcode] = Place{step.fresh.get(), i};
      step.fresh->opcodes.push_back(opcode);
    }
  }
  for (const Step& step : steps)
    for (const auto& [binding, index] : step.targets) step.fresh->uses.push_back(binding->opcodes[index]);
  observers_.reserve(table_.size());
  const Lock facts(facts_mutex_);
  if (names_.size() < table_.size()) names_.resize(table_.size());
}

void ImageTable::link_and_load(std::span<Step> steps, std::size_t moves) {
  drop_unneeded();  // keeps the bindings of the steps: those in use, and the target of a rollback
  const auto needs_heap = [](const Step& step) { return step.fresh != nullptr && jit::uses_heap(step.version->object.bytes); };
  if (needs_heap_ && std::ranges::any_of(steps, needs_heap)) needs_heap_();
  try {
    place(steps);
    auto image = std::make_shared<const jit::Image>(compiler_.link(opcodes(tier_of_changes_), tier_of_changes_, parts_wanted_));
    check(*image, steps.first(moves), room_for(*image, device_, keeper_.scratch_bytes()));
    hand_over(std::move(image), tier_of_changes_, steps.first(moves));
  } catch (...) {
    for (const Step& step : steps)
      if (step.fresh != nullptr) give_back(*step.fresh);
    throw;
  }
  const Lock facts(facts_mutex_);
  ++revision_;
}

std::vector<jit::Opcode> ImageTable::opcodes(Tier tier) const {
  std::vector<jit::Opcode> list;
  list.reserve(table_.size());
  for (const auto& [binding, index] : table_) {
    jit::Opcode& opcode = list.emplace_back();
    if (binding == nullptr) continue;
    const Version& version = *binding->version;
    opcode.object = tier == Tier::lto && !version.inlinable.entries.empty() ? &version.inlinable : &version.object;
    opcode.index = index;
    opcode.uses = binding->uses;
  }
  return list;
}

std::unique_ptr<backend::LoadedImage> ImageTable::load(const jit::Image& image) {
  std::unique_ptr<backend::LoadedImage> loaded;
  try {
    keeper_.beside_tasks([&] {
      if (keeper_.failed()) throw keeper_.failure();  // loading would wait for a task that hangs
      loaded = backend_.load(image.bytes);
    });
    return loaded;
  } catch (const Error& error) {
    throw keeper_.explain(error);
  }
}

void ImageTable::hand_over(std::shared_ptr<const jit::Image> image, Tier tier, std::span<const Step> newcomers) {
  // Leases roll meanwhile; loading waits for earlier ones.
  auto loaded = load(*image);
  check(*image, newcomers, keeper_.workers_of(*loaded));
  const auto start = std::chrono::steady_clock::now();
  keeper_.hand_over(std::move(loaded));
  note_image(std::move(image), tier, std::chrono::steady_clock::now() - start);
}

void ImageTable::note_image(std::shared_ptr<const jit::Image> image, Tier tier, std::chrono::nanoseconds took) noexcept {
  const std::uint64_t completed_now = completed();
  image_ = std::move(image);
  const Lock facts(facts_mutex_);
  last_hand_over_ = took;
  resources_ = image_->resources;
  ++images_[static_cast<std::size_t>(tier)];
  tasks_[static_cast<std::size_t>(tier_)] += completed_now - completed_then_;
  completed_then_ = completed_now;
  tier_ = tier;
}

bool ImageTable::promote(const std::stop_token& stop) {
  // Versions live as long as the table, and leave the image only with a change of revision.
  std::vector<Version*> to_compile;
  std::uint64_t revision_then = 0;
  {
    const Lock lock(mutex_);
    revision_then = revision();
    for (const auto& definition : definitions_)
      for (const auto& version : definition->history)
        if (!version->bindings.empty() && version->inlinable.entries.empty()) to_compile.push_back(version.get());
  }
  std::vector<jit::Object> compiled;
  // A link takes seconds, which would delay close and rebuild.
  const auto is_in_vain = [&] { return stop.stop_requested() || keeper_.failed() || revision() != revision_then; };
  for (const Version* const version : to_compile) {
    if (is_in_vain()) return false;
    compiled.push_back(compile_inlinable(compiler_, *version));
  }
  std::vector<jit::Opcode> list;
  {
    const Lock lock(mutex_);
    for (std::size_t i = 0; i < to_compile.size(); ++i) to_compile[i]->inlinable = std::move(compiled[i]);
    if (revision() != revision_then) return false;
    list = opcodes(Tier::lto);
  }
  if (is_in_vain()) return false;
  auto image = std::make_shared<const jit::Image>(compiler_.link(list, Tier::lto));
  const Lock lock(mutex_);
  if (is_in_vain()) return false;
  check(*image, {}, room_for(*image, device_, keeper_.scratch_bytes()));
  // Nobody waits for this image, so it does not wait for a long task.
  if (!keeper_.outlast_tasks(kPatience)) return false;
  auto loaded = load(*image);
  check(*image, {}, keeper_.workers_of(*loaded));
  const auto start = std::chrono::steady_clock::now();
  if (!keeper_.hand_over_quietly(std::move(loaded), kPatience)) return false;
  note_image(std::move(image), Tier::lto, std::chrono::steady_clock::now() - start);
  return true;
}

std::uint64_t ImageTable::completed() const noexcept {
  queue_.reap_done();
  const std::uint64_t submitted = queue_.submitted();
  const std::uint64_t reaped = queue_.reaped();  // before the tail, which only grows
  const std::uint64_t slots_in_flight = queue_.tail() - reaped;
  const std::uint64_t now = submitted - std::min(submitted, slots_in_flight);
  std::uint64_t most = completed_.load(std::memory_order_relaxed);
  while (now > most && !completed_.compare_exchange_weak(most, now, std::memory_order_relaxed)) {}
  return std::max(now, most);
}

Tier ImageTable::tier() const {
  const Lock facts(facts_mutex_);
  return tier_;
}

std::uint64_t ImageTable::revision() const {
  const Lock facts(facts_mutex_);
  return revision_;
}

std::uint64_t ImageTable::tasks(Tier tier) const {
  const std::uint64_t completed_now = completed();
  const Lock facts(facts_mutex_);
  const std::uint64_t before = tasks_[static_cast<std::size_t>(tier)];
  return tier == tier_ ? before + completed_now - std::min(completed_now, completed_then_) : before;
}

void ImageTable::check(const jit::Image& image, std::span<const Step> newcomers, std::optional<std::uint32_t> room) const {
  std::vector<Newcomer> named;
  for (const Step& step : newcomers) {
    const Version& version = *step.version;
    for (std::size_t i = 0; i < version.object.entries.size() && step.fresh != nullptr; ++i)
      named.push_back({version.unit.exports[i].expression, version.object.entries[i].symbol});
  }
  if (room) room = keeper_.within_asked(*room);
  if (auto refused = refusal(limits_, {image, named, keeper_.workers(), room, keeper_.scratch_bytes()})) throw *std::move(refused);
}

std::string ImageTable::name_of(std::uint32_t opcode) const {
  const Lock facts(facts_mutex_);
  return opcode < names_.size() && names_[opcode] != nullptr ? *names_[opcode] : "an unknown operator";
}

std::shared_ptr<const detail::ImageState> ImageTable::snapshot() const {
  const Lock lock(mutex_);
  if (image_ == nullptr) return nullptr;
  auto state = std::make_shared<detail::ImageState>();
  state->image = image_;
  std::set<const Version*> seen;
  for (const auto& [binding, index] : table_) {
    const Version* const version = binding == nullptr ? nullptr : binding->version;
    state->symbols.push_back(version == nullptr ? std::string() : version->object.entries[index].symbol);
    if (version != nullptr && seen.insert(version).second) state->ptx += version->object.assembly;
  }
  state->is_cubin = device_.target.starts_with("sm_");
  return state;
}

std::vector<std::string> ImageTable::symbols(const detail::DefinitionState& definition) const {
  const Lock lock(mutex_);
  std::vector<std::string> symbols;
  for (const jit::Entry& entry : definition.current_version()->object.entries) symbols.push_back(entry.symbol);
  return symbols;
}

std::vector<ImageTable::Current> ImageTable::current() const {
  const Lock lock(mutex_);
  std::vector<Current> all;
  for (const auto& definition : definitions_)
    if (const Version* const version = definition->current_version(); version != nullptr && !version->object.entries.empty())
      all.push_back({definition->name, version->number, version->object.entries.front().symbol});
  return all;
}

jit::Resources ImageTable::resources() const {
  const Lock facts(facts_mutex_);
  return resources_;
}

std::uint64_t ImageTable::images() const {
  const Lock facts(facts_mutex_);
  return images_[0] + images_[1];
}

std::uint64_t ImageTable::images(Tier tier) const {
  const Lock facts(facts_mutex_);
  return images_[static_cast<std::size_t>(tier)];
}

std::chrono::nanoseconds ImageTable::last_hand_over() const {
  const Lock facts(facts_mutex_);
  return last_hand_over_;
}

}  // namespace dwell::runtime
