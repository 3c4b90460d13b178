// CUDA graphs: a sequence of kernels is captured once and replayed without work of the host. This header is
// plain C++; graph.cuh and replay.cuh define the functions.
#pragma once

#include <functional>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD::backend::cuda {

// A recorded sequence of device work. All work that `step` queues on the current stream is recorded, not run:
//   Graph graph;
//   step();                  // once before, so that lazily created objects exist
//   graph.capture([&] { step(); });
//   graph.replay();          // any number of times
// A replay reads and writes the same addresses as the capture: write inputs into the same tensors, and read
// results from the tensors that the captured step made. Memory allocated during the capture belongs to the
// graph and is not reused before the graph is destroyed. Host code runs once, during the capture: kernels
// read numbers that change per step from device memory (replay_memory below).
class Graph {
 public:
  explicit Graph(int device = current_device()) : device_(device) {}
  ~Graph();
  static bool works_on(Device device) { return device.is_cuda(); }
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
//   on_replay(f)             calls f on the host before each replay, in registration order; returns true
//   replay_memory(bytes, f)  returns device memory of the graph, aligned to 16 bytes; before each replay,
//                            after the functions of on_replay, f(host copy) fills it
// Outside of a capture both do nothing and return false or null: the caller then passes the numbers by value.
// Random numbers advance without these functions (declarations.hpp: random_offset).
// Objects that f refers to must live as long as the graph.
bool on_replay(std::function<void()> f);
const void* replay_memory(size_t bytes, std::function<void(void*)> fill, TT_LOC);

#if !TINYTORCH_WITH_CUDA
// Definitions for a build without CUDA (without_cuda.hpp): a Graph can be made, but capture() throws.
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
