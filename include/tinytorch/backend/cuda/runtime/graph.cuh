// CUDA graphs: a step is captured once and replayed as one launch.
//
// The capture runs on a private stream of the graph, because the default stream cannot be captured. A replay
// is queued on the caller's current stream, in order with other work. allocator.cuh describes the memory of a
// capture.
#pragma once

#include <optional>
#include <tinytorch/backend/cuda/runtime/allocator.cuh>
#include <tinytorch/backend/cuda/runtime/capture.cuh>
#include <tinytorch/backend/cuda/runtime/graph.hpp>
#include <tinytorch/backend/cuda/runtime/replay.cuh>
#include <tinytorch/backend/cuda/runtime/stream.cuh>
#include <utility>

namespace tinytorch::inline TT_BUILD::backend::cuda {

struct Graph::State {
  explicit State(int on, Loc loc) : device(on), stream(on, 0, loc), last_replay(false, on, loc) {
    memory.id = new_graph_id();
    memory.replay = &inputs.emplace(on);
  }
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  int device;
  Stream stream;
  Event last_replay;
  bool replayed = false;
  GraphMemory memory;
  std::optional<ReplayInputs> inputs;
  std::optional<StreamGuard> guard;  // during the capture
  cudaGraphExec_t executable = nullptr;
  size_t nodes = 0;
};

// The graph's memory is reused only after its last replay is done.
inline Graph::State::~State() {
  const QuietDeviceGuard on(device);
  if (replayed) {
    const RelaxedCapture relaxed;
    (void)cudaEventSynchronize(native(last_replay.handle()));
  }
  if (executable) (void)cudaGraphExecDestroy(executable);
  inputs.reset();
  end_graph_id(memory.id);
  for (DeviceBlock& held : memory.held) DeviceAllocator::of(held.device).release_held(std::move(held));
  for (int d = 0; d < device_count(); ++d) DeviceAllocator::of(d).release_graph(memory.id);
}

Graph::~Graph() {
  const RelaxedCapture relaxed;  // this thread may be capturing another graph
  delete state_;
}

void Graph::begin(Loc loc) {
  refuse_in_capture("Graph::capture inside a capture", loc);
  delete std::exchange(state_, nullptr);
  state_ = new State(device_, loc);
  state_->guard.emplace(state_->stream, loc);
  const cudaError_t error =
      cudaStreamBeginCapture(native(state_->stream.handle()), cudaStreamCaptureModeThreadLocal);
  if (error != cudaSuccess) {
    delete std::exchange(state_, nullptr);
    fail_cuda(error, "Graph::capture", loc);
  }
  capturing = &state_->memory;
}

void Graph::end(Loc loc) {
  cudaGraph_t graph = nullptr;
  cudaError_t error = cudaStreamEndCapture(native(state_->stream.handle()), &graph);
  capturing = nullptr;
  state_->guard.reset();
  state_->inputs->end_capture();
  if (error == cudaSuccess) error = cudaGraphGetNodes(graph, nullptr, &state_->nodes);
  const bool empty = error == cudaSuccess && state_->nodes == 0;
  if (error == cudaSuccess && !empty) error = cudaGraphInstantiate(&state_->executable, graph, 0);
  if (graph) (void)cudaGraphDestroy(graph);
  if (error == cudaSuccess && !empty) return;
  delete std::exchange(state_, nullptr);
  check(error, "Graph::capture", loc);
  fail("TT-CUDA-05",
       "Graph::capture: the step queued no work on the device\n  hint: are its tensors on cuda:" +
           std::to_string(device_) + ", and does it use the current stream?",
       loc);
}

void Graph::abandon() noexcept {
  cudaGraph_t graph = nullptr;
  (void)cudaStreamEndCapture(native(state_->stream.handle()), &graph);
  if (graph) (void)cudaGraphDestroy(graph);
  (void)cudaGetLastError();
  capturing = nullptr;
  state_->guard.reset();
  state_->inputs->end_capture();
  delete std::exchange(state_, nullptr);
}

void Graph::replay(Loc loc) {
  refuse_in_capture("Graph::replay", loc);
  if (!state_) fail("TT-CUDA-05", "Graph::replay: nothing was captured\n  hint: call capture() first", loc);
  const DeviceGuard guard(device_, loc);
  // The previous replay, on any stream, still reads the values that upload() overwrites.
  if (state_->replayed && state_->inputs->has_values()) {
    check(cudaStreamWaitEvent(native(current_stream(device_)), native(state_->last_replay.handle()), 0),
          "Graph::replay", loc);
  }
  state_->inputs->upload(loc);
  check(cudaGraphLaunch(state_->executable, native(current_stream(device_))), "Graph::replay", loc);
  note_launch("a replayed graph");
  state_->last_replay.record(loc);
  state_->replayed = true;
}

bool Graph::is_captured() const { return state_ != nullptr; }
size_t Graph::nodes() const { return state_ ? state_->nodes : 0; }
size_t Graph::reserved_bytes() const {
  return state_ ? DeviceAllocator::of(device_).reserved_by_graph(state_->memory.id) : 0;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
