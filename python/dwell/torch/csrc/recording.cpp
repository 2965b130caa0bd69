#include "recording.hpp"

#include <utility>

#include <dwell/error.hpp>

namespace dwell::pytorch {

Recording*& Recording::mine() {
  thread_local Recording* recording = nullptr;
  return recording;
}

Recording::Recording(Runtime& runtime) : runtime_(runtime), recorder_([this] { record(); }) {}

Recording::~Recording() {
  if (!recorder_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  recorder_.join();
}

void Recording::record() {
  std::exception_ptr failure;
  try {
    graph_ = runtime_.capture([this] {
      Batch batch(runtime_);
      batch.store_only([this](const TensorView::Extent& memory) { return storages_.is_needed(memory.first); });
      std::unique_lock lock(mutex_);
      for (;;) {
        changed_.wait(lock, [this] { return work_ != nullptr || over_; });
        if (work_ == nullptr) break;
        try {
          (*work_)(batch);
        } catch (...) {
          failure_ = std::current_exception();
        }
        work_ = nullptr;
        changed_.notify_all();
      }
      batch.submit();
    });
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  if (failure != nullptr) failure_ = failure;
  done_ = true;
  changed_.notify_all();
}

void Recording::add(std::span<const at::Tensor* const> tensors, bool made, const std::function<void(Batch&)>& collect) {
  std::unique_lock lock(mutex_);
  work_ = &collect;
  changed_.notify_all();
  changed_.wait(lock, [this] { return work_ == nullptr || done_; });
  work_ = nullptr;
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  storages_.keep(tensors, made);
}

void Recording::end() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  recorder_.join();
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  exec_.emplace(runtime_.instantiate(*graph_));
  graph_.reset();
}

Ticket Recording::launch() const {
  if (!exec_) throw Error(errc::invalid_argument, "the recording has not ended");
  return runtime_.launch(*exec_, drain);
}

}  // namespace dwell::pytorch
