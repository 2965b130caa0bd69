// Values that a recording keeps constant: results of operations that PyTorch ran while it was made, and numbers that the program read.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace dwell::pytorch {

// A replay uses the same values again. Invariant: each depends on no tensor, or on tensors that have not changed since; else recording or
// replaying throws, and the error names the operation and the tensor. Version counters of tensors show changes. Thread-safe.
class RecordedConstants {
 public:
  // A tensor as an operation read it.
  struct Read {
    std::string operation;
    std::string what;  // "a tensor of float32 [3] on cpu"
    c10::VariableVersion version;
    std::uint32_t seen = 0;
  };
  // What an operation would write if it ran again for a replay.
  enum class OnReplay : std::uint8_t {
    same,       // the same, as long as its inputs are
    continues,  // another value, computed from its last result
    random,     // a random value
  };

  // Notes an operation that ran unrecorded. `reads`: its inputs before it ran. `continues` if it changes a tensor that is older than the
  // recording.
  void ran(const std::string& operation, std::vector<Read> reads, std::span<const at::Tensor> read, std::span<const at::Tensor> written,
           OnReplay on_replay);
  // Notes that the program read a number of this tensor. Throws errc::unsupported if a replay could need another number.
  void read_number(Read read, const at::Tensor& tensor);
  // Checks the tensors of an operation that is to be recorded. The first `made` were allocated for its results. Throws as read_number, and
  // if the operation changes the result of an unrecorded one.
  void use(std::span<const at::Tensor* const> tensors, std::size_t made);
  // Ends the recording.
  void end();
  // Throws errc::invalid_argument if one of the tensors has changed since it was read, for the recording or for a result that the program
  // still has.
  void check() const;

  // Returns whether there are tensors that may not change, once the recording has ended.
  bool are_of_tensors() const;

  static Read read_of(const std::string& operation, const at::Tensor& tensor);

 private:
  // The last unrecorded operation that wrote to a storage.
  struct Written {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // keeps the address from being used again
    std::string operation;
    std::string what;
    OnReplay on_replay;
    std::vector<Read> reads;
  };

  const Written* written_to(const at::Tensor& tensor) const;
  void depend_on(const Written& value);

  mutable std::mutex mutex_;
  std::unordered_map<const c10::StorageImpl*, Written> written_;
  std::vector<Read> reads_;    // that the recording depends on
  std::vector<Written> kept_;  // results of tensors, which the program had when the recording ended; perhaps those that it is about
};

// An operation that PyTorch runs while the calling thread records, if it does. The caller passes arguments in order before the operation
// runs, and results after it.
class UnrecordedCall {
 public:
  UnrecordedCall(const c10::FunctionSchema& schema, bool random);
  static UnrecordedCall of(const char* name, const char* overload);
  static UnrecordedCall of(const c10::OperatorHandle& op);

  void argument(const at::Tensor& tensor);
  void argument(const std::optional<at::Tensor>& tensor);
  void argument(at::TensorList tensors);
  void argument(const at::ITensorListRef& tensors);
  void argument(const c10::IValue& value);
  // The argument at this place.
  void argument(const at::Tensor& tensor, std::size_t place) {
    at_ = place;
    argument(tensor);
  }
  template <class T>
  void argument(const T&) {
    ++at_;
  }

  template <class Result>
  void ran(const Result& result) {
    add(result);
    ran();
  }
  void ran();
  void add(const at::Tensor& result);
  void add(const c10::IValue& result);
  template <class... Results>
  void add(const std::tuple<Results...>& results) {
    std::apply([this](const auto&... each) { (add(each), ...); }, results);
  }
  template <class Result>
  void add(const std::vector<Result>& results) {
    for (const Result& each : results) add(each);
  }
  template <class Result>
  void add(const Result&) {}

 private:
  void note(const at::Tensor& tensor);

  const c10::FunctionSchema& schema_;
  std::string name_;
  bool random_;
  bool continues_ = false;  // it reads an argument that it changes
  std::size_t at_ = 0;
  std::vector<RecordedConstants::Read> reads_;
  std::vector<at::Tensor> read_;
  std::vector<at::Tensor> written_;
};

}  // namespace dwell::pytorch
