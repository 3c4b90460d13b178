// Definitions of runtime.hpp for a build without CUDA: queries report that there is no device, and functions
// that need a device throw BuiltWithoutCuda with the name of the function. So the same program compiles in
// both builds.
#pragma once

#include <tinytorch/backend/cuda/runtime/declarations.hpp>

#if !TINYTORCH_WITH_CUDA
namespace tinytorch::inline TT_BUILD::backend::cuda {

inline bool is_available() { return false; }
inline int device_count() { return 0; }
inline int driver_version() { return 0; }
inline int runtime_version() { return 0; }
inline int current_device() { return 0; }
inline StreamHandle* current_stream(int) { return nullptr; }
inline StreamHandle* current_stream() { return nullptr; }
inline void set_current_stream(StreamHandle*, int) {}
inline bool is_capturing() { return false; }
inline void refuse_in_capture(const char*, Loc) {}
inline const uint64_t* random_offset(uint64_t) { return nullptr; }
inline bool is_pinned(const void*) { return false; }
inline MemoryStats memory_stats(int) { return {}; }
inline MemoryStats pinned_stats() { return {}; }
inline void reset_peak(int) {}
inline void release_cached(int, Loc) {}
inline void release_pinned() {}
inline void synchronize(Loc) {}  // nothing is ever queued
inline bool is_caching() { return false; }
inline void set_caching(bool) {}
inline void push_range(const char*) {}
inline void pop_range() {}

inline const DeviceProperties& properties(int, Loc loc) { fail_without_cuda("cuda properties", loc); }
inline DeviceMemory device_memory(int, Loc loc) { fail_without_cuda("cuda device_memory", loc); }
inline void set_device(int, Loc loc) { fail_without_cuda("cuda set_device", loc); }
inline void synchronize_device(int, Loc loc) { fail_without_cuda("cuda synchronize_device", loc); }
inline void* allocate_pinned(size_t, Loc loc) { fail_without_cuda("cuda allocate_pinned", loc); }
inline void deallocate_pinned(void*) noexcept {}
inline DeviceGuard::~DeviceGuard() = default;

inline void* allocate(size_t, int, Loc loc) { fail_without_cuda("cuda allocate", loc); }
inline void deallocate(void*, size_t, int) noexcept {}
inline void record_stream(void*, int, StreamHandle*, Loc loc) {
  fail_without_cuda("cuda record_stream", loc);
}
inline void copy_bytes(void*, Device, const void*, Device, size_t, Loc loc) {
  fail_without_cuda("cuda copy_bytes", loc);
}
inline void copy_bytes_async(void*, Device, const void*, Device, size_t, Loc loc) {
  fail_without_cuda("cuda copy_bytes_async", loc);
}
inline void fill_bytes(void*, int, size_t, int, Loc loc) { fail_without_cuda("cuda fill_bytes", loc); }
inline void synchronize(StreamHandle*, Loc) {}
inline void raise_faults(Loc) {}
inline void note_launch(const char*) {}
inline void check_after_launch(const char*) {}

// The constructors of Stream and Event throw, so their other members are never called.
inline Stream::Stream(int, int, Loc loc) { fail_without_cuda("cuda Stream", loc); }
inline Stream::~Stream() = default;
inline bool Stream::is_idle(Loc) const { return true; }
inline void Stream::synchronize(Loc) const {}
inline void Stream::wait(const Event&, Loc) const {}
inline StreamGuard::StreamGuard(StreamHandle* stream, int device, Loc loc)
    : before_(stream), device_(device), device_guard_(device, loc) {
  fail_without_cuda("cuda StreamGuard", loc);
}
inline Event::Event(bool, int, Loc loc) { fail_without_cuda("cuda Event", loc); }
inline Event::~Event() = default;
inline void Event::record(Loc) {}
inline void Event::record(const Stream&, Loc) {}
inline void Event::wait(Loc) const {}
inline bool Event::is_reached(Loc) const { return true; }
inline void Event::synchronize(Loc) const {}
inline double Event::milliseconds_since(const Event&, Loc) const { return 0; }

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
#endif
