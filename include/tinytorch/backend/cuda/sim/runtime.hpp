// Emulation of the CUDA runtime API, as far as backend/cuda uses it.
//
// All work runs at once in the calling thread, so a stream is always idle and an event is always reached. A
// captured graph is a list of closures; a launch of the graph runs them in order.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <tinytorch/backend/cuda/sim/emulator.hpp>
#include <tinytorch/core/shape.hpp>
#include <type_traits>
#include <utility>
#include <vector>

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidDevice = 101,
  cudaErrorNotReady = 600,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901
};
enum cudaDeviceAttr {
  cudaDevAttrMaxSharedMemoryPerBlock,
  cudaDevAttrMultiProcessorCount,
  cudaDevAttrL2CacheSize,
  cudaDevAttrMaxThreadsPerMultiProcessor,
  cudaDevAttrComputeCapabilityMajor,
  cudaDevAttrComputeCapabilityMinor,
  cudaDevAttrMaxSharedMemoryPerMultiprocessor,
  cudaDevAttrMaxSharedMemoryPerBlockOptin
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed
};
inline constexpr unsigned cudaStreamNonBlocking = 1, cudaHostAllocPortable = 1, cudaEventDefault = 0,
                          cudaEventDisableTiming = 2;

struct CUgraph_st {
  std::vector<std::function<void()>> nodes;
  bool invalid = false;
};
struct CUgraphExec_st {
  std::vector<std::function<void()>> nodes;
};
struct CUgraphNode_st;
struct CUstream_st {
  CUgraph_st* capture = nullptr;
};
struct CUevent_st {
  std::chrono::steady_clock::time_point at{};
  CUgraph_st* capture = nullptr;
};
using cudaGraph_t = CUgraph_st*;
using cudaGraphExec_t = CUgraphExec_st*;
using cudaGraphNode_t = CUgraphNode_st*;
using cudaStream_t = CUstream_st*;
using cudaEvent_t = CUevent_st*;
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem;
};

namespace tinytorch::inline TT_BUILD::backend::cuda::sim {

inline constexpr size_t kArgumentAlignment = 128;  // the largest of a kernel's parameters

inline thread_local cudaError_t last_error = cudaSuccess;
inline thread_local int present_device = 0;
inline thread_local std::vector<cudaStream_t> capturing_streams;  // streams that this thread captures
inline thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeThreadLocal;

inline cudaError_t answer(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}
// Refuses calls that could wait for the device in a thread that captures, and invalidates its captures.
inline cudaError_t refuse_in_capture() {
  if (capturing_streams.empty() || capture_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  for (cudaStream_t s : capturing_streams) s->capture->invalid = true;
  return answer(cudaErrorStreamCaptureUnsupported);
}
// Runs the work now, or adds it to the graph if the stream is being captured.
template <class F>
void queue(cudaStream_t stream, F&& work) {
  if (stream && stream->capture) {
    stream->capture->nodes.emplace_back(std::forward<F>(work));
  } else {
    work();
  }
}

// Queues a grid; body(arguments) runs one thread of it. Each run has its own copy of the arguments.
inline void queue_grid(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                       void (*body)(void*), const void* arguments, size_t argument_bytes) {
  struct alignas(kArgumentAlignment) Piece {
    unsigned char bytes[kArgumentAlignment];
  };
  std::vector<Piece> kept(ceil_div(argument_bytes, sizeof(Piece)));
  std::memcpy(kept.data(), arguments, argument_bytes);
  queue(stream, [=] {
    std::vector<Piece> own = kept;
    run_blocks(kernel, grid, block, shared_bytes, body, own.data(), argument_bytes);
  });
}

// launch() calls this. `body` runs one thread of the kernel. Only this function depends on the kernel's type,
// because the library has more than a thousand kernels, each of which would compile a queue of its own.
template <class F>
void run_grid(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
              const F& body) {
  static_assert(std::is_trivially_copyable_v<F>, "arguments of kernels are copied as bytes");
  static_assert(alignof(F) <= kArgumentAlignment);
  queue_grid(
      kernel, grid, block, shared_bytes, stream, [](void* f) { (*static_cast<F*>(f))(); }, &body, sizeof(F));
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda::sim

// ---- errors

inline const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "cudaSuccess";
    case cudaErrorInvalidValue:
      return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidDevice:
      return "cudaErrorInvalidDevice";
    case cudaErrorNotReady:
      return "cudaErrorNotReady";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
  }
  return "cudaErrorUnknown";
}
inline const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidDevice:
      return "invalid device ordinal";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
  }
  return "unknown error";
}
inline cudaError_t cudaGetLastError() {
  return std::exchange(tinytorch::backend::cuda::sim::last_error, cudaSuccess);
}

// ---- the device

// One device, or the number in TINYTORCH_SIM_DEVICES. All devices share one address space.
inline cudaError_t cudaGetDeviceCount(int* count) {
  const char* const asked = std::getenv("TINYTORCH_SIM_DEVICES");
  *count = std::max(asked ? std::atoi(asked) : 1, 1);
  return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
  *device = tinytorch::backend::cuda::sim::present_device;
  return cudaSuccess;
}
inline cudaError_t cudaSetDevice(int device) {
  int count = 0;
  (void)cudaGetDeviceCount(&count);
  if (device < 0 || device >= count) return tinytorch::backend::cuda::sim::answer(cudaErrorInvalidDevice);
  tinytorch::backend::cuda::sim::present_device = device;
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  std::strcpy(properties->name, "tinytorch emulator");
  properties->totalGlobalMem = tinytorch::backend::cuda::sim::device_bytes_total();
  return cudaSuccess;
}
// The attributes of an H200, except for a small number of multiprocessors, which keeps grids small.
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which, int) {
  switch (which) {
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = 49152;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = 4;
      break;
    case cudaDevAttrL2CacheSize:
      *value = 50 << 20;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = 2048;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = 233472;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = 232448;
      break;
  }
  return cudaSuccess;
}
inline cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = tinytorch::backend::cuda::sim::device_bytes_free();
  *total = tinytorch::backend::cuda::sim::device_bytes_total();
  return cudaSuccess;
}
inline cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
inline cudaError_t cudaRuntimeGetVersion(int* version) { return cudaDriverGetVersion(version); }
inline cudaError_t cudaDeviceSynchronize() { return tinytorch::backend::cuda::sim::refuse_in_capture(); }
inline cudaError_t cudaDeviceCanAccessPeer(int* can, int, int) {
  *can = 1;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceEnablePeerAccess(int, unsigned) { return cudaSuccess; }
// The occupancy is low, so that a persistent kernel loops more than once even on small inputs.
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Kernel, int, size_t) {
  *blocks = 1;
  return cudaSuccess;
}
inline cudaError_t cudaFuncGetName(const char** name, const void* kernel) {
  *name = tinytorch::backend::cuda::sim::mangled_kernel_name(kernel);
  return *name ? cudaSuccess : cudaErrorInvalidValue;
}

// ---- memory

inline cudaError_t cudaMalloc(void** address, size_t bytes) {
  using namespace tinytorch::backend::cuda::sim;
  if (const cudaError_t error = tinytorch::backend::cuda::sim::refuse_in_capture()) return error;
  *address = bytes ? device_allocate(bytes) : nullptr;
  return answer(*address || !bytes ? cudaSuccess : cudaErrorMemoryAllocation);
}
inline cudaError_t cudaFree(void* address) {
  using namespace tinytorch::backend::cuda::sim;
  if (!address || device_free(address)) return cudaSuccess;
  return answer(cudaErrorInvalidValue);
}
inline cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) {
  *address = std::aligned_alloc(4096, tinytorch::round_up(bytes, size_t{4096}));
  if (*address) tinytorch::backend::cuda::sim::pinned_range(*address, bytes, true);
  return tinytorch::backend::cuda::sim::answer(*address ? cudaSuccess : cudaErrorMemoryAllocation);
}
inline cudaError_t cudaFreeHost(void* address) {
  tinytorch::backend::cuda::sim::pinned_range(address, 0, false);
  std::free(address);
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                                   cudaStream_t stream) {
  if (bytes && (!to || !from)) return tinytorch::backend::cuda::sim::answer(cudaErrorInvalidValue);
  tinytorch::backend::cuda::sim::queue(stream, [=] { std::memmove(to, from, bytes); });
  return cudaSuccess;
}
inline cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes,
                                       cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}
inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  if (bytes && !to) return tinytorch::backend::cuda::sim::answer(cudaErrorInvalidValue);
  tinytorch::backend::cuda::sim::queue(stream, [=] { std::memset(to, value, bytes); });
  return cudaSuccess;
}

// ---- streams and events

inline cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = 0;
  *highest = -5;
  return cudaSuccess;
}
inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
inline cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return stream && stream->capture ? tinytorch::backend::cuda::sim::refuse_in_capture() : cudaSuccess;
}
inline cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return tinytorch::backend::cuda::sim::refuse_in_capture();
}
// A stream that waits for an event of a captured stream joins the capture.
inline cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (!event->capture || (stream && stream->capture == event->capture)) return cudaSuccess;
  if (!stream || stream->capture)
    return tinytorch::backend::cuda::sim::answer(cudaErrorStreamCaptureUnsupported);
  stream->capture = event->capture;
  tinytorch::backend::cuda::sim::capturing_streams.push_back(stream);
  return cudaSuccess;
}
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
inline cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->at = std::chrono::steady_clock::now();
  event->capture = stream ? stream->capture : nullptr;
  return cudaSuccess;
}
inline cudaError_t cudaEventQuery(cudaEvent_t event) {
  return tinytorch::backend::cuda::sim::answer(event->capture ? cudaErrorStreamCaptureUnsupported
                                                              : cudaSuccess);
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->capture) return tinytorch::backend::cuda::sim::answer(cudaErrorStreamCaptureUnsupported);
  return tinytorch::backend::cuda::sim::refuse_in_capture();
}
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  *milliseconds = std::chrono::duration<float, std::milli>(to->at - from->at).count();
  return cudaSuccess;
}

// ---- graphs

inline cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, tinytorch::backend::cuda::sim::capture_mode);
  return cudaSuccess;
}
inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (!stream || stream->capture)
    return tinytorch::backend::cuda::sim::answer(cudaErrorStreamCaptureUnsupported);
  stream->capture = new CUgraph_st;
  tinytorch::backend::cuda::sim::capturing_streams.push_back(stream);
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  namespace sim = tinytorch::backend::cuda::sim;
  CUgraph_st* const captured = stream->capture;
  std::erase_if(sim::capturing_streams, [&](cudaStream_t s) {
    if (s->capture != captured) return false;
    s->capture = nullptr;
    return true;
  });
  *graph = captured;
  if (captured && !captured->invalid) return cudaSuccess;
  *graph = nullptr;
  delete captured;
  return sim::answer(cudaErrorStreamCaptureInvalidated);
}
inline cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* count) {
  *count = graph->nodes.size();
  return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = new CUgraphExec_st{graph->nodes};
  return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  tinytorch::backend::cuda::sim::queue(stream, [=] {
    for (const auto& node : executable->nodes) node();
  });
  return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
