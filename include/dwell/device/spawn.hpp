// Tasks that operators make.
#pragma once

#include <dwell/device/operator.hpp>

#if DWELL_LINKED_OPERATORS
// Makes a task of this opcode, whose arguments are in the context and name `bytes` bytes. Linked with the loop by name, so only operators
// that make tasks pay for its registers. Called by the lanes of warp 0.
extern "C" __device__ void dwell_spawn(dwell::device::Context* context, dwell::u32 opcode, dwell::device::Make how, dwell::u64 bytes);
#endif

namespace dwell {

namespace device {

// Makes a task whose arguments thread 0 has written. Called by the lanes of warp 0.
DWELL_DEVICE void ask_for_task(Context* context, u32 opcode, Make how, u64 bytes) {
  sync_lanes();
#if DWELL_LINKED_OPERATORS
  dwell_spawn(context, opcode, how, bytes);
#else
  context->spawn(context, opcode, how, bytes);
#endif
}

// The bytes that arguments name.
template <class T>
DWELL_DEVICE u64 bytes_of(const T&) {
  return 0;
}
template <class T>
DWELL_DEVICE u64 bytes_of(const Span<T>& span) {
  return static_cast<u64>(span.size()) * sizeof(T);
}
DWELL_DEVICE u64 bytes_named_by() { return 0; }
template <class First, class... Rest>
DWELL_DEVICE u64 bytes_named_by(const First& first, const Rest&... rest) {
  return bytes_of(first) + bytes_named_by(rest...);
}

DWELL_DEVICE void write_arguments(u32*) {}
template <class First, class... Rest>
DWELL_DEVICE void write_arguments(u32* to, const First& first, const Rest&... rest) {
  Wire<First>::write(to, first);
  write_arguments(to + Wire<First>::words, rest...);
}

}  // namespace device

template <class... Parameters>
DWELL_DEVICE void Group::make(u32 opcode, device::Make how, const Parameters&... arguments) const {
  static_assert(device::SumOf<device::Wire<Parameters>::words...>::value <= device::kMaxSpawnWords,
                "the arguments of a task that an operator makes take 9 words of 32 bits at most; pass a span that leads to them");
  if (rank() == 0) device::write_arguments(context_->task, arguments...);
  if (rank() < kLanes) device::ask_for_task(context_, opcode, how, device::bytes_named_by(arguments...));
  // All threads see the failure or the child before the task's last barrier. The new task does not see later writes.
  sync();
}

// Only the first thread reads it, and writes its source.
DWELL_DEVICE Child Group::made() const {
  Child child;
  child.number_ = rank() == 0 ? context_->task[0] : 0;
  return child;
}

template <u32 place, class... Parameters>
DWELL_DEVICE Child Group::spawn(Use<place, void(Parameters...)> use, typename device::Undeduced<Parameters>::type... arguments) const {
  make<Parameters...>(opcode(use), device::Make::child, arguments...);
  return made();
}

template <u32 place, class... Parameters>
DWELL_DEVICE void Group::then(Use<place, void(Parameters...)> use, typename device::Undeduced<Parameters>::type... arguments) const {
  make<Parameters...>(opcode(use), device::Make::continuation, arguments...);
}

DWELL_DEVICE void Group::name_before(const Child* before, u32 number) const {
  if (rank() != 0) return;
  context_->count = number;
  for (u32 i = 0; i < number; ++i) context_->before[i] = before[i].number_;
}

template <class One, u32 place, class... Parameters>
DWELL_DEVICE Child Group::spawn_after(const One& before, Use<place, void(Parameters...)> use,
                                      typename device::Undeduced<Parameters>::type... arguments) const {
  static_assert(device::kSame<One, Child>, "Group::spawn_after takes what Group::spawn has returned: a child, or {a, b} for several");
  const Child list[] = {before};
  return spawn_after(list, use, arguments...);
}

template <u32 number, u32 place, class... Parameters>
DWELL_DEVICE Child Group::spawn_after(const Child (&before)[number], Use<place, void(Parameters...)> use,
                                      typename device::Undeduced<Parameters>::type... arguments) const {
  static_assert(number <= device::kMaxBefore, "a task follows 8 others at most; let a join count their arrivals");
  name_before(before, number);
  make<Parameters...>(opcode(use), device::Make::follower, arguments...);
  return made();
}

// After the exec: the number of changes to its records.
DWELL_DEVICE Child Group::launch(Exec exec) const {
  make(device::kLaunchOpcode, device::Make::child, exec, u32{0});
  return made();
}

template <class One>
DWELL_DEVICE Child Group::launch_after(const One& before, Exec exec) const {
  static_assert(device::kSame<One, Child>, "Group::launch_after takes what Group::spawn has returned: a child, or {a, b} for several");
  const Child list[] = {before};
  return launch_after(list, exec);
}

template <u32 number>
DWELL_DEVICE Child Group::launch_after(const Child (&before)[number], Exec exec) const {
  static_assert(number <= device::kMaxBefore, "a launch follows 8 others at most; let a join count their arrivals");
  name_before(before, number);
  make(device::kLaunchOpcode, device::Make::follower, exec, u32{0});
  return made();
}

template <u32 place, class... Parameters>
DWELL_DEVICE Join Group::join(u32 arrivals, Use<place, void(Parameters...)> use,
                              typename device::Undeduced<Parameters>::type... arguments) const {
  if (rank() == 0) context_->count = arrivals;
  make<Parameters...>(opcode(use), device::Make::join, arguments...);
  Join join;
  join.number_ = context_->task[0];
  join.round_ = context_->task[1];
  sync();  // all have read it
  return join;
}

DWELL_DEVICE void Group::arrive(Join join) const {
  sync();  // the join's task sees what other threads have written
  if (rank() == 0) {
    context_->task[0] = join.number_;
    context_->task[1] = join.round_;
  }
  if (rank() < kLanes) device::ask_for_task(context_, 0, device::Make::arrival, 0);
  sync();
}

}  // namespace dwell
