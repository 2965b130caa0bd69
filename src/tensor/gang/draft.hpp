// A plan while it is made: what is known of the program, and what the planner's rooms have decided so far, one behind the other: members,
// slices, sharing, worth, placement. Then the steps are written from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <dwell/tensor.hpp>

#include "tensor/gang/forms.hpp"
#include "tensor/gang/noted.hpp"
#include "tensor/gang/owners.hpp"
#include "tensor/gang/plan.hpp"
#include "tensor/gang/ranges.hpp"

namespace dwell::tensor::gang {

inline constexpr std::uint64_t kMostLocal = std::uint64_t{48} << 10U;  // bytes of a tensor that each member has

// Throws errc::unsupported: the program does not fit a gang.
[[noreturn]] void refuse(const std::string& why);

// Weights that members keep.
struct Kept {
  const Operation* of = nullptr;  // the first product with them
  std::int64_t outputs = 0;
  std::uint64_t bytes = 0;
  std::uint64_t place = 0;
};

struct Draft {
  // The weights of a product: its second factor by address, shape and strides, and the columns that a member keeps.
  using WeightsKey = std::tuple<std::uint64_t, std::vector<std::int64_t>, std::vector<std::int64_t>, std::int64_t, std::int64_t>;

  // Reads the operations, and drops those whose results nobody reads. `needed` as plan_of has it. Throws as plan_of.
  Draft(const Noted& noted, const std::function<bool(const TensorView::Extent&)>& needed, const Limits& its_limits);
  Draft(const Draft&) = delete;  // it names operations by their places in memory
  Draft& operator=(const Draft&) = delete;

  // Returns whether members hand on parts of the product's result.
  bool is_handed_on(const Operation& operation) const;
  // Returns whether members keep the second factor.
  bool keeps(const Operation& operation) const;
  // Elements of the result that a member computes.
  std::int64_t outputs_of_member(const Operation& operation) const;
  // Bytes of the second factor that a member keeps.
  std::uint64_t kept_bytes_of(const Operation& operation) const;
  std::size_t index_of(const Operation& operation) const { return static_cast<std::size_t>(&operation - operations.data()); }
  const Ownership& ownership_of(const Operation& operation) const { return ownership[index_of(operation)]; }
  const Owned& owned_by(const Operation& operation) const { return ownership_of(operation).owned; }
  // The tile of a product that members share out; nothing where it is none, and where tiles do not pay.
  std::optional<Tile> tile_for(const Operation& operation) const;
  // The weights of a product that keeps them: notes them; finds them.
  void keep(const Operation& operation);
  const Kept& kept_for(const Operation& operation) const;

  const Limits limits;
  std::vector<Operation> operations;
  Ranges ranges;
  std::uint32_t members = 1;
  std::uint32_t threads = 1;  // of a member
  bool keeps_weights = true;
  std::vector<Kept> kept;
  std::map<WeightsKey, std::size_t> kept_at;
  std::vector<Ownership> ownership;               // by operation
  std::map<std::size_t, std::uint64_t> tiles_at;  // places of tiles, by operation
  std::uint64_t local_bytes = 0;                  // of a member's memory, behind the list

 private:
  WeightsKey key_of(const Operation& operation) const;
};

}  // namespace dwell::tensor::gang
