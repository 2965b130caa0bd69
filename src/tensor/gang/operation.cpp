// From the words of operations to their tensors.
#include <algorithm>
#include <cstddef>
#include <span>
#include <string>

#include <dwell/error.hpp>

#include "tensor/device/product.hpp"
#include "tensor/device/program.hpp"
#include "tensor/device/rows.hpp"
#include "tensor/gang/forms.hpp"

namespace dwell::tensor::gang {

namespace {

using device::Instruction;
using device::OperandKind;
using device::ProductWords;
using device::ProgramWords;
using device::RowsWords;
using device::Step;

[[noreturn]] void refuse_form(const std::string& what) { throw Error(errc::unsupported, "a program of the whole has no form for " + what); }

Operation program_of(const NotedOperation& noted) {
  const ProgramWords program(noted.words.data());
  Operation operation{.kind = noted.kind, .words = noted.words};
  std::vector<std::int64_t> sizes;
  for (std::uint32_t dim = 0; dim < program.dims(); ++dim) sizes.push_back(program.dims() > 1 ? program.size(dim) : program.elements());
  for (std::uint32_t i = 0; i < program.tensors(); ++i) {
    const std::uint32_t* const tensor = program.tensor(i);
    View view{.address = ProgramWords::address(tensor), .type = ProgramWords::type(tensor), .sizes = sizes};
    for (std::uint32_t dim = 0; dim < program.dims(); ++dim) view.strides.push_back(ProgramWords::stride(tensor, dim));
    operation.tensors.push_back(std::move(view));
  }
  for (std::uint32_t i = 0; i < program.instructions(); ++i) {
    const Instruction in(program.code()[i]);
    if (in.kind() != OperandKind::tensor) continue;
    View& view = operation.tensors.at(in.operand());
    if (in.code() == static_cast<std::uint32_t>(Step::store))
      view.written = true;
    else if (!view.written)  // else it reads what it has stored
      view.read = true;
  }
  return operation;
}

Operation product_of(const NotedOperation& noted) {
  const ProductWords words(noted.words.data());
  if (words.dims() > 1) refuse_form("products of a batch with several dimensions");
  Operation operation{.kind = noted.kind, .words = noted.words};
  if (words.type() != ElementType::f32) operation.refusal = "products of " + std::string(name_of(words.type()));
  operation.product = {.batch = words.dims() == 1 ? words.size(0) : 1, .m = words.m(), .n = words.n(), .k = words.k()};
  const ProductShape& shape = operation.product;
  const std::uint32_t tensors = words.has_bias() ? 4 : 3;
  for (std::uint32_t i = 0; i < tensors; ++i) {
    const std::uint32_t* const tensor = words.tensor(static_cast<ProductWords::Tensor>(i));
    View view{.address = ProductWords::address(tensor), .type = words.type()};
    const bool is_a = i == ProductWords::a;
    const bool is_b = i == ProductWords::b;
    view.sizes = {shape.batch, is_b ? shape.k : shape.m, is_a ? shape.k : shape.n};
    view.strides = {words.dims() == 1 ? ProductWords::batch_stride(tensor, 0) : 0, ProductWords::row_stride(tensor),
                    ProductWords::column_stride(tensor)};
    view.written = i == ProductWords::to;
    view.read = !view.written;
    operation.tensors.push_back(std::move(view));
  }
  if (shape.k == 0) operation.refusal = "products without factors";
  return operation;
}

Operation rows_of(const NotedOperation& noted) {
  using device::RowMap;
  using device::RowPhase;
  using device::RowResult;
  const RowsWords words(noted.words.data());
  Operation operation{.kind = noted.kind, .words = noted.words};
  const std::string what = "a reduction ";
  // A batch computes moments of floats in f64 on a CPU.
  const bool wide_moments = words.number() == device::NumberClass::f64 && words.statistic() == device::RowStatistic::moments;
  if (words.number() != device::NumberClass::f32 && !wide_moments) operation.refusal = what + "of other numbers than floats of 32 bits";
  if (words.phase() != RowPhase::whole) refuse_form(what + "of rows that are long enough to be cut");
  if (words.result() == RowResult::place || words.result() == RowResult::running) operation.refusal = what + "to places, and running sums";
  if (words.map() != RowMap::none && words.map() != RowMap::square && words.map() != RowMap::abs) operation.refusal = what + "of this kind";
  if (words.result() == RowResult::power) operation.refusal = what + "to other norms than the first two";
  const std::uint32_t dims = words.row_dims() + words.column_dims();
  const std::uint32_t tensors = 2U + (words.third() ? 1U : 0U) + (words.fourth() ? 1U : 0U);
  for (std::uint32_t i = 0; i < tensors; ++i) {
    const std::uint32_t* const tensor = words.tensor(i);
    View view{.address = ProgramWords::address(tensor), .type = ProgramWords::type(tensor)};
    if (view.type != ElementType::f32 && operation.refusal.empty())
      operation.refusal = what + "of tensors of " + std::string(name_of(view.type));
    for (std::uint32_t dim = 0; dim < dims; ++dim) {
      view.sizes.push_back(words.words()[RowsWords::kSizes + dim]);
      view.strides.push_back(ProgramWords::stride(tensor, dim));
    }
    // Places come with the elements that are there.
    view.written = i == RowsWords::kResult || (i == RowsWords::kThird && words.result() == RowResult::place);
    view.read = !view.written;
    operation.tensors.push_back(std::move(view));
  }
  return operation;
}

}  // namespace

NotedOperation moved(const NotedOperation& noted, std::span<const MovedMemory> moves) {
  NotedOperation made = noted;
  // Words of all tensors begin with an address of 48 bits.
  const auto move = [&](const std::uint32_t* tensor) {
    const std::uint64_t address = ProgramWords::address(tensor);
    const auto of =
        std::ranges::find_if(moves, [&](const MovedMemory& one) { return one.from.first <= address && address < one.from.end; });
    if (of == moves.end()) return;
    const std::uint64_t to = of->to + (address - of->from.first);
    std::uint32_t* const words = made.words.data() + (tensor - noted.words.data());
    words[0] = static_cast<std::uint32_t>(to);
    words[1] = (words[1] & 0xFFFF0000U) | static_cast<std::uint32_t>(to >> 32U);
  };
  switch (noted.kind) {
    case NotedOperation::Kind::program: {
      const ProgramWords words(noted.words.data());
      for (std::uint32_t i = 0; i < words.tensors(); ++i) move(words.tensor(i));
      break;
    }
    case NotedOperation::Kind::product: {
      const ProductWords words(noted.words.data());
      for (std::uint32_t i = 0; i < (words.has_bias() ? 4U : 3U); ++i) move(words.tensor(static_cast<ProductWords::Tensor>(i)));
      break;
    }
    case NotedOperation::Kind::rows: {
      const RowsWords words(noted.words.data());
      for (std::uint32_t i = 0; i < 2U + (words.third() ? 1U : 0U) + (words.fourth() ? 1U : 0U); ++i) move(words.tensor(i));
      break;
    }
    case NotedOperation::Kind::other: break;
  }
  return made;
}

TensorView::Extent View::extent() const {
  std::int64_t least = 0;
  std::int64_t most = 0;
  for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
    const std::int64_t reach = (sizes[dim] - 1) * strides[dim];
    (reach < 0 ? least : most) += reach;
  }
  const auto bytes = static_cast<std::int64_t>(bytes_of(type));
  return {address + static_cast<std::uint64_t>(least * bytes), address + static_cast<std::uint64_t>((most + 1) * bytes)};
}

bool View::is_dense() const {
  std::uint64_t elements = 1;
  for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
    if (strides[dim] != 0) elements *= static_cast<std::uint64_t>(sizes[dim]);
  }
  const TensorView::Extent all = extent();
  return elements * bytes_of(type) == all.end - all.first;
}

std::int64_t elements_of(const Operation& operation) {
  if (operation.kind == NotedOperation::Kind::product) return operation.product.outputs();
  std::int64_t elements = 1;
  for (const std::int64_t size : operation.tensors.front().sizes) elements *= size;
  return elements;
}

Operation operation_of(const NotedOperation& noted) {
  switch (noted.kind) {
    case NotedOperation::Kind::program: return program_of(noted);
    case NotedOperation::Kind::product: return product_of(noted);
    case NotedOperation::Kind::rows: return rows_of(noted);
    case NotedOperation::Kind::other: break;
  }
  refuse_form("elements that an index chooses");
}

}  // namespace dwell::tensor::gang
