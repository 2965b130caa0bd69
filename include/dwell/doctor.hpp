// The devices and compilers of this machine, and the resources of an image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <dwell/options.hpp>

namespace dwell {

// One component that dwell needs or can use.
struct Finding {
  std::string what;    // "NVRTC", "device cuda:0"
  std::string state;   // "ok", "missing", "too old", "failed"
  std::string detail;  // version and file, or the failure
  std::string advice;  // the remedy; empty when none is needed
};

// Checks every component that dwell can use, and runs a task on every usable device: a device is "ok" when the task's
// result was right. Takes a second or more. Reports failures as findings; throws only std::bad_alloc. May be called from any thread.
std::vector<Finding> examine();

// Resources of a kernel and every function it may call, or of one operator and every function it calls by name. All zero on the CPU.
struct ImageFunction {
  std::string name;                  // of the kernel or the operator, derived from the symbol
  std::string symbol;                // in the image
  std::uint32_t registers = 0;       // a thread
  std::uint32_t stack_bytes = 0;     // a thread
  std::uint32_t shared_bytes = 0;    // a worker, static; for an operator that of its whole source
  std::uint32_t constant_bytes = 0;  // of the image; for an operator that of its whole source
  std::uint32_t barriers = 0;        // a worker
};

struct ImageReport {
  std::string target;  // "sm_90"; "host" for the CPU's images
  struct Kernel {
    ImageFunction function;
    std::uint32_t threads = 0;             // a worker; 0: compiled for any number
    std::optional<std::uint32_t> workers;  // a multiprocessor; empty if the target or the threads are unknown
    std::string bottleneck;  // the resource that limits `workers`: "registers", "shared memory", "barriers", "threads", "blocks"
  };
  std::vector<Kernel> kernels;           // one in an image of dwell; none on the CPU
  std::vector<ImageFunction> operators;  // in the order of the image
  std::uint32_t scratch_bytes = 0;       // of Group::shared, assumed for `workers`
};

// Reads a linked image, a cubin or a CPU bundle, from its bytes or from a file. Needs no device. Throws errc::io_failed when the file
// cannot be read, errc::invalid_argument when it is no image. May be called from any thread.
ImageReport examine_image(std::span<const std::byte> bytes, unsigned scratch_bytes = Options().scratch_bytes);
ImageReport examine_image(const std::filesystem::path& path, unsigned scratch_bytes = Options().scratch_bytes);

}  // namespace dwell
