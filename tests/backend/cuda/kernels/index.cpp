// Index kernels, embeddings and sorting on the GPU: bit-identical with the CPU's results.
#include <support/device.hpp>
#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

#include <cmath>

namespace tt = tinytorch;

namespace {

tt::Tensor random_values(const tt::Shape& shape, tt::DType dtype, uint64_t seed) {
  tt::Generator generator(seed);
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (double& v : values) v = generator.uniform(-2, 2);
  return tt::from_data(values, shape).to(dtype);
}
tt::Tensor random_index(const tt::Shape& shape, int64_t below, uint64_t seed) {
  tt::Generator generator(seed);
  std::vector<int64_t> values(static_cast<size_t>(shape.numel()));
  for (int64_t& v : values)
    v = std::min(below - 1, static_cast<int64_t>(generator.uniform(0, 1) * static_cast<double>(below)));
  return tt::from_data(values, shape);
}
std::vector<double> values_of(const tt::Tensor& t) {
  return t.detach().to(tt::cpu).to(tt::f64).contiguous().to_vector<double>();
}
void check_same(const tt::Tensor& got, const tt::Tensor& expected) {
  REQUIRE(got.shape() == expected.shape());
  REQUIRE(got.dtype() == expected.dtype());
  const std::vector<double> a = values_of(got), b = values_of(expected);
  bool same = true;
  for (size_t i = 0; i < a.size(); ++i)
    same = same && (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])));
  CHECK(same);
}

}  // namespace

TEST_CASE("index_select and gather equal the CPU's results along every dimension" * test::needs_devices()) {
  for (const tt::DType dtype : {tt::f32, tt::bf16, tt::f64, tt::i64, tt::u8}) {
    const tt::Tensor x = (tt::abs(random_values({7, 33, 8}, tt::f32, 1)) * 50).to(dtype);
    for (int dim : {0, 1, 2}) {
      const tt::Tensor rows = random_index({19}, x.size(dim), 2);
      check_same(tt::index_select(x.to(tt::cuda), dim, rows.to(tt::cuda)), tt::index_select(x, dim, rows));
      const tt::Tensor index = random_index({5, 3, 6}, x.size(dim), 3);
      check_same(tt::gather(x.to(tt::cuda), dim, index.to(tt::cuda)), tt::gather(x, dim, index));
    }
  }
}

TEST_CASE("gradients of indexed reads are added in the order of positions" * test::needs_devices()) {
  for (const tt::DType dtype : {tt::f32, tt::bf16}) {
    const tt::Tensor index = random_index({3, 67}, 11, 4);
    tt::Tensor table = random_values({11, 17}, dtype, 5), on_gpu = table.to(tt::cuda);
    table.requires_grad_();
    on_gpu.requires_grad_();
    const tt::Tensor dy = random_values({3, 67, 17}, dtype, 6);
    const tt::Tensor y = tt::embedding(table, index), z = tt::embedding(on_gpu, index.to(tt::cuda));
    check_same(z, y);
    y.backward(dy);
    z.backward(dy.to(tt::cuda));
    check_same(on_gpu.grad(), table.grad());
    for (int dim : {0, 1}) {
      const tt::Tensor zero = tt::zeros({9, 13}, dtype), at = random_index({9, 13}, zero.size(dim), 7);
      const tt::Tensor source = random_values({9, 13}, dtype, 8);
      check_same(tt::scatter_add(zero.to(tt::cuda), dim, at.to(tt::cuda), source.to(tt::cuda)),
                 tt::scatter_add(zero, dim, at, source));
    }
  }
}

TEST_CASE("sort is stable in both directions and treats NaN as the largest value" * test::needs_devices()) {
  for (const int64_t n : {1, 3, 31, 1000, 1025, 2500}) {
    tt::Tensor x = tt::round(random_values({2, n}, tt::f32, static_cast<uint64_t>(n)) * 3);
    if (n > 3) x.slice(1, n / 2, n / 2 + 2).fill_(std::nan(""));
    for (bool descending : {false, true}) {
      const auto expected = tt::sort(x, 1, descending), got = tt::sort(x.to(tt::cuda), 1, descending);
      check_same(got.indices, expected.indices);
      check_same(got.values, expected.values);
    }
  }
}

TEST_CASE("an index out of range causes the CPU's error at the next synchronization" *
          test::needs_devices()) {
  const tt::Tensor table = random_values({5, 4}, tt::f32, 9);
  for (const int64_t bad : {int64_t{5}, int64_t{-1}, int64_t{1} << 40}) {
    const tt::Tensor index = tt::from_data(std::vector<int64_t>{0, 4, bad, 2});
    // The first line of both errors names the device of the table.
    const auto cut = [](const std::string& text) { return text.substr(0, text.find(" on c")); };
    const std::string expected = cut(errors::thrown_by([&] { tt::embedding(table, index); }).text);
    CHECK(expected.find("TT-RANGE-05") != std::string::npos);
    CHECK(expected.find(std::to_string(bad)) != std::string::npos);
    const tt::Tensor on_gpu = table.to(tt::cuda), at = index.to(tt::cuda);
    const std::string got = cut(errors::thrown_by([&] {
                                  const tt::Tensor rows = tt::embedding(on_gpu, at);
                                  tt::backend::cuda::synchronize();
                                }).text);
    CHECK(got == expected);
    const auto select = [&](const tt::Tensor& x, const tt::Tensor& i) {
      return errors::thrown_by([&] {
               const tt::Tensor rows = tt::index_select(x, 0, i);
               if (x.device().is_cuda()) tt::backend::cuda::synchronize();
             })
          .text;
    };
    CHECK(select(on_gpu, at) == select(table, index));
    check_same(on_gpu, table);
  }
}
