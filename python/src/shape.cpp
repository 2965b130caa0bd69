#include "shape.hpp"

#include <cstdint>

#include <dwell/detail/checked.hpp>
#include <dwell/error.hpp>

namespace dwell::python {

std::string shape_text(const std::vector<std::size_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

nb::tuple shape_tuple(const std::vector<std::size_t>& shape) {
  nb::list list;
  for (const std::size_t extent : shape) list.append(extent);
  return nb::tuple(list);
}

std::vector<std::size_t> shape_from(nb::handle object) {
  std::vector<std::size_t> shape;
  const auto extent = [](nb::handle one) {
    const auto value = nb::cast<std::int64_t>(nb::int_(nb::borrow(one)));
    if (value < 0) throw Error(errc::invalid_argument, "a shape has no negative extents", {"argument", "shape"});
    return static_cast<std::size_t>(value);
  };
  if (PyIndex_Check(object.ptr())) return {extent(object)};
  for (const nb::handle one : object) shape.push_back(extent(one));
  return shape;
}

std::optional<ShapeSize> size_of(const std::vector<std::size_t>& shape, std::size_t element) {
  const detail::Checked count = detail::product_of(shape);
  const detail::Checked bytes = count * element;
  if (!bytes.fits()) return std::nullopt;
  return ShapeSize{static_cast<std::size_t>(count.value()), static_cast<std::size_t>(bytes.value())};
}

ShapeSize size_in_memory(const std::vector<std::size_t>& shape, ElementType type) {
  const std::optional<ShapeSize> size = size_of(shape, bytes_of(type));
  if (!size) throw Error(errc::out_of_memory, "an array of shape " + shape_text(shape) + " fits into no memory", {"memory", ""});
  return *size;
}

}  // namespace dwell::python
