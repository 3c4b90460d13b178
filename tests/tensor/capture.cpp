// Graph capture: an operation that needs values on the CPU is an error at the line of the call.
#include <support/device.hpp>
#include <support/errors.hpp>
#include <tinytorch/backend/cuda/runtime/graph.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
namespace cuda = tinytorch::backend::cuda;
using test::needs_devices;

TEST_CASE("values cannot be copied between CPU and device during a capture" * needs_devices()) {
  const tt::Tensor x = tt::empty({1}, tt::f32, tt::cuda), y = tt::empty({2});
  const auto refused = [&](const char* what, const std::function<void()>& step) {
    errors::check_error(
        std::string("TT-CUDA-05: ") + what +
            ": not allowed while a graph is captured, because nothing runs before the replay\n  hint: a "
            "captured step may only queue device work; move .item(), .to(cpu), printing, new "
            "tensors from CPU data and synchronize() before or after it",
        [&] { cuda::Graph().capture([&] { step(); }); }, __FILE__);
    CHECK(!cuda::is_capturing());
  };
  refused("item()", [&] { x.item(); });
  refused("to(cpu)", [&] { x.to(tt::cpu); });
  refused("to(cuda:0)", [&] { y.to(tt::cuda); });
  refused("to(cuda:0)", [&] { tt::from_data({1.0f, 2.0f}, {2}, tt::cuda); });
}

TEST_CASE("operations on the CPU are allowed during a capture" * needs_devices()) {
  const tt::Tensor x = tt::full({1}, 3);
  const tt::Tensor on_device = tt::empty({4}, tt::f32, tt::cuda);
  cuda::Graph graph;
  graph.capture([&] {
    CHECK(x.item() == 3);
    CHECK(x.to(tt::cpu).item() == 3);
    CHECK(on_device.to(tt::cuda).view_of().data == on_device.view_of().data);
    cuda::fill_bytes(on_device.view_of().data, 0, on_device.bytes(), 0);
  });
  graph.replay();
  CHECK(on_device.to_vector() == std::vector<float>(4));
}

TEST_CASE("memory of tensors is counted on their device" * needs_devices()) {
  const size_t before = cuda::memory_stats(0).current;
  {
    const tt::Tensor x = tt::empty({1000, 3}, tt::f32, tt::cuda);
    const tt::Tensor view = x[5];
    CHECK(cuda::memory_stats(0).current == before + 12'000);
  }
  CHECK(cuda::memory_stats(0).current == before);
}
