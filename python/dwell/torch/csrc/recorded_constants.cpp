#include "recorded_constants.hpp"

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <utility>

#include <dwell/error.hpp>

#include "recording.hpp"

namespace dwell::pytorch {

namespace {

std::string text_of(const at::Tensor& tensor) {
  std::ostringstream text;
  text << "a tensor of " << tensor.scalar_type() << " " << tensor.sizes() << " on " << tensor.device();
  return text.str();
}

// The name by which programs call an operation.
std::string called(std::string_view operation) { return operation == "aten::_local_scalar_dense" ? "item()" : std::string(operation); }

constexpr const char* kRemedy =
    ": replays would have what it holds now. Let it stay on the device that is recorded, as optimizers do with capturable=True; or leave "
    "it "
    "out of the recording, and copy what is new into a tensor of the recording between replays";

// Returns whether an operation that returns numbers reads elements.
bool reads_numbers(std::string_view name) { return name == "aten::_local_scalar_dense" || name == "aten::equal"; }
// Returns whether an operation that writes to an argument ignores its elements.
bool overwrites(std::string_view name) {
  constexpr std::array<std::string_view, 4> all = {"aten::copy_", "aten::fill_", "aten::zero_", "aten::set_"};
  return std::ranges::find(all, name) != all.end();
}

bool has_changed(const RecordedConstants::Read& read) { return read.version.enabled() && read.version.current_version() != read.seen; }

const c10::StorageImpl* storage_or_null(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

}  // namespace

RecordedConstants::Read RecordedConstants::read_of(const std::string& operation, const at::Tensor& tensor) {
  Read read{called(operation), text_of(tensor), {}, 0};
  read.version = tensor.unsafeGetTensorImpl()->version_counter();
  // Inference tensors have no version counter.
  if (read.version.enabled()) read.seen = read.version.current_version();
  return read;
}

const RecordedConstants::Written* RecordedConstants::written_to(const at::Tensor& tensor) const {
  const auto found = written_.find(storage_or_null(tensor));
  return found == written_.end() ? nullptr : &found->second;
}

void RecordedConstants::ran(const std::string& operation, std::vector<Read> reads, std::span<const at::Tensor> read,
                            std::span<const at::Tensor> written, OnReplay on_replay) {
  const std::lock_guard lock(mutex_);
  std::optional<Written> from;  // an input that a replay would not find the same
  for (const at::Tensor& tensor : read) {
    const Written* const known = written_to(tensor);
    if (known == nullptr) continue;
    reads.insert(reads.end(), known->reads.begin(), known->reads.end());
    if (known->on_replay != OnReplay::same) from = *known;
  }
  for (const at::Tensor& tensor : written) {
    const c10::StorageImpl* const storage = storage_or_null(tensor);
    if (storage == nullptr || tensor.numel() == 0) continue;
    Written value{c10::weak_intrusive_ptr<c10::StorageImpl>(tensor.storage().getWeakStorageImpl()), operation, text_of(tensor), on_replay,
                  reads};
    if (on_replay != OnReplay::random && from) {
      value.operation = from->operation;
      value.what = from->what;
      value.on_replay = from->on_replay;
    } else if (on_replay == OnReplay::continues && written_to(tensor) != nullptr) {
      value.on_replay = OnReplay::same;  // it was made while recording: a replay would make it again
    }
    written_.insert_or_assign(storage, std::move(value));
  }
}

void RecordedConstants::depend_on(const Written& value) {
  if (value.on_replay == OnReplay::random)
    throw Error(errc::unsupported,
                value.operation +
                    " cannot be recorded: it draws random numbers, and replays would have the same ones each time: leave it "
                    "out of the recording, and draw into a tensor of the recording between replays");
  if (value.on_replay == OnReplay::continues)
    throw Error(errc::unsupported, "the recording reads " + value.what + ", which " + value.operation + " has changed beside it" + kRemedy);
  reads_.insert(reads_.end(), value.reads.begin(), value.reads.end());
}

void RecordedConstants::read_number(Read read, const at::Tensor& tensor) {
  const std::lock_guard lock(mutex_);
  if (const Written* const known = written_to(tensor)) depend_on(*known);
  reads_.push_back(std::move(read));
}

void RecordedConstants::use(std::span<const at::Tensor* const> tensors, std::size_t made) {
  const std::lock_guard lock(mutex_);
  if (written_.empty()) return;
  for (const at::Tensor* const tensor : tensors.subspan(made)) {
    const Written* const known = written_to(*tensor);
    if (known == nullptr) continue;
    depend_on(*known);
    const auto is_it = [&](const at::Tensor* other) { return storage_or_null(*other) == storage_or_null(*tensor); };
    if (made != 0 || tensor != tensors.front() || std::ranges::none_of(tensors.subspan(1), is_it)) continue;
    throw Error(errc::unsupported, "the recording changes " + known->what + ", which " + known->operation +
                                       " has made beside it, once: replays would go on from what the last one has left. Make it before the "
                                       "recording, and copy what it is to begin with into it there or between replays");
  }
}

void RecordedConstants::end() {
  const std::lock_guard lock(mutex_);
  // Random results are among them: cuDNN's LSTM counts as an operation that draws, for its dropout.
  for (auto& [storage, value] : written_)
    if (value.on_replay != OnReplay::continues && !value.reads.empty() && !value.storage.expired()) kept_.push_back(std::move(value));
  written_.clear();
}

bool RecordedConstants::are_of_tensors() const {
  const std::lock_guard lock(mutex_);
  return !reads_.empty() || std::any_of(kept_.begin(), kept_.end(), [](const Written& value) { return !value.reads.empty(); });
}

void RecordedConstants::check() const {
  const std::lock_guard lock(mutex_);
  for (const Read& read : reads_)
    if (has_changed(read))
      throw Error(errc::invalid_argument,
                  read.what + ", which " + read.operation + " has read beside the recording, has been changed since" + kRemedy);
  for (const Written& value : kept_) {
    if (value.storage.expired()) continue;
    const auto changed = std::ranges::find_if(value.reads, has_changed);
    if (changed == value.reads.end()) continue;
    throw Error(errc::invalid_argument, value.what + ", which " + value.operation +
                                            " has made beside the recording, is not made anew by a replay, and " + changed->what +
                                            ", which it was made from, has been changed since: call " + value.operation +
                                            " behind the replay instead, or let the program drop that result");
  }
}

UnrecordedCall::UnrecordedCall(const c10::FunctionSchema& schema, bool random) : schema_(schema), name_(schema.name()), random_(random) {}

UnrecordedCall UnrecordedCall::of(const c10::OperatorHandle& op) {
  return UnrecordedCall(op.schema(), op.hasTag(at::Tag::nondeterministic_seeded));
}
UnrecordedCall UnrecordedCall::of(const char* name, const char* overload) {
  return of(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload));
}

void UnrecordedCall::note(const at::Tensor& tensor) {
  if (storage_or_null(tensor) == nullptr || tensor.numel() == 0 || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return;
  const bool known = at_ < schema_.arguments().size();
  const c10::AliasInfo* const alias = known ? schema_.arguments()[at_].alias_info() : nullptr;
  const bool writes = alias != nullptr && alias->isWrite();
  if (writes) written_.push_back(tensor);
  if (writes && (schema_.arguments()[at_].is_out() || overwrites(name_))) return;
  continues_ = continues_ || writes;
  read_.push_back(tensor);
  // It may change what it writes to.
  if (!writes) reads_.push_back(RecordedConstants::read_of(name_, tensor));
}

void UnrecordedCall::argument(const at::Tensor& tensor) {
  if (tensor.defined()) note(tensor);
  ++at_;
}
void UnrecordedCall::argument(const std::optional<at::Tensor>& tensor) {
  if (tensor && tensor->defined()) note(*tensor);
  ++at_;
}
void UnrecordedCall::argument(at::TensorList tensors) {
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined()) note(tensor);
  ++at_;
}
void UnrecordedCall::argument(const at::ITensorListRef& tensors) {
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined()) note(tensor);
  ++at_;
}
void UnrecordedCall::argument(const c10::IValue& value) {
  const auto walk = [this](const auto& self, const c10::IValue& of) -> void {
    if (of.isTensor()) {
      if (of.toTensor().defined()) note(of.toTensor());
    } else if (of.isList()) {
      for (const c10::IValue& item : of.toListRef()) self(self, item);
    }
  };
  walk(walk, value);
  ++at_;
}

void UnrecordedCall::add(const at::Tensor& result) {
  const c10::StorageImpl* const storage = storage_or_null(result);
  if (storage == nullptr) return;
  // A result that is an argument has been noted already.
  const auto is_it = [&](const at::Tensor& other) { return storage_or_null(other) == storage; };
  if (std::ranges::none_of(read_, is_it) && std::ranges::none_of(written_, is_it)) written_.push_back(result);
}
void UnrecordedCall::add(const c10::IValue& result) {
  if (result.isTensor())
    add(result.toTensor());
  else if (result.isList())
    for (const c10::IValue& item : result.toListRef()) add(item);
}

void UnrecordedCall::ran() {
  Recording* const recording = Recording::mine();
  if (recording == nullptr) return;
  RecordedConstants& constants = recording->constants();
  if (written_.empty()) {
    if (!reads_numbers(name_)) return;
    for (std::size_t i = 0; i < read_.size(); ++i) constants.read_number(std::move(reads_[i]), read_[i]);
    return;
  }
  const auto on_replay = random_      ? RecordedConstants::OnReplay::random
                         : continues_ ? RecordedConstants::OnReplay::continues
                                      : RecordedConstants::OnReplay::same;
  constants.ran(called(name_), std::move(reads_), read_, written_, on_replay);
}

}  // namespace dwell::pytorch
