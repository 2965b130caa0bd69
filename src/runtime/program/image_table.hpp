// The table of opcodes, and the image with its entries.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
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

// Compiles a version's object for Tier::lto from the same input; returns its own object if the input has changed. Throws as
// Compiler::compile.
jit::Object compile_inlinable(jit::Compiler& compiler, const Version& version);

// Assigns opcodes to versions, links them, and hands images over. Members may be called from any thread; changes are serialised.
//
// Invariants: an opcode means the same entry, and the same versions of the operators it uses, in every image that contains it. A binding
// leaves the image only when it is retired, rollback would not return to it, and every task submitted before its retirement is complete.
// Modelled in tests/model/swap.pml and uses.pml.
class ImageTable {
 public:
  // `tier`: of the images made by `apply`.
  ImageTable(jit::Compiler& compiler, backend::Backend& backend, Keeper& keeper, SubmissionQueue& queue, Tier tier = Tier::relocatable,
             Parts parts = Parts::used, const Limits& limits = {}, const Observers& observers = {}, std::function<void()> needs_heap = {});

  // A version that is to become current in its definition. It gets its number and its place in the history then.
  struct Change {
    std::shared_ptr<detail::DefinitionState> definition;
    std::unique_ptr<Version> fresh;
  };
  // Adds all of them to the image with one hand-over and makes them current, in order, at one position of the queue. Rebinds operators that
  // use them at the same position. Throws as steps_for and loading, errc::link_failed, errc::resource_limit; then nothing has changed, nor
  // have `changes`.
  void apply(std::span<Change> changes);
  // Makes the version with the next lower number current again. Throws errc::no_previous_version.
  void rollback(detail::DefinitionState& definition);

  // Hands over an image of Tier::lto with the table's current content; compiles and links it first, without blocking changes. False, with
  // nothing changed, after a concurrent change, a stop request, or if a long task kept the lease from ending in time. Called by one thread
  // at a time. Throws as apply.
  bool promote(const std::stop_token& stop);
  // Returns the parts of the loop (device/part.hpp) of every image from now on.
  std::uint32_t parts() const noexcept { return parts_.load(std::memory_order_acquire); }
  // Ensures that the running image and later ones have these parts: links and hands over an image if they are new. Tasks that need them are
  // placed afterwards. Throws errc::link_failed, errc::resource_limit and as loading; then nothing has changed.
  void require(std::uint32_t parts);

  // Returns the running image's tier.
  Tier tier() const;
  // Returns a number that grows with every image of `apply`.
  std::uint64_t revision() const;
  // Returns the number of tasks completed by images of a tier, without those in flight. Only grows.
  std::uint64_t tasks(Tier tier) const;

  // Returns the name of the entry with this opcode, "name (version n)"; "an unknown operator" if there is none.
  std::string name_of(std::uint32_t opcode) const;

  // Returns the running image and its opcodes. Waits for a hand-over in progress. Null before the first.
  std::shared_ptr<const detail::ImageState> snapshot() const;
  jit::Resources resources() const;
  // The symbols of the current version's entries, by instance.
  std::vector<std::string> symbols(const detail::DefinitionState& definition) const;
  // The current versions, in the order of their definition. Waits for a hand-over in progress.
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
  // Functions that throw have changed nothing; all steps that can fail come before the image takes over.
  // The steps for `moves`, with all bindings in the image and memory reserved to commit them.
  struct Prepared {
    std::vector<Step> steps;
    std::vector<SubmissionQueue::Switch> switches;  // empty, with room for all
  };
  Prepared prepare(std::span<const Move> moves) DWELL_REQUIRES(mutex_);
  void commit(Prepared& prepared) noexcept DWELL_REQUIRES(mutex_);
  void link_and_load(std::span<Step> steps, std::size_t moves) DWELL_REQUIRES(mutex_);
  // Assigns opcodes to the entries of fresh bindings.
  void place(std::span<Step> steps) DWELL_REQUIRES(mutex_);
  std::vector<jit::Opcode> opcodes(Tier tier) const DWELL_REQUIRES(mutex_);
  std::unique_ptr<backend::LoadedImage> load(const jit::Image& image) DWELL_REQUIRES(mutex_);
  // Makes the image the running one. Throws errc::resource_limit, and as loading.
  void hand_over(std::shared_ptr<const jit::Image> image, Tier tier, std::span<const Step> newcomers) DWELL_REQUIRES(mutex_);
  void note_image(std::shared_ptr<const jit::Image> image, Tier tier, std::chrono::nanoseconds took) noexcept DWELL_REQUIRES(mutex_);
  // Returns a lower bound of completed tasks: an incomplete task of several slots hides as many. Only grows.
  std::uint64_t completed() const noexcept;
  // Throws errc::resource_limit when the image must not take over. `room`: workers that the device can hold with it. `newcomers`: the fresh
  // ones are versions that it adds.
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
  const std::function<void()> needs_heap_;
  mutable std::atomic<std::uint64_t> completed_{0};  // the maximum result of completed(); relaxed: guards no other data

  mutable Mutex mutex_;                                  // held while an image is linked and handed over
  std::atomic<std::uint32_t> parts_;                     // of the running image; only grows
  std::uint32_t parts_wanted_ DWELL_GUARDED_BY(mutex_);  // of the next one
  std::vector<std::shared_ptr<detail::DefinitionState>> definitions_ DWELL_GUARDED_BY(mutex_);
  struct Place {
    const Binding* binding = nullptr;  // null: free
    std::uint32_t index = 0;           // of the version's entries
  };
  std::vector<Place> table_ DWELL_GUARDED_BY(mutex_);  // by opcode
  std::shared_ptr<const jit::Image> image_ DWELL_GUARDED_BY(mutex_);

  // Guards data read while an image is being linked.
  mutable Mutex facts_mutex_;
  jit::Resources resources_ DWELL_GUARDED_BY(facts_mutex_);
  std::uint64_t images_[2] DWELL_GUARDED_BY(facts_mutex_) = {};  // by tier
  std::uint64_t revision_ DWELL_GUARDED_BY(facts_mutex_) = 0;
  Tier tier_ DWELL_GUARDED_BY(facts_mutex_) = Tier::relocatable;
  std::uint64_t tasks_[2] DWELL_GUARDED_BY(facts_mutex_) = {};       // by tier, until the last hand-over
  std::uint64_t completed_then_ DWELL_GUARDED_BY(facts_mutex_) = 0;  // at the last hand-over
  std::chrono::nanoseconds last_hand_over_ DWELL_GUARDED_BY(facts_mutex_){0};
  // By opcode. Kept after a version is gone, for queries of failed tasks.
  std::vector<std::shared_ptr<const std::string>> names_ DWELL_GUARDED_BY(facts_mutex_);
};

}  // namespace dwell::runtime
