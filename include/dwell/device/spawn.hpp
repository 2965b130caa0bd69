// Tasks that operators make.
#pragma once

#include <dwell/device/operator.hpp>

#if DWELL_ON_CUDA
// Makes a task of this opcode, whose arguments are in the context: a child, or what follows. Linked with the loop: called by its name, its
// registers cost those operators alone that make tasks. Called by one thread.
extern "C" __device__ void dwell_spawn(dwell::device::Context* context, dwell::u32 opcode, bool follows);
#endif

namespace dwell {

namespace device {

DWELL_DEVICE void ask_for_task(Context* context, u32 opcode, bool follows) {
#if DWELL_ON_CUDA
  dwell_spawn(context, opcode, follows);
#else
  context->spawn(context, opcode, follows);
#endif
}

DWELL_DEVICE void write_arguments(u32*) {}
template <class First, class... Rest>
DWELL_DEVICE void write_arguments(u32* to, const First& first, const Rest&... rest) {
  Wire<First>::write(to, first);
  write_arguments(to + Wire<First>::words, rest...);
}

}  // namespace device

template <class... Parameters>
DWELL_DEVICE void Group::make(u32 opcode, bool follows, const Parameters&... arguments) const {
  static_assert(device::SumOf<device::Wire<Parameters>::words...>::value <= device::kMaxSpawnWords,
                "the arguments of a task that an operator makes take 9 words of 32 bits at most; pass a span that leads to them");
  if (rank() == 0) {
    device::write_arguments(context_->task, arguments...);
    device::ask_for_task(context_, opcode, follows);
  }
  // All know of it before the last barrier of the task; and what others write later is not for the new task.
  sync();
}

template <u32 place, class... Parameters>
DWELL_DEVICE void Group::spawn(Use<place, void(Parameters...)> use, typename device::Undeduced<Parameters>::type... arguments) const {
  make<Parameters...>(opcode(use), false, arguments...);
}

template <u32 place, class... Parameters>
DWELL_DEVICE void Group::then(Use<place, void(Parameters...)> use, typename device::Undeduced<Parameters>::type... arguments) const {
  make<Parameters...>(opcode(use), true, arguments...);
}

}  // namespace dwell
