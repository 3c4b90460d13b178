// HostCopy: the elements of a tensor on their way to the host, while the host and the device go on.
//
//   HostCopy copy(step.best);                       // queued on the current stream of the tensor's device
//   step = decode(counts, step.best);               // later work may overwrite the tensor
//   ids = copy.get().to_vector<int64_t>();          // waits for the copy, not for the later work
//
// Tensor::to(cpu) waits at once, so that the device is idle until the host has queued its next work.
#pragma once

#include <cstring>
#include <tinytorch/backend/cuda/runtime/runtime.hpp>
#include <tinytorch/tensor/ops.hpp>

namespace tinytorch::inline TT_BUILD {

class HostCopy {
 public:
  // Throws TT-CUDA-05 during a capture, as a replay would not tell when its copy is complete.
  explicit HostCopy(const Tensor& x, TT_LOC) : on_host_(empty(x.shape(), x.dtype(), cpu, loc)) {
    if (x.device().is_cpu()) {
      on_host_.copy_(x.detach());
      return;
    }
    backend::cuda::refuse_in_capture("a copy to the CPU", loc);
    const Tensor dense = x.detach().contiguous();
    const backend::cuda::DeviceGuard guard(x.device(), loc);
    pinned_.reset(backend::cuda::allocate_pinned(bytes(), loc));
    backend::cuda::copy_bytes_async(pinned_.get(), cpu, dense.view_of().data, x.device(), bytes(), loc);
    done_.emplace(false, x.device().index, loc);
    done_->record(loc);
  }

  // The tensor on the CPU, as it was when the copy was queued.
  const Tensor& get(TT_LOC) {
    if (!done_) return on_host_;
    done_->synchronize(loc);
    std::memcpy(on_host_.view_of().data, pinned_.get(), bytes());
    done_.reset(), pinned_.reset();
    return on_host_;
  }

 private:
  struct FreePinned {
    void operator()(void* block) const noexcept { backend::cuda::deallocate_pinned(block); }
  };
  size_t bytes() const { return static_cast<size_t>(on_host_.bytes()); }

  Tensor on_host_;
  std::unique_ptr<void, FreePinned> pinned_{};
  std::optional<backend::cuda::Event> done_{};
};

}  // namespace tinytorch::inline TT_BUILD
