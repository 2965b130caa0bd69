// From the arguments of a call in Python to those of a task.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "buffer.hpp"
#include "state.hpp"

namespace dwell::python {

// dwell.Ticket. Keeps no runtime alive: it goes on telling what became of its task.
struct Receipt {
  Ticket ticket;
  std::uint32_t epoch = fork_epoch();
};

// dwell.Operator.
struct Handle {
  Operator<> op;
  State runtime;
};

// What Python's graphs keep alive, beside what the library does: memory and graphs that nodes name.
using Kept = std::vector<std::shared_ptr<void>>;

// What an exec keeps: of its graph, and of arguments that were set, by node and index.
struct ExecKept {
  Kept nodes;
  std::map<std::string, Kept> set;
};

// dwell.GraphExec.
struct Exec {
  GraphExec exec;
  State runtime;
  std::shared_ptr<ExecKept> kept;
};

// The modifiers of a submission as they are given by name.
struct Modifiers {
  std::uint32_t groups = 1;
  std::uint32_t gang = 0;  // 0: none
  nb::object after;
  nb::object after_any_result;
  bool link = false;
  bool hard_link = false;
  bool drain = false;
  std::optional<std::uint32_t> priority;
  std::uint32_t repeat = 1;
};

// The tickets of `after`: one, or a sequence of them.
std::vector<Ticket> tickets_from(nb::handle object, const char* name);

// A list of arguments for the library, with what must live until it is submitted.
struct Packed {
  Arguments arguments;
  Kept kept;
};

// Packs positional arguments by a signature. `kind` and `name` ("operator", "axpy") are for messages. Wrapped arrays that occur more than
// once are wrapped once, as long as the packer lives. The caller holds the GIL.
class Packer {
 public:
  Packer(State runtime, const char* kind, const std::string& name, const Signature& signature)
      : runtime_(std::move(runtime)), kind_(kind), name_(name), signature_(signature) {}

  // Throws errc::signature_mismatch for a wrong number or type of arguments, errc::invalid_argument for values and arrays that do not fit.
  void pack(Packed& to, PyObject* const* arguments, std::size_t count);
  // One of the parameters alone.
  void pack_one(Packed& to, std::size_t index, nb::handle argument);
  void add(Packed& to, const Modifiers& modifiers);

 private:
  std::string where(std::size_t index) const;
  [[noreturn]] void mismatch(std::size_t index, nb::handle argument, const std::string& fits) const;
  [[noreturn]] void out_of_range(std::size_t index, nb::handle argument) const;
  void add_integer(Packed& to, std::size_t index, const Parameter& type, nb::handle argument);
  void add_array(Packed& to, std::size_t index, const Parameter& type, nb::handle argument);
  void add_opaque(Packed& to, std::size_t index, const Parameter& type, nb::handle argument);
  void add_bytes(Packed& to, std::size_t index, const Parameter& type, nb::handle argument);

  State runtime_;
  const char* kind_;
  const std::string& name_;
  const Signature& signature_;
  struct Known {
    PyObject* object;
    std::shared_ptr<HeldMemory> memory;
    Foreign array;
  };
  std::vector<Known> known_;
};

// The memory and graphs of what this thread captures into a graph, or null.
Kept*& captured();

}  // namespace dwell::python
