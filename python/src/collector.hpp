// The arrays of one runtime: lazy values, their order, and the memory of results.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include <dwell/detail/submissions.hpp>

#include "guard.hpp"
#include "lazy_value.hpp"
#include "pack.hpp"

namespace dwell::python {

// A dwell.Array: a value, or a view of its memory. The caller of all functions here holds the GIL.
struct Tensor {
  std::shared_ptr<Value> value;
  LeafPointer leaf;  // null: all of the value, which may be lazy
  std::uint32_t epoch = fork_epoch();

  ElementType type() const { return leaf ? leaf->view.type() : value->type; }
  const Dims& shape() const { return leaf ? leaf->view.shape() : value->shape; }
};

// A value is lazy until somebody reads it or writes to what it reads, or until it is too large for a program. Then it is collected in a
// dwell::Batch, which orders operations by memory, and runs with the next flush. Threads take turns; collecting and flushing release the
// GIL. Values keep the collector alive, and the collector keeps the runtime.
class Collector : public std::enable_shared_from_this<Collector> {
 public:
  // Returns the collector of a runtime, which exists as long as the runtime has arrays; makes one if there is none. Throws as dwell::Batch.
  static std::shared_ptr<Collector> of(const State& runtime);
  // Returns it, or null if there is none.
  static std::shared_ptr<Collector> known(const State& runtime);

  explicit Collector(State runtime);
  ~Collector();
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  const State& runtime() const { return runtime_; }

  // Makes an array of memory. `foreign`: others may share it.
  Tensor adopt(HeldTensor held, bool foreign);
  // Make lazy results. Throw for shapes and types that do not fit.
  Tensor operation(TensorOp op, const char* name, std::span<const Input> operands);
  Tensor cast(const Input& operand, const Dims& shape, ElementType type);
  Tensor collected(ElementType type, const Dims& shape, std::vector<Input> operands, Collect collect);

  // Returns the view of its memory; collects it first if it is lazy.
  LeafPointer leaf_of(const Tensor& tensor);
  // Writes elements. Collects lazy values that read them first.
  void assign(const Tensor& to, const Input& from);
  // x = x op operand, with the type and shape of x, in its memory, which others may share.
  void update(Tensor& x, TensorOp op, const char* name, const Input& operand);

  // Submits collected values; with `all`, collects lazy values first. The ticket stands for all submissions since the last flush. Throws
  // for the first failure of submissions that had no ticket.
  Receipt flush(bool all);
  // Submits collected values. A later flush reports failures.
  void submit_collected();
  // The tensor's elements in C order: itself, or a copy. They are valid once the ticket is complete.
  struct Rows {
    TensorView view;
    std::shared_ptr<HeldMemory> memory;
    Receipt receipt;
  };
  Rows rows_of(const Tensor& tensor);

  bool is_lazy(const Tensor& tensor);
  BatchStats stats();
  // Call after Runtime::rebuild: all memory is gone.
  void renew();

 private:
  class Session;
  using Allocated = std::shared_ptr<HeldMemory>;
  // Expressions of lazy values that another value is computed from.
  using Made = std::vector<std::pair<const Value*, Expression>>;

  // Throws errc::closed in a forked child, errc::unsupported while this thread captures a graph.
  Collector& checked();
  // The deleter of values: deletes one under the lock, now or later.
  static void delete_value(Value* value);
  void delete_unused();
  // The caller of those below holds the lock; with (u) it does not hold the GIL.
  void destroy(Value* value);
  std::shared_ptr<Value> make(Value::Kind kind, ElementType type, const Dims& shape, std::vector<Input> inputs);
  void enlist(Value& value);
  void unlist(Value& value);
  void collect(Value& root);                               // (u)
  void store(Value& value);                                // (u)
  void compute(const Value& value, const TensorView& to);  // (u)
  Expression express(const Value& value, Made& made) const;
  const LeafPointer& leaf_of(const Input& input);                              // (u)
  void collect_readers(const Value& value, const TensorView::Extent& extent);  // (u)
  void begin_write(const Value& value, const TensorView& to);                  // (u)
  void collect_all();                                                          // (u)
  Ticket submit();                                                             // (u)
  void submit_when_many();                                                     // (u)
  void forget_failures();                                                      // (u)
  Allocated allocate(std::size_t bytes);                                       // (u)
  void release(Allocated memory, bool foreign);
  void retire(Allocated memory);
  void empty_pool();

  State runtime_;  // declared first, so that it goes last
  std::mutex mutex_;
  std::atomic<std::thread::id> owner_;  // the thread that holds the mutex
  std::optional<dwell::Batch> batch_;
  Value* newest_ = nullptr;  // lazy value
  unsigned foreign_readers_ = 0;
  unsigned collected_ = 0;  // results, since the last flush
  // Tickets of submissions: those without a caller, whose failures the next flush throws; and all, to find failures.
  dwell::detail::Submissions unasked_;
  dwell::detail::Submissions recent_;

  // Free memory of the collector's own, by its size: the batch orders values that use it again behind those that used it.
  std::unordered_map<std::size_t, std::vector<Allocated>> pool_;
  std::size_t pooled_ = 0;          // bytes
  std::vector<Allocated> retired_;  // freed after the next flush
  std::size_t retired_bytes_ = 0;
  std::vector<Allocated> freed_;  // dropped after the lock is released: it may be a Python object

  std::mutex unused_mutex_;
  std::vector<Value*> unused_;  // to be deleted by the next thread that holds the lock
};

}  // namespace dwell::python
