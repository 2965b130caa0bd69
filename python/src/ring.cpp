#include "ring.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "bind.hpp"
#include "numpy.hpp"

namespace dwell::python {

using namespace nb::literals;

namespace {

template <class Ring>
void check(const Ring& self) {
  require_epoch(self.epoch, "the ring");
}

// Waits until `once` succeeds, without the GIL and with signals handled. Returns false when `timeout`, in seconds, is over first.
template <class Ring, class Once>
bool wait_for(const Ring& ring, std::optional<double> timeout, Once once) {
  using Clock = std::chrono::steady_clock;
  return wait_in_slices(timeout.value_or(-1.0), [&](std::chrono::nanoseconds slice) {
    const auto until = Clock::now() + slice;
    bool done = false;
    ring.wait([&] {
      done = once();
      return done || Clock::now() >= until;
    });
    return done;
  });
}

// The bytes of a message.
std::vector<std::byte> bytes_of_message(const PyRing& self, nb::handle value) {
  const nb::object dtype = nb::borrow(self.dtype.get());
  const nb::object array = numpy().attr("array")(value, "dtype"_a = dtype);
  const nb::bytes bytes(array.attr("tobytes")());
  if (bytes.size() != self.ring->message_bytes())
    throw Error(errc::invalid_argument,
                "a message of this ring is one " + std::string(nb::str(dtype).c_str()) + " of " +
                    std::to_string(self.ring->message_bytes()) + " bytes: " + std::to_string(bytes.size()) + " bytes were given",
                {"argument", "value"});
  const auto* const data = reinterpret_cast<const std::byte*>(bytes.c_str());
  return {data, data + bytes.size()};
}
nb::object message_of(const PyRing& self, const std::vector<std::byte>& bytes) {
  const nb::bytes held(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return numpy().attr("frombuffer")(held, "dtype"_a = nb::borrow(self.dtype.get()))[nb::int_(0)];
}

bool try_push(const PyRing& self, nb::handle value, std::uint8_t type) {
  check(self);
  return self.ring->try_push(bytes_of_message(self, value), type);
}

[[noreturn]] void refuse_closed() { throw Error(errc::closed, "the ring is closed: it takes no more messages"); }

bool push(const PyRing& self, nb::handle value, std::uint8_t type, std::optional<double> timeout) {
  check(self);
  const std::vector<std::byte> bytes = bytes_of_message(self, value);
  return wait_for(*self.ring, timeout, [&] {
    if (self.ring->try_push(bytes, type)) return true;
    if (self.ring->closed()) refuse_closed();
    return false;
  });
}

nb::object try_pop(const PyRing& self) {
  check(self);
  std::vector<std::byte> bytes(self.ring->message_bytes());
  return self.ring->try_pop(bytes) ? message_of(self, bytes) : nb::none();
}

nb::object pop(const PyRing& self, std::optional<double> timeout) {
  check(self);
  std::vector<std::byte> bytes(self.ring->message_bytes());
  bool found = false;
  const auto look = [&] { return found = self.ring->try_pop(bytes); };
  wait_for(*self.ring, timeout, [&] { return look() || self.ring->finished() || (self.ring->skip_lost() && look()); });
  return found ? message_of(self, bytes) : nb::none();
}

std::span<const std::byte> span_of(const nb::bytes& message) {
  return {reinterpret_cast<const std::byte*>(message.c_str()), message.size()};
}

bool try_push_bytes(const PyByteRing& self, const nb::bytes& message, std::uint8_t type) {
  check(self);
  return self.ring->try_push(span_of(message), type);
}

bool push_bytes(const PyByteRing& self, const nb::bytes& message, std::uint8_t type, std::optional<double> timeout) {
  check(self);
  const std::span<const std::byte> bytes = span_of(message);
  return wait_for(*self.ring, timeout, [&] {
    if (self.ring->try_push(bytes, type)) return true;
    if (self.ring->closed()) refuse_closed();
    return false;
  });
}

nb::object typed(const ByteMessage& message) {
  return nb::make_tuple(message.type(), nb::bytes(reinterpret_cast<const char*>(message.bytes().data()), message.bytes().size()));
}

nb::object try_pop_bytes(const PyByteRing& self) {
  check(self);
  const ByteMessage message = self.ring->try_pop();
  return message ? typed(message) : nb::none();
}

nb::object pop_bytes(const PyByteRing& self, std::optional<double> timeout) {
  check(self);
  std::optional<ByteMessage> message;
  const auto look = [&] {
    message.emplace(self.ring->try_pop());
    return static_cast<bool>(*message);
  };
  wait_for(*self.ring, timeout, [&] { return look() || self.ring->finished() || (self.ring->skip_lost() && look()); });
  return message && *message ? typed(*message) : nb::none();
}

// The members that both have.
template <class Ring>
void bind_common(nb::class_<Ring>& type) {
  type.def(
          "close",
          [](const Ring& self) {
            check(self);
            const Unlocked unlocked;
            self.ring->close();
          },
          "Ends the ring: later pushes fail, and consumers find the end behind the messages before. If the producers are operators, first\n"
          "waits for the tasks submitted so far that name the ring.")
      .def_prop_ro(
          "finished",
          [](const Ring& self) {
            check(self);
            return self.ring->finished();
          },
          "Whether the ring is closed and all of its messages have been taken.")
      .def_prop_ro(
          "slots", [](const Ring& self) { return self.ring->slots(); }, "The number of slots.")
      .def(
          "counts",
          [](const Ring& self) {
            check(self);
            const RingCounts counts = self.ring->counts();
            nb::dict all;
            all["discarded"] = counts.discarded;
            all["abandoned"] = counts.abandoned;
            all["damaged"] = counts.damaged;
            all["damaged_at"] = counts.damaged_at;
            return all;
          },
          nb::sig("def counts(self) -> dict[str, int]"),
          "What consumers have skipped: \"discarded\", \"abandoned\" and \"damaged\" messages, and \"damaged_at\", the position of the "
          "last\n"
          "damaged one.")
      .def(
          "__aiter__", [](nb::handle_t<Ring> self) { return nb::module_::import_("dwell._rings").attr("messages")(self); },
          nb::sig("def __aiter__(self) -> collections.abc.AsyncIterator[typing.Any]"));
}

}  // namespace

Side side_from(const std::string& text, const char* name) {
  if (text == "device") return Side::device;
  if (text == "host") return Side::host;
  throw Error(errc::invalid_argument, std::string(name) + " is \"device\" or \"host\", not \"" + text + "\"", {"argument", name});
}

PyRing make_ring(const State& runtime, nb::handle dtype, std::size_t slots, const RingOptions& options) {
  const nb::object type = numpy().attr("dtype")(dtype);
  auto ring = std::make_shared<SlicedRing>(runtime->get(), nb::cast<std::size_t>(type.attr("itemsize")), slots, options);
  return {runtime, std::move(ring), Shared(type)};
}

PyByteRing make_byte_ring(const State& runtime, std::size_t bytes, const RingOptions& options) {
  return {runtime, std::make_shared<SlicedByteRing>(runtime->get().byte_ring(bytes, options))};
}

void bind_ring(nb::module_& m) {
  nb::class_<PyRing> ring(
      m, "Ring",
      "A ring of messages of one type between operators, or between operators and the host; made by ``Runtime.ring``.\n"
      "Operators declare a ``dwell::Ring<T>``. Iterating takes messages until the ring is closed, with ``async for`` too.");
  ring.def("try_push", &try_push, "value"_a, "type"_a = 0, "Appends a message. False if there is no room, or the ring is closed.")
      .def("push", &push, "value"_a, "type"_a = 0, "timeout"_a = nb::none(),
           "Appends a message; waits for room. False when ``timeout``, in seconds, is over first.")
      .def("try_pop", &try_pop, nb::sig("def try_pop(self) -> typing.Any"), "The next message, a scalar of NumPy; None if there is none.")
      .def("pop", &pop, "timeout"_a = nb::none(), nb::sig("def pop(self, timeout: float | None = None) -> typing.Any"),
           "The next message; waits for it. None at the end of a closed ring, and when ``timeout``, in seconds, is over first.")
      .def_prop_ro(
          "dtype", [](const PyRing& self) { return nb::borrow(self.dtype.get()); }, nb::sig("def dtype(self) -> typing.Any"),
          "The type of messages, of NumPy.")
      .def(
          "__iter__", [](nb::handle_t<PyRing> self) { return nb::borrow(self); }, nb::sig("def __iter__(self) -> Ring"))
      .def(
          "__next__",
          [](const PyRing& self) {
            nb::object message = pop(self, std::nullopt);
            if (message.is_none()) throw nb::stop_iteration();
            return message;
          },
          nb::sig("def __next__(self) -> typing.Any"));
  bind_common(ring);

  nb::class_<PyByteRing> bytes(
      m, "ByteRing",
      "A ring of messages of bytes, each with a type from 0 to 255; made by ``Runtime.byte_ring``. Operators declare a\n"
      "``dwell::ByteRing``. Iterating takes messages until the ring is closed, with ``async for`` too.");
  bytes.def("try_push", &try_push_bytes, "message"_a, "type"_a = 0, "Appends a message. False if there is no room, or the ring is closed.")
      .def("push", &push_bytes, "message"_a, "type"_a = 0, "timeout"_a = nb::none(),
           "Appends a message; waits for room. False when ``timeout``, in seconds, is over first.")
      .def("try_pop", &try_pop_bytes, nb::sig("def try_pop(self) -> tuple[int, bytes] | None"),
           "The next message, its type first; None if there is none.")
      .def("pop", &pop_bytes, "timeout"_a = nb::none(), nb::sig("def pop(self, timeout: float | None = None) -> tuple[int, bytes] | None"),
           "The next message, its type first; waits for it. None at the end of a closed ring, and when ``timeout``, in seconds, is "
           "over\nfirst.")
      .def(
          "__iter__", [](nb::handle_t<PyByteRing> self) { return nb::borrow(self); }, nb::sig("def __iter__(self) -> ByteRing"))
      .def(
          "__next__",
          [](const PyByteRing& self) {
            nb::object message = pop_bytes(self, std::nullopt);
            if (message.is_none()) throw nb::stop_iteration();
            return message;
          },
          nb::sig("def __next__(self) -> tuple[int, bytes]"));
  bind_common(bytes);
}

}  // namespace dwell::python
