// How an image calls its operators.
#pragma once

namespace dwell {

enum class Tier {
  relocatable,  // through a table; linked within a millisecond or two
  lto,          // inlined into the loop, by link-time optimisation; linking takes tens to hundreds of milliseconds. CUDA only
};

}  // namespace dwell
