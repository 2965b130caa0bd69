// The picture that the demonstration must come to: all of it at once, one step after the other, on the host.
#pragma once

#include "image.hpp"

namespace dwell::tool {

// The picture with each version of the tone operator.
struct DemoReference {
  Image plain;  // version 1
  Image print;  // version 2
};

DemoReference demo_reference(const Image& source);

}  // namespace dwell::tool
