// Launch counts: launches are counted by kernel while counting is on.
#include <support/device.hpp>
#include <support/errors.hpp>
#include <tinytorch/backend/cuda/runtime/graph.hpp>
#include <tinytorch/backend/cuda/runtime/launches.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
namespace cuda = tinytorch::backend::cuda;
using cuda::LaunchRecord;
using test::needs_devices;

namespace {

int64_t launches(const std::vector<LaunchRecord>& records) {
  int64_t sum = 0;
  for (const LaunchRecord& r : records) sum += r.launches;
  return sum;
}

}  // namespace

TEST_CASE("without counting there are no launch records") {
  CHECK_FALSE(cuda::launches_counted());
  cuda::count_launches(true);
  cuda::count_launches(false);
  CHECK(cuda::launch_records().empty());
}

TEST_CASE("each launch counts once, under its kernel's name, with threads and shared memory" *
          needs_devices()) {
  const tt::Tensor x = tt::ones({1000}).to(tt::cuda);
  x + 1;
  cuda::count_launches(true);
  const tt::Tensor y = x + x;
  const tt::Tensor z = tt::softmax(y.reshape({10, 100}), 1);
  for (int i = 0; i < 3; ++i) y* y;
  cuda::count_launches(false);
  x + 1;
  const std::vector<LaunchRecord> records = cuda::launch_records();
  CHECK(launches(records) == 5);
  bool softmax = false;
  for (const LaunchRecord& r : records) {
    CAPTURE(r.kernel);
    CHECK(r.threads >= 32);
    CHECK(r.threads <= 1024);
    if (!test::kEmulated) CHECK(r.registers > 0);
    softmax = softmax || r.kernel.find("softmax") != std::string::npos;
  }
  CHECK(softmax);
  cuda::count_launches(true);  // starts from zero again
  x + x;
  cuda::count_launches(false);
  CHECK(launches(cuda::launch_records()) == 1);
}

TEST_CASE("a replay is one launch, however many kernels it holds" * needs_devices()) {
  const tt::Tensor x = tt::ones({10}).to(tt::cuda);
  cuda::Graph graph;
  graph.capture([&] {
    tt::Tensor y = x + 1;
    y = y * y;
  });
  cuda::count_launches(true);
  graph.replay();
  graph.replay();
  cuda::synchronize();
  cuda::count_launches(false);
  int64_t replays = 0;
  for (const LaunchRecord& r : cuda::launch_records())
    replays += r.kernel == "a replayed graph" ? r.launches : 0;
  CHECK(replays == 2);
}
