// What the calling thread is capturing, as the allocators need to know it.
//
// While a stream is captured, calls that would wait for the device are refused by CUDA, for this thread alone
// (cudaStreamCaptureModeThreadLocal: other threads, such as a data loader, go on). cudaMalloc is among them,
// although it only may wait; the allocator allows it for the length of the call (RelaxedCapture).
#pragma once

#include <mutex>
#include <set>
#include <tinytorch/backend/cuda/runtime/native.cuh>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cuda {

struct Block;

// A block of device memory that was handed out, and the pool it came from.
struct DeviceBlock {
  void* address = nullptr;
  size_t requested = 0;
  Block* block = nullptr;            // null: an allocation of its own
  int device = 0;                    // the pool: of this device,
  uint64_t graph = 0;                // of this graph, or of none (0),
  StreamHandle* stream = nullptr;    // of this stream
  std::vector<StreamHandle*> users;  // other streams that use it
};

class ReplayInputs;  // replay.cuh

struct GraphMemory {
  uint64_t id = 0;                // from 1
  std::vector<DeviceBlock> held;  // died in the capture, may be used by the graph: kept as long as the graph
  ReplayInputs* replay = nullptr;
};

inline thread_local GraphMemory* capturing = nullptr;

bool is_capturing() { return capturing != nullptr; }

void refuse_in_capture(const char* what, Loc loc) {
  if (!capturing) return;
  fail("TT-CUDA-05",
       std::string(what) +
           ": not while a graph is captured, because nothing runs before the replay\n  hint: a captured step "
           "may "
           "only queue device work; move .item(), .to(cpu), printing, new tensors from CPU data and "
           "synchronize() "
           "before or after it",
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

// The graphs that may still be replayed.
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
