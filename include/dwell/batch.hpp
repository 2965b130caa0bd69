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

// What a batch has done since it was made.
struct BatchStats {
  std::uint64_t operations = 0;  // collected, copies in between among them
  std::uint64_t tasks = 0;       // submitted: fewer, as far as operations became part of others
  std::uint64_t programs = 0;    // of these, elementwise programs
  std::uint64_t compiled = 0;    // and among those, by an operator that is compiled for the program (Options::compile_programs_after)
};

// Collects operations on tensors until flush, and keeps their order where memory asks for it: an operation comes behind those before it
// that write what it reads or writes, and those that read what it writes. The others run beside each other. Belongs to one thread at a
// time. The runtime must outlive it.
class Batch {
 public:
  // Defines dwell's operators for elements in the runtime, if no batch has before; those for other operations are defined with the first
  // call that needs them. Both throw as Runtime::define.
  explicit Batch(Runtime& runtime);
  ~Batch();  // drops what was not flushed
  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // to = from, element by element; converted to the type of `to`, broadcast to its shape. Elements of `to` may be read by `from`: all are
  // read before any is written, as if through a copy. Throws errc::invalid_argument when the shapes do not fit or elements of `to` share
  // memory, errc::resource_limit when the expression is too large for a program: more than 64 instructions, 16 tensors, 32 numbers, or 8
  // intermediate results at once; errc::unsupported for 2^31 elements or more, and for u16, u32, u64 and complex types, unless `from` is a
  // tensor of the type of `to`, which is copied.
  void assign(const TensorView& to, const Expression& from);

  // to = op(operands...), as `assign` with an expression of one operation, and cheaper: batch.apply(TensorOp::add, y, {x, 1.0}). Throws as
  // `assign` and Expression::of.
  void apply(TensorOp op, const TensorView& to, std::initializer_list<Operand> operands) {
    apply(op, to, std::span<const Operand>(operands.begin(), operands.size()));
  }
  void apply(TensorOp op, const TensorView& to, std::span<const Operand> operands);

  // to = formula(operands...), as `assign`, with the elements of tensors as numbers of type `computed`; and cheaper from the second time
  // on, for up to 5 operands. A formula says the same each time, whatever the operands are. Throws as `assign` and what the formula throws.
  using Formula = Expression (*)(std::span<const Expression> operands);
  void apply(Formula formula, ElementType computed, const TensorView& to, std::span<const Operand> operands);

  // ---- Products of matrices, up to some hundreds of rows and columns. Matrices of 16-bit numbers are multiplied and added up in f32,
  // those of integers modulo 2^64; results do not depend on the number of workers. All tensors are of one type: f16, bf16, f32, f64, i8,
  // i16, i32, i64 or u8. Any strides; `to` may lie in memory of the others: they are read as if before anything is written. All throw
  // errc::invalid_argument, naming the argument, for shapes and types that do not fit and when elements of `to` share memory;
  // errc::unsupported for other types and 2^31 elements or more.

  // to (m, n) = a (m, k) times b (k, n).
  void mm(const TensorView& to, const TensorView& a, const TensorView& b);
  // The same for each of a batch: to (batch, m, n) = a (batch, m, k) times b (batch, k, n).
  void bmm(const TensorView& to, const TensorView& a, const TensorView& b);
  // As torch.matmul: vectors are a row on the left and a column on the right, which `to` does not have; dimensions ahead of the last two
  // are a batch, and broadcast.
  void matmul(const TensorView& to, const TensorView& a, const TensorView& b);
  // to = beta * bias + alpha * (a times b), where the bias broadcasts to the shape of `to`, and may be `to`. With a beta of 0 it is not
  // read, with an alpha of 0 a and b are not. Both are whole numbers where the tensors hold integers.
  void addmm(const TensorView& to, const TensorView& bias, const TensorView& a, const TensorView& b, double beta = 1, double alpha = 1);
  void baddbmm(const TensorView& to, const TensorView& bias, const TensorView& a, const TensorView& b, double beta = 1, double alpha = 1);
  // to (m) = a (m, k) times x (k); with a bias that broadcasts to (m).
  void mv(const TensorView& to, const TensorView& a, const TensorView& x);
  void addmv(const TensorView& to, const TensorView& bias, const TensorView& a, const TensorView& x, double beta = 1, double alpha = 1);
  // to () = the sum of x (k) times y (k).
  void dot(const TensorView& to, const TensorView& x, const TensorView& y);
  // to (m, n) = x (m) times y (n): an assignment, of any types.
  void outer(const TensorView& to, const TensorView& x, const TensorView& y);

  // ---- Elements chosen by an index, of i32 or i64. `to` and `from` are of one type, any (for scatter_add one that has operations), and
  // any strides. All throw as products do. An index below 0, or not below the size of the dimension that it counts along, fails the task:
  // the ticket's wait throws errc::task_failed, its status is status::index_out_of_range, and nothing is read or written there, while other
  // elements are done.

  // to[..., j, ...] = from[..., index[j], ...] in dimension `dim`; `to` has the shape of `from`, but for as many as the index has there.
  void index_select(const TensorView& to, const TensorView& from, std::size_t dim, const TensorView& index);
  // to[i..., j...] = from[index[i...], j...]: rows of a table, for an index of any shape.
  void embedding(const TensorView& to, const TensorView& from, const TensorView& index);
  // to[i, j, k] = from[i, index[i, j, k], k] for dimension 1 of 3, and so on; `to` has the shape of the index, which in other dimensions is
  // not larger than `from`.
  void gather(const TensorView& to, const TensorView& from, std::size_t dim, const TensorView& index);
  // to[i, index[i, j, k], k] += from[i, j, k] for dimension 1 of 3, and so on; the index is in no dimension larger than `from`, and in
  // others not larger than `to`. Elements that are added to one element: on a CPU, and for other types than f32, f64, i32 and i64, one
  // after the other in the order of j, with a rounding after each; those types on CUDA by atomic additions in any order.
  void scatter_add(const TensorView& to, std::size_t dim, const TensorView& index, const TensorView& from);

  // ---- Parts of matrices, and tensors put together. Elements of `to` may be read by `from`.

  // to = from where the column is at most the row plus the diagonal, or at least that, else 0; for each matrix of the last two dimensions.
  void tril(const TensorView& to, const TensorView& from, std::int64_t diagonal = 0);
  void triu(const TensorView& to, const TensorView& from, std::int64_t diagonal = 0);
  // The tensors behind each other along a dimension, or along a new one: assignments, so that types are converted, or copied.
  void cat(const TensorView& to, std::span<const TensorView> from, std::size_t dim);
  void stack(const TensorView& to, std::span<const TensorView> from, std::size_t dim);

  // ---- Reductions of x along dimensions: all, when `axes` names none; negative ones count from the last. `to` has the shape of x without
  // them, or with size 1 in their place. Numbers are computed in the common type of x and `to`, those of 16 bits in f32, and converted to
  // the type of `to`; result_of says which type PyTorch has there. Sums of floats are of several partial sums, means and variances go twice
  // over the elements. What is no number is passed on. The order of combination depends on shapes and strides, and not on how many workers
  // there are. Memory of `to` may be read as x. All throw errc::invalid_argument when shapes do not fit, elements of `to` share memory, the
  // type of `to` is none for such a result (integers for floating point, or for means), or there is no result of no elements;
  // errc::unsupported for 2^31 elements or more.
  // The functions that follow are those of DWELL_REDUCTIONS, which says what each computes. Places are those of the first of equal
  // elements, in the order of rows, or of the first that is no number. `correction` is what var and stddev divide by, less than the count.
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
  // The largest or smallest along one dimension, and its place.
  void max(const TensorView& values, const TensorView& places, const TensorView& x, std::int64_t axis);
  void min(const TensorView& values, const TensorView& places, const TensorView& x, std::int64_t axis);
  // Any of them; `parameter` is the correction of var and stddev, and the exponent of a norm.
  void reduce(Reduction reduction, const TensorView& to, const TensorView& x, const Dims& axes, double parameter = 0);

  // ---- What replaces each element of x by something that follows from all along a dimension, or the last ones; `to` has the shape of x,
  // and may be x. Types, order and errors are as for reductions.
  void softmax(const TensorView& to, const TensorView& x, std::int64_t axis);
  void log_softmax(const TensorView& to, const TensorView& x, std::int64_t axis);
  // The sum of all elements up to this one.
  void cumsum(const TensorView& to, const TensorView& x, std::int64_t axis);
  // `shape` is that of the last dimensions, along which the mean becomes 0 and the variance (without correction) 1, or the mean square
  // becomes 1; that of weights, which elements are then multiplied with; and that of biases, which are added.
  void layer_norm(const TensorView& to, const TensorView& x, const Dims& shape, const std::optional<TensorView>& weight = {},
                  const std::optional<TensorView>& bias = {}, double epsilon = 1e-5);
  void rms_norm(const TensorView& to, const TensorView& x, const Dims& shape, const std::optional<TensorView>& weight = {},
                double epsilon = 1e-5);

  // Submits what was not submitted yet: tasks are as soon as nothing more can become part of them. The ticket is complete when all is that
  // was collected since the last flush; empty, when there is nothing.
  Ticket flush();
  // As flush, with the tickets of all tasks that were submitted since the last flush or submit, in their order, instead of one for all of
  // them, which takes tasks of its own that wait for the others. `cut_short`: the last
  // program is incomplete, and is not counted among those that run often and are compiled.
  std::vector<Ticket> submit(bool cut_short = false);
  // What is collected from now on does not wait for what was submitted, nor does the next flush: something else keeps that order, as
  // Runtime::burst does.
  void forget();

  // From now on results of assignments are stored only where `needed` says that somebody outside of the batch may still read memory [first,
  // end): for intermediate results that are gone. It is called when a task is about to be submitted, or a program is full, by the thread
  // that uses the batch, must not use the batch, and must not throw. What is collected already and reads that memory sees the results all
  // the same; once `needed` has denied it, nothing else may, until it is written again. A call's own tensors are needed until it returns.
  // Empty, as at first: everything is stored.
  void store_only(std::function<bool(const TensorView::Extent&)> needed);

  BatchStats stats() const;

 private:
  void add(const TensorView& to, const Expression& from);
  void add(const tensor::Operation& operation);
  // What `call`, as messages name it, does by an assignment.
  void assign_for(std::string_view call, const TensorView& to, const Expression& from);
  // to = from, of the same type, which need have no operations. `to` may not share elements with itself, but may with `from`.
  void copy(const TensorView& to, const TensorView& from);
  bool apply_directly(TensorOp op, const TensorView& to, std::span<const Operand> operands);
  bool apply_directly(Formula formula, ElementType computed, const TensorView& to, std::span<const Operand> operands);
  static Expression expressed(TensorOp op, std::span<const Operand> operands);
  // Has add(program) add to the program that takes an assignment, or to one that it begins.
  template <class Add>
  bool add_to_program(const TensorView& to, std::span<const TensorView* const> reads, const Add& add);
  void select(const TensorView& to, const TensorView& from, const TensorView* index, const tensor::Selection& selection);
  void keep_triangle(const char* function, bool lower, const TensorView& to, const TensorView& from, std::int64_t diagonal);
  // A tensor of the same shape in memory of its own, which lives as long as the operations that are collected; one with the same elements.
  TensorView made_like(const TensorView& view);
  TensorView copied(const TensorView& view);
  void multiply(const char* function, const tensor::Product& product, const char* a = "a", const char* b = "b");
  // Writes to `to`, or with `apart` to memory of its own, which is then copied to `to`.
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
  // What flush does before and behind it makes a ticket.
  void submit_programs(bool counts = true);
  void end_flush();
  Ticket submit_task(const Operator<>& op, std::span<const std::uint32_t> words, std::uint32_t flags, std::uint32_t groups,
                     std::span<const Ticket> before);
  void join(std::vector<Ticket>& tickets, std::size_t most);

  std::unique_ptr<tensor::Collected> state_;
};

}  // namespace dwell
