// The small handles of the public interface: tickets, buffers, operators.
#include <dwell/buffer.hpp>
#include <dwell/device/status.hpp>
#include <dwell/operator.hpp>
#include <dwell/ticket.hpp>

#include "runtime/api/promise.hpp"
#include "runtime/core.hpp"

namespace dwell {

namespace detail {

BufferState::~BufferState() {
  if (shell == nullptr || shell->lineage->is_forked()) return;
  const std::shared_ptr<runtime::Core> core = shell->core();
  if (core) core->buffers().release(*this);
}

BufferBase::BufferBase(std::shared_ptr<BufferState> state, std::size_t size)
    : state_(std::move(state)), use_(state_.get()), address_(state_->allocation->device()), size_(size) {}

std::size_t BufferBase::bytes() const noexcept { return state_ ? state_->bytes : 0; }
Memory BufferBase::memory() const noexcept { return state_ ? state_->memory : Memory::device; }

namespace {

std::shared_ptr<runtime::Core> core_of(const std::shared_ptr<BufferState>& state) {
  if (!state) throw Error(errc::invalid_argument, "the buffer is empty: make one with `allocate`");
  if (auto core = state->shell->core()) return core;
  throw state->gone();
}

}  // namespace

void BufferBase::write_bytes(std::size_t offset, const void* from, std::size_t bytes) {
  core_of(state_)->buffers().write(*state_, offset, from, bytes);
}

void BufferBase::read_bytes(std::size_t offset, void* to, std::size_t bytes) const {
  core_of(state_)->buffers().read(*state_, offset, to, bytes);
}

void* BufferBase::host_bytes() const { return core_of(state_)->buffers().host_address(*state_); }

void throw_out_of_range(std::size_t first, std::size_t count, std::size_t size) {
  throw Error(errc::invalid_argument,
              "elements " + std::to_string(first) + " to " + std::to_string(first) + " + " + std::to_string(count) +
                  " do not lie in a buffer of " + std::to_string(size),
              {"buffer", "", count, first > size ? 0 : size - first});
}

void throw_too_many_words() {
  throw Error(errc::invalid_argument,
              "the arguments of a task take at most 65536 bytes (a span takes 12): pass large values through a Buffer",
              {"argument", "", 0, kMostWords * 4});
}

void throw_unusable_buffer(const BufferUse* use, const Shell* shell) {
  if (use->shell == nullptr) throw Error(errc::invalid_argument, "a buffer among the arguments is empty: make it with `allocate`");
  if (use->shell->core() == nullptr) throw static_cast<const BufferState*>(use)->gone();
  // The list begins with a buffer of an earlier generation.
  if (shell != nullptr && shell->core() == nullptr && !shell->lineage->closed.load()) throw_foreign_arguments(shell);
  throw Error(errc::invalid_argument, "a buffer among the arguments belongs to another runtime");
}

void throw_foreign_arguments(const Shell* theirs) {
  if (theirs->core() == nullptr) throw theirs->gone("a buffer among the arguments", "allocate it again");
  throw Error(errc::invalid_argument, "the buffers among the arguments belong to another runtime");
}

void throw_foreign_ticket(const Shell* theirs, std::uint64_t word) {
  const std::string name = name_of_ticket(word);
  if (theirs->core() == nullptr) throw theirs->gone(name + ", named in `after`,", "it has ended: leave it out");
  throw Error(errc::invalid_argument, name + ", named in `after`, belongs to another runtime", {"ticket", "", word & kPosition});
}

void throw_too_many_tickets(std::size_t count) {
  throw Error(errc::invalid_argument,
              "after: a task waits for at most " + std::to_string(kMostTickets) + " tickets, " + std::to_string(count) +
                  " were given: split them over intermediate tasks",
              {"ticket", "after", count, kMostTickets});
}

void Waits::add(std::span<const Ticket> tickets, bool any, const Shell* of) {
  for (const Ticket& ticket : tickets) {
    if (ticket.shell_ == nullptr) continue;  // done
    if (count == 0) shell = of != nullptr ? of : ticket.shell_;
    if (ticket.shell_ != shell) throw_foreign_ticket(ticket.shell_, ticket.word_);
    if (count == kMostTickets) throw_too_many_tickets(std::size_t{count} + 1);
    any_result = (any_result & ~(1U << count)) | (any ? 1U << count : 0U);
    position[count++] = ticket.word_;
  }
}

void throw_bad_groups(std::uint32_t count) {
  throw Error(errc::invalid_argument, "groups is " + std::to_string(count) + ": a task is run by 1 to 65535 groups",
              {"argument", "groups", count, 65535});
}

void throw_bad_repeat(std::uint32_t count) {
  throw Error(errc::invalid_argument, "repeat is " + std::to_string(count) + ": a task runs 1 to 65535 times",
              {"argument", "repeat", count, 65535});
}

void throw_two_shapes() {
  throw Error(errc::invalid_argument, "a task that is repeated is run by one group: give repeat without groups and gang",
              {"argument", "repeat"});
}

void throw_bad_priority(std::uint32_t level) {
  throw Error(errc::invalid_argument, "priority is " + std::to_string(level) + ": priorities are 0, the least urgent, to 7",
              {"argument", "priority", level, 7});
}

void throw_bad_puts(std::size_t index, std::uint32_t puts) {
  throw Error(errc::invalid_argument, "submit_many: each(" + std::to_string(index) + ", put) has called put " +
                                          (puts == 0 ? "not at all" : std::to_string(puts) + " times") + ": once is needed");
}

void require_signature(const OperatorBase& base, const Signature& signature) {
  if (base.signature() == signature) return;
  throw Error(errc::signature_mismatch,
              "operator '" + base.name() + "' takes " + base.signature().text() + ", its handle says " + signature.text(),
              {"operator", base.name()});
}

namespace {

OperatorState& require_operator(const std::shared_ptr<OperatorState>& state) {
  if (!state) throw Error(errc::invalid_argument, "the operator handle is empty: it names no operator");
  return *state;
}

}  // namespace

const std::string& OperatorBase::name() const { return require_operator(state_).name; }
const Signature& OperatorBase::signature() const { return require_operator(state_).signature; }
std::uint32_t OperatorBase::versions() const { return require_operator(state_).definition->versions.load(); }
std::uint32_t OperatorBase::version() const { return require_operator(state_).definition->current.load(); }

namespace {

// The definition behind a handle, owned together with it.
std::shared_ptr<DefinitionState> definition_of(const std::shared_ptr<OperatorState>& state) {
  return {state, require_operator(state).definition};
}

// Returns the index of an instance. Throws errc::operator_not_found, listing the instances.
std::size_t index_of(const DefinitionState& definition, std::string_view expression) {
  std::string known;
  for (std::size_t i = 0; i < definition.instances.size(); ++i) {
    const std::string& name = definition.instances[i].name;
    if (same_expression(name, std::string(expression))) return i;
    known += (known.empty() ? "" : ", ") + name;
  }
  throw Error(errc::operator_not_found,
              "operator '" + definition.name + "' has no instance " + std::string(expression) + ": it was defined with " + known);
}

}  // namespace

Operator<> OperatorBase::instance(std::string_view expression) const {
  const auto definition = definition_of(state_);
  return Operator<>(std::shared_ptr<OperatorState>(definition, &definition->instances[index_of(*definition, expression)]));
}

std::vector<std::string> OperatorBase::instances() const {
  std::vector<std::string> names;
  for (const OperatorState& instance : require_operator(state_).definition->instances) names.push_back(instance.name);
  return names;
}

namespace {

// Calls `call` with the operator's registry.
template <class Call>
auto with_registry(const std::shared_ptr<OperatorState>& state, Call call) {
  const OperatorState& op = require_operator(state);
  if (const auto core = op.shell->core()) {
    try {
      return call(core->registry());
    } catch (const Error& error) {
      if (error.kind() != errc::closed) throw;  // the registry was closed meanwhile
    }
  }
  throw op.gone();
}

}  // namespace

Error OperatorState::gone() const { return shell->gone("operator '" + name + "'", "define it again"); }

std::string OperatorBase::lowered_name(std::string_view expression) const {
  const auto definition = definition_of(state_);
  const std::size_t index = index_of(*definition, expression);
  return with_registry(state_, [&](runtime::Registry& registry) { return registry.table().symbols(*definition)[index]; });
}

void OperatorBase::redefine(const Source& source) {
  with_registry(state_, [&](runtime::Registry& registry) { registry.redefine(definition_of(state_), source); });
}

void OperatorBase::redefine(const Source& source, const CompileOptions& options) {
  with_registry(state_, [&](runtime::Registry& registry) { registry.redefine(definition_of(state_), source, &options); });
}

std::shared_future<void> OperatorBase::redefine_async(const Source& source, Async<void> async) {
  return redefine_later(source, nullptr, std::move(async));
}

std::shared_future<void> OperatorBase::redefine_async(const Source& source, const CompileOptions& options, Async<void> async) {
  return redefine_later(source, &options, std::move(async));
}

std::shared_future<void> OperatorBase::redefine_later(const Source& source, const CompileOptions* options, Async<void> async) {
  return with_registry(state_, [&](runtime::Registry& registry) {
    auto [kept, future, report] =
        runtime::promise_for<void>(registry, std::move(async.done), [](std::promise<void>& promise, const auto&) { promise.set_value(); });
    registry.redefine_async(definition_of(state_), source, options, std::move(report), async.stop);
    return future;
  });
}

void OperatorBase::rollback() {
  with_registry(state_, [&](runtime::Registry& registry) { registry.rollback(*state_->definition); });
}

}  // namespace detail

std::span<const std::byte> Image::bytes() const noexcept { return state_->image->bytes; }
const std::vector<std::string>& Image::symbols() const noexcept { return state_->symbols; }

const std::string& Image::ptx() const {
  if (!state_->is_cubin) throw Error(errc::unsupported, "operators of the CPU have no PTX");
  return state_->ptx;
}

std::span<const std::byte> Image::cubin() const {
  if (!state_->is_cubin)
    throw Error(errc::unsupported, "the image of the CPU is a bundle of shared objects, not a cubin: use Image::bytes");
  return bytes();
}

void Ticket::wait() const {
  if (shell_ == nullptr) return;
  if (const auto core = shell_->core()) {
    core->wait(word_, std::nullopt);
    if (const auto error = core->error_of(word_)) throw *error;
    return;
  }
  if (const auto end = shell_->end_of(word_)) throw Error(end->error);
}

bool Ticket::wait_for(std::chrono::nanoseconds timeout) const {
  if (shell_ == nullptr) return true;
  if (const auto core = shell_->core()) {
    // Clamped: the longest times exceed the clock's range.
    const auto start = std::chrono::steady_clock::now();
    std::optional<std::chrono::steady_clock::time_point> deadline;
    if (timeout < std::chrono::steady_clock::time_point::max() - start) deadline = start + timeout;
    if (!core->wait(word_, deadline)) return false;
    if (const auto error = core->error_of(word_)) throw *error;
    return true;
  }
  if (const auto end = shell_->end_of(word_)) throw Error(end->error);
  return true;
}

bool Ticket::done() const {
  if (shell_ == nullptr) return true;
  const auto core = shell_->core();
  return !core || core->done(word_);
}

bool Ticket::cancel() const {
  const auto core = shell_ == nullptr ? nullptr : shell_->core();
  return core != nullptr && core->cancel(word_);
}

int Ticket::status() const {
  if (shell_ == nullptr) return dwell::status::ok;
  if (const auto core = shell_->core()) {
    try {
      core->wait(word_, std::nullopt);
    } catch (const Error& error) {
      if (error.kind() == errc::stalled) throw;  // the task may still end
      return error.kind() == errc::task_timeout ? dwell::status::timed_out : dwell::status::lost;
    }
    return core->status_of(word_);
  }
  const auto end = shell_->end_of(word_);
  return end ? end->status : dwell::status::ok;
}

void Ticket::then(std::function<void(const Ticket&)> f) const {
  runtime::Notifier::Callback call = [f = std::move(f), ticket = *this] { f(ticket); };
  const auto core = shell_ == nullptr ? nullptr : shell_->core();
  if (core == nullptr || !core->when_done(word_, true, call)) call();
}

void Ticket::notify() const {
  const auto core = shell_ == nullptr ? nullptr : shell_->core();
  if (core == nullptr) return;
  runtime::Notifier& notifier = core->notifier();
  static_cast<void>(notifier.event_fd());
  runtime::Notifier::Callback call = [&notifier] { notifier.count(); };
  core->when_done(word_, false, call);
}

}  // namespace dwell
