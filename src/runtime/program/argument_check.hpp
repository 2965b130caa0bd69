// Checks the arguments of a call against an operator or a kernel.
#pragma once

#include <span>
#include <string>

#include <dwell/signature.hpp>

namespace dwell::runtime {

// Whether parameter `declared` accepts an argument of type `given`: detail::accepts, detail::kernel_accepts.
using Accepts = bool (*)(const Parameter& declared, const Parameter& given);

// Throws errc::signature_mismatch, with both lists and the first difference, unless `given` fits what the `kind` ("operator", "kernel")
// named `name` takes. Its fields: kind, name, and the numbers of arguments given and taken where they differ.
void check_arguments(const char* kind, const std::string& name, const Signature& signature, std::span<const Parameter> given,
                     Accepts accepts);

}  // namespace dwell::runtime
