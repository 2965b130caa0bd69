// Signatures of operators and kernels on the host.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <dwell/device/signature.hpp>

namespace dwell {

// The parameter list of an operator or a kernel, as read from its compiled object or deduced from a typed handle. A value.
class Signature {
 public:
  Signature() = default;
  explicit Signature(std::vector<Parameter> parameters) : parameters_(std::move(parameters)) {}
  explicit Signature(const SignatureRecord& record) : parameters_(record.parameters, record.parameters + record.count) {}

  // The signature of a parameter list.
  template <class... Parameters>
  static Signature of() {
    return Signature(device::signature_of<Parameters...>());
  }

  const std::vector<Parameter>& parameters() const { return parameters_; }
  bool operator==(const Signature&) const = default;

  // As C++ would write it: "(float, Span<const float>, Span<float>)".
  std::string text() const;

 private:
  std::vector<Parameter> parameters_;
};

// As C++ would write it: "float", "Span<const i32>", "const float*", "struct of 24 bytes".
std::string text_of(const Parameter& parameter);

}  // namespace dwell
