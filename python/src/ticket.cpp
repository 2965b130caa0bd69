// dwell.Ticket, and how event loops hear of tickets.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "background.hpp"
#include "bind.hpp"
#include "errors.hpp"

namespace dwell::python {

using namespace nb::literals;

namespace {

[[noreturn]] void raise_for(const Ticket& ticket, const Error& error) {
  raise(error, error.kind() == errc::task_failed ? std::optional(ticket.status()) : std::nullopt);
}

}  // namespace

bool wait(const Receipt& self, std::optional<double> timeout) {
  require_epoch(self.epoch, "the ticket");
  try {
    return wait_in_slices(timeout ? std::max(*timeout, 0.0) : -1.0,
                          [&](std::chrono::nanoseconds slice) { return self.ticket.wait_for(slice); });
  } catch (const Error& error) {
    raise_for(self.ticket, error);
  }
}

namespace {

int status(const Receipt& self) {
  require_epoch(self.epoch, "the ticket");
  if (!self.ticket.done()) {
    // Failures are its result, a stall is none.
    try {
      wait_in_slices(-1.0, [&](std::chrono::nanoseconds slice) { return self.ticket.wait_for(slice); });
    } catch (const Error& error) {
      if (error.kind() == errc::stalled) raise(error);
    }
  }
  return self.ticket.status();
}

// Calls `f` with the ticket on a thread of the runtime.
void add_done_callback(const Receipt& self, nb::object f) {
  require_epoch(self.epoch, "the ticket");
  const auto call = [held = Shared(std::move(f)), epoch = self.epoch](const Ticket& ticket) {
    const CallbackScope scope;
    if (!scope.entered() || held.get() == nullptr) return;
    PyObject* const argument = nb::cast(Receipt{ticket, epoch}).release().ptr();
    PyObject* const result = PyObject_CallOneArg(held.get(), argument);
    Py_DECREF(argument);
    if (result == nullptr)
      PyErr_WriteUnraisable(held.get());
    else
      Py_DECREF(result);
  };
  const Unlocked unlocked;
  self.ticket.then(call);
}

// Tells an event loop which of its tickets are complete: an eventfd that the loop watches, and the numbers of those tickets. Threads of the
// runtime touch no Python object for it.
class Waker {
 public:
  Waker() : state_(std::make_shared<State>()) {
    if (state_->fd < 0) throw Error(errc::out_of_memory, "no file descriptor for an eventfd can be had", {"file", ""});
  }
  int fileno() const { return state_->fd; }
  void watch(const Receipt& receipt, std::uint64_t key) {
    require_epoch(receipt.epoch, "the ticket");
    const Unlocked unlocked;
    receipt.ticket.then([state = state_, key](const Ticket&) {
      {
        const std::lock_guard lock(state->mutex);
        state->ready.push_back(key);
      }
      const std::uint64_t one = 1;
      while (::write(state->fd, &one, sizeof one) < 0 && errno == EINTR) {}
    });
  }
  std::vector<std::uint64_t> take() {
    std::uint64_t count = 0;
    while (::read(state_->fd, &count, sizeof count) < 0 && errno == EINTR) {}
    const std::lock_guard lock(state_->mutex);
    return std::exchange(state_->ready, {});
  }

 private:
  struct State {
    std::mutex mutex;
    std::vector<std::uint64_t> ready;
    const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    State() = default;
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
      if (fd >= 0) ::close(fd);
    }
  };
  std::shared_ptr<State> state_;
};

}  // namespace

void bind_ticket(nb::module_& m) {
  nb::class_<Receipt>(
      m, "Ticket",
      "The receipt of a task, or of a launch. ``await ticket`` waits in asyncio. It may be kept and dropped freely, also after\n"
      "its runtime is closed: it goes on telling what became of its task.")
      .def("wait", &wait, "timeout"_a = nb::none(),
           "Returns True once the task is complete and its effects are visible, or False after `timeout` seconds. Raises what became of a\n"
           "task that failed: dwell.TaskFailed, dwell.Cancelled, dwell.TaskTimeout, dwell.DeviceLost. Without the GIL.")
      .def_prop_ro(
          "done",
          [](const Receipt& self) {
            require_epoch(self.epoch, "the ticket");
            return self.ticket.done();
          },
          "Whether the task is complete, successful or not. An attribute: ``ticket.done``, where a future has ``done()``;\n"
          "``ticket.as_future()`` is one.")
      .def(
          "cancel",
          [](const Receipt& self) {
            require_epoch(self.epoch, "the ticket");
            return self.ticket.cancel();
          },
          "Asks for the end of a task or launch that has not begun, as `Runtime.cancel`. False when it is known to be complete, and for "
          "the\n"
          "launch of a kernel.")
      .def("status", &status,
           "0 for success, positive for the operator's own code, negative for one of dwell's. Waits, and raises nothing for\n"
           "tasks that have failed.")
      .def_prop_ro(
          "device", [](const Receipt& self) { return self.ticket.device(); },
          "The device that runs the task: its index among those of the runtime, from 0. A runtime has one.")
      .def_prop_ro(
          "position", [](const Receipt& self) { return self.ticket.position(); }, "The task's place in its device's order of submission.")
      .def("add_done_callback", &add_done_callback, "callback"_a,
           "Calls ``callback(ticket)`` once when the task is complete, on a thread of the runtime, which calls one after the other. It may "
           "use\n"
           "the runtime, but not close it. What it raises goes to ``sys.unraisablehook``.",
           nb::sig("def add_done_callback(self, callback: typing.Callable[[Ticket], object]) -> None"))
      .def(
          "as_future", [](nb::handle_t<Receipt> self) { return futures().attr("of_ticket")(self); },
          "A concurrent.futures.Future whose result is None, or raises as `wait`. Its `cancel` asks for the end of a task that has not "
          "begun,\n"
          "and returns False: only the end of the task tells. It is cancelled when the task was.",
          nb::sig("def as_future(self) -> concurrent.futures.Future[None]"))
      .def(
          "__await__", [](nb::handle_t<Receipt> self) { return futures().attr("awaiting")(self); },
          nb::sig("def __await__(self) -> typing.Generator[typing.Any, None, None]"))
      .def("__repr__", [](const Receipt& self) {
        const bool ours = self.epoch == fork_epoch();
        return "<dwell.Ticket " + std::to_string(self.ticket.position()) + (!ours ? "" : self.ticket.done() ? ", done" : ", pending") + ">";
      });
  nb::class_<Waker>(m, "Waker")
      .def(nb::init<>())
      .def("fileno", &Waker::fileno)
      .def("watch", &Waker::watch, "ticket"_a, "key"_a)
      .def("take", &Waker::take);
  nb::class_<Stop>(m, "StopSource").def("request", &Stop::request);
}

}  // namespace dwell::python
