// Parts of the loop, by name.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace dwell {

// A part of the loop that a program may name: see Options::parts.
enum class Part : std::uint8_t {
  links,       // link, after, drain
  gates,       // tasks that wait for kernels, events or streams
  priorities,  // Options::priorities
  gangs,       // gang
  graphs,      // Graph, with host nodes
  times,       // Metering::times and traces
  repeats,     // repeat
};
// Their names, by value.
inline constexpr std::array<std::string_view, 7> kPartNames = {"links", "gates", "priorities", "gangs", "graphs", "times", "repeats"};

// A set of parts.
class Parts {
 public:
  static const Parts used;  // none; each part is added at its first use
  static const Parts all;   // each Part, and tasks that operators make

  constexpr Parts() = default;
  constexpr Parts(std::initializer_list<Part> parts) {
    for (const Part part : parts) add(part);
  }
  constexpr void add(Part part) { bits_ |= 1U << static_cast<unsigned>(part); }
  constexpr bool has(Part part) const { return (bits_ >> static_cast<unsigned>(part) & 1U) != 0; }
  constexpr bool operator==(const Parts&) const = default;

 private:
  constexpr explicit Parts(std::uint32_t bits) : bits_(bits) {}

  std::uint32_t bits_ = 0;
};
inline constexpr Parts Parts::used = Parts();
inline constexpr Parts Parts::all = Parts(~0U);

}  // namespace dwell
