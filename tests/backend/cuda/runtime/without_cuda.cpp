// The runtime in a program without CUDA: queries work, and functions that need a device throw with their
// name.
#include <support/errors.hpp>
#include <tinytorch/backend/cuda/runtime/graph.hpp>

namespace cuda = tinytorch::backend::cuda;

#if TINYTORCH_WITH_CUDA
TEST_CASE("this program has CUDA") { CHECK(cuda::is_built()); }
#else
TEST_CASE("queries report that there is no device") {
  CHECK(!cuda::is_built());
  CHECK(!cuda::is_available());
  CHECK(cuda::device_count() == 0);
  CHECK(cuda::driver_version() == 0);
  CHECK(cuda::runtime_version() == 0);
  CHECK(cuda::current_device() == 0);
  CHECK(cuda::current_stream() == nullptr);
  CHECK(!cuda::is_capturing());
  CHECK(!cuda::is_caching());
  CHECK(cuda::memory_stats(0).reserved == 0);
  CHECK(cuda::memory_stats(0).fragmentation() == 0);
  CHECK(cuda::pinned_stats().current == 0);
}

TEST_CASE("functions that need no device are allowed") {
  cuda::synchronize();
  cuda::reset_peak(0);
  cuda::release_cached(0);
  cuda::release_pinned();
  cuda::refuse_in_capture(".item()");
  const cuda::DeviceGuard same(0);
  const cuda::Graph graph;
  CHECK(!graph.is_captured());
  const cuda::RangeGuard range("a range");
}

TEST_CASE("functions that need a device are refused by name") {
  const auto refused = [](const char* what, const std::function<void()>& f) {
    errors::check_error(
        std::string("TT-CUDA-01: cuda ") + what +
            ": this program was built without CUDA\n  hint: configure with "
            "-DTINYTORCH_WITH_CUDA=ON and link tinytorch::cuda, or keep the tensors on the CPU",
        f, __FILE__);
    CHECK(errors::thrown_by(f).without_cuda);
  };
  refused("properties", [] { cuda::properties(0); });
  refused("device_memory", [] { cuda::device_memory(0); });
  refused("set_device", [] { cuda::set_device(1); });
  refused("set_device", [] { const cuda::DeviceGuard guard(1); });
  refused("synchronize_device", [] { cuda::synchronize_device(0); });
  refused("allocate", [] { cuda::allocate(100, 0); });
  refused("copy_bytes", [] { cuda::copy_bytes(nullptr, {}, nullptr, {}, 1); });
  refused("copy_bytes_async", [] { cuda::copy_bytes_async(nullptr, {}, nullptr, {}, 1); });
  refused("fill_bytes", [] { cuda::fill_bytes(nullptr, 0, 1, 0); });
  refused("record_stream", [] { cuda::record_stream(nullptr, 0, nullptr); });
  refused("StreamGuard", [] { const cuda::StreamGuard guard(nullptr, 0); });
  refused("allocate_pinned", [] { cuda::allocate_pinned(100); });
  refused("Stream", [] { const cuda::Stream stream; });
  refused("Event", [] { const cuda::Event event; });
  refused("Graph", [] { cuda::Graph().capture([] {}); });
  refused("Graph", [] { cuda::Graph().replay(); });
}
#endif
