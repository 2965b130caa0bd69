// How dwell top looks.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "screen_text.hpp"
#include "top_state.hpp"

namespace dwell::tool {

// The picture of a state, in lines of at most `width` columns: exactly `height` of them, or without one as many as there are, with all
// operators and without the line of keys.
std::vector<Line> render(const TopState& state, std::size_t width, std::optional<std::size_t> height);

}  // namespace dwell::tool
