// Forms of steps: the C++ text that all steps share which differ in nothing but the places of their tensors.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <dwell/tensor.hpp>

#include "tensor/gang/noted.hpp"

namespace dwell::tensor::gang {

// A tensor of an operation, as its words have it.
struct View {
  std::uint64_t address = 0;
  ElementType type = ElementType::f32;
  std::vector<std::int64_t> sizes = {};
  std::vector<std::int64_t> strides = {};  // in elements
  bool read = false;
  bool written = false;

  TensorView::Extent extent() const;
  // Returns whether it is all elements of its extent. Dimensions without a stride repeat elements, as those along which a result is
  // reduced.
  bool is_dense() const;
};

// A product of matrices, in the terms of device/product.hpp.
struct ProductShape {
  std::int64_t batch = 1;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;

  std::int64_t outputs() const { return batch * m * n; }
  std::int64_t work() const { return outputs() * k; }
};

// An operation whose words have been read. Tensors of a program are in its order; of a product: to, a, b, and the bias if there is one; of
// rows: the input, the result, then the others.
struct Operation {
  NotedOperation::Kind kind = NotedOperation::Kind::other;
  std::vector<std::uint32_t> words = {};
  std::vector<View> tensors = {};
  ProductShape product = {};
  std::string refusal = {};  // why it has no form; empty if it has one
};

// Reads an operation's words. Throws errc::unsupported if it cannot tell the tensors.
Operation operation_of(const NotedOperation& noted);

// Elements of the result, or of what is reduced.
std::int64_t elements_of(const Operation& operation);

inline bool is_elementwise(const Operation& operation) { return operation.kind == NotedOperation::Kind::program; }

// Expressions of the tensors' addresses in the text of a form, such as m.local<const float>(at[2]).
using Places = std::vector<std::string>;

// The text of a form: members of a structure `Form`, and the body of a function of (Member& m, const u32* at), which knows it, and the
// constants kMembers and kThreads.
struct FormText {
  std::string members = {};
  std::string body = {};

  auto operator<=>(const FormText&) const = default;
};

// How members divide an operation.
//   each    each member does all of it
//   shared  each does a part, and the result lies in global memory
//   parts   each computes a part of a product, and hands it on as words
//   kept    the same, with weights that it keeps
//   own     each does the elements that it owns
enum class By : std::uint8_t { each, shared, parts, kept, own };

// The elements that a member owns of a tensor: of each `period` of them as many, one behind the other. The number of members divides it.
struct Owned {
  std::int64_t period = 0;
  std::int64_t each = 0;  // elements of a period

  // Text: how many of `elements` it owns; the i-th of them.
  std::string count(std::int64_t elements) const;
  std::string element(const std::string& i) const;
};
// Results that a step hands on to the other members: their places in the operation, and expressions of their first words.
using HandedOn = std::vector<std::pair<std::size_t, std::string>>;

FormText program_text(const Operation& operation, const Places& places, By by, std::uint32_t threads, const Owned& owned = {},
                      const HandedOn& handed_on = {});
FormText rows_text(const Operation& operation, const Places& places, By by, std::uint32_t threads);
// `outputs`: elements of the result that a member computes. `word`: an expression of the first word of its exchange, for parts; empty if
// nothing is handed on.
FormText product_text(const Operation& operation, const Places& places, By by, std::uint32_t threads, std::int64_t outputs,
                      const std::string& word, const Owned& owned = {});
// The tile of a product's result that a member computes at a time, from copies of its rows and columns.
struct Tile {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t pitch = 0;  // floats from a row or column to the next

  std::uint64_t bytes() const { return static_cast<std::uint64_t>((rows + columns) * pitch) * sizeof(float); }
};
// Nothing where tiles do not pay.
std::optional<Tile> tile_of(const ProductShape& shape, std::uint32_t members);
// A product in tiles, which lie at `tiles`.
FormText tiled_text(const Operation& operation, const Places& places, std::uint32_t threads, const Tile& tile, const std::string& tiles);
// The form in which a member loads the weights that it keeps, of the second tensor of a product.
FormText weights_text(const Operation& operation, const std::string& to, const std::string& from, std::uint32_t threads,
                      std::int64_t outputs, const Owned& owned);
// Elements from one kept column to the next.
std::int64_t pitch_of(const ProductShape& shape, std::uint32_t threads, std::int64_t outputs);

// The C++ name of an element type as forms use it.
std::string type_name(ElementType type);

}  // namespace dwell::tensor::gang
