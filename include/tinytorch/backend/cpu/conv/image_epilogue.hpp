// Epilogue of a convolution: what is done with each block of the result while the block is in the cache.
//
// It is to images what gemm/epilogue.hpp is to matrices.
#pragma once

#include <cstdint>
#include <tinytorch/core/config.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Channels [c0, c1) of rows [i0, i1) of image n, over the whole width.
struct ImageBlock {
  int64_t n, c0, c1, i0, i1;
};

// A function that a convolution calls on blocks whose elements are all stored in the result, and that may
// change them there. Each element is in exactly one block. Threads call it at the same time. The class holds
// a reference to a function object that outlives the convolution.
class ImageEpilogue {
 public:
  ImageEpilogue() = default;
  template <class F>
  explicit ImageEpilogue(const F& f)
      : call_([](const void* self, const ImageBlock& block) { (*static_cast<const F*>(self))(block); }),
        self_(&f) {}
  explicit operator bool() const { return call_ != nullptr; }
  void operator()(const ImageBlock& block) const {
    if (call_) call_(self_, block);
  }

 private:
  void (*call_)(const void* self, const ImageBlock& block) = nullptr;
  const void* self_ = nullptr;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
