#include "foreign_dlpack.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <dwell/detail/checked.hpp>

#include "cuda_stream.hpp"
#include "dlpack.hpp"

namespace dwell::python {

namespace {

void set_tensor(Foreign& to, const dlpack::Tensor& tensor, const std::string& name) {
  const detail::Checked begin = detail::Checked(reinterpret_cast<std::uintptr_t>(tensor.data)) + tensor.byte_offset;
  if (!begin.fits())
    refuse_array(name, "its DLPack tensor begins " + std::to_string(tensor.byte_offset) + " bytes behind its data, which is no address");
  to.data = tensor.data == nullptr ? nullptr : reinterpret_cast<void*>(static_cast<std::uintptr_t>(begin.value()));
  to.itemsize = std::max<std::size_t>(static_cast<std::size_t>(tensor.type.bits) * tensor.type.lanes / 8, 1);
  if (tensor.dimensions < 0 || (tensor.dimensions > 0 && tensor.shape == nullptr))
    refuse_array(name, "its DLPack tensor has " + std::to_string(tensor.dimensions) + " dimensions" +
                           (tensor.dimensions < 0 ? "" : ", and no shape"));
  to.set_shape({tensor.shape, tensor.shape + tensor.dimensions}, name);
  if (tensor.strides != nullptr && to.count > 0) {
    std::int64_t expected = 1;  // below the number of elements
    for (std::int32_t i = tensor.dimensions; i-- > 0;) {
      if (tensor.shape[i] > 1 && tensor.strides[i] != expected) to.contiguous = false;
      expected *= tensor.shape[i];
    }
    if (!to.contiguous) to.strides.assign(tensor.strides, tensor.strides + tensor.dimensions);
  }
  to.type_text = "DLPack type " + std::to_string(tensor.type.code) + " of " + std::to_string(tensor.type.bits) + " bits";
  to.type = dlpack::element_type_of(tensor.type);
}

// Its deleter may run Python code.
template <class Any>
std::shared_ptr<void> owned(Any* managed) {
  return std::shared_ptr<void>(managed, [](void* dropped) {
    auto* const one = static_cast<Any*>(dropped);
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0)
      dlpack::call_deleter(one);
    else
      post([one] { dlpack::call_deleter(one); });
  });
}

void set_place(Foreign& to, std::int32_t type, std::int32_t id) {
  to.id = id;
  switch (type) {
    case dlpack::kCpu: to.place = Foreign::Place::host; break;
    case dlpack::kCuda: to.place = Foreign::Place::cuda; break;
    case dlpack::kCudaHost: to.place = Foreign::Place::pinned; break;
    case dlpack::kCudaManaged: to.place = Foreign::Place::managed; break;
    default: to.place = Foreign::Place::other; to.place_text = "a device of DLPack's type " + std::to_string(type);
  }
}

}  // namespace

Foreign from_dlpack(nb::handle object, const RuntimeState& runtime, const std::string& name) {
  Foreign to;
  try {
    const nb::object device = object.attr("__dlpack_device__")();
    set_place(to, nb::cast<std::int32_t>(nb::int_(nb::object(device[0]))), nb::cast<std::int32_t>(nb::int_(nb::object(device[1]))));
    if (!is_reachable(to, runtime)) {
      // Its type would take a capsule to find out.
      to.type_text = nb::hasattr(object, "dtype") ? nb::cast<std::string>(nb::str(object.attr("dtype"))) : "unknown type";
      return to;
    }
    // The tasks run on no stream: its owner makes the legacy default stream wait for what it has under way, and the host waits for that.
    const bool cuda = to.place == Foreign::Place::cuda;
    const auto ask = [&](bool versioned) {
      nb::dict how;
      if (cuda) how["stream"] = kLegacyStream;
      if (versioned) how["max_version"] = nb::make_tuple(dlpack::kVersion.major, dlpack::kVersion.minor);
      return how;
    };
    nb::object capsule;
    try {
      const nb::dict how = ask(true);
      capsule = object.attr("__dlpack__")(**how);
    } catch (nb::python_error& error) {
      if (!error.matches(PyExc_TypeError)) throw;  // of a producer from before version 1
      const nb::dict how = ask(false);
      capsule = object.attr("__dlpack__")(**how);
    }
    if (PyCapsule_IsValid(capsule.ptr(), dlpack::kVersionedName) != 0) {
      auto* const managed = static_cast<dlpack::ManagedVersioned*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::kVersionedName));
      if (managed->version.major != dlpack::kVersion.major)
        refuse_array(name, "it speaks DLPack " + std::to_string(managed->version.major) + ", dwell speaks 1");
      PyCapsule_SetName(capsule.ptr(), dlpack::kUsedVersionedName);
      to.keep = owned(managed);
      to.readonly = (managed->flags & (dlpack::kReadOnly | dlpack::kCopied)) != 0;  // what is written into a copy is lost
      set_tensor(to, managed->tensor, name);
    } else if (PyCapsule_IsValid(capsule.ptr(), dlpack::kName) != 0) {
      auto* const managed = static_cast<dlpack::Managed*>(PyCapsule_GetPointer(capsule.ptr(), dlpack::kName));
      PyCapsule_SetName(capsule.ptr(), dlpack::kUsedName);
      to.keep = owned(managed);
      set_tensor(to, managed->tensor, name);
    } else {
      refuse_array(name, "__dlpack__ of " + python_name(object) + " has returned no capsule of DLPack");
    }
    if (cuda && to.count > 0) {
      const Unlocked unlocked;
      wait_for_stream(to.id, kLegacyStream);
    }
    return to;
  } catch (nb::python_error& error) {
    refuse_array(name, python_name(object) + " does not let its memory be shared by DLPack: " + text_of_raised(error));
  }
}

}  // namespace dwell::python
