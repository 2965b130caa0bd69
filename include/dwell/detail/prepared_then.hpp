// Ticket::then for a ticket that is still to come. Internal: may change at any time.
#pragma once

#include <functional>
#include <memory>

#include <dwell/runtime.hpp>
#include <dwell/ticket.hpp>

namespace dwell::detail {

// Holds all that Ticket::then takes: its memory and the runtime's thread. So a launch whose end must be heard of is made only when nothing
// can keep it from being heard of. Used by one thread.
class PreparedThen {
 public:
  // Throws as Ticket::then, and errc::closed.
  PreparedThen(const Runtime& runtime, std::function<void(const Ticket&)> f);
  ~PreparedThen();
  PreparedThen(PreparedThen&&) noexcept;
  PreparedThen& operator=(PreparedThen&&) noexcept;
  PreparedThen(const PreparedThen&) = delete;
  PreparedThen& operator=(const PreparedThen&) = delete;

  // As ticket.then(f), for a ticket of the runtime: takes no memory. To be called once. Throws what `f` throws where that is called at
  // once, and errc::invalid_argument for a captured ticket.
  void call_after(const Ticket& ticket);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dwell::detail
