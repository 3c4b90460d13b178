// A watcher of reads on the host: item(), to_vector(), data() and raw() of a tensor tell it.
//
// Graph capture (acceleration/capture.hpp) sets it, because a captured graph would not see what the program
// does with the elements. Without a watcher, a read costs one comparison.
#pragma once

#include <tinytorch/core/error.hpp>

namespace tinytorch::inline TT_BUILD {

class Tensor;

// The watcher of this thread, or null.
using HostReadWatcher = void (*)(const Tensor&, Loc);
inline HostReadWatcher& host_read_watcher() {
  thread_local HostReadWatcher watcher = nullptr;
  return watcher;
}
inline void tell_host_read(const Tensor& t, Loc loc) {
  if (const HostReadWatcher watcher = host_read_watcher()) watcher(t, loc);
}

}  // namespace tinytorch::inline TT_BUILD
