#include <doctest/doctest.h>

#include <tinytorch/backend/cpu/loops/copy.hpp>
#include <tinytorch/core/random.hpp>
#include <vector>

namespace tt = tinytorch;
namespace cpu = tinytorch::backend::cpu;

TEST_CASE("copies: transposes of every size, and all pairs of dtypes") {
  for (const int64_t n : {1, 2, 31, 32, 33, 65}) {
    std::vector<float> x(static_cast<size_t>(n * (n + 3))), out(x.size());
    tt::Generator random(static_cast<uint64_t>(n));
    for (float& v : x) v = static_cast<float>(random.uniform(-1, 1));
    cpu::copy_view({out.data(), tt::f32, {n, n + 3}, {n + 3, 1}}, {x.data(), tt::f32, {n, n + 3}, {1, n}});
    int wrong = 0;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n + 3; ++j)
        wrong += out[static_cast<size_t>(i * (n + 3) + j)] != x[static_cast<size_t>(i + j * n)];
    }
    CHECK(wrong == 0);
  }
  for (int from = 0; from < tt::kDTypeCount; ++from) {
    for (int to = 0; to < tt::kDTypeCount; ++to) {
      const auto source = static_cast<tt::DType>(from), target = static_cast<tt::DType>(to);
      alignas(64) char a[64] = {}, b[64] = {};
      double back[4] = {};
      const double start[] = {0, 1, 2, 100};
      cpu::copy_view({a, source, {4}, {1}}, {const_cast<double*>(start), tt::f64, {4}, {1}});
      cpu::copy_view({b, target, {4}, {1}}, {a, source, {4}, {1}});
      cpu::copy_view({back, tt::f64, {4}, {1}}, {b, target, {4}, {1}});
      const bool truth = source == tt::boolean || target == tt::boolean;
      INFO(tt::name_of(source), " to ", tt::name_of(target));
      for (int i = 0; i < 4; ++i) CHECK(back[i] == (truth ? double(start[i] != 0) : start[i]));
    }
  }
  // Copies go by way of the widest type, so that nothing is lost.
  int64_t big = (int64_t{1} << 62) + 1, same = 0;
  cpu::copy_view({&same, tt::i64, {}, {}}, {&big, tt::i64, {1}, {5}});
  CHECK(same == big);
  int32_t low = 0;
  cpu::copy_view({&low, tt::i32, {}, {}}, {&big, tt::i64, {}, {}});
  CHECK(low == 1);
}
