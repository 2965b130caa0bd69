// The expected picture of the demonstration, computed as a whole, step by step, on the host.
#pragma once

#include "image.hpp"

namespace dwell::tool {

// The expected picture with each version of the tone operator.
struct DemoReference {
  Image plain;  // version 1
  Image print;  // version 2
};

DemoReference demo_reference(const Image& source);

}  // namespace dwell::tool
