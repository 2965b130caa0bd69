#include <dwell/doctor.hpp>

#include <set>
#include <string_view>

#include <dwell/error.hpp>

#include "base/file.hpp"
#include "image/bundle.hpp"
#include "jit/object/cubin.hpp"
#include "jit/object/occupancy.hpp"

namespace dwell {

namespace {

// "axpy" of "dwell_axpy_<32 hexadecimal digits>", as the registry makes symbols; another symbol stays as it is.
std::string name_in(std::string_view symbol) {
  constexpr std::string_view kPrefix = "dwell_";
  constexpr std::size_t kDigits = 32;
  const auto is_digest = [](std::string_view text) {
    return text.size() >= kDigits && text.substr(0, kDigits).find_first_not_of("0123456789abcdef") == std::string_view::npos &&
           (text.size() == kDigits || text[kDigits] == '_');
  };
  if (!symbol.starts_with(kPrefix)) return std::string(symbol);
  const std::string_view rest = symbol.substr(kPrefix.size());
  for (std::size_t at = rest.rfind('_'); at != std::string_view::npos && at > 0; at = rest.rfind('_', at - 1))
    if (is_digest(rest.substr(at + 1))) return std::string(rest.substr(0, at)).append(rest.substr(at + 1 + kDigits));
  return std::string(symbol);
}

ImageFunction function_of(std::string name, std::string_view symbol, const jit::Resources& takes) {
  return {std::move(name),    std::string(symbol),  takes.registers, takes.stack_bytes,
          takes.shared_bytes, takes.constant_bytes, takes.barriers};
}

[[noreturn]] void refuse(const std::string& why) {
  throw Error(errc::invalid_argument, why + ": an image is a linked cubin, or a bundle for the CPU, as `image` hands it out");
}

ImageReport report_on(const jit::Cubin& cubin, unsigned scratch_bytes) {
  ImageReport report;
  report.target = "sm_" + std::to_string(cubin.architecture());
  report.scratch_bytes = scratch_bytes;
  for (const std::string_view name : cubin.kernels()) {
    const auto takes = cubin.kernel(name);
    if (!takes) continue;
    ImageReport::Kernel kernel;
    kernel.function = function_of(std::string(name), name, *takes);
    kernel.threads = takes->threads;
    if (const auto fit = jit::occupancy(cubin.architecture(), *takes, scratch_bytes)) {
      kernel.workers = fit->workers;
      kernel.bottleneck = jit::name_of(fit->bottleneck);
    }
    report.kernels.push_back(std::move(kernel));
  }
  if (report.kernels.empty()) refuse("the cubin has no kernel, or is not linked");
  for (const std::string_view symbol : cubin.entries())
    if (const auto takes = cubin.entry(symbol)) report.operators.push_back(function_of(name_in(symbol), symbol, *takes));
  return report;
}

ImageReport report_on(const image::Bundle& bundle, unsigned scratch_bytes) {
  ImageReport report;
  report.target = "host";
  report.scratch_bytes = scratch_bytes;
  std::set<std::string_view> seen;
  for (const image::BundleEntry& entry : bundle.entries)
    if (!entry.symbol.empty() && seen.insert(entry.symbol).second)
      report.operators.push_back(function_of(name_in(entry.symbol), entry.symbol, {}));
  return report;
}

}  // namespace

ImageReport examine_image(std::span<const std::byte> bytes, unsigned scratch_bytes) {
  if (const auto cubin = jit::Cubin::open(bytes)) return report_on(*cubin, scratch_bytes);
  if (jit::Elf::open(bytes)) refuse("this is an ELF file, but not for CUDA");
  image::Bundle bundle;
  try {
    bundle = image::unpack(bytes);
  } catch (const Error&) {
    refuse("this is neither a cubin nor a bundle of operators");
  }
  return report_on(bundle, scratch_bytes);
}

ImageReport examine_image(const std::filesystem::path& path, unsigned scratch_bytes) {
  constexpr std::size_t kLongest = std::size_t{1} << 28U;
  std::string why;
  const auto bytes = read_file(path, kLongest, &why);
  if (!bytes) throw Error(errc::io_failed, path.string() + " cannot be read: " + why, {"file", path.string()});
  try {
    return examine_image(*bytes, scratch_bytes);
  } catch (const Error& error) {
    throw Error(error.kind(), path.string() + ": " + error.message());
  }
}

}  // namespace dwell
