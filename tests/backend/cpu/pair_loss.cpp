#include <support/array.hpp>

#include <tinytorch/backend/cpu/pair_loss.hpp>

using namespace test;
using backend::LossReduction;
namespace kernels = tinytorch::backend::cpu;

TEST_CASE("any loss of pairs: a product, summed over chunks and threads, and its slope") {
  for (const DType dtype : {f32, f64, bf16}) {
    for (const int64_t n : {1, 511, 512, 513, 70'001}) {
      Array x = Array::random(dtype, {n}, 1, -1, 1, Layout::gaps),
            t = Array::random(dtype, {n}, 2, -1, 1, Layout::gaps), each(dtype, {n}), total(f64, {}),
            mean(f64, {}), dx(dtype, {n}), one = Array::from(dtype, {}, {2});
      tinytorch::backend::cpu::dispatch_floating(dtype, [&]<class T>(T*) {
        const auto product = [](T a, T b) { return a * b; };
        kernels::pair_loss<T>(product, each.view(), x.view(), t.view(), LossReduction::none);
        kernels::pair_loss<T>(product, total.view(), x.view(), t.view(), LossReduction::sum);
        kernels::pair_loss<T>(product, mean.view(), x.view(), t.view(), LossReduction::mean);
        kernels::pair_loss_grad<T>([](T, T b) { return b; }, dx.view(), one.view(), x.view(), t.view(),
                                   LossReduction::mean);
      });
      const std::vector<double> a = x.values(), b = t.values();
      std::vector<double> want, slope;
      double sum = 0;
      for (size_t i = 0; i < a.size(); ++i) {
        want.push_back(a[i] * b[i]), slope.push_back(2 * b[i] / static_cast<double>(n));
        sum += want.back();
      }
      check_close(each.values(), want, dtype, 4);
      check_close(dx.values(), slope, dtype, 8);
      CHECK(std::abs(total.values()[0] - sum) < 1e-6 * static_cast<double>(n));
      CHECK(std::abs(mean.values()[0] - sum / static_cast<double>(n)) < 1e-6);
    }
  }
}
