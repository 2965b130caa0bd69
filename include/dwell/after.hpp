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

// What `after` and `after_any_result` return. Copies the tickets.
class After {
 public:
  After(std::span<const Ticket> tickets, bool any_result) : count_(static_cast<std::uint32_t>(tickets.size())), any_result_(any_result) {
    if (tickets.size() > detail::kMostTickets) detail::throw_too_many_tickets(tickets.size());
    for (std::size_t i = 0; i < tickets.size(); ++i) ticket_[i] = tickets[i];
  }

  std::span<const Ticket> tickets() const noexcept { return {ticket_.data(), count_}; }
  // Whether the task runs also when one of them has failed.
  bool any_result() const noexcept { return any_result_; }

 private:
  std::array<Ticket, detail::kMostTickets> ticket_;
  std::uint32_t count_;
  bool any_result_;
};

// The task starts only after all these tasks have succeeded: up to 16 tickets of the runtime that it is submitted to, of any thread and
// age, all `after` of a task together. When one of them fails or is cancelled, the task is cancelled as soon as the others have ended too:
// its operator is not called, and its ticket ends with errc::cancelled, which names the task that failed first. Tickets of tasks that have
// ended, and empty ones, cost nothing. The device sees to the order; submit waits for none of them. Beside `link` and `drain` the task
// waits for all that any of them names. The first use of `after` or `link` in a runtime is a `drain` too (task.hpp), unless all that it
// names has ended: tasks before it leave no word of their end on the device.
// Throws errc::invalid_argument for more than 16 tickets; submit throws it for tickets of another runtime, and errc::stale_handle for those
// of an earlier generation.
inline After after(std::span<const Ticket> tickets) { return {tickets, false}; }
inline After after(std::initializer_list<Ticket> tickets) { return after(std::span(tickets.begin(), tickets.size())); }
template <class... Tickets>
requires(sizeof...(Tickets) > 0 && (std::is_same_v<Tickets, Ticket> && ...)) After after(const Tickets&... tickets) {
  const Ticket all[] = {tickets...};
  return after(std::span<const Ticket>(all));
}

// The same, but the task runs also when one of these has failed or was cancelled: hard_link to any task.
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
