// The text of products of matrices, and of reductions.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "tensor/device/product.hpp"
#include "tensor/device/rows.hpp"
#include "tensor/gang/forms.hpp"

namespace dwell::tensor::gang {

namespace {

using device::ProductWords;
using device::RowsWords;

std::string constant(const std::string& type, const std::string& name, const std::string& value) {
  return "  static constexpr " + type + " " + name + " = " + value + ";\n";
}
std::string count(const std::string& name, std::int64_t value) { return constant("u32", name, std::to_string(value)); }
// A float as bits, so that all of them pass.
std::string number(const std::string& name, float value) {
  return "  static DWELL_DEVICE float " + name + "() { return bits_as<float>(" + std::to_string(std::bit_cast<std::uint32_t>(value)) +
         "U); }\n";
}

// A function of indices, as a sum of products with strides.
std::string offset(const std::string& name, const std::vector<std::string>& indices, const std::vector<std::int64_t>& sizes,
                   const std::vector<std::int64_t>& strides) {
  std::string parameters;
  std::string sum;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (i != 0) parameters += ", ";
    const bool used = sizes[i] != 1 && strides[i] != 0;
    parameters += "u32" + (used ? " " + indices[i] : std::string());
    if (!used) continue;
    if (!sum.empty()) sum += " + ";
    sum += "static_cast<i32>(" + indices[i] + ")";
    if (strides[i] != 1) sum += " * " + std::to_string(strides[i]);
  }
  return "  static DWELL_HOST_DEVICE i32 " + name + "(" + parameters + ") { return " + (sum.empty() ? "0" : sum) + "; }\n";
}

std::int64_t power_of_two(std::int64_t most) {
  return most < 1 ? 1 : static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(most)));
}
// Threads that share an element of a product's result, or a row.
std::int64_t lanes_of(std::int64_t outputs, std::int64_t length, std::uint32_t threads) {
  if (threads == 1) return 1;
  return std::min({power_of_two(threads / std::max<std::int64_t>(outputs, 1)), power_of_two(length / 4), std::int64_t{32}});
}

// The columns of a product's second factor that a member keeps.
std::string kept_columns(std::int64_t n, const Owned& owned) {
  const std::string all = std::to_string(n);
  if (owned.period == 0)
    return "  static DWELL_DEVICE u32 columns(u32 rank) { return " + all + " * (rank + 1) / kMembers - " + all + " * rank / kMembers; }\n" +
           "  static DWELL_DEVICE u32 column(u32 rank, u32 i) { return " + all + " * rank / kMembers + i; }\n";
  const std::string each = std::to_string(owned.each);
  return "  static DWELL_DEVICE u32 columns(u32) { return " + owned.count(n) + "; }\n" +
         "  static DWELL_DEVICE u32 column(u32 rank, u32 i) { return i / " + each + " * " + std::to_string(owned.period) + " + rank * " +
         each + " + i % " + each + "; }\n";
}

std::string product_shape(const Operation& operation, std::uint32_t threads, std::int64_t outputs) {
  const ProductShape& shape = operation.product;
  const ProductWords words(operation.words.data());
  std::string text = count("batch", shape.batch) + count("m", shape.m) + count("n", shape.n) + count("k", shape.k);
  text += count("lanes", lanes_of(outputs, shape.k, threads)) + count("pitch", pitch_of(shape, threads, outputs));
  const View& b = operation.tensors[ProductWords::b];
  const std::int64_t lanes = lanes_of(outputs, shape.k, threads);
  constexpr std::int64_t kBanks = 32;
  const bool same_bank = b.strides[1] == 1 && b.strides[2] % kBanks == 0 && shape.k % lanes == 0;
  text += constant("bool", "turns", threads > 1 && same_bank && shape.n > 1 ? "true" : "false");
  text += constant("bool", "has_bias", words.has_bias() ? "true" : "false");
  text += number("alpha", std::bit_cast<float>(static_cast<std::uint32_t>(words.alpha())));
  text += number("beta", words.has_bias() ? std::bit_cast<float>(static_cast<std::uint32_t>(words.beta())) : 0.0F);
  const std::array<std::string, 4> names{"to", "a", "b", "bias"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const View& view = operation.tensors[i < operation.tensors.size() ? i : 0];
    const std::vector<std::string> indices = i == ProductWords::a   ? std::vector<std::string>{"matrix", "row", "d"}
                                             : i == ProductWords::b ? std::vector<std::string>{"matrix", "d", "column"}
                                                                    : std::vector<std::string>{"matrix", "row", "column"};
    text += offset(names[i], indices, view.sizes, view.strides);
  }
  return text;
}

}  // namespace

std::int64_t pitch_of(const ProductShape& shape, std::uint32_t threads, std::int64_t outputs) {
  // Columns that a warp reads at once begin in other banks of the member's memory.
  const std::int64_t lanes = lanes_of(outputs, shape.k, threads);
  const std::int64_t beyond = shape.k % 32;
  return threads == 1 ? shape.k : shape.k + (lanes % 32 + 32 - beyond) % 32;
}

FormText product_text(const Operation& operation, const Places& places, By by, std::uint32_t threads, std::int64_t outputs,
                      const std::string& word, const Owned& owned) {
  std::string members = product_shape(operation, threads, outputs);
  const std::string bias = places.size() > ProductWords::bias ? places[ProductWords::bias] : "static_cast<const float*>(nullptr)";
  const std::string& a = places[ProductWords::a];
  const std::string& b = places[ProductWords::b];
  switch (by) {
    case By::shared:
      return {members,
              "  multiply_shared<Form, kMembers, kThreads>(m, " + places[ProductWords::to] + ", " + a + ", " + b + ", " + bias + ");\n"};
    case By::each:
      return {members, "  multiply<Form, kThreads>(m, " + places[ProductWords::to] + ", " + a + ", " + b + ", " + bias + ");\n"};
    case By::parts: return {members, "  multiply_part<Form, kMembers, kThreads>(m, " + word + ", " + a + ", " + b + ", " + bias + ");\n"};
    case By::kept:
    case By::own: break;
  }
  const bool own = by == By::own;
  members += kept_columns(operation.product.n, owned);
  members += constant("bool", "stays", own ? "true" : "false") + constant("bool", "hands_on", word.empty() ? "false" : "true");
  const std::string to = own ? places[ProductWords::to] : "static_cast<float*>(nullptr)";
  return {members,
          "  multiply_kept<Form, kThreads>(m, " + to + ", " + (word.empty() ? "0" : word) + ", " + a + ", " + b + ", " + bias + ");\n"};
}

std::optional<Tile> tile_of(const ProductShape& shape, std::uint32_t members) {
  constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 10U;
  if (members == 1 || shape.m < 8 || shape.n < 8 || shape.k < 16 || shape.k > 2048) return {};
  // As square as can be: then its rows and columns are fewest.
  std::int64_t wanted = std::max<std::int64_t>(shape.outputs() / members, 1);
  Tile tile{.rows = 1, .columns = 1, .pitch = (shape.k + 31) / 32 * 32 + 4};
  for (; wanted > 1; wanted /= 2) {
    const bool taller = (tile.rows <= tile.columns && shape.m % (2 * tile.rows) == 0) || shape.n % (2 * tile.columns) != 0;
    std::int64_t& side = taller ? tile.rows : tile.columns;
    if ((taller ? shape.m : shape.n) % (2 * side) != 0) break;
    side *= 2;
    if (tile.bytes() <= kMostBytes) continue;
    side /= 2;
    break;
  }
  if (tile.rows < 2 || tile.columns < 2) return {};
  return tile;
}

FormText tiled_text(const Operation& operation, const Places& places, std::uint32_t threads, const Tile& tile, const std::string& tiles) {
  const ProductShape& shape = operation.product;
  std::string members = product_shape(operation, threads, tile.rows * tile.columns);
  members += count("tile_rows", tile.rows) + count("tile_columns", tile.columns) + count("tile_pitch", tile.pitch);
  const auto is_global = [&](std::size_t tensor) { return places[tensor].starts_with("m.global"); };
  const auto packs = [&](std::size_t tensor, std::size_t dim_of_k) {
    const View& view = operation.tensors[tensor];
    bool fits = is_global(tensor) && view.strides[dim_of_k] == 1 && view.address % 16 == 0 && shape.k % 4 == 0;
    for (std::size_t dim = 0; dim < view.strides.size(); ++dim) fits = fits && (dim == dim_of_k || view.strides[dim] % 4 == 0);
    return std::string(fits ? "true" : "false");
  };
  members += constant("bool", "global_a", is_global(ProductWords::a) ? "true" : "false");
  members += constant("bool", "global_b", is_global(ProductWords::b) ? "true" : "false");
  members += constant("bool", "packs_a", packs(ProductWords::a, 2)) + constant("bool", "packs_b", packs(ProductWords::b, 1));
  const std::string bias = places.size() > ProductWords::bias ? places[ProductWords::bias] : "static_cast<const float*>(nullptr)";
  return {members, "  multiply_tiles<Form, kMembers, kThreads>(m, " + places[ProductWords::to] + ", " + places[ProductWords::a] + ", " +
                       places[ProductWords::b] + ", " + bias + ", " + tiles + ");\n"};
}

FormText weights_text(const Operation& operation, const std::string& to, const std::string& from, std::uint32_t threads,
                      std::int64_t outputs, const Owned& owned) {
  const ProductShape& shape = operation.product;
  const View& b = operation.tensors[ProductWords::b];
  std::string text = count("n", shape.n) + count("k", shape.k) + count("pitch", pitch_of(shape, threads, outputs));
  const std::int64_t pitch = pitch_of(shape, threads, outputs);
  const bool packs = b.strides[1] == 1 && b.strides[2] % 4 == 0 && b.address % 16 == 0 && shape.k % 4 == 0 && pitch % 4 == 0;
  text += constant("bool", "packs", packs ? "true" : "false");
  text += offset("b", {"matrix", "d", "column"}, b.sizes, b.strides) + kept_columns(shape.n, owned);
  return {text, "  begin_weights<Form, kThreads>(m, " + to + ", " + from + ");\n"};
}

FormText rows_text(const Operation& operation, const Places& places, By by, std::uint32_t threads) {
  const RowsWords words(operation.words.data());
  const std::uint32_t row_dims = words.row_dims();
  std::string text =
      count("rows", words.rows()) + count("columns", words.columns()) + count("lanes", lanes_of(words.rows(), words.columns(), threads));
  if (threads == 1) text += "  using Number = " + std::string(words.number() == device::NumberClass::f64 ? "double" : "float") + ";\n";
  const auto named = [&](const std::string& type, const std::string& name, unsigned value) {
    text += constant(type, name, "static_cast<" + type + ">(" + std::to_string(value) + ")");
  };
  named("RowStatistic", "statistic", static_cast<unsigned>(words.statistic()));
  named("RowMap", "map", static_cast<unsigned>(words.map()));
  named("RowFold", "fold", static_cast<unsigned>(words.fold()));
  named("RowResult", "result", static_cast<unsigned>(words.result()));
  text +=
      constant("bool", "has_third", words.third() ? "true" : "false") + constant("bool", "has_fourth", words.fourth() ? "true" : "false");
  text += number("parameter", static_cast<float>(std::bit_cast<double>(words.parameter())));
  // Biases without weights are in the weights' place.
  const std::size_t fourth = words.third() ? 3 : 2;
  const std::array<std::size_t, 4> of{RowsWords::kInput, RowsWords::kResult, words.third() ? 2U : 0U, words.fourth() ? fourth : 0U};
  const std::array<std::string, 4> names{"input", "output", "third", "fourth"};
  for (std::size_t i = 0; i < names.size(); ++i) {
    const View& view = operation.tensors[of.at(i)];
    std::string sum;
    std::int64_t below = 1;
    for (std::size_t dim = view.sizes.size(); dim-- != 0;) {
      if (dim + 1 == row_dims) below = 1;
      const std::string index = dim < row_dims ? "row" : "column";
      if (view.sizes[dim] != 1 && view.strides[dim] != 0) {
        const bool outermost = dim == 0 || dim == row_dims;
        if (!sum.empty()) sum += " + ";
        sum += "static_cast<i32>(" + index + (below == 1 ? "" : " / " + std::to_string(below)) +
               (outermost ? "" : " % " + std::to_string(view.sizes[dim])) + ") * " + std::to_string(view.strides[dim]);
      }
      below *= view.sizes[dim];
    }
    text += "  static DWELL_DEVICE i32 " + names.at(i) + "(u32 row, u32 column) {\n    (void)row, (void)column;\n    return " +
            (sum.empty() ? "0" : sum) + ";\n  }\n";
  }
  std::string body = std::string("  reduce_rows<Form, ") + (by == By::each ? "1" : "kMembers") + ", kThreads>(m, " +
                     places[RowsWords::kResult] + ", " + places[RowsWords::kInput];
  for (std::size_t i = 2; i < of.size(); ++i) body += ", " + (of.at(i) == 0 ? "static_cast<const float*>(nullptr)" : places[of.at(i)]);
  return {text, body + ");\n"};
}

}  // namespace dwell::tensor::gang
