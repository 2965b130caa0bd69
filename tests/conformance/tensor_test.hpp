// A runtime and a batch, for tests of tensors.
#pragma once

#include <optional>
#include <vector>

#include <dwell/batch.hpp>

#include "tests/conformance/suite.hpp"

namespace dwell::test {

class TensorTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    runtime_.emplace(options());
    batch_.emplace(*runtime_);
  }

  Runtime& runtime() { return *runtime_; }
  Batch& batch() { return *batch_; }

  template <class T>
  Buffer<T> filled_with(const std::vector<T>& values) {
    Buffer<T> buffer = runtime().allocate<T>(values.size());
    buffer.write(values);
    return buffer;
  }
  // The elements of an expression of one dimension, as type T.
  template <class T>
  std::vector<T> values_of(const Expression& expression, std::size_t count) {
    Buffer<T> result = runtime().allocate<T>(count);
    batch().assign(result, expression);
    batch().flush().wait();
    return read(result);
  }
  // The same for one operation.
  template <class T>
  std::vector<T> applied(TensorOp op, const std::vector<TensorView>& x, std::size_t count) {
    Buffer<T> result = runtime().allocate<T>(count);
    switch (x.size()) {
      case 1: batch().apply(op, result, {x[0]}); break;
      case 2: batch().apply(op, result, {x[0], x[1]}); break;
      default: batch().apply(op, result, {x[0], x[1], x[2]});
    }
    batch().flush().wait();
    return read(result);
  }

 private:
  std::optional<Runtime> runtime_;
  std::optional<Batch> batch_;
};

}  // namespace dwell::test
