// Bookkeeping of a caching allocator: segments from a source are split into blocks, and free neighbours are
// merged again (best fit with coalescing).
//
//   small   requests up to 1 MiB share segments of 2 MiB
//   large   a request takes the best-fitting free block, or a new segment of its size rounded up to 2 MiB
//
// cudaMalloc takes as long as many kernels, and cudaFree waits for the device, so segments are kept until
// release_unused(). A training step requests the same sizes in the same order, so best fit wastes almost no
// memory. The pool never accesses the memory itself, so it is tested on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <tinytorch/core/config.hpp>
#include <tinytorch/core/shape.hpp>
#include <utility>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr size_t kBlockGranule = 512;              // block sizes and addresses are multiples of it
inline constexpr size_t kSmallRequest = size_t{1} << 20;  // largest request served from shared segments
inline constexpr size_t kSegmentStep = size_t{2} << 20;  // size of a shared segment; large ones are multiples
inline constexpr size_t kLeastLargeRemainder = kSmallRequest;  // a smaller remainder is not split off

// A part of a segment. The blocks of one segment form a doubly linked list in address order.
struct Block {
  char* address = nullptr;
  size_t size = 0;
  bool in_use = false;
  bool large = false;
  Block* previous = nullptr;
  Block* next = nullptr;
  bool is_whole_segment() const { return !previous && !next; }
};

// Source provides void* acquire(size_t bytes), which returns null if memory is exhausted, and
// void release(void*, size_t bytes).
template <class Source>
class BlockPool {
 public:
  explicit BlockPool(Source source) : source_(std::move(source)) {}
  // All blocks must have been put back.
  ~BlockPool() { release_unused(); }
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // Takes the smallest free block that holds `bytes` and splits off the remainder; null if there is none.
  Block* take(size_t bytes) {
    const size_t size = block_size(bytes);
    FreeBlocks& free = free_[size > kSmallRequest];
    const auto found = free.lower_bound(Fit{size, 0});
    if (found == free.end()) return nullptr;
    Block* const block = *found;
    remove_free(block);
    block->in_use = true;
    split(block, size);
    return block;
  }

  // Takes a block from a new segment; null if the source is exhausted.
  Block* grow(size_t bytes) {
    const size_t size = block_size(bytes);
    const bool large = size > kSmallRequest;
    const size_t segment = large ? round_up(size, kSegmentStep) : kSegmentStep;
    void* const address = source_.acquire(segment);
    if (!address) return nullptr;
    reserved_ += segment;
    auto* const block = new Block{static_cast<char*>(address), segment, true, large, nullptr, nullptr};
    split(block, size);
    return block;
  }

  // Frees a block and merges it with its free neighbours.
  void put(Block* block) {
    block->in_use = false;
    if (block->previous && !block->previous->in_use) {
      Block* const before = block->previous;
      remove_free(before);
      absorb_next(before);
      block = before;
    }
    if (block->next && !block->next->in_use) {
      remove_free(block->next);
      absorb_next(block);
    }
    add_free(block);
  }

  // Returns every segment without a block in use to the source. Returns the number of bytes released.
  size_t release_unused() {
    size_t released = 0;
    for (FreeBlocks& free : free_) {
      for (auto at = free.begin(); at != free.end();) {
        Block* const block = *at;
        if (!block->is_whole_segment()) {
          ++at;
          continue;
        }
        at = free.erase(at);
        cached_ -= block->size;
        reserved_ -= block->size;
        released += block->size;
        source_.release(block->address, block->size);
        delete block;
      }
    }
    return released;
  }

  size_t reserved() const { return reserved_; }  // bytes of all segments
  size_t cached() const { return cached_; }      // bytes of all free blocks
  size_t largest_free() const {
    size_t largest = 0;
    for (const FreeBlocks& free : free_) {
      if (!free.empty() && (*free.rbegin())->size > largest) largest = (*free.rbegin())->size;
    }
    return largest;
  }

  static constexpr size_t block_size(size_t bytes) {
    return bytes == 0 ? kBlockGranule : round_up(bytes, kBlockGranule);
  }

 private:
  struct Fit {
    size_t size;
    uintptr_t address;
  };
  // Orders blocks by size, then by address. Low addresses fill first, so that the free space at the end stays
  // in one piece.
  struct BySize {
    using is_transparent = void;
    static Fit fit_of(const Block* b) { return {b->size, reinterpret_cast<uintptr_t>(b->address)}; }
    static Fit fit_of(const Fit& f) { return f; }
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      const Fit x = fit_of(a), y = fit_of(b);
      return x.size != y.size ? x.size < y.size : x.address < y.address;
    }
  };
  using FreeBlocks = std::set<Block*, BySize>;

  void add_free(Block* block) {
    free_[block->large].insert(block);
    cached_ += block->size;
  }
  void remove_free(Block* block) {
    free_[block->large].erase(block);
    cached_ -= block->size;
  }
  // Shrinks a block in use to `size` and frees the remainder as a new block, if the remainder is large
  // enough.
  void split(Block* block, size_t size) {
    const size_t rest = block->size - size;
    if (rest < (block->large ? kLeastLargeRemainder : kBlockGranule)) return;
    auto* const tail = new Block{block->address + size, rest, false, block->large, block, block->next};
    if (block->next) block->next->previous = tail;
    block->next = tail;
    block->size = size;
    add_free(tail);
  }
  void absorb_next(Block* block) {
    Block* const gone = block->next;
    block->size += gone->size;
    block->next = gone->next;
    if (block->next) block->next->previous = block;
    delete gone;
  }

  Source source_;
  FreeBlocks free_[2];  // small, large
  size_t reserved_ = 0;
  size_t cached_ = 0;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
