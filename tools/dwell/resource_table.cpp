#include "resource_table.hpp"

#include <ostream>
#include <string>

#include <nlohmann/json.hpp>

#include "json.hpp"
#include "table.hpp"

namespace dwell::tool {

namespace {

using Json = nlohmann::ordered_json;

void add_row(Table& table, const std::string& indent, const ImageFunction& function, const std::string& workers) {
  table.add({indent + function.name, text_of_count(function.registers), text_of_count(function.stack_bytes),
             text_of_count(function.shared_bytes), text_of_count(function.constant_bytes), text_of_count(function.barriers), workers});
}

Json function_json(const ImageFunction& function) {
  return {{"name", function.name},
          {"symbol", function.symbol},
          {"registers", function.registers},
          {"stack_bytes", function.stack_bytes},
          {"shared_bytes", function.shared_bytes},
          {"constant_bytes", function.constant_bytes},
          {"barriers", function.barriers}};
}

}  // namespace

void print_text(std::ostream& out, const ImageReport& report) {
  out << "image for " << report.target << ", " << report.operators.size()
      << (report.operators.size() == 1 ? " operator\n" : " operators\n");
  if (report.kernels.empty()) {
    for (const ImageFunction& function : report.operators) out << "  " << function.name << '\n';
    return;
  }
  Table table({"", "registers", "stack", "shared", "constants", "barriers", "workers"}, {false, true, true, true, true, true, true});
  for (const ImageReport::Kernel& kernel : report.kernels)
    add_row(table, "", kernel.function, kernel.workers ? text_of_count(*kernel.workers) : "?");
  for (const ImageFunction& function : report.operators) add_row(table, "  ", function, "");
  table.print(out);
  for (const ImageReport::Kernel& kernel : report.kernels) {
    out << kernel.function.name << ": ";
    if (kernel.workers) {
      out << *kernel.workers << (*kernel.workers == 1 ? " worker" : " workers") << " of " << kernel.threads
          << " threads a multiprocessor with " << report.scratch_bytes << " bytes each for Group::shared; more would lack "
          << kernel.bottleneck << '\n';
    } else {
      out << "workers cannot be computed for " << report.target << " and " << kernel.threads << " threads\n";
    }
  }
}

void print_json(std::ostream& out, const ImageReport& report) {
  Json kernels = Json::array();
  for (const ImageReport::Kernel& kernel : report.kernels) {
    Json one = function_json(kernel.function);
    one["threads"] = kernel.threads;
    one["workers"] = kernel.workers ? Json(*kernel.workers) : Json();
    one["bottleneck"] = kernel.bottleneck;
    kernels.push_back(std::move(one));
  }
  Json operators = Json::array();
  for (const ImageFunction& function : report.operators) operators.push_back(function_json(function));
  out << json_text({{"version", DWELL_VERSION},
                    {"target", report.target},
                    {"scratch_bytes", report.scratch_bytes},
                    {"kernels", kernels},
                    {"operators", operators}})
      << '\n';
}

}  // namespace dwell::tool
