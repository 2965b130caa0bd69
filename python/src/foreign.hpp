// Arrays of other libraries: NumPy, DLPack, __cuda_array_interface__.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "element_type.hpp"
#include "state.hpp"

namespace dwell::python {

// The description of an array of another library, which it keeps alive.
struct Foreign {
  // cuda: on device `id`. pinned, managed: in host memory that devices reach. other: on what `place` names.
  enum class Place { host, pinned, managed, cuda, other };

  void* data = nullptr;
  std::size_t count = 0;
  std::size_t itemsize = 1;
  std::optional<ElementType> type;  // nothing: a struct, or a type that dwell does not know
  std::string type_text;            // as its owner names it
  std::vector<std::size_t> shape;
  std::vector<std::int64_t> strides;  // in elements; empty when they follow from the shape, or are none of whole elements
  Place place = Place::host;
  int id = 0;
  std::string place_text;
  bool readonly = false;
  bool contiguous = true;  // in C order
  bool swapped = false;    // of the other byte order
  std::shared_ptr<void> keep;
  std::string of;  // the Python type

  std::size_t bytes() const { return count * itemsize; }  // below 2^63
  // The shape, as its owner has it, and the count. Throws errc::invalid_argument, naming `name`, for one that no array has.
  void set_shape(const std::vector<std::int64_t>& sizes, const std::string& name);
  std::string text() const;  // "numpy.ndarray of float64, shape (3,), on the CPU"
};

// Describes an object by the protocols that it has; nothing for an object that is no array. Waits for a CUDA array if it lies on the device
// of `runtime`. Throws errc::invalid_argument, naming `name` ("argument 1 of operator 'axpy'"), if the object refuses.
std::optional<Foreign> describe(nb::handle object, const RuntimeState& runtime, const std::string& name);

// Why the runtime cannot reach this array, and why it cannot work on it; empty if it can.
std::string out_of_reach(const Foreign& array, const RuntimeState& runtime);
std::string unusable(const Foreign& array, const RuntimeState& runtime);

// Returns whether the runtime's device reaches the memory.
bool is_reachable(const Foreign& array, const RuntimeState& runtime);

// As messages name the type of an object: "torch.Tensor".
std::string python_name(nb::handle object);

// A Python exception that was raised, as a text.
std::string text_of_raised(nb::python_error& error);

// Throws errc::invalid_argument about the argument `name`.
[[noreturn]] void refuse_array(const std::string& name, const std::string& why);

}  // namespace dwell::python
