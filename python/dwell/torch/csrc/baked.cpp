#include "baked.hpp"

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

// As programs call it.
std::string called(std::string_view operation) { return operation == "aten::_local_scalar_dense" ? "item()" : std::string(operation); }

constexpr const char* kRemedy =
    ": replays would have what it holds now. Let it stay on the device that is recorded, as optimizers do with capturable=True; or leave "
    "it "
    "out of the recording, and copy what is new into a tensor of the recording between replays";

// Of operations that return numbers: those that look at elements.
bool reads_numbers(std::string_view name) { return name == "aten::_local_scalar_dense" || name == "aten::equal"; }
// Of those that write into an argument: such that do not look at what was there.
bool overwrites(std::string_view name) {
  constexpr std::array<std::string_view, 4> all = {"aten::copy_", "aten::fill_", "aten::zero_", "aten::set_"};
  return std::ranges::find(all, name) != all.end();
}

const c10::StorageImpl* storage_or_null(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

}  // namespace

Baked::Read Baked::read_of(const std::string& operation, const at::Tensor& tensor) {
  Read read{called(operation), text_of(tensor), {}, 0};
  read.version = tensor.unsafeGetTensorImpl()->version_counter();
  // Tensors of inference mode have none.
  if (read.version.enabled()) read.seen = read.version.current_version();
  return read;
}

const Baked::Left* Baked::left_in(const at::Tensor& tensor) const {
  const auto found = left_.find(storage_or_null(tensor));
  return found == left_.end() ? nullptr : &found->second;
}

void Baked::ran(const std::string& operation, std::vector<Read> reads, std::span<const at::Tensor> read,
                std::span<const at::Tensor> written, Renewed renewed) {
  const std::lock_guard lock(mutex_);
  std::optional<Left> from;  // of what it reads, that which another time would not be the same
  for (const at::Tensor& tensor : read) {
    const Left* const left = left_in(tensor);
    if (left == nullptr) continue;
    reads.insert(reads.end(), left->reads.begin(), left->reads.end());
    if (left->renewed != Renewed::the_same) from = *left;
  }
  for (const at::Tensor& tensor : written) {
    const c10::StorageImpl* const storage = storage_or_null(tensor);
    if (storage == nullptr || tensor.numel() == 0) continue;
    Left left{c10::weak_intrusive_ptr<c10::StorageImpl>(tensor.storage().getWeakStorageImpl()), operation, text_of(tensor), renewed, reads};
    if (renewed != Renewed::random && from) {
      left.operation = from->operation;
      left.what = from->what;
      left.renewed = from->renewed;
    } else if (renewed == Renewed::counts && left_in(tensor) != nullptr) {
      left.renewed = Renewed::the_same;  // what was made while recording is made anew another time
    }
    left_.insert_or_assign(storage, std::move(left));
  }
}

void Baked::take_over(const Left& left) {
  if (left.renewed == Renewed::random)
    throw Error(errc::unsupported,
                left.operation +
                    " cannot be recorded: it draws random numbers, and replays would have the same ones each time: leave it "
                    "out of the recording, and draw into a tensor of the recording between replays");
  if (left.renewed == Renewed::counts)
    throw Error(errc::unsupported, "the recording reads " + left.what + ", which " + left.operation + " has changed beside it" + kRemedy);
  reads_.insert(reads_.end(), left.reads.begin(), left.reads.end());
}

void Baked::read_number(Read read, const at::Tensor& tensor) {
  const std::lock_guard lock(mutex_);
  if (const Left* const left = left_in(tensor)) take_over(*left);
  reads_.push_back(std::move(read));
}

void Baked::use(std::span<const at::Tensor* const> tensors, bool made) {
  const std::lock_guard lock(mutex_);
  if (left_.empty()) return;
  for (const at::Tensor* const tensor : tensors.subspan(made ? 1 : 0)) {
    const Left* const left = left_in(*tensor);
    if (left == nullptr) continue;
    take_over(*left);
    const auto is_it = [&](const at::Tensor* other) { return storage_or_null(*other) == storage_or_null(*tensor); };
    if (made || tensor != tensors.front() || std::ranges::none_of(tensors.subspan(1), is_it)) continue;
    throw Error(errc::unsupported, "the recording changes " + left->what + ", which " + left->operation +
                                       " has made beside it, once: replays would go on from what the last one has left. Make it before the "
                                       "recording, and copy what it is to begin with into it there or between replays");
  }
}

void Baked::end() {
  const std::lock_guard lock(mutex_);
  left_.clear();
}

void Baked::check() const {
  const std::lock_guard lock(mutex_);
  for (const Read& read : reads_)
    if (read.version.enabled() && read.version.current_version() != read.seen)
      throw Error(errc::invalid_argument,
                  read.what + ", which " + read.operation + " has read beside the recording, has been changed since" + kRemedy);
}

Beside::Beside(const c10::FunctionSchema& schema, bool random) : schema_(schema), name_(schema.name()), random_(random) {}

Beside Beside::of(const c10::OperatorHandle& op) { return Beside(op.schema(), op.hasTag(at::Tag::nondeterministic_seeded)); }
Beside Beside::of(const char* name, const char* overload) { return of(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload)); }

void Beside::note(const at::Tensor& tensor) {
  if (storage_or_null(tensor) == nullptr || tensor.numel() == 0 || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return;
  const bool known = at_ < schema_.arguments().size();
  const c10::AliasInfo* const alias = known ? schema_.arguments()[at_].alias_info() : nullptr;
  const bool writes = alias != nullptr && alias->isWrite();
  if (writes) written_.push_back(tensor);
  if (writes && (schema_.arguments()[at_].is_out() || overwrites(name_))) return;
  counts_ = counts_ || writes;
  read_.push_back(tensor);
  // Its own change is no other's.
  if (!writes) reads_.push_back(Baked::read_of(name_, tensor));
}

void Beside::argument(const at::Tensor& tensor) {
  if (tensor.defined()) note(tensor);
  ++at_;
}
void Beside::argument(const std::optional<at::Tensor>& tensor) {
  if (tensor && tensor->defined()) note(*tensor);
  ++at_;
}
void Beside::argument(at::TensorList tensors) {
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined()) note(tensor);
  ++at_;
}
void Beside::argument(const at::ITensorListRef& tensors) {
  for (const at::Tensor& tensor : tensors)
    if (tensor.defined()) note(tensor);
  ++at_;
}
void Beside::argument(const c10::IValue& value) {
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

void Beside::add(const at::Tensor& result) {
  const c10::StorageImpl* const storage = storage_or_null(result);
  if (storage == nullptr) return;
  // One that is an argument is written as such, if at all.
  const auto is_it = [&](const at::Tensor& other) { return storage_or_null(other) == storage; };
  if (std::ranges::none_of(read_, is_it) && std::ranges::none_of(written_, is_it)) written_.push_back(result);
}
void Beside::add(const c10::IValue& result) {
  if (result.isTensor())
    add(result.toTensor());
  else if (result.isList())
    for (const c10::IValue& item : result.toListRef()) add(item);
}

void Beside::ran() {
  Recording* const recording = Recording::mine();
  if (recording == nullptr) return;
  Baked& baked = recording->baked();
  if (written_.empty()) {
    if (!reads_numbers(name_)) return;
    for (std::size_t i = 0; i < read_.size(); ++i) baked.read_number(std::move(reads_[i]), read_[i]);
    return;
  }
  const auto renewed = random_ ? Baked::Renewed::random : counts_ ? Baked::Renewed::counts : Baked::Renewed::the_same;
  baked.ran(called(name_), std::move(reads_), read_, written_, renewed);
}

}  // namespace dwell::pytorch
