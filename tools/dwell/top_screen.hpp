// Draws the screen of dwell top.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "screen_text.hpp"
#include "top_state.hpp"

namespace dwell::tool {

// Returns a state as lines of at most `width` columns: exactly `height` lines; without a height, all operators and no line of keys.
std::vector<Line> render(const TopState& state, std::size_t width, std::optional<std::size_t> height);

}  // namespace dwell::tool
