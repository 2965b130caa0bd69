// Shared by the conformance tests of graphs: a runtime with operators for nodes.
#pragma once

#include "tests/conformance/suite.hpp"

namespace dwell::test {

class GraphSuite : public DeviceTest {
 protected:
  // Opens a runtime with the operators of the tests.
  void open(Options options) {
    runtime.emplace(std::move(options));
    nothing = runtime->define<void()>("nothing", kNothing);
    append = runtime->define<Append>("append", kAppend);
    add = runtime->define<Add>("add", kAdd);
    stamp = runtime->define<Stamp>("stamp", kStamp);
    fail = runtime->define<Fail>("fail", kFail);
  }
  void open() { open(options()); }

  std::optional<Runtime> runtime;
  Operator<void()> nothing;
  Operator<Append> append;
  Operator<Add> add;
  Operator<Stamp> stamp;
  Operator<Fail> fail;
};

}  // namespace dwell::test
