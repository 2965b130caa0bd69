// The table of opcodes, and the image that holds what it names.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "backend/backend.hpp"
#include "base/mutex.hpp"
#include "device/part.hpp"
#include "runtime/device/keeper.hpp"
#include "runtime/observe/observers.hpp"
#include "runtime/program/bindings.hpp"
#include "runtime/program/definition.hpp"
#include "runtime/program/limits.hpp"

namespace dwell::detail {

// Shared by Image handles.
struct ImageState {
  std::shared_ptr<const jit::Image> image;
  std::vector<std::string> symbols;  // by opcode
  std::string ptx;                   // of all operators
  bool is_cubin = false;
};

}  // namespace dwell::detail

namespace dwell::runtime {

// The object of a version for Tier::lto, compiled from the same input as its own; its own where the input has changed. Throws as
// Compiler::compile.
jit::Object compile_inlinable(jit::Compiler& compiler, const Version& version);

// Gives versions their opcodes, links them, and hands images over. Members may be called from any thread; changes are made one after the
// other.
//
// Invariants: an opcode means the same entry, and the same versions of what that uses, in every image that holds it; a binding of a version
// leaves the image only when it is retired, is not the one that rollback would return to, and every task submitted before its retirement is
// complete. Modelled in tests/model/swap.pml and uses.pml.
class ImageTable {
 public:
  // `tier` is that of the images that `apply` makes.
  ImageTable(jit::Compiler& compiler, backend::Backend& backend, Keeper& keeper, SubmissionQueue& queue, Tier tier = Tier::relocatable,
             Parts parts = Parts::used, const Limits& limits = {}, const Observers& observers = {});

  // A version that is to become the current one of its definition. Takes its number and its place in the history when that has happened.
  struct Change {
    std::shared_ptr<detail::DefinitionState> definition;
    std::unique_ptr<Version> fresh;
  };
  // Brings all of them into the image with one hand-over and makes them current, in order, at one position of the queue. Operators that use
  // one of theirs are bound to the new versions there too. Throws what steps_for throws, errc::link_failed, errc::resource_limit and what
  // loading throws; then nothing has changed, `changes` neither.
  void apply(std::span<Change> changes);
  // Makes the version below the current one current again. Throws errc::no_previous_version.
  void rollback(detail::DefinitionState& definition);

  // Hands over an image of Tier::lto with what the table holds now; compiles and links it first, without keeping changes waiting. False
  // when a change came meanwhile, `stop` was asked for, or the lease did not come to its end in time, since a task runs long: then nothing
  // has happened. To be called by one thread at a time. Throws as apply.
  bool promote(const std::stop_token& stop);
  // Parts of the loop (device/part.hpp) that every image has from now on.
  std::uint32_t parts() const noexcept { return parts_.load(std::memory_order_acquire); }
  // Sees to it that the image that runs has these parts, and all that come: links one and hands it over where they are new. What needs them
  // is put into the ring behind that. Throws errc::link_failed, errc::resource_limit and what loading throws; then nothing has changed.
  void require(std::uint32_t parts);

  // Of the image that runs.
  Tier tier() const;
  // Grows with every image of `apply`.
  std::uint64_t revision() const;
  // Tasks that images of a tier have completed, but for those in flight. Only grows.
  std::uint64_t tasks(Tier tier) const;

  // The entry that has this opcode, as "name (version n)"; "an unknown operator" if there is none.
  std::string name_of(std::uint32_t opcode) const;

  // The image that runs, and what its opcodes are. Waits for one that is being handed over. Null before the first.
  std::shared_ptr<const detail::ImageState> snapshot() const;
  jit::Resources resources() const;
  // The symbols of the current version's entries, by instance.
  std::vector<std::string> symbols(const detail::DefinitionState& definition) const;
  // The current versions, in the order of their definition. Waits for an image that is being handed over.
  struct Current {
    std::string name;
    std::uint32_t version = 0;
    std::string symbol;  // of its first entry
  };
  std::vector<Current> current() const;
  std::uint64_t images() const;
  // Of these, of a tier.
  std::uint64_t images(Tier tier) const;
  std::chrono::nanoseconds last_hand_over() const;

 private:
  // Those that throw have changed nothing then; all steps that can fail come before the image takes over.
  // What these make necessary, with all of it in the image and room to take note of it.
  struct Prepared {
    std::vector<Step> steps;
    std::vector<SubmissionQueue::Switch> switches;  // empty, with room for all
  };
  Prepared prepare(std::span<const Move> moves) DWELL_REQUIRES(mutex_);
  void commit(Prepared& prepared) noexcept DWELL_REQUIRES(mutex_);
  void link_and_load(std::span<Step> steps, std::size_t moves) DWELL_REQUIRES(mutex_);
  // Gives the entries of fresh bindings their opcodes.
  void place(std::span<Step> steps) DWELL_REQUIRES(mutex_);
  std::vector<jit::Opcode> opcodes(Tier tier) const DWELL_REQUIRES(mutex_);
  std::unique_ptr<backend::LoadedImage> load(const jit::Image& image) DWELL_REQUIRES(mutex_);
  // Makes the image the one that runs. Throws errc::resource_limit, and what loading throws.
  void hand_over(std::shared_ptr<const jit::Image> image, Tier tier, std::span<const Step> newcomers) DWELL_REQUIRES(mutex_);
  void note_image(std::shared_ptr<const jit::Image> image, Tier tier, std::chrono::nanoseconds took) noexcept DWELL_REQUIRES(mutex_);
  // Tasks that have completed, at least: a task in flight that takes several slots holds back as many. Only grows.
  std::uint64_t completed() const noexcept;
  // Throws errc::resource_limit when the image, for which the device has so much room, must not take over. `newcomers`: fresh ones among
  // these are versions that it adds.
  void check(const jit::Image& image, std::span<const Step> newcomers, std::optional<std::uint32_t> room) const DWELL_REQUIRES(mutex_);
  std::uint32_t free_opcode() DWELL_REQUIRES(mutex_);
  void give_back(const Binding& binding) noexcept DWELL_REQUIRES(mutex_);
  void drop_unneeded() noexcept DWELL_REQUIRES(mutex_);

  jit::Compiler& compiler_;
  backend::Backend& backend_;
  backend::DeviceInfo device_;
  Keeper& keeper_;
  SubmissionQueue& queue_;
  Limits limits_;
  const Tier tier_of_changes_;
  const Observers observers_;
  mutable std::atomic<std::uint64_t> completed_{0};  // the most that completed() has found; relaxed: a number alone

  mutable Mutex mutex_;                                  // held while an image is linked and handed over
  std::atomic<std::uint32_t> parts_;                     // of the image that runs; only grows
  std::uint32_t parts_wanted_ DWELL_GUARDED_BY(mutex_);  // of the next one
  std::vector<std::shared_ptr<detail::DefinitionState>> definitions_ DWELL_GUARDED_BY(mutex_);
  struct Place {
    const Binding* binding = nullptr;  // null: free
    std::uint32_t index = 0;           // of the version's entries
  };
  std::vector<Place> table_ DWELL_GUARDED_BY(mutex_);  // by opcode
  std::shared_ptr<const jit::Image> image_ DWELL_GUARDED_BY(mutex_);

  // Read by others while an image is being made.
  mutable Mutex facts_mutex_;
  jit::Resources resources_ DWELL_GUARDED_BY(facts_mutex_);
  std::uint64_t images_[2] DWELL_GUARDED_BY(facts_mutex_) = {};  // by tier
  std::uint64_t revision_ DWELL_GUARDED_BY(facts_mutex_) = 0;
  Tier tier_ DWELL_GUARDED_BY(facts_mutex_) = Tier::relocatable;
  std::uint64_t tasks_[2] DWELL_GUARDED_BY(facts_mutex_) = {};       // by tier, until the last hand-over
  std::uint64_t completed_then_ DWELL_GUARDED_BY(facts_mutex_) = 0;  // at the last hand-over
  std::chrono::nanoseconds last_hand_over_ DWELL_GUARDED_BY(facts_mutex_){0};
  // By opcode. A task that has failed may be asked about when its version is long gone.
  std::vector<std::shared_ptr<const std::string>> names_ DWELL_GUARDED_BY(facts_mutex_);
};

}  // namespace dwell::runtime
