// An ordinary kernel of a compiled program, and how it is launched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <dwell/buffer.hpp>
#include <dwell/signature.hpp>
#include <dwell/ticket.hpp>

namespace dwell {

class Arguments;

// Blocks of a grid, or threads of a block, in each direction, as CUDA's dim3.
struct Dim3 {
  std::uint32_t x = 1;
  std::uint32_t y = 1;
  std::uint32_t z = 1;
};

// How a kernel is launched: LaunchConfig{.grid = {8}, .block = {128}}.
struct LaunchConfig {
  Dim3 grid = {};
  Dim3 block = {};
  std::uint32_t shared = 0;  // bytes of dynamic shared memory a block
  // The user's own CUstream or cudaStream_t, which must live until the launch is complete and belong to the device's primary context.
  // Null: the runtime's stream for launches. CUDA's default streams are CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
  void* stream = nullptr;
  // Runs all blocks at once, so that they may wait for each other. A grid that does not fit on the device is errc::invalid_argument with
  // the figure and the limit.
  bool cooperative = false;
  // Used by `prepare` alone: runs of the prepared launch follow each other, also in different streams. The launch is a CUDA graph of one
  // node then: the host's call takes 1.4 us instead of 3.7, and the kernel ends 2.6 us earlier (an H200).
  bool exclusive = false;
};

namespace detail {

struct ModuleState;
struct PreparedState;
class KernelBase;

}  // namespace detail

// A launch whose arguments and limits have been checked once, made by `prepare` of a kernel. A handle: copies name the same one, and keep
// the program loaded. All members may be called from any thread.
class PreparedLaunch {
 public:
  PreparedLaunch() = default;
  // Launches the kernel in a stream of the user's, as LaunchConfig::stream, also while that is captured into a CUDA graph; null: in the
  // runtime's. Costs the driver's call alone: there is no ticket, and nothing waits for it. So the caller keeps this, the runtime and all
  // memory that the kernel uses until the stream has passed the launch. Throws errc::device_lost, errc::stale_handle, errc::closed.
  void enqueue(void* stream = nullptr) const;

 private:
  friend class detail::KernelBase;
  explicit PreparedLaunch(std::shared_ptr<detail::PreparedState> state) : state_(std::move(state)) {}

  std::shared_ptr<detail::PreparedState> state_;
};

namespace tensor::gang {
struct CompiledGang;
}

namespace detail {

// Describes a type as a parameter of a kernel. A pointer describes its element's kind and size only.
template <class T>
constexpr Kind kernel_kind() {
  return std::is_arithmetic_v<T> ? device::ElementKind<T>::value : Kind::structure;
}
template <class T>
constexpr Parameter kernel_parameter() {
  static_assert(std::is_trivially_copyable_v<T> && !std::is_reference_v<T> && !std::is_array_v<T>,
                "kernel arguments are copied as bytes: pass a Buffer, a Slice, a pointer, or a plain value");
  // Of pointers to structs too. NOLINTNEXTLINE(bugprone-sizeof-expression)
  static_assert(sizeof(T) <= 0xFFFF, "pass large values through a Buffer");
  using Element = std::remove_pointer_t<T>;
  if constexpr (std::is_null_pointer_v<T>) {
    return {Kind::pointer, Kind::opaque, 0};
  } else if constexpr (std::is_pointer_v<T> && !std::is_function_v<Element>) {
    constexpr Kind kind = std::is_const_v<std::remove_all_extents_t<Element>> ? Kind::const_pointer : Kind::pointer;
    using Plain = std::remove_cv_t<Element>;
    if constexpr (std::is_void_v<Plain> || std::is_array_v<Plain>)
      return {kind, Kind::opaque, 0};
    else if constexpr (std::is_pointer_v<Plain>)
      return {kind, Kind::pointer, 8};
    else if constexpr (kernel_kind<Plain>() == Kind::structure)
      return {kind, Kind::structure, 0};
    else
      return {kind, kernel_kind<Plain>(), static_cast<u16>(sizeof(Plain))};
  } else {
    return {kernel_kind<T>(), Kind::structure, static_cast<u16>(sizeof(T))};
  }
}

constexpr bool is_pointer(const Parameter& parameter) { return parameter.kind == Kind::pointer || parameter.kind == Kind::const_pointer; }
// Returns whether a kernel's parameter `declared` accepts an argument `given`. Any pointer accepts void*, as in C; an opaque parameter
// accepts any value of its size.
constexpr bool kernel_accepts(const Parameter& declared, const Parameter& given) {
  if (declared.kind == Kind::opaque) return declared.bytes == (is_pointer(given) ? 8 : given.bytes);
  if (!is_pointer(declared) || !is_pointer(given)) return declared == given;
  if (declared.kind == Kind::pointer && given.kind == Kind::const_pointer) return false;
  return declared.element == Kind::opaque || given.element == Kind::opaque ||
         (declared.element == given.element && declared.bytes == given.bytes);
}

// One argument of a launch. `value` lies in the caller's frame.
struct LaunchArgument {
  Parameter type;
  const void* value;
  const BufferUse* use;  // of a Buffer or a Slice, else null
};

// Holds the value from which the driver copies an argument.
template <class T>
struct Passed {
  explicit Passed(const T& from) : value(from) {}
  static constexpr Parameter type = kernel_parameter<T>();
  LaunchArgument argument() const { return {type, &value, nullptr}; }
  const T& value;
};
template <class T>
struct Passed<Slice<T>> {
  explicit Passed(const Slice<T>& from) : data(from.span().data()), use(SliceParts(from).use) {}
  static constexpr Parameter type = kernel_parameter<T*>();
  LaunchArgument argument() const { return {type, &data, use}; }
  T* data;
  const BufferUse* use;
};
template <class T>
struct Passed<Buffer<T>> : Passed<Slice<T>> {
  explicit Passed(const Buffer<T>& from) : Passed<Slice<T>>(from.slice()) {}
};

// All but the parameter types of a kernel.
class KernelBase {
 public:
  // As C++ has it, without parameters: "axpy<float>"; and its symbol.
  const std::string& name() const;
  const std::string& symbol() const;
  // Its parameters, as read from the compiled program: Kind::opaque for kernels with C linkage, whose parameters have known sizes only.
  const Signature& signature() const;

 protected:
  KernelBase() = default;
  KernelBase(std::shared_ptr<ModuleState> module, std::size_t index) : module_(std::move(module)), index_(index) {}
  template <class... Given>
  Ticket launch_with(const LaunchConfig& config, const Given&... arguments) const {
    const std::tuple<Passed<Given>...> passed(Passed<Given>{arguments}...);
    return std::apply(
        [&](const auto&... each) {
          const LaunchArgument list[] = {each.argument()..., LaunchArgument{}};
          return launch_list(config, list, sizeof...(Given));
        },
        passed);
  }
  template <class... Given>
  PreparedLaunch prepare_with(const LaunchConfig& config, const Given&... arguments) const {
    const std::tuple<Passed<Given>...> passed(Passed<Given>{arguments}...);
    return std::apply(
        [&](const auto&... each) {
          const LaunchArgument list[] = {each.argument()..., LaunchArgument{}};
          return prepare_list(config, list, sizeof...(Given));
        },
        passed);
  }
  // Throws errc::signature_mismatch unless arguments of these types fit.
  void require(const Signature& signature) const;
  Ticket launch_list(const LaunchConfig& config, const LaunchArgument* arguments, std::size_t count) const;
  PreparedLaunch prepare_list(const LaunchConfig& config, const LaunchArgument* arguments, std::size_t count) const;
  friend struct dwell::tensor::gang::CompiledGang;  // passes structures whose size is known at run time only

  std::shared_ptr<ModuleState> module_;
  std::size_t index_ = 0;
};

}  // namespace detail

// A handle of a kernel: copies name the same one, and keep its program loaded. Kernel<> checks arguments when it is launched;
// Kernel<void(float, const float*, float*, int)> when the program that uses it is compiled. All members may be called from any thread.
template <class Function = void>
class Kernel;

template <>
class Kernel<void> : public detail::KernelBase {
 public:
  Kernel() = default;

  // Launches the kernel on the runtime's stream for launches, or the user's, and returns at once; the ticket is complete when the stream
  // has passed the launch. Arguments are Buffer or Slice where the kernel takes a pointer (of the exact element type), pointers, and plain
  // values of the exact type. Buffers given as arguments, and those that a pointer argument points into, keep their memory until the launch
  // is complete, also when they are dropped before. Addresses inside structs are not tracked.
  // Launches on one stream run in order. To order them with tasks, wait: Ticket::wait, or Buffer::read and write, which wait for both. A
  // kernel that does not fit beside the resident loop starts between two of its leases.
  // Throws errc::signature_mismatch, errc::invalid_argument (an empty grid, a block or shared memory beyond the limit of the kernel or the
  // device, a cooperative grid that does not fit on the device, a buffer of another runtime), errc::device_lost, errc::stale_handle.
  template <class... Given>
  Ticket launch(const LaunchConfig& config, const Given&... arguments) const {
    return launch_with(config, arguments...);
  }
  // Checks a launch as `launch` does, for any number of runs in any streams: config.stream means nothing. Throws as launch.
  template <class... Given>
  PreparedLaunch prepare(const LaunchConfig& config, const Given&... arguments) const {
    return prepare_with(config, arguments...);
  }
  // As `launch`, with arguments collected at run time: a span stands for a pointer to its first element. Also throws errc::invalid_argument
  // for modifiers.
  Ticket launch(const LaunchConfig& config, const Arguments& arguments) const;

 private:
  friend class Module;
  using KernelBase::KernelBase;
};

template <class... Parameters>
class Kernel<void(Parameters...)> : public detail::KernelBase {
 public:
  Kernel() = default;
  // Throws errc::signature_mismatch when the kernel has other parameters.
  explicit Kernel(const Kernel<void>& other) : KernelBase(other) {
    require(Signature(std::vector<Parameter>{detail::kernel_parameter<Parameters>()...}));
  }

  // Returns whether arguments of these types fit.
  template <class... Given>
  static constexpr bool fits() {
    if constexpr (sizeof...(Given) != sizeof...(Parameters))
      return false;
    else
      return (detail::kernel_accepts(detail::kernel_parameter<Parameters>(), detail::Passed<Given>::type) && ...);
  }

  // As Kernel<>::launch.
  template <class... Given>
  Ticket launch(const LaunchConfig& config, const Given&... arguments) const {
    static_assert(fits<Given...>(), "the arguments do not fit the kernel's parameters");
    return launch_with(config, arguments...);
  }
  // As Kernel<>::prepare.
  template <class... Given>
  PreparedLaunch prepare(const LaunchConfig& config, const Given&... arguments) const {
    static_assert(fits<Given...>(), "the arguments do not fit the kernel's parameters");
    return prepare_with(config, arguments...);
  }
};

}  // namespace dwell
