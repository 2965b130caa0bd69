// Where calls of operations are taken from PyTorch's dispatcher.
#pragma once

#include <c10/core/DispatchKey.h>
#include <c10/core/DispatchKeySet.h>

#include <string>

namespace dwell::pytorch {

// The key under which operations are taken: below autograd, autocast, functorch and functionalisation, above the backends, and nobody
// else's. It is on in threads that look out for results that are not there yet. Where PyTorch has no such key, a mode of Python's hands
// calls over, and this is the mode's. Written once, before operations are taken.
struct TheKey {
  c10::DispatchKey key = c10::DispatchKey::Undefined;
  c10::DispatchKeySet below;  // all keys of less priority
  bool is_of_mode = false;
  // Another that is nobody else's, above autograd and functorch: operations come there before PyTorch takes them apart. Undefined where
  // there is none.
  c10::DispatchKey above = c10::DispatchKey::Undefined;

  // Those that are on in threads that take operations.
  c10::DispatchKeySet both() const { return c10::DispatchKeySet(key) | c10::DispatchKeySet(above); }
};
inline constinit TheKey the_key;

// What is left of a call's keys below ours.
inline c10::DispatchKeySet below(c10::DispatchKeySet keys) { return keys & the_key.below; }

// Looks for a key that fits, or only at the one of that name unless it is empty, and sets `the_key`. Returns why none fits, then with the
// mode's key in its place; else nothing.
std::string choose_key(const std::string& wanted);

}  // namespace dwell::pytorch
