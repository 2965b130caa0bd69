// What a recording has of the moment in which it was made: results of operations that PyTorch ran beside it, and numbers that the program
// has read.
#pragma once

#include <ATen/ATen.h>
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

// A replay has these numbers again, whatever the program would have now. So a recording may use them where they stay what they are: where
// they come from nothing, or from tensors that nobody has changed since. Otherwise it is refused, with an error that names who read what.
// Changes are seen by the version counters of tensors. Members may be called from any thread.
class Baked {
 public:
  // A tensor as an operation has read it.
  struct Read {
    std::string operation;
    std::string what;  // "a tensor of float32 [3] on cpu"
    c10::VariableVersion version;
    std::uint32_t seen = 0;
  };
  // How what an operation writes would be another time.
  enum class Renewed : std::uint8_t {
    the_same,  // as long as what it reads is
    counts,    // it goes on from what it has written before
    random,
  };

  // An operation ran at once. `reads`: as those tensors were before it. `counts` where it changes a tensor that nothing has made while
  // recording.
  void ran(const std::string& operation, std::vector<Read> reads, std::span<const at::Tensor> read, std::span<const at::Tensor> written,
           Renewed renewed);
  // The program has read a number of this tensor. Throws where another time would give another one.
  void read_number(Read read, const at::Tensor& tensor);
  // The recording is about to name these tensors. `made`: the first has memory of its own. Throws as read_number, and where it goes on from
  // what was made beside it.
  void use(std::span<const at::Tensor* const> tensors, bool made);
  // Nothing is recorded any more.
  void end();
  // Throws where one of the tensors has changed since it was read.
  void check() const;

  static Read read_of(const std::string& operation, const at::Tensor& tensor);

 private:
  // What operations beside the recording have left in a storage.
  struct Left {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // so that no other one gets its address
    std::string operation;
    std::string what;
    Renewed renewed;
    std::vector<Read> reads;
  };

  const Left* left_in(const at::Tensor& tensor) const;
  void take_over(const Left& left);

  mutable std::mutex mutex_;
  std::unordered_map<const c10::StorageImpl*, Left> left_;
  std::vector<Read> reads_;  // that the recording depends on
};

// An operation that PyTorch runs beside the recording of the calling thread, if it has one. Arguments are told in their order before it
// runs, results behind it.
class Beside {
 public:
  Beside(const c10::FunctionSchema& schema, bool random);
  static Beside of(const char* name, const char* overload);
  static Beside of(const c10::OperatorHandle& op);

  void argument(const at::Tensor& tensor);
  void argument(const std::optional<at::Tensor>& tensor);
  void argument(at::TensorList tensors);
  void argument(const at::ITensorListRef& tensors);
  void argument(const c10::IValue& value);
  // The one at this place.
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
  bool counts_ = false;  // it changes an argument, and reads it
  std::size_t at_ = 0;
  std::vector<Baked::Read> reads_;
  std::vector<at::Tensor> read_;
  std::vector<at::Tensor> written_;
};

}  // namespace dwell::pytorch
