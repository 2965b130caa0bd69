#include "heap_command.hpp"

#include <chrono>
#include <ostream>
#include <string>
#include <thread>

#include "heap_report.hpp"
#include "json.hpp"

namespace dwell::tool {

namespace {

using Clock = std::chrono::steady_clock;

// Prints results on one runtime.
class Report {
 public:
  Report(const HeapLookOptions& options, const live::Client& client, std::uint64_t runtime, std::ostream& out)
      : json_(options.json), pid_(client.process().pid), runtime_(runtime), out_(out) {}

  // `what`: "heap", "types in the heap".
  template <class Result>
  void print(const std::string& what, const Result& result) const {
    if (json_) {
      print_json(json_of(result));
      return;
    }
    out_ << what << " of process " << pid_ << ", runtime " << runtime_ << ": ";
    print_text(out_, result);
  }
  void print_none() const {
    if (json_)
      print_json({{"reserved", 0}});
    else
      out_ << "process " << pid_ << ", runtime " << runtime_ << ": no heap, as no operator allocates\n";
  }

 private:
  void print_json(const nlohmann::ordered_json& its) const {
    nlohmann::ordered_json json{{"pid", pid_}, {"runtime", runtime_}};
    json.update(its);
    out_ << json_text(json) << '\n';
  }

  bool json_;
  pid_t pid_;
  std::uint64_t runtime_;
  std::ostream& out_;
};

}  // namespace

Exit heap_command(const HeapLookOptions& options, std::ostream& out) {
  if (options.watch != 0 && !(options.watch >= 0.01 && options.watch <= 86'400))
    throw Failure(Exit::mistake, "dwell: error: --watch takes 0.01 to 86400 seconds");
  if ((options.types ? 1 : 0) + (options.verify ? 1 : 0) + (options.watch != 0 ? 1 : 0) > 1)
    throw Failure(Exit::mistake, "dwell: error: --types, --verify and --watch are for one at a time");
  const live::Client client = open_process(options.look);
  const std::uint64_t runtime = choose_runtime(client, options.look);
  const Report report(options, client, runtime, out);
  const HeapStatistics heap = client.heap(runtime);
  if (heap.reserved == 0) {
    report.print_none();
    return Exit::success;
  }
  if (options.types) {
    report.print("what lives in the heap", client.census(runtime));
  } else if (options.verify) {
    const HeapVerification verified = client.verify(runtime);
    report.print("heap", verified);
    if (verified.mistakes != 0) return Exit::failed;
  } else if (options.watch != 0) {
    const HeapCensus before = client.census(runtime);
    const Clock::time_point since = Clock::now();
    std::this_thread::sleep_for(std::chrono::duration<double>(options.watch));
    const HeapCensus now = client.census(runtime);
    report.print("growth of the heap", growth_of(before, now, Clock::now() - since));
  } else {
    report.print("heap", heap);
  }
  return Exit::success;
}

}  // namespace dwell::tool
