// On a GPU (TINYTORCH_TEST_DEVICE=cuda), the copies are queued; on the CPU they are made at once.
#include <tinytorch/tensor/ops/host_copy.hpp>

#include <doctest/doctest.h>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("a copy has the elements that the tensor had when it was queued") {
  tt::Tensor x = tt::arange(100000);
  const auto before = x.to_vector<int64_t>();
  tt::HostCopy copy(x);
  x.fill_(-1);
  CHECK(copy.get().to_vector<int64_t>() == before);
  CHECK(copy.get().to_vector<int64_t>() == before);  // it may be asked again
  CHECK(tt::HostCopy(x).get().to_vector<int64_t>() == std::vector<int64_t>(before.size(), -1));
}

TEST_CASE("every layout and dtype: a transposed matrix, a part, a scalar, nothing") {
  const tt::Tensor x = tt::randn({5, 7});
  for (const tt::DType dtype : {tt::f32, tt::bf16, tt::f64, tt::i32}) {
    const tt::Tensor y = x.to(dtype);
    for (const tt::Tensor& part :
         {y, y.t(), tt::slice(y, 1, 2, 5), y.select(0, 1).select(0, 3), tt::slice(y, 0, 2, 2)}) {
      tt::HostCopy copy(part);
      CHECK(copy.get().device().is_cpu());
      CHECK(copy.get().dtype() == dtype);
      CHECK(copy.get().shape() == part.shape());
      CHECK(copy.get().to_vector<double>() == part.to_vector<double>());
    }
  }
}

TEST_CASE("a copy that nobody reads, and several at a time") {
  tt::Tensor x = tt::zeros({3});
  { const tt::HostCopy unread(x); }
  std::vector<tt::HostCopy> copies;
  for (int i = 0; i < 20; ++i) {
    copies.emplace_back(x);
    x += 1;
  }
  for (int i = 20; i-- > 0;)
    CHECK(copies[static_cast<size_t>(i)].get().to_vector<double>() == std::vector<double>(3, i));
}
