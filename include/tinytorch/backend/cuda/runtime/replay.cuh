// Values that change from one replay of a graph to the next. The capture fixes the arguments of kernels, so
// numbers such as the learning rate, the step and the position in the random stream are read from device
// memory, which is written in stream order before each replay. One copy moves up to 16 KiB of values.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <tinytorch/backend/cuda/runtime/block_pool.hpp>
#include <tinytorch/backend/cuda/runtime/capture.cuh>
#include <tinytorch/backend/cuda/runtime/copy.cuh>
#include <tinytorch/backend/cuda/runtime/graph.hpp>
#include <tinytorch/core/random.hpp>
#include <tinytorch/core/shape.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::backend::cuda {

class ReplayInputs {
 public:
  explicit ReplayInputs(int device) : device_(device), at_begin_(default_generator().state()) {}
  ~ReplayInputs() {
    for (const Chunk& chunk : chunks_) deallocate(chunk.address, chunk.host.size(), device_);
  }
  ReplayInputs(const ReplayInputs&) = delete;
  ReplayInputs& operator=(const ReplayInputs&) = delete;

  void call(std::function<void()> f) { calls_.push_back(std::move(f)); }

  const void* add(size_t bytes, std::function<void(void*)> fill, Loc loc) {
    const size_t size = round_up(bytes, kAlignment);
    if (chunks_.empty() || chunks_.back().used + size > chunks_.back().host.size()) {
      const size_t capacity = std::max(size, kChunk);
      chunks_.push_back(
          {static_cast<char*>(allocate(capacity, device_, loc)), 0, std::vector<char>(capacity)});
    }
    Chunk& chunk = chunks_.back();
    values_.push_back({chunks_.size() - 1, chunk.used, std::move(fill)});
    const void* const address = chunk.address + chunk.used;
    chunk.used += size;
    return address;
  }

  const uint64_t* random_offset(uint64_t seed, Loc loc) {
    if (seed != at_begin_.seed) return nullptr;
    if (!offset_) {
      const auto fill = [this](void* to) {
        const uint64_t used = default_generator().state().next_block - at_begin_.next_block;
        std::memcpy(to, &used, sizeof used);
      };
      offset_ = static_cast<const uint64_t*>(add(sizeof(uint64_t), fill, loc));
    }
    return offset_;
  }

  // The captured step has not run, so the random blocks that it took are returned to the generator; each
  // replay takes as many.
  void end_capture() {
    const GeneratorState now = default_generator().state();
    if (now.seed != at_begin_.seed) return;  // the step set the seed: each replay repeats its numbers
    blocks_per_replay_ = now.next_block - at_begin_.next_block;
    default_generator().set_state(at_begin_);
  }

  bool has_values() const { return !values_.empty(); }

  // Queues copies of the new values on the current stream. Call before launching a replay.
  void upload(Loc loc) {
    for (const auto& f : calls_) f();
    for (const Value& v : values_) v.fill(chunks_[v.chunk].host.data() + v.offset);
    for (const Chunk& c : chunks_) {
      copy_bytes(c.address, Device{DeviceType::cuda, device_}, c.host.data(), tinytorch::cpu, c.used, loc);
    }
    default_generator().reserve(blocks_per_replay_);
  }

 private:
  static constexpr size_t kAlignment = 16, kChunk = 16384;
  struct Chunk {
    char* address;
    size_t used;
    std::vector<char> host;
  };
  struct Value {
    size_t chunk, offset;
    std::function<void(void*)> fill;
  };

  int device_;
  GeneratorState at_begin_;
  uint64_t blocks_per_replay_ = 0;
  const uint64_t* offset_ = nullptr;
  std::vector<std::function<void()>> calls_;
  std::vector<Chunk> chunks_;
  std::vector<Value> values_;
};

bool on_replay(std::function<void()> f) {
  if (capturing) capturing->replay->call(std::move(f));
  return capturing != nullptr;
}
const void* replay_memory(size_t bytes, std::function<void(void*)> fill, Loc loc) {
  return capturing ? capturing->replay->add(bytes, std::move(fill), loc) : nullptr;
}
const uint64_t* random_offset(uint64_t seed) {
  return capturing ? capturing->replay->random_offset(seed, Loc::current()) : nullptr;
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
