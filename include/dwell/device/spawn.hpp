// Tasks that operators make.
#pragma once

#include <dwell/device/operator.hpp>

namespace dwell {

namespace device {

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
    context_->spawn(context_, opcode, follows);
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
