#include <dwell/signature.hpp>

namespace dwell {

namespace {

std::string scalar_text(Kind kind, unsigned bytes) {
  const std::string bits = std::to_string(bytes * 8);
  switch (kind) {
    case Kind::boolean: return "bool";
    case Kind::signed_integer: return "i" + bits;
    case Kind::unsigned_integer: return "u" + bits;
    case Kind::floating: return bytes == 2 ? "half" : bytes == 4 ? "float" : bytes == 8 ? "double" : "f" + bits;
    case Kind::bfloat: return "bfloat16";
    case Kind::exec: return "Exec";
    case Kind::complex: return bytes == 8 ? "complex<float>" : "complex<double>";
    case Kind::opaque: return std::to_string(bytes) + " bytes of any kind";
    default: return "struct of " + std::to_string(bytes) + " bytes";
  }
}

std::string pointer_text(Kind element, unsigned bytes) {
  if (element == Kind::opaque) return "void*";
  if (element == Kind::pointer) return "pointer*";
  return (element == Kind::structure && bytes == 0 ? "struct" : scalar_text(element, bytes)) + "*";
}

}  // namespace

std::string text_of(const Parameter& parameter) {
  switch (parameter.kind) {
    case Kind::span: return "Span<" + scalar_text(parameter.element, parameter.bytes) + ">";
    case Kind::ring: return parameter.bytes == 0 ? "ByteRing" : "Ring<" + scalar_text(parameter.element, parameter.bytes) + ">";
    case Kind::const_span: return "Span<const " + scalar_text(parameter.element, parameter.bytes) + ">";
    case Kind::pointer: return pointer_text(parameter.element, parameter.bytes);
    case Kind::const_pointer: return "const " + pointer_text(parameter.element, parameter.bytes);
    default: return scalar_text(parameter.kind, parameter.bytes);
  }
}

std::string Signature::text() const {
  std::string text = "(";
  for (const Parameter& parameter : parameters_) text += (text.size() > 1 ? ", " : "") + text_of(parameter);
  return text + ")";
}

}  // namespace dwell
