// Values of a running runtime by name: variables of operators (DWELL_INSPECT), and its own structures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <dwell/device/signature.hpp>
#include <dwell/error.hpp>

namespace dwell {

namespace runtime {
class Core;
struct WatchState;
}  // namespace runtime

// One value or an array, as bytes of the device; or a text (structures of the runtime only).
struct InspectedValue {
  std::string name;      // "residual", "progress.step"; for a structure of the runtime its field, "queued"
  Parameter type{};      // of an element: kind and bytes
  std::size_t count{1};  // elements
  bool array = false;
  std::vector<std::byte> bytes;
  std::string text;  // "add (version 2)"; empty: it is a number, or an array of them

  // Its elements. Throws errc::signature_mismatch for a text, and when T is of another kind or size; for a plain struct only the size
  // counts.
  template <class T>
  std::vector<T> elements() const {
    check(device::Describe<T>::value);
    std::vector<T> all(count);
    if (!bytes.empty()) std::memcpy(all.data(), bytes.data(), count * sizeof(T));
    return all;
  }
  // The only element. Throws as elements, and errc::signature_mismatch for an array.
  template <class T>
  T as() const {
    check(device::Describe<T>::value);
    if (array) refuse_array();
    T value;
    std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }

 private:
  void check(const Parameter& asked) const;
  [[noreturn]] void refuse_array() const;
};

// The result of Runtime::inspect.
struct Inspection {
  std::string name;  // the requested name
  std::string op;    // the operator, for its variables
  std::uint32_t version = 0;
  std::vector<InspectedValue> values;
  // A consistent snapshot: a Seqlock guards the values, or it is one value of at most 8 bytes. Otherwise an operator may have
  // written some of them while they were read.
  bool whole = false;

  // Returns the value with this name, or member ("step" of "progress.step"). Throws errc::invalid_argument, listing the names.
  const InspectedValue& at(std::string_view field) const;
  // The only value; throws errc::invalid_argument when there are several.
  const InspectedValue& value() const;

  template <class T>
  T as() const {
    return value().as<T>();
  }
  template <class T>
  T as(std::string_view field) const {
    return at(field).as<T>();
  }
};

// A line for each value; members of one thing share a line.
std::string to_string(const Inspection& inspection);

// Ends Runtime::watch in its destructor, or by `stop`. Afterwards no call of the callback runs, unless the callback itself stops it. May
// outlive the runtime, whose close ends it too.
class Watch {
 public:
  Watch() = default;
  ~Watch();
  Watch(Watch&&) noexcept = default;
  Watch& operator=(Watch&& other) noexcept;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  void stop() noexcept;
  // False once it was stopped, the runtime was closed or failed, or the callback has thrown.
  bool active() const noexcept;

 private:
  friend class runtime::Core;
  explicit Watch(std::shared_ptr<runtime::WatchState> state) : state_(std::move(state)) {}
  std::shared_ptr<runtime::WatchState> state_;
};

}  // namespace dwell
