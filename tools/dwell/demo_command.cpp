#include "demo_command.hpp"

#include <algorithm>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>

#include <dwell/dwell.hpp>
#include <nlohmann/json.hpp>

#include "bench/staged_files.hpp"
#include "demo_operators.hpp"
#include "demo_reference.hpp"
#include "demo_stream.hpp"
#include "device.hpp"
#include "image.hpp"
#include "json.hpp"
#include "latencies.hpp"
#include "table.hpp"

namespace dwell::tool {

namespace {

constexpr const char* kMeasured = "a tile's time runs from before the submission of its first task until its last is seen complete";

double per_second(std::uint64_t count, std::chrono::nanoseconds time) {
  return static_cast<double>(count) * 1e9 / static_cast<double>(std::max<std::int64_t>(time.count(), 1));
}

void print_text(std::ostream& out, const DemoOptions& options, const Image& image, const RuntimeInfo& info, const DemoFigures& figures) {
  const auto count = [](std::uint64_t value) { return text_of_count(value); };
  const std::uint64_t lost = figures.submitted - figures.complete;
  out << "device      " << text_of(info) << '\n'
      << "picture     " << options.image.filename().string() << ", " << image.width << " x " << image.height << ": "
      << count(demo_tiles(image)) << " tiles of " << kDemoTile << " x " << kDemoTile
      << ", three linked tasks each (denoise, sharpen, tone)\n\n";
  Table table({"latency of a tile", "tiles", "p50", "p99", "max"}, {false, true, true, true, true});
  for (const auto& [name, latencies] : {std::pair<std::string, const Latencies*>{"alone", &figures.alone},
                                        {"up to " + count(kDemoInFlight) + " tasks in flight", &figures.under_load}}) {
    table.add({name, count(latencies->count()), text_of(latencies->quantile(0.5)), text_of(latencies->quantile(0.99)),
               text_of(latencies->max())});
  }
  table.print(out);
  out << kMeasured << "\n\n"
      << "throughput  " << text_of_rate(per_second(figures.submitted, figures.time)) << " tasks/s ("
      << text_of_rate(per_second(figures.tiles, figures.time)) << " tiles/s): " << count(figures.passes)
      << (figures.passes == 1 ? " pass" : " passes") << " over the picture in " << text_of(figures.time) << '\n'
      << "redefine    tone, in mid-stream: " << text_of(figures.redefine.took) << ", of which the device paused " << text_of(figures.pause)
      << "; " << count(figures.redefine.tiles_meanwhile) << " tiles were submitted meanwhile\n"
      << "rollback    tone, in mid-stream: " << text_of(figures.rollback.took) << "; " << count(figures.rollback.tiles_meanwhile)
      << " tiles were submitted meanwhile\n"
      << "versions    " << count(figures.by_phase[0]) << " tiles by version 1, " << count(figures.by_phase[1]) << " by version 2, "
      << count(figures.by_phase[2]) << " by version 1 again\n"
      << "tasks       " << count(figures.submitted) << " submitted, " << count(lost) << " lost, " << count(figures.failed) << " failed"
      << (figures.failed == 0 ? "" : ": " + figures.first_failure) << '\n'
      << "check       " << count(figures.tiles) << " tiles against a sequential computation: " << count(figures.wrong) << " wrong\n"
      << "wrote       " << options.output.string() << ": before and after\n";
}

nlohmann::ordered_json latency_json(const Latencies& latencies) {
  return {{"tiles", latencies.count()},
          {"p50", latencies.quantile(0.5).count()},
          {"p99", latencies.quantile(0.99).count()},
          {"max", latencies.max().count()}};
}

void print_json(std::ostream& out, const DemoOptions& options, const Image& image, const RuntimeInfo& info, const DemoFigures& figures) {
  const nlohmann::ordered_json root = {
      {"device", json_of(info)},
      {"picture", {{"file", options.image.string()}, {"width", image.width}, {"height", image.height}, {"tiles", demo_tiles(image)}}},
      {"measured", kMeasured},
      {"latency_ns", {{"alone", latency_json(figures.alone)}, {"under_load", latency_json(figures.under_load)}}},
      {"time_ns", figures.time.count()},
      {"passes", figures.passes},
      {"tasks_per_second", per_second(figures.submitted, figures.time)},
      {"tiles_per_second", per_second(figures.tiles, figures.time)},
      {"redefine",
       {{"took_ns", figures.redefine.took.count()},
        {"pause_ns", figures.pause.count()},
        {"tiles_meanwhile", figures.redefine.tiles_meanwhile}}},
      {"rollback", {{"took_ns", figures.rollback.took.count()}, {"tiles_meanwhile", figures.rollback.tiles_meanwhile}}},
      {"tiles_by_version", figures.by_phase},
      {"tasks", {{"submitted", figures.submitted}, {"lost", figures.submitted - figures.complete}, {"failed", figures.failed}}},
      {"tiles", {{"checked", figures.tiles}, {"wrong", figures.wrong}}},
      {"output", options.output.string()},
  };
  out << json_text(root) << '\n';
}

void write_picture(const std::filesystem::path& file, const Image& image) {
  try {
    bench::StagedFiles files;
    files.add(file, [&](std::ostream& to) { write_png(to, image); });
    files.commit();
  } catch (const std::runtime_error& problem) {
    throw Failure(Exit::mistake, std::string("dwell: error: ") + problem.what());
  }
}

}  // namespace

Exit demo_command(const DemoOptions& options, std::ostream& out) {
  if (options.image.empty()) {
    throw Failure(Exit::mistake,
                  "dwell: error: no picture: name one with --image FILE (JPEG or PNG), or run script/demo, which brings one");
  }
  Image source;
  try {
    source = read_image(options.image);
    bench::StagedFiles::check(options.output);
  } catch (const std::runtime_error& problem) {
    throw Failure(Exit::mistake, std::string("dwell: error: ") + problem.what());
  }
  const DemoReference reference = demo_reference(source);
  Runtime runtime = open_runtime(options.device);
  const DemoFigures figures = run_demo_stream(runtime, source, reference);
  if (figures.failed == 0) write_picture(options.output, side_by_side(source, figures.after));
  if (options.json) {
    print_json(out, options, source, runtime.info(), figures);
  } else {
    print_text(out, options, source, runtime.info(), figures);
  }
  return figures.failed == 0 && figures.wrong == 0 && figures.complete == figures.submitted ? Exit::success : Exit::failed;
}

}  // namespace dwell::tool
