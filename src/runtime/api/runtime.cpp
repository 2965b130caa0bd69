#include <dwell/runtime.hpp>

#include <algorithm>
#include <utility>

#include "base/callback.hpp"
#include "runtime/api/promise.hpp"
#include "runtime/core.hpp"
#include "runtime/device/recorder.hpp"
#include "runtime/generations.hpp"
#include "runtime/observe/kept_trace.hpp"
#include "runtime/program/argument_check.hpp"

namespace dwell {

Runtime::Runtime(Options options) : shell_(detail::open_first(std::move(options))) {}

Runtime::~Runtime() {
  if (shell_ == nullptr || shell_->lineage->is_forked()) return;
  try {
    // Called in the runtime's own callback, for which close would wait.
    if (shell_->core() != nullptr && Callback::inside(shell_->lineage->runtime) != nullptr) {
      Callback::put_off([shell = shell_] {
        try {
          Runtime(shell).close();
        } catch (const Error&) {
          // As below.
        }
      });
      return;
    }
    close();
  } catch (const std::exception&) {
    // Waiters learn it from the tickets of the lost tasks.
  }
}

Runtime::Runtime(Runtime&& other) noexcept : shell_(std::exchange(other.shell_, nullptr)) {}

Runtime& Runtime::operator=(Runtime&& other) noexcept {
  if (this != &other) {
    Runtime old(std::move(*this));
    shell_ = std::exchange(other.shell_, nullptr);
  }
  return *this;
}

namespace {

// The handle of a definition's first instance, which owns the whole.
std::shared_ptr<detail::OperatorState> first_of(const std::shared_ptr<detail::DefinitionState>& definition) {
  return {definition, &definition->instances.front()};
}

}  // namespace

Operator<> Runtime::define(std::string_view name, const Source& source, const Definition& how) {
  return Operator<>(first_of(detail::Shell::require(shell_)->registry().define(std::string(name), source, how)));
}

std::shared_future<Operator<>> Runtime::define_async(std::string_view name, const Source& source, const Definition& how,
                                                     Async<Operator<>> async) {
  const auto core = detail::Shell::require(shell_);
  runtime::Registry& registry = core->registry();
  auto [kept, future, report] = runtime::promise_for<Operator<>>(
      registry, std::move(async.done), [](std::promise<Operator<>>& promise, const std::shared_ptr<detail::DefinitionState>& definition) {
        promise.set_value(Operator<>(first_of(definition)));
      });
  registry.define_async(std::string(name), source, how, std::move(report), async.stop);
  return future;
}

Image Runtime::image() const {
  const auto state = detail::Shell::require(shell_)->registry().table().snapshot();
  if (state == nullptr) throw Error(errc::invalid_argument, "there is no image before the first operator is defined");
  return Image(state);
}

void Runtime::check_arguments(const detail::OperatorBase& op, const Parameter* given, std::uint32_t count) const {
  if (op.state() == nullptr) throw Error(errc::invalid_argument, "the operator handle is empty: it names no operator");
  runtime::check_arguments("operator", op.name(), op.signature(), {given, count}, detail::accepts);
}

std::shared_ptr<detail::BufferState> Runtime::allocate_bytes(std::size_t count, std::size_t element, Memory memory) {
  return detail::Shell::require(shell_)->allocate(count, element, memory);
}

std::shared_ptr<detail::RingState> Runtime::make_ring(std::size_t slots, std::size_t slot_bytes, std::size_t most,
                                                      const RingOptions& options) {
  return detail::Shell::require(shell_)->ring({slots, slot_bytes, most}, options);
}

ByteRingBuffer Runtime::byte_ring(std::size_t bytes, const RingOptions& options) {
  constexpr std::size_t kSlot = 64;
  const std::size_t most = options.message_bytes != 0 ? options.message_bytes : std::min<std::size_t>(bytes / 4, device::kMostMessageBytes);
  return ByteRingBuffer(make_ring(bytes / kSlot, kSlot, most, options));
}

std::shared_ptr<detail::BufferState> Runtime::wrap_bytes(void* pointer, std::size_t count, std::size_t element, std::size_t alignment,
                                                         std::shared_ptr<void> keep_alive) {
  return detail::Shell::require(shell_)->wrap(pointer, count, element, alignment, std::move(keep_alive));
}

int Runtime::completion_fd() { return detail::Shell::require(shell_)->notifier().event_fd(); }

namespace {

// Throws why a task of `op` cannot be submitted to the newest generation of a runtime.
[[noreturn, gnu::noinline]] void refuse(const detail::Shell* shell, const detail::OperatorState* op) {
  if (op == nullptr) throw Error(errc::invalid_argument, "the operator handle is empty: it names no operator");
  static_cast<void>(detail::Shell::require(shell));
  if (op->shell->core() == nullptr) throw op->gone();
  throw Error(errc::invalid_argument, "operator '" + op->name + "' belongs to another runtime");
}

// The core of a runtime that its own caller keeps open.
runtime::Core& core_of(const detail::Shell* shell, const detail::OperatorState* op) {
  if (op != nullptr && op->shell == shell) [[likely]] {
    // Pairs with Shell::hold.
    if (auto* const core = shell->current.load(std::memory_order_acquire)) return *core;
  }
  refuse(shell, op);
}

}  // namespace

std::uint64_t Runtime::enqueue_plain(detail::OperatorState* op, std::uint64_t head, detail::Quad first, detail::Quad second,
                                     detail::Quad third) {
  return core_of(shell_, op).enqueue_plain(*op, detail::FirstSlot{head, {first, second, third}});
}

std::uint64_t Runtime::enqueue_plain(detail::OperatorState* op, detail::Batch& batch) {
  const std::size_t count = std::exchange(batch.size, 0);
  const bool follows = std::exchange(batch.follows, true);
  return core_of(shell_, op).enqueue_plain(*op, batch.slot, count, follows);
}

std::uint64_t Runtime::enqueue_any(detail::OperatorState* op, const detail::Task& task) {
  runtime::Core& core = core_of(shell_, op);
  return task.exec_count == 0 ? core.enqueue(*op, task) : *enqueue_launching(core, *op, task, true);
}

std::optional<std::uint64_t> Runtime::try_enqueue(detail::OperatorState* op, const detail::Task& task) {
  runtime::Core& core = core_of(shell_, op);
  return task.exec_count == 0 ? core.try_enqueue(*op, task) : enqueue_launching(core, *op, task, false);
}

Ticket Runtime::submit_many(const Operator<>& op, std::span<const Arguments> rows) {
  for (const Arguments& row : rows) {
    check_arguments(op, row);
    static_cast<void>(row.task_for(shell_));
  }
  detail::Batch batch;
  std::uint64_t last = 0;
  const auto flush = [&] {
    if (batch.size != 0) last = enqueue_plain(op.state(), batch);
  };
  for (const Arguments& row : rows) {
    const detail::Task task = row.task_for(shell_);
    if (task.plain()) {
      batch.add(task.first);
      if (batch.size == detail::Batch::kMost) flush();
    } else {
      flush();
      last = enqueue(op.state(), task);
    }
  }
  flush();
  return rows.empty() ? Ticket() : Ticket(shell_, last);
}

bool Runtime::cancel(const Ticket& ticket) {
  const auto core = detail::Shell::require(shell_);
  if (ticket.shell_ == nullptr) return false;
  if (ticket.shell_ == shell_) return core->cancel(ticket.word_);
  const std::string name = detail::name_of_ticket(ticket.word_);
  if (ticket.shell_->core() == nullptr) throw ticket.shell_->gone(name, "its task has ended");
  throw Error(errc::invalid_argument, name + ", given to `cancel`, belongs to another runtime", {"ticket", "", ticket.position(), 0});
}

void Runtime::wait_all() { detail::Shell::require(shell_)->wait_all(); }

Stream Runtime::make_stream() {
  const auto core = detail::Shell::require(shell_);
  // A generation that is gone has ended its streams.
  return Stream(std::shared_ptr<void>(core->make_stream(), [shell = shell_, of = std::weak_ptr(core)](void* stream) {
    if (shell->lineage->is_forked()) return;
    if (const auto owner = of.lock()) owner->drop_stream(stream);
  }));
}

void Runtime::burst(void* stream) { detail::Shell::require(shell_)->burst(stream); }

void Runtime::park() { detail::Shell::require(shell_)->park(); }
void Runtime::resume() { detail::Shell::require(shell_)->keeper().resume(); }

void Runtime::close(Close how) {
  if (shell_ == nullptr || shell_->lineage->is_forked()) return;
  if (const auto core = shell_->core())
    core->close(how);
  else
    shell_->close();
}

void Runtime::rebuild() {
  if (shell_ == nullptr) static_cast<void>(detail::Shell::require(shell_));
  shell_ = detail::open_next(*shell_);
}

Diagnosis Runtime::diagnose() const { return detail::Shell::require(shell_)->diagnose(); }

Preemption Runtime::preempt(unsigned priority, std::chrono::nanoseconds timeout) {
  return detail::Shell::require(shell_)->preempt(priority, timeout);
}

Metrics Runtime::metrics() const { return detail::Shell::require(shell_)->metrics(); }
void Runtime::set_metrics(Metering metering) { detail::Shell::require(shell_)->set_metrics(metering); }

Inspection Runtime::inspect(std::string_view name) { return detail::Shell::require(shell_)->inspect(name); }
Watch Runtime::watch(std::string name, std::chrono::nanoseconds every, std::function<void(const Inspection&)> callback) {
  return detail::Shell::require(shell_)->watch(std::move(name), every, std::move(callback));
}
void Runtime::assign(std::string_view name, const Parameter& type, std::size_t count, std::span<const std::byte> bytes) {
  detail::Shell::require(shell_)->assign(name, type, count, bytes);
}

Logs Runtime::logs(std::chrono::nanoseconds wait) { return detail::Shell::require(shell_)->logs(wait); }
void Runtime::set_log_level(level from) { detail::Shell::require(shell_)->set_log_level(from); }

bool Runtime::captures() const noexcept {
  const auto core = shell_->core();
  return core != nullptr && runtime::Recorder::of(core.get()) != nullptr;
}

void Runtime::count_batch(std::uint64_t operations, std::uint64_t tasks) const noexcept {
  const auto core = shell_->core();
  if (core == nullptr) return;
  runtime::HostCounts& counts = core->counts();
  runtime::HostSpan span(&core->host_events(), TraceEvent::Kind::flush);
  span.count = static_cast<std::uint32_t>(tasks);
  counts.count<&Metrics::batch_flushes>();
  counts.count<&Metrics::batch_operations>(operations);
  counts.count<&Metrics::batch_tasks>(tasks);
}

Trace Runtime::trace(std::chrono::nanoseconds duration) {
  const auto kept = std::make_shared<runtime::KeptTrace>();
  trace(duration, kept);
  return kept->take();
}

void Runtime::trace(std::chrono::nanoseconds duration, const std::shared_ptr<TraceWriter>& writer) {
  if (duration.count() < 0) throw Error(errc::invalid_argument, "trace: the time is negative");
  detail::Shell::require(shell_)->trace(duration, writer);
}

void Runtime::start_trace(std::shared_ptr<TraceWriter> writer) { detail::Shell::require(shell_)->start_trace(std::move(writer)); }
void Runtime::stop_trace() {
  if (const auto core = shell_->core()) core->stop_trace();
}

void Runtime::mark(std::string_view text) {
  runtime::HostEvents& events = detail::Shell::require(shell_)->host_events();
  const std::uint32_t wanted = events.wanted();
  if ((wanted & runtime::HostEvents::kRanges) != 0) runtime::nvtx::mark(text);
  if ((wanted & runtime::HostEvents::kTimeline) != 0)
    events.note(TraceEvent::Kind::mark, runtime::HostEvents::now(), 0, 1, std::string(text));
}

RuntimeInfo Runtime::info() const { return detail::Shell::require(shell_)->info(); }
Options Runtime::options() const { return detail::Shell::require(shell_)->options(); }

}  // namespace dwell
