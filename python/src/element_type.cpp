#include "element_type.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>

namespace dwell::python {

namespace {

constexpr TypeName kTypes[] = {
    {ElementType::f16, "float16", "<f2"},
    {ElementType::bf16, "bfloat16", nullptr},
    {ElementType::f32, "float32", "<f4"},
    {ElementType::f64, "float64", "<f8"},
    {ElementType::i8, "int8", "|i1"},
    {ElementType::i16, "int16", "<i2"},
    {ElementType::i32, "int32", "<i4"},
    {ElementType::i64, "int64", "<i8"},
    {ElementType::u8, "uint8", "|u1"},
    {ElementType::u16, "uint16", "<u2"},
    {ElementType::u32, "uint32", "<u4"},
    {ElementType::u64, "uint64", "<u8"},
    {ElementType::boolean, "bool", "|b1"},
    {ElementType::complex64, "complex64", "<c8"},
    {ElementType::complex128, "complex128", "<c16"},
};

}  // namespace

const TypeName& named(ElementType type) { return *std::ranges::find(kTypes, type, &TypeName::type); }

std::string numpy_name(ElementType type) { return named(type).numpy; }

std::optional<ElementType> type_of(char kind, std::size_t bytes) {
  switch (kind) {
    case 'f':
      return bytes == 2   ? std::optional(ElementType::f16)
             : bytes == 4 ? std::optional(ElementType::f32)
             : bytes == 8 ? std::optional(ElementType::f64)
                          : std::nullopt;
    case 'i':
      return bytes == 1   ? std::optional(ElementType::i8)
             : bytes == 2 ? std::optional(ElementType::i16)
             : bytes == 4 ? std::optional(ElementType::i32)
             : bytes == 8 ? std::optional(ElementType::i64)
                          : std::nullopt;
    case 'u':
      return bytes == 1   ? std::optional(ElementType::u8)
             : bytes == 2 ? std::optional(ElementType::u16)
             : bytes == 4 ? std::optional(ElementType::u32)
             : bytes == 8 ? std::optional(ElementType::u64)
                          : std::nullopt;
    case 'b': return bytes == 1 ? std::optional(ElementType::boolean) : std::nullopt;
    case 'c':
      return bytes == 8 ? std::optional(ElementType::complex64) : bytes == 16 ? std::optional(ElementType::complex128) : std::nullopt;
    default: return std::nullopt;
  }
}

ElementType element_type_from(nb::handle object) {
  ElementType type{};
  if (nb::try_cast(object, type)) return type;
  if (object.is(nb::handle(reinterpret_cast<PyObject*>(&PyFloat_Type)))) return ElementType::f64;
  if (object.is(nb::handle(reinterpret_cast<PyObject*>(&PyLong_Type)))) return ElementType::i64;
  if (object.is(nb::handle(reinterpret_cast<PyObject*>(&PyBool_Type)))) return ElementType::boolean;
  if (object.is(nb::handle(reinterpret_cast<PyObject*>(&PyComplex_Type)))) return ElementType::complex128;
  // numpy.float32, a type of NumPy's: its name; numpy.dtype("float32"), torch.float32: their texts.
  std::string text = nb::cast<std::string>(nb::str(PyType_Check(object.ptr()) ? nb::object(object.attr("__name__")) : nb::borrow(object)));
  if (const std::size_t dot = text.rfind('.'); dot != std::string::npos) text.erase(0, dot + 1);
  // Not by dwell's own short names: "i8" has eight bytes for NumPy.
  for (const TypeName& one : kTypes)
    if (text == one.numpy) return one.type;
  std::string names;
  for (const TypeName& one : kTypes) names += (names.empty() ? "" : ", ") + std::string(one.numpy);
  throw Error(errc::invalid_argument, "'" + text + "' is no element type of dwell: there are " + names + ", and dwell.ElementType",
              {"argument", "dtype"});
}

}  // namespace dwell::python
