// Tasks that start after others, named by their tickets: further arguments of a submit call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <type_traits>

#include <dwell/ticket.hpp>

namespace dwell {

namespace detail {

// Tickets that one task may wait for.
inline constexpr std::uint32_t kMostTickets = 16;

// More than kMostTickets.
[[noreturn]] void throw_too_many_tickets(std::size_t count);

}  // namespace detail

// The result of `after` and `after_any_result`. Copies the tickets.
class After {
 public:
  After(std::span<const Ticket> tickets, bool any_result) : count_(static_cast<std::uint32_t>(tickets.size())), any_result_(any_result) {
    if (tickets.size() > detail::kMostTickets) detail::throw_too_many_tickets(tickets.size());
    for (std::size_t i = 0; i < tickets.size(); ++i) ticket_[i] = tickets[i];
  }

  std::span<const Ticket> tickets() const noexcept { return {ticket_.data(), count_}; }
  // Returns whether the task also runs after a failure of one of them.
  bool any_result() const noexcept { return any_result_; }

 private:
  std::array<Ticket, detail::kMostTickets> ticket_;
  std::uint32_t count_;
  bool any_result_;
};

// Starts the task only after all these tasks have succeeded. Takes up to 16 tickets of the same runtime, from any thread and of any age;
// the limit counts all `after` of a task together. If one of them fails or is cancelled, the task is cancelled once the others have ended:
// its operator is not called, and its ticket ends with errc::cancelled, which names the task that failed first. Empty tickets and tickets
// of ended tasks cost nothing. The device enforces the order; submit does not wait. Combines with `link` and `drain`: the task waits for
// all of them. The first use of `after` or `link` in a runtime is a `drain` too (task.hpp), unless all its predecessors have ended: the
// device keeps no completion records of earlier tasks.
// Throws errc::invalid_argument for more than 16 tickets; submit throws it for tickets of another runtime, and errc::stale_handle for those
// of an earlier generation.
inline After after(std::span<const Ticket> tickets) { return {tickets, false}; }
inline After after(std::initializer_list<Ticket> tickets) { return after(std::span(tickets.begin(), tickets.size())); }
template <class... Tickets>
requires(sizeof...(Tickets) > 0 && (std::is_same_v<Tickets, Ticket> && ...)) After after(const Tickets&... tickets) {
  const Ticket all[] = {tickets...};
  return after(std::span<const Ticket>(all));
}

// As `after`, but the task also runs when one of these has failed or was cancelled: hard_link to any task.
inline After after_any_result(std::span<const Ticket> tickets) { return {tickets, true}; }
inline After after_any_result(std::initializer_list<Ticket> tickets) {
  return after_any_result(std::span(tickets.begin(), tickets.size()));
}
template <class... Tickets>
requires(sizeof...(Tickets) > 0 && (std::is_same_v<Tickets, Ticket> && ...)) After after_any_result(const Tickets&... tickets) {
  const Ticket all[] = {tickets...};
  return after_any_result(std::span<const Ticket>(all));
}

}  // namespace dwell
