// Writes a sample in a format, for check.py.
#include <iostream>
#include <string_view>

#include <dwell/metrics.hpp>
#include <dwell/trace.hpp>

#include "tests/unit/sample_metrics.hpp"
#include "tests/unit/sample_trace.hpp"

namespace {

void write(dwell::TraceWriter& writer) {
  for (const dwell::Trace& piece : dwell::test::sample_trace()) writer.write(piece);
  writer.finish();
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view format = count == 2 ? arguments[1] : "";
  if (format == "openmetrics") {
    std::cout << dwell::to_openmetrics(dwell::test::sample_metrics());
  } else if (format == "perfetto") {
    write(*dwell::perfetto_writer(std::cout));
  } else {
    std::cerr << "usage: print openmetrics | perfetto\n";
    return 2;
  }
  return std::cout.flush() ? 0 : 1;
}
