// Tokens: tasks of the ready queue, each of which stands for any task that waits by priority (levels.hpp).
#pragma once

#include "device/in_flight.hpp"
#include "device/levels.hpp"
#include "device/source.hpp"

namespace dwell::device {

struct Tokens : SourceVerbs {
  static constexpr u32 kSources = 1U << source::token;
  static constexpr u32 kPart = part::levels;

  static DWELL_DEVICE bool calls(const Header&) { return false; }
  static DWELL_DEVICE bool goes_on(const Header&) { return true; }
  static DWELL_DEVICE Follows proceed(const Behind& at) { return exchange_for_task(at.lease, at.worker, at.to); }

 private:
  // Puts a task of those that wait by priority into `frame`.
  static DWELL_DEVICE_COLD Follows exchange_for_task(const Lease& lease, Worker* worker, Frame* frame) {
    TaskQuads task{};
    levels::take(lease, &task);
    const u32 word0 = broadcast(task.quad[0].word[0]);
    const u32 word1 = broadcast(task.quad[0].word[1]);
    const u32 word2 = broadcast(task.quad[0].word[2]);
    const Header header = Header::from(word0, word1);
    if (header.slots > 1) sources::load_rest(lease, &task, header, word2);
    for (u32 i = 0; i < TaskQuads::kEach; ++i) {
      const u32 index = i * kLanes + lane();
      if (index >= header.slots * 4) break;
      for (u32 j = 0; j < 3; ++j) frame->word[index * 3 + j] = task.quad[i].word[j];
    }
    if (lane() == 0) {
      // What was written before the task was submitted or made ready is seen by it. Pairs with complete() and the host's release.
      if ((header.flags & flag::system) != 0)
        fence<Scope::system>();
      else
        fence<Scope::device>();
      in_flight::note(worker, word0, word1, word2);
      sources::take_up(lease, worker, header, word2);
      worker->level = header.level;
      reset(&worker->context);
      worker->context.yield = 0;
    }
    sync_lanes();
    return kFrame;
  }
};

}  // namespace dwell::device
