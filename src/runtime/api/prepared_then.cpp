#include <dwell/detail/prepared_then.hpp>
#include <utility>

#include "runtime/core.hpp"
#include "runtime/generation/shell.hpp"

namespace dwell::detail {

struct PreparedThen::State {
  Shell* shell;
  std::shared_ptr<Ticket> ticket;  // argument of the callback
  runtime::Ends::Prepared prepared;
};

PreparedThen::PreparedThen(const Runtime& runtime, std::function<void(const Ticket&)> f) {
  const auto core = Shell::require(runtime.shell_);
  auto ticket = std::make_shared<Ticket>();
  auto prepared = core->prepare_when_done([ticket, f = std::move(f)] { f(*ticket); });
  state_ = std::make_unique<State>(State{runtime.shell_, std::move(ticket), std::move(prepared)});
}

PreparedThen::~PreparedThen() = default;
PreparedThen::PreparedThen(PreparedThen&&) noexcept = default;
PreparedThen& PreparedThen::operator=(PreparedThen&&) noexcept = default;

void PreparedThen::call_after(const Ticket& ticket) {
  const std::unique_ptr<State> state = std::move(state_);
  *state->ticket = ticket;
  const auto core = ticket.shell_ == state->shell ? state->shell->core() : nullptr;
  if (core != nullptr && core->when_done(ticket.word_, state->prepared)) return;
  state->prepared.request.call();
}

}  // namespace dwell::detail
