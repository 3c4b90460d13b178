// Capture state of the calling thread, for the allocators.
//
// While a thread captures a stream, CUDA refuses calls of this thread that could wait for the device
// (cudaStreamCaptureModeThreadLocal; other threads, such as a data loader, are not affected). cudaMalloc is
// one of the refused calls, so the allocator allows it by RelaxedCapture for the duration of the call.
#pragma once

#include <mutex>
#include <set>
#include <tinytorch/backend/cuda/runtime/native.cuh>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cuda {

struct Block;

// An allocated block of device memory and the pool that it came from.
struct DeviceBlock {
  void* address = nullptr;
  size_t requested = 0;
  Block* block = nullptr;            // null: a separate allocation, without a pool
  int device = 0;                    // device of the pool
  uint64_t graph = 0;                // graph of the pool, 0: none
  StreamHandle* stream = nullptr;    // stream of the pool
  std::vector<StreamHandle*> users;  // other streams that use the block
};

class ReplayInputs;  // replay.cuh

struct GraphMemory {
  uint64_t id = 0;                // from 1
  std::vector<DeviceBlock> held;  // freed during the capture; the graph may use them, so it keeps them
  ReplayInputs* replay = nullptr;
};

inline thread_local GraphMemory* capturing = nullptr;

bool is_capturing() { return capturing != nullptr; }

void refuse_in_capture(const char* what, Loc loc) {
  if (!capturing) return;
  fail("TT-CUDA-05",
       std::string(what) +
           ": not allowed while a graph is captured, because nothing runs before the replay\n  hint: a "
           "captured step may only queue device work; move .item(), .to(cpu), printing, new tensors from CPU "
           "data and synchronize() before or after it",
       loc);
}

struct RelaxedCapture {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
  RelaxedCapture() {
    if (capturing) (void)cudaThreadExchangeStreamCaptureMode(&mode);
  }
  ~RelaxedCapture() {
    if (capturing) (void)cudaThreadExchangeStreamCaptureMode(&mode);
  }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
};

// Ids of the graphs that may still be replayed.
struct LiveGraphs {
  std::mutex mutex;
  std::set<uint64_t> ids;
  uint64_t next = 1;
  static LiveGraphs& instance() {
    static auto* const graphs = new LiveGraphs;
    return *graphs;
  }
};
inline uint64_t new_graph_id() {
  LiveGraphs& graphs = LiveGraphs::instance();
  const std::lock_guard lock(graphs.mutex);
  graphs.ids.insert(graphs.next);
  return graphs.next++;
}
inline void end_graph_id(uint64_t id) {
  LiveGraphs& graphs = LiveGraphs::instance();
  const std::lock_guard lock(graphs.mutex);
  graphs.ids.erase(id);
}
inline bool is_live_graph(uint64_t id) {
  LiveGraphs& graphs = LiveGraphs::instance();
  const std::lock_guard lock(graphs.mutex);
  return graphs.ids.count(id) != 0;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
