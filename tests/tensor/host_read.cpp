// The watcher of reads on the host hears of each way to read elements, and of nothing else.
#include <doctest/doctest.h>

#include <tinytorch/tensor/ops.hpp>

namespace {
namespace tt = tinytorch;
int reads = 0;
}  // namespace

TEST_CASE("item, to_vector, data and raw are told; views, shapes and operations are not") {
  const tt::Tensor x = tt::ones({2, 2}), one = tt::ones({});
  tt::host_read_watcher() = [](const tt::Tensor& t, tt::Loc) { reads += t.defined() ? 1 : 0; };
  reads = 0;
  (void)(x.t() + x).sum();
  (void)x.describe();
  CHECK(reads == 0);
  one.item();
  CHECK(reads == 1);
  x.to_vector();
  CHECK(reads >= 2);
  const int before = reads;
  if (x.device().is_cpu()) {
    (void)x.data<float>();
    (void)x.raw();
    CHECK(reads == before + 2);
  }
  tt::host_read_watcher() = nullptr;
  one.item();
  CHECK(reads <= before + 2);
}
