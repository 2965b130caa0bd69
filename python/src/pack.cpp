#include "pack.hpp"

#include <nanobind/stl/string.h>

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <utility>

#include "heap.hpp"
#include "ring.hpp"

namespace dwell::python {

namespace {

bool is_pointer(Kind kind) { return kind == Kind::pointer || kind == Kind::const_pointer; }

std::string short_name(nb::handle object) { return nb::cast<std::string>(nb::str(object.type().attr("__name__"))); }

// Returns whether it is one number: Python's own, NumPy's scalars, and what counts as an index; but no array of one element.
bool is_number(nb::handle object) {
  PyObject* const one = object.ptr();
  return PyFloat_Check(one) || PyLong_Check(one) || (PyNumber_Check(one) != 0 && PySequence_Check(one) == 0 && !PyComplex_Check(one));
}

template <class T>
void add_value(Packed& to, const Parameter& type, T value) {
  to.arguments.add(type, std::as_bytes(std::span(&value, 1)));
}

// An array that fits a span: of its type; of bytes for a struct; of 16 bits without a type in C++ where u16 is asked for.
bool fits(const Parameter& declared, const std::optional<ElementType>& type, std::size_t itemsize, std::size_t bytes) {
  if (declared.bytes == 0 || declared.element == Kind::opaque) return true;  // a kernel's void*, or a pointer to structs
  if (declared.element == Kind::structure) return itemsize == declared.bytes || (type == ElementType::u8 && bytes % declared.bytes == 0);
  if (!type || bytes_of(*type) != declared.bytes) return false;
  if (kind_of(*type) == declared.element) return true;
  return declared.element == Kind::unsigned_integer && (*type == ElementType::f16 || *type == ElementType::bf16);
}

// What does fit a span or a pointer.
std::string fitting(const Parameter& declared) {
  if (const std::optional<ElementType> type = element_type_of(declared)) return "an array of " + numpy_name(*type) + " fits";
  const std::string bytes = std::to_string(declared.bytes);
  return "a dwell.Buffer or an array of uint8 with " + bytes + " bytes for each element fits, or an array whose structured dtype has " +
         bytes + " bytes";
}

}  // namespace

Kept*& captured() {
  thread_local Kept* one = nullptr;
  return one;
}

std::vector<Ticket> tickets_from(nb::handle object, const char* name) {
  std::vector<Ticket> tickets;
  const auto add = [&](nb::handle one) {
    const Receipt* receipt = nullptr;
    if (!nb::try_cast(one, receipt) || receipt == nullptr)
      throw Error(errc::signature_mismatch, std::string(name) + " takes a dwell.Ticket or a sequence of them, not " + short_name(one),
                  {"argument", name});
    require_epoch(receipt->epoch, "a ticket");
    tickets.push_back(receipt->ticket);
  };
  if (!object.is_valid() || object.is_none()) return tickets;
  if (!nb::isinstance<Receipt>(object) && (PySequence_Check(object.ptr()) != 0 || PyIter_Check(object.ptr()) != 0)) {
    for (const nb::handle one : object) add(one);
  } else {
    add(object);
  }
  return tickets;
}

std::string Packer::where(std::size_t index) const { return "argument " + std::to_string(index + 1) + " of " + kind_ + " '" + name_ + "'"; }

void Packer::mismatch(std::size_t index, nb::handle argument, const std::string& fits) const {
  throw Error(
      errc::signature_mismatch,
      where(index) + " is " + dwell::text_of(signature_.parameters()[index]) + ": " + short_name(argument) + " does not fit; " + fits,
      {kind_, name_, index + 1, 0});
}

void Packer::out_of_range(std::size_t index, nb::handle argument) const {
  throw Error(errc::invalid_argument,
              where(index) + " is " + dwell::text_of(signature_.parameters()[index]) + ", and cannot hold " +
                  nb::cast<std::string>(nb::str(argument)),
              {kind_, name_, index + 1, 0});
}

void Packer::add_integer(Packed& to, std::size_t index, const Parameter& type, nb::handle argument) {
  if (PyIndex_Check(argument.ptr()) == 0 || (PySequence_Check(argument.ptr()) != 0 && !PyLong_Check(argument.ptr())))
    mismatch(index, argument, "an int fits");
  const nb::object number = nb::steal(PyNumber_Index(argument.ptr()));
  if (!number.is_valid()) throw nb::python_error();
  const unsigned bits = type.bytes * 8U;
  std::uint64_t value = 0;
  if (type.kind == Kind::signed_integer) {
    int overflow = 0;
    const long long wide = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
    const long long most = std::numeric_limits<long long>::max() >> (64 - bits);
    if (overflow != 0 || wide > most || wide < -most - 1) out_of_range(index, argument);
    value = static_cast<std::uint64_t>(wide);
  } else {
    value = PyLong_AsUnsignedLongLong(number.ptr());
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      out_of_range(index, argument);
    }
    if (bits < 64 && value >> bits != 0) out_of_range(index, argument);
  }
  to.arguments.add(type, std::as_bytes(std::span(&value, 1)).first(type.bytes));  // little-endian, as all that dwell runs on
}

void Packer::add_bytes(Packed& to, std::size_t index, const Parameter& type, nb::handle argument) {
  Py_buffer view;
  if (PyObject_CheckBuffer(argument.ptr()) == 0) {
    mismatch(index, argument,
             "bytes, a NumPy scalar of a structured type or a ctypes.Structure of " + std::to_string(type.bytes) + " bytes fit");
  }
  if (PyObject_GetBuffer(argument.ptr(), &view, PyBUF_SIMPLE) != 0) throw nb::python_error();
  const auto bytes = static_cast<std::size_t>(view.len);
  if (bytes == type.bytes) {
    try {
      to.arguments.add(type, {static_cast<const std::byte*>(view.buf), bytes});
    } catch (...) {
      PyBuffer_Release(&view);
      throw;
    }
  }
  PyBuffer_Release(&view);
  if (bytes != type.bytes)
    mismatch(index, argument, "it has " + std::to_string(bytes) + " bytes, " + std::to_string(type.bytes) + " are needed");
}

void Packer::add_array(Packed& to, std::size_t index, const Parameter& type, nb::handle argument) {
  // As a span: of pointers too, which a launch makes of it.
  Parameter given = type;
  if (is_pointer(type.kind)) {
    given.kind = type.kind == Kind::pointer ? Kind::span : Kind::const_span;
    if (type.bytes == 0) given = {given.kind, Kind::opaque, 1};
  }
  const Array* ours = nullptr;
  if (nb::try_cast(argument, ours) && ours != nullptr) {
    require_epoch(ours->epoch, "the buffer");
    if (!fits(type, ours->type, bytes_of(ours->type), ours->bytes()))
      throw Error(errc::signature_mismatch,
                  where(index) + " is " + dwell::text_of(type) + ": a dwell.Buffer of " + numpy_name(ours->type) + ", size " +
                      std::to_string(ours->count) + ", does not fit; " + fitting(type),
                  {kind_, name_, index + 1, 0});
    to.arguments.add(given, ours->slice());
    to.kept.push_back(ours->memory);
    return;
  }
  const auto add = [&](const Known& known) {
    const Foreign& array = known.array;
    const bool writes = type.kind == Kind::span || type.kind == Kind::pointer;
    if (!fits(type, array.type, array.itemsize, array.bytes()))
      throw Error(errc::signature_mismatch,
                  where(index) + " is " + dwell::text_of(type) + ": " + array.text() + ", does not fit; " + fitting(type),
                  {kind_, name_, index + 1, 0});
    if (writes && array.readonly)
      throw Error(errc::invalid_argument,
                  where(index) + " is " + dwell::text_of(type) + ", which is written to: " + array.text() +
                      ", does not fit; pass an array that may be written to",
                  {kind_, name_, index + 1, 0});
    to.arguments.add(given, known.memory->buffer.slice());
    to.kept.push_back(known.memory);
  };
  for (const Known& known : known_)
    if (known.object == argument.ptr()) return add(known);
  std::optional<Foreign> array = describe(argument, *runtime_, where(index));
  if (!array)
    mismatch(index, argument, "a dwell.Buffer, a NumPy array, or one that shares its memory by DLPack or __cuda_array_interface__ fits");
  const auto refuse = [&](errc code, const std::string& why) {
    throw Error(code,
                where(index) + " is " + dwell::text_of(type) + ": " + array->text() + ", does not fit" + (why.empty() ? "" : "; " + why),
                {kind_, name_, index + 1, 0});
  };
  if (const std::string why = out_of_reach(*array, *runtime_); !why.empty()) refuse(errc::invalid_argument, why);
  if (!fits(type, array->type, array->itemsize, array->bytes())) refuse(errc::signature_mismatch, fitting(type));
  if (const std::string why = unusable(*array, *runtime_); !why.empty()) refuse(errc::invalid_argument, why);
  auto memory = wrap(runtime_, *array, where(index));
  known_.push_back({argument.ptr(), std::move(memory), *std::move(array)});
  add(known_.back());
}

// A parameter of a kernel with C linkage: its size is all that is known.
void Packer::add_opaque(Packed& to, std::size_t index, const Parameter& type, nb::handle argument) {
  const Parameter value{Kind::structure, Kind::structure, type.bytes};
  const auto raw = [&](const auto& number) { to.arguments.add(value, std::as_bytes(std::span(&number, 1))); };
  if (PyBool_Check(argument.ptr()) && type.bytes == 1) {
    raw(argument.ptr() == Py_True);
  } else if (PyFloat_Check(argument.ptr()) && type.bytes == 8) {
    raw(PyFloat_AsDouble(argument.ptr()));
  } else if (PyFloat_Check(argument.ptr()) && type.bytes == 4) {
    raw(static_cast<float>(PyFloat_AsDouble(argument.ptr())));
  } else if (PyLong_Check(argument.ptr()) && type.bytes <= 8) {
    const long long wide = PyLong_AsLongLong(argument.ptr());
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      out_of_range(index, argument);
    }
    const unsigned bits = type.bytes * 8U;
    if (bits < 64 && (wide >> bits) != 0 && (wide >> (bits - 1)) != -1) out_of_range(index, argument);
    to.arguments.add(value, std::as_bytes(std::span(&wide, 1)).first(type.bytes));
  } else if (PyBytes_Check(argument.ptr())) {
    add_bytes(to, index, value, argument);
  } else if (type.bytes == 8) {
    add_array(to, index, {Kind::pointer, Kind::opaque, 0}, argument);
  } else {
    mismatch(index, argument, "a number or bytes of its size fit");
  }
}

void Packer::pack_one(Packed& to, std::size_t index, nb::handle argument) {
  const Parameter& type = signature_.parameters()[index];
  PyObject* const one = argument.ptr();
  switch (type.kind) {
    case Kind::span:
    case Kind::const_span: return add_array(to, index, type, argument);
    case Kind::signed_integer:
    case Kind::unsigned_integer: return add_integer(to, index, type, argument);
    case Kind::floating:
    case Kind::bfloat: {
      if (!is_number(argument)) mismatch(index, argument, "a float or an int fits");
      const double value = PyFloat_AsDouble(one);
      if (value == -1.0 && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        mismatch(index, argument, "a float or an int fits");
      }
      if (type.kind == Kind::bfloat) return add_value(to, type, bfloat16(static_cast<float>(value)));
      if (type.bytes == 2) return add_value(to, type, half(static_cast<float>(value)));
      if (type.bytes == 4) return add_value(to, type, static_cast<float>(value));
      return add_value(to, type, value);
    }
    case Kind::boolean: {
      const std::string_view name = Py_TYPE(one)->tp_name;
      if (!PyBool_Check(one) && name != "numpy.bool" && name != "numpy.bool_") mismatch(index, argument, "a bool fits");
      return add_value(to, type, PyObject_IsTrue(one) == 1);
    }
    case Kind::complex: {
      if (!PyComplex_Check(one) && !is_number(argument)) mismatch(index, argument, "a complex, a float or an int fits");
      const Py_complex value = PyComplex_AsCComplex(one);
      if (value.real == -1.0 && PyErr_Occurred() != nullptr) {
        PyErr_Clear();
        mismatch(index, argument, "a complex, a float or an int fits");
      }
      if (type.bytes == 8) return add_value(to, type, std::complex<float>(static_cast<float>(value.real), static_cast<float>(value.imag)));
      return add_value(to, type, std::complex<double>(value.real, value.imag));
    }
    case Kind::exec: {
      const Exec* exec = nullptr;
      if (!nb::try_cast(argument, exec) || exec == nullptr) mismatch(index, argument, "a dwell.GraphExec fits");
      to.arguments.add(exec->exec);
      to.kept.push_back(exec->kept);
      return;
    }
    case Kind::ring: {
      const PyRing* ring = nullptr;
      const PyByteRing* bytes = nullptr;
      if (type.bytes == 0 && nb::try_cast(argument, bytes) && bytes != nullptr) {
        to.arguments.add(static_cast<const ByteRingBuffer&>(*bytes->ring));
        to.kept.push_back(bytes->ring);
      } else if (type.bytes != 0 && nb::try_cast(argument, ring) && ring != nullptr) {
        if (ring->ring->message_bytes() != type.bytes)
          mismatch(index, argument,
                   "a ring of messages of " + std::to_string(type.bytes) + " bytes fits, this one's have " +
                       std::to_string(ring->ring->message_bytes()));
        to.arguments.add(type, *ring->ring);
        to.kept.push_back(ring->ring);
      } else {
        mismatch(index, argument, type.bytes == 0 ? "a dwell.ByteRing fits" : "a dwell.Ring fits");
      }
      return;
    }
    case Kind::pointer:
    case Kind::const_pointer:
      if (PyLong_Check(one)) {
        // An address: the caller keeps what is there.
        const std::uint64_t address = PyLong_AsUnsignedLongLong(one);
        if (PyErr_Occurred() != nullptr) {
          PyErr_Clear();
          out_of_range(index, argument);
        }
        to.arguments.add({type.kind == Kind::pointer ? Kind::span : Kind::const_span, Kind::opaque, 1},
                         BufferView(address, 0, ElementType::u8));
        return;
      }
      return add_array(to, index, type, argument);
    case Kind::opaque: return add_opaque(to, index, type, argument);
    case Kind::structure: {
      const PyRef* ref = nullptr;
      if (type.bytes == sizeof(ref->unit) && nb::try_cast(argument, ref) && ref != nullptr) return add_value(to, type, ref->unit);
      return add_bytes(to, index, type, argument);
    }
  }
}

void Packer::pack(Packed& to, PyObject* const* arguments, std::size_t count) {
  const std::size_t wanted = signature_.parameters().size();
  if (count != wanted)
    throw Error(errc::signature_mismatch,
                std::string(kind_) + " '" + name_ + "' takes " + std::to_string(wanted) + (wanted == 1 ? " argument, " : " arguments, ") +
                    signature_.text() + "; " + std::to_string(count) + (count == 1 ? " was given" : " were given"),
                {kind_, name_, count, wanted});
  for (std::size_t i = 0; i < count; ++i) pack_one(to, i, arguments[i]);
}

void Packer::add(Packed& to, const Modifiers& modifiers) {
  Arguments& arguments = to.arguments;
  if (modifiers.gang != 0) {
    if (modifiers.groups != 1) throw Error(errc::invalid_argument, "a task has groups=n or gang=n, not both", {"argument", "gang"});
    arguments.add(gang(modifiers.gang));
  } else if (modifiers.groups != 1) {
    arguments.add(groups(modifiers.groups));
  }
  if (modifiers.repeat != 1) arguments.add(repeat(modifiers.repeat));
  if (modifiers.link) arguments.add(link);
  if (modifiers.hard_link) arguments.add(hard_link);
  if (modifiers.drain) arguments.add(drain);
  if (modifiers.priority) arguments.add(priority(*modifiers.priority));
  if (const auto tickets = tickets_from(modifiers.after, "after"); !tickets.empty()) arguments.add(after(tickets));
  if (const auto tickets = tickets_from(modifiers.after_any_result, "after_any_result"); !tickets.empty())
    arguments.add(after_any_result(tickets));
}

}  // namespace dwell::python
