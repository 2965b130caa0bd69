// Reads and writes variables of operators by name, while operators run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <dwell/inspect.hpp>

#include "backend/backend.hpp"
#include "base/mutex.hpp"
#include "runtime/device/keeper.hpp"
#include "runtime/program/image_table.hpp"

namespace dwell::runtime {

// The variables that current versions of operators export with DWELL_INSPECT, in the image of later leases. Members may be called from any
// thread, and throw errc::device_lost.
class Variables {
 public:
  Variables(backend::Backend& backend, Keeper& keeper, const ImageTable& table);

  // Reads by `name`: a variable ("residual"), a member ("progress.step"), or all members of a variable ("progress"), each also qualified by
  // its operator ("solve.residual"). Nothing if there is none. Throws errc::invalid_argument when several operators have it.
  std::optional<Inspection> read(std::string_view name);
  // Writes the value `name` of this type. False if there is none. Throws errc::signature_mismatch for another type or count,
  // errc::invalid_argument for several values, errc::unsupported for values guarded by a Seqlock.
  bool write(std::string_view name, const Parameter& type, std::size_t count, std::span<const std::byte> bytes);
  // All qualified names ("solve.residual"), in the order of definitions.
  std::vector<std::string> names();

 private:
  struct Variable {
    std::string name;
    Parameter type;
    std::uint32_t count = 0;  // 0: no array
    std::uint64_t address = 0;
    std::uint64_t sequence = 0;  // 0: not guarded

    std::size_t elements() const { return count == 0 ? 1 : count; }
    std::size_t bytes() const { return elements() * type.bytes; }
  };
  using List = std::vector<Variable>;
  struct Of {
    ImageTable::Current op;
    std::shared_ptr<const List> variables;
  };
  // Variables of one operator.
  struct Found {
    ImageTable::Current op;
    List variables;
  };

  // Calls `call` with all operators that export variables, while the image stays loaded.
  template <class Call>
  auto with_all(Call call);
  std::shared_ptr<const List> list_of(const backend::LoadedImage& image, const std::string& symbol);
  static std::optional<Found> find(std::span<const Of> all, std::string_view name);
  // Copies memory that the device writes, atomically for each aligned word of 8, 4 or 1 bytes.
  void copy(void* to, std::uint64_t from, std::size_t bytes) const;
  // A value that is read atomically, with or without a guard.
  static bool is_one_word(const List& list);
  // Reads the values; whether they are a consistent snapshot.
  bool read_guarded(std::span<const Variable> variables, std::vector<InspectedValue>& values) const;

  backend::Backend& backend_;
  Keeper& keeper_;
  const ImageTable& table_;
  const bool on_host_;
  Mutex mutex_;
  std::weak_ptr<const backend::LoadedImage> image_ DWELL_GUARDED_BY(mutex_);               // whose variables these are
  std::map<std::string, std::shared_ptr<const List>> by_symbol_ DWELL_GUARDED_BY(mutex_);  // null: exports nothing
};

}  // namespace dwell::runtime
