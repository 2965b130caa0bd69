// Operations on tensors, collected on the host and run as few tasks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <dwell/expression.hpp>
#include <dwell/operand.hpp>
#include <dwell/reduction.hpp>
#include <dwell/runtime.hpp>
#include <dwell/tensor.hpp>

namespace dwell {

class OperationList;

namespace device {
enum class RowResult : u8;
}  // namespace device
namespace tensor {
struct Collected;
struct Operation;
struct Product;
struct Selection;
class ProgramBuilder;
class Rows;
}  // namespace tensor

// Counts of a batch since its construction.
struct BatchStats {
  std::uint64_t operations = 0;  // collected, intermediate copies included
  std::uint64_t tasks = 0;       // submitted; fewer than operations where some were fused
  std::uint64_t programs = 0;    // of these, elementwise programs
  std::uint64_t compiled = 0;    // of the programs, run by an operator compiled for them (Options::compile_programs_after)
};

// Collects operations on tensors until flush. Orders them by memory: an operation runs after earlier ones that write what it reads or
// writes, and after earlier ones that read what it writes. Independent operations run concurrently. Used by one thread at a time. The
// runtime must outlive it.
class Batch {
 public:
  // Defines dwell's elementwise operators in the runtime, unless a batch already has. The first call that needs another operator defines
  // it. Both throw as Runtime::define.
  explicit Batch(Runtime& runtime);
  ~Batch();  // drops operations that were not flushed
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // to = from, element by element; converted to the type of `to`, broadcast to its shape. `from` may read elements of `to`: all are read
  // before any is written, as if through a copy.
  // Throws errc::invalid_argument when the shapes do not fit or elements of `to` share memory; errc::resource_limit for more than 64
  // instructions, 16 tensors, 32 numbers, or 8 intermediate results at once; errc::unsupported for 2^31 elements or more, and for u16, u32,
  // u64 and complex types, unless `from` is a tensor of the type of `to`, which is copied.
  void assign(const TensorView& to, const Expression& from);

  // to = op(operands...), as `assign` with an expression of one operation, and cheaper: batch.apply(TensorOp::add, y, {x, 1.0}). Throws as
  // `assign` and Expression::of.
  void apply(TensorOp op, const TensorView& to, std::initializer_list<Operand> operands) {
    apply(op, to, std::span<const Operand>(operands.begin(), operands.size()));
  }
  void apply(TensorOp op, const TensorView& to, std::span<const Operand> operands);

  // to = formula(operands...), as `assign`, with the elements of tensors converted to `computed`. Cheaper from the second call on, for up
  // to 5 operands. A formula must build the same expression for any operands. Throws as `assign` and what the formula throws.
  using Formula = Expression (*)(std::span<const Expression> operands);
  void apply(Formula formula, ElementType computed, const TensorView& to, std::span<const Operand> operands);

  // ---- Products of matrices, up to some hundreds of rows and columns. 16-bit floats are multiplied and accumulated in f32, integers
  // modulo 2^64. Results do not depend on the number of workers. All tensors have one type: f16, bf16, f32, f64, i8, i16, i32, i64 or u8.
  // Strides are arbitrary. `to` may overlap the operands: they are read as if before any write.
  // All throw errc::invalid_argument, naming the argument, for shapes and types that do not fit and when elements of `to` share memory;
  // errc::unsupported for other types and 2^31 elements or more.

  // to (m, n) = a (m, k) times b (k, n).
  void mm(const TensorView& to, const TensorView& a, const TensorView& b);
  // mm for each matrix of a batch: to (batch, m, n) = a (batch, m, k) times b (batch, k, n).
  void bmm(const TensorView& to, const TensorView& a, const TensorView& b);
  // As torch.matmul: a vector is a row on the left and a column on the right, and `to` lacks that dimension. Dimensions before the last two
  // are a batch, and broadcast.
  void matmul(const TensorView& to, const TensorView& a, const TensorView& b);
  // to = beta * bias + alpha * (a times b). The bias broadcasts to the shape of `to`, and may be `to`. A beta of 0 does not read it, an
  // alpha of 0 reads neither a nor b. Both must be whole numbers for integer tensors.
  void addmm(const TensorView& to, const TensorView& bias, const TensorView& a, const TensorView& b, double beta = 1, double alpha = 1);
  void baddbmm(const TensorView& to, const TensorView& bias, const TensorView& a, const TensorView& b, double beta = 1, double alpha = 1);
  // to (m) = a (m, k) times x (k); with a bias that broadcasts to (m).
  void mv(const TensorView& to, const TensorView& a, const TensorView& x);
  void addmv(const TensorView& to, const TensorView& bias, const TensorView& a, const TensorView& x, double beta = 1, double alpha = 1);
  // to () = the sum of x (k) times y (k).
  void dot(const TensorView& to, const TensorView& x, const TensorView& y);
  // to (m, n) = x (m) times y (n): an assignment, of any types.
  void outer(const TensorView& to, const TensorView& x, const TensorView& y);

  // ---- Elements chosen by an index of i32 or i64. `to` and `from` have the same type, any one (for scatter_add one with operations), and
  // arbitrary strides. All throw as products do. An index outside [0, size of its dimension) fails the task: the ticket's wait throws
  // errc::task_failed, and its status is status::index_out_of_range. That index reads and writes nothing; the other elements are computed.

  // to[..., j, ...] = from[..., index[j], ...] in dimension `dim`. `to` has the shape of `from`, but the size of the index in `dim`.
  void index_select(const TensorView& to, const TensorView& from, std::size_t dim, const TensorView& index);
  // to[i..., j...] = from[index[i...], j...]: rows of a table, for an index of any shape.
  void embedding(const TensorView& to, const TensorView& from, const TensorView& index);
  // to[i, j, k] = from[i, index[i, j, k], k] for dimension 1 of 3, and so on. `to` has the shape of the index. In other dimensions the
  // index must not be larger than `from`.
  void gather(const TensorView& to, const TensorView& from, std::size_t dim, const TensorView& index);
  // to[i, index[i, j, k], k] += from[i, j, k] for dimension 1 of 3, and so on. The index must not be larger than `from` in any dimension,
  // nor larger than `to` in the others. Additions to one element on CUDA, for f32, f64, i32 and i64, are atomic and in any order. Otherwise
  // they run in the order of j, with a rounding after each.
  void scatter_add(const TensorView& to, std::size_t dim, const TensorView& index, const TensorView& from);

  // ---- Triangles of matrices, and concatenation. `from` may read elements of `to`.

  // to = from where the column is at most (tril) or at least (triu) the row plus the diagonal, else 0; for each matrix of the last two
  // dimensions.
  void tril(const TensorView& to, const TensorView& from, std::int64_t diagonal = 0);
  void triu(const TensorView& to, const TensorView& from, std::int64_t diagonal = 0);
  // Concatenates the tensors along a dimension (cat), or along a new one (stack). Assigns, so types are converted or copied.
  void cat(const TensorView& to, std::span<const TensorView> from, std::size_t dim);
  void stack(const TensorView& to, std::span<const TensorView> from, std::size_t dim);

  // ---- Reductions of x along dimensions: all if `axes` is empty; negative ones count from the last. `to` has the shape of x without them,
  // or with size 1 in their place. Computes in the common type of x and `to`, 16-bit floats in f32, and converts to the type of `to`;
  // result_of returns PyTorch's type. Sums of floats use several partial sums. Means and variances read the elements twice. NaN propagates.
  // The order of combination depends on shapes and strides, not on the number of workers. `to` may overlap x.
  // All throw errc::invalid_argument when shapes do not fit, elements of `to` share memory, `to` cannot hold such a result (integers for
  // floating point, or for means), or the reduction of no elements has no result; errc::unsupported for 2^31 elements or more.
  // DWELL_REDUCTIONS lists these functions and what each computes. Places are those of the first of equal elements, in row-major order, or
  // of the first NaN. var and stddev divide by the count minus `correction`.
#define DWELL_REDUCE_plain(name) \
  void name(const TensorView& to, const TensorView& x, const Dims& axes = {}) { reduce(Reduction::name, to, x, axes); }
#define DWELL_REDUCE_typed(name) DWELL_REDUCE_plain(name)
#define DWELL_REDUCE_corrected(name)                                                                   \
  void name(const TensorView& to, const TensorView& x, const Dims& axes = {}, double correction = 1) { \
    reduce(Reduction::name, to, x, axes, correction);                                                  \
  }
#define DWELL_REDUCE_own(name)
#define DWELL_REDUCE(name, pytorch, numpy, gives, calls, text) DWELL_REDUCE_##calls(name)
  DWELL_REDUCTIONS(DWELL_REDUCE)
#undef DWELL_REDUCE
#undef DWELL_REDUCE_own
#undef DWELL_REDUCE_corrected
#undef DWELL_REDUCE_typed
#undef DWELL_REDUCE_plain
  void norm(const TensorView& to, const TensorView& x, double p = 2, const Dims& axes = {}) { reduce(Reduction::norm, to, x, axes, p); }
  // The largest or smallest element along one dimension, and its place.
  void max(const TensorView& values, const TensorView& places, const TensorView& x, std::int64_t axis);
  void min(const TensorView& values, const TensorView& places, const TensorView& x, std::int64_t axis);
  // Any of them; `parameter` is the correction of var and stddev, and the exponent of a norm.
  void reduce(Reduction reduction, const TensorView& to, const TensorView& x, const Dims& axes, double parameter = 0);

  // ---- Functions of each element and all others along a dimension, or the last ones. `to` has the shape of x, and may be x. Types, order
  // and errors are as for reductions.
  void softmax(const TensorView& to, const TensorView& x, std::int64_t axis);
  void log_softmax(const TensorView& to, const TensorView& x, std::int64_t axis);
  // The sum of all elements up to this one.
  void cumsum(const TensorView& to, const TensorView& x, std::int64_t axis);
  // Normalizes along the last dimensions, whose sizes are `shape`: layer_norm to mean 0 and variance 1 (without correction), rms_norm to
  // mean square 1. Then multiplies by the weights and adds the biases, of the same shape.
  void layer_norm(const TensorView& to, const TensorView& x, const Dims& shape, const std::optional<TensorView>& weight = {},
                  const std::optional<TensorView>& bias = {}, double epsilon = 1e-5);
  void rms_norm(const TensorView& to, const TensorView& x, const Dims& shape, const std::optional<TensorView>& weight = {},
                double epsilon = 1e-5);

  // Submits all remaining tasks; those that can grow no more have been submitted before. The ticket is complete when all operations
  // collected since the last flush are; empty when there are none.
  Ticket flush();
  // As flush, but returns the tickets of all tasks submitted since the last flush or submit, in order. Saves the extra tasks that flush
  // needs to join them. `cut_short`: the last
  // program is incomplete, and is not counted among those that run often and are compiled.
  std::vector<Ticket> submit(bool cut_short = false);
  // Drops the order between submitted operations and later ones; the next flush does not wait for the former either. The caller keeps that
  // order by other means, such as Runtime::burst.
  void forget();

  // Skips stores of dead intermediate results: an assignment stores its result only if `needed` returns true for its memory [first, end),
  // which somebody outside of the batch may still read. The batch's thread calls `needed` before it submits a task, and when a program is
  // full. `needed` must not use the batch and must not throw. Operations collected already still see the result. Once `needed` has returned
  // false, nobody else may read the memory until it is written again. A call's own tensors are needed until it returns. Empty (the
  // default): stores everything.
  void store_only(std::function<bool(const TensorView::Extent&)> needed);

  // Notes each operation that is submitted from now on in the list too, for GangProgram: of a batch whose runtime captures a graph, say.
  // The list keeps the memory that operations need between their tasks: of a capture, it must live as long as the graph and its launches.
  void note_in(const OperationList& list);

  BatchStats stats() const;

 private:
  void add(const TensorView& to, const Expression& from);
  void add(const tensor::Operation& operation);
  // Implements `call` (its name in messages) as an assignment.
  void assign_for(std::string_view call, const TensorView& to, const Expression& from);
  // to = from, of the same type, also one without operations. Elements of `to` must not share memory; `to` may overlap `from`.
  void copy(const TensorView& to, const TensorView& from);
  bool apply_directly(TensorOp op, const TensorView& to, std::span<const Operand> operands);
  bool apply_directly(Formula formula, ElementType computed, const TensorView& to, std::span<const Operand> operands);
  static Expression expressed(TensorOp op, std::span<const Operand> operands);
  // Calls add(program) with the program that takes an assignment, or with a new one.
  template <class Add>
  bool add_to_program(const TensorView& to, std::span<const TensorView* const> reads, const Add& add);
  void select(const TensorView& to, const TensorView& from, const TensorView* index, const tensor::Selection& selection);
  void keep_triangle(const char* function, bool lower, const TensorView& to, const TensorView& from, std::int64_t diagonal);
  // Returns a tensor of the same shape in new memory, which lives as long as the collected operations (made_like), or a copy with the same
  // elements.
  TensorView made_like(const TensorView& view);
  TensorView copied(const TensorView& view);
  void multiply(const char* function, const tensor::Product& product, const char* a = "a", const char* b = "b");
  // Writes to `to`, or with `apart` to temporary memory, which is then copied to `to`.
  template <class Write>
  void write_apart(const TensorView& to, bool apart, const Write& write);
  void check(const TensorView& tensor) const;
  void reduce(Reduction reduction, const TensorView& to, const TensorView* values, const TensorView& x, const Dims& axes, double parameter);
  void replace(std::string_view what, const TensorView& to, const TensorView& x, const Dims& axes, device::RowResult result,
               double parameter, const std::optional<TensorView>& weight = {}, const std::optional<TensorView>& bias = {});
  void add_rows(const tensor::Rows& rows, std::span<const TensorView* const> writes, std::span<const TensorView* const> reads);
  tensor::ProgramBuilder& begin_program(const Dims& shape);
  void submit_first_program(bool counts = true);
  void submit_next(const Operator<>& op, std::span<const std::uint32_t> words, std::uint32_t flags, std::uint32_t groups);
  // The parts of flush before and after it makes a ticket.
  void submit_programs(bool counts = true);
  void end_flush();
  Ticket submit_task(const Operator<>& op, std::span<const std::uint32_t> words, std::uint32_t flags, std::uint32_t groups,
                     std::span<const Ticket> before);
  void join(std::vector<Ticket>& tickets, std::size_t most);

  std::unique_ptr<tensor::Collected> state_;
};

}  // namespace dwell
