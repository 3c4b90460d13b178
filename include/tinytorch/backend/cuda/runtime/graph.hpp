// Graphs: a sequence of kernels captured once and replayed without the host's work. Plain C++; graph.cuh and
// replay.cuh define the functions.
#pragma once

#include <functional>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// A recorded sequence of device work. Everything `step` queues on the current stream is recorded, not run:
//   Graph graph;
//   step();                  // once before, so that lazily created things exist
//   graph.capture([&] { step(); });
//   graph.replay();          // as often as wanted
// A replay reads and writes the same addresses as the capture; so inputs are written into the same tensors,
// and results are read from the tensors the captured step made. Memory allocated in the capture belongs to
// the graph and is not reused before the graph is destroyed. The host's code runs once, in the capture:
// numbers that change per step are read from device memory (replay_memory below).
class Graph {
 public:
  explicit Graph(int device = current_device()) : device_(device) {}
  ~Graph();
  Graph(Graph&& other) noexcept : device_(other.device_), state_(std::exchange(other.state_, nullptr)) {}
  Graph& operator=(Graph&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(state_, other.state_);
    return *this;
  }

  template <class Step>
  void capture(Step&& step, TT_LOC) {
    begin(loc);
    try {
      step();
    } catch (...) {
      abandon();
      throw;
    }
    end(loc);
  }
  void replay(TT_LOC);  // on the current stream
  bool is_captured() const;
  size_t nodes() const;           // kernels, copies and fills of one replay
  size_t reserved_bytes() const;  // memory that the graph keeps

 private:
  struct State;
  void begin(Loc loc);
  void end(Loc loc);
  void abandon() noexcept;
  int device_ = 0;
  State* state_ = nullptr;
};

// Numbers that change from replay to replay. During a capture, on the capturing thread:
//   on_replay(f)             calls f on the host before each replay, in the order of these calls; true
//   replay_memory(bytes, f)  device memory that f(host copy) fills anew before each replay, after on_replay's
//                            calls; aligned to 16 bytes, the graph's own
// Outside of a capture they do nothing and return false or null: the caller then passes the numbers by value.
// Random numbers advance by themselves (runtime.hpp: random_offset).
// What f refers to must live as long as the graph.
bool on_replay(std::function<void()> f);
const void* replay_memory(size_t bytes, std::function<void(void*)> fill, TT_LOC);

#if !TINYTORCH_WITH_CUDA
// As in without_cuda.hpp; no captured Graph comes into being.
inline bool on_replay(std::function<void()>) { return false; }
inline const void* replay_memory(size_t, std::function<void(void*)>, Loc) { return nullptr; }
inline Graph::~Graph() = default;
inline void Graph::begin(Loc loc) { fail_without_cuda("cuda Graph", loc); }
inline void Graph::end(Loc) {}
inline void Graph::abandon() noexcept {}
inline void Graph::replay(Loc loc) { fail_without_cuda("cuda Graph", loc); }
inline bool Graph::is_captured() const { return false; }
inline size_t Graph::nodes() const { return 0; }
inline size_t Graph::reserved_bytes() const { return 0; }
#endif

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
