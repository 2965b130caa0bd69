// The arrays of one runtime: what is lazy, in which order it is collected, where results lie.
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

// What dwell.Array holds: a value, or a view of its memory. The caller of all functions here holds the GIL.
struct Tensor {
  std::shared_ptr<Value> value;
  LeafPointer leaf;  // null: all of the value, which may be lazy
  std::uint32_t epoch = fork_epoch();

  ElementType type() const { return leaf ? leaf->view.type() : value->type; }
  const Dims& shape() const { return leaf ? leaf->view.shape() : value->shape; }
};

// Values are lazy until somebody looks at them, writes to what they read, or they have grown too large for a program. Then they are
// collected in a dwell::Batch, which keeps the order that memory asks for, and run with the next flush. Threads take turns; what takes
// long (collecting, flushing) is done without the GIL. Values keep it alive, and it keeps the runtime.
class Collector : public std::enable_shared_from_this<Collector> {
 public:
  // That of a runtime: there is one as long as it has arrays. Throws as dwell::Batch.
  static std::shared_ptr<Collector> of(const State& runtime);
  // The same, null when there is none.
  static std::shared_ptr<Collector> known(const State& runtime);

  explicit Collector(State runtime);
  ~Collector();
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  const State& runtime() const { return runtime_; }

  // Memory as an array.
  Tensor adopt(HeldTensor held, bool foreign);
  // Lazy results. They throw for shapes and types that do not fit.
  Tensor operation(TensorOp op, const char* name, std::span<const Input> operands);
  Tensor cast(const Input& operand, const Dims& shape, ElementType type);
  Tensor collected(ElementType type, const Dims& shape, std::vector<Input> operands, Collect collect);

  // The view of its memory, of what is lazy once it is collected.
  LeafPointer leaf_of(const Tensor& tensor);
  // Writes elements. What is lazy and reads them is collected before.
  void assign(const Tensor& to, const Input& from);
  // x = x op operand, of the type and shape of x, for all who see its memory.
  void update(Tensor& x, TensorOp op, const char* name, const Input& operand);

  // Submits what has been collected, all that is lazy and seen by somebody with `all`, or a tensor: the ticket stands for all since the
  // flush before.
  Receipt flush(bool all);
  // Submits what has been collected, for a later flush to stand for.
  void submit_collected();
  // The tensor's elements in the order of rows: itself, or a copy. They are there when the ticket is complete.
  struct Rows {
    TensorView view;
    std::shared_ptr<HeldMemory> memory;
    Receipt receipt;
  };
  Rows rows_of(const Tensor& tensor);

  bool is_lazy(const Tensor& tensor);
  BatchStats stats();
  // After Runtime::rebuild: all memory is gone.
  void renew();

 private:
  class Session;
  using Allocated = std::shared_ptr<HeldMemory>;
  // Expressions of values that are computed on the way to another.
  using Made = std::vector<std::pair<const Value*, Expression>>;

  // Throws errc::closed in a forked child, errc::unsupported while this thread captures a graph.
  Collector& checked();
  // What becomes of a value that nobody names any more.
  static void bury(Value* value);
  void drain();
  // All from here on have the lock; with (u), and not the GIL.
  void dispose(Value* value);
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
  std::atomic<std::thread::id> owner_;  // who has the mutex
  std::optional<dwell::Batch> batch_;
  Value* newest_ = nullptr;  // of lazy values
  unsigned foreign_readers_ = 0;
  unsigned collected_ = 0;  // results, since the last flush
  // The tickets of flushes: of those that nobody asked for, whose failures the next `flush` throws; of all, to find failures.
  dwell::detail::Submissions unasked_;
  dwell::detail::Submissions recent_;

  // Memory of our own that nothing names any more, by its size: the batch orders those that use it again.
  std::unordered_map<std::size_t, std::vector<Allocated>> pool_;
  std::size_t pooled_ = 0;          // bytes
  std::vector<Allocated> retired_;  // until the next flush
  std::size_t retired_bytes_ = 0;
  std::vector<Allocated> trash_;  // dropped without the lock, as it may be an array of Python's

  std::mutex buried_mutex_;
  std::vector<Value*> buried_;  // to be deleted by the next that has the lock
};

}  // namespace dwell::python
