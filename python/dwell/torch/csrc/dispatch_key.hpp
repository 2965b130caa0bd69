// The key of PyTorch's dispatcher at which operations are taken.
#pragma once

#include <c10/core/DispatchKey.h>
#include <c10/core/DispatchKeySet.h>

#include <string>

namespace dwell::pytorch {

// The key: below autograd, autocast, functorch and functionalisation, above the backends, and unused by others. It is on in threads that
// take operations or flush for others. If PyTorch has no such key, a Python mode passes calls on, and this is the key of modes. Written
// once, before operations are taken.
struct TheKey {
  c10::DispatchKey key = c10::DispatchKey::Undefined;
  c10::DispatchKeySet below;  // all keys of less priority
  bool is_of_mode = false;
  // Another unused key, above autograd and functorch: composite operations reach it before PyTorch splits them. Undefined if there is none.
  c10::DispatchKey above = c10::DispatchKey::Undefined;

  // The keys that are on in threads that take operations.
  c10::DispatchKeySet both() const { return c10::DispatchKeySet(key) | c10::DispatchKeySet(above); }
};
inline constinit TheKey the_key;

// The keys of a call below ours.
inline c10::DispatchKeySet below(c10::DispatchKeySet keys) { return keys & the_key.below; }

// Chooses a key, the one named `name` unless that is empty, and sets `the_key`. Returns an empty string; if none fits, sets the key of
// modes and returns the reason.
std::string choose_key(const std::string& wanted);

// Whether operations on CPU tensors are taken. They are not on a machine with a GPU: there, CPU tensors hold counts and indices, which the
// host reads soon.
bool takes_from_cpu();

}  // namespace dwell::pytorch
