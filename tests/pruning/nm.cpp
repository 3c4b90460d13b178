#include <tinytorch/pruning/nm.hpp>

#include <pruning/formats.hpp>
#include <tinytorch/pruning/two_four.hpp>

using namespace test;

TEST_CASE("N:M keeps the N largest magnitudes of each group, for any N and M") {
  for (const auto& [N, M] : {std::pair<int64_t, int64_t>{1, 1}, {1, 2}, {2, 4}, {4, 8}, {3, 5}, {5, 5}}) {
    for (const tt::DType dtype : {tt::f32, tt::bf16, tt::i8}) {
      const tt::Tensor w = sparse_matrix(6, 40, 1, 2, dtype), mask = tt::nm_mask(w, N, M);
      const std::vector<double> values = w.to_vector<double>(), keep = mask.to(tt::f32).to_vector<double>();
      for (size_t g = 0; g < values.size(); g += static_cast<size_t>(M)) {
        int64_t kept = 0;
        double largest_removed = 0, smallest_kept = 1e9;
        for (size_t i = g; i < g + static_cast<size_t>(M); ++i) {
          kept += keep[i] != 0 ? 1 : 0;
          if (keep[i] != 0)
            smallest_kept = std::min(smallest_kept, std::abs(values[i]));
          else
            largest_removed = std::max(largest_removed, std::abs(values[i]));
        }
        CHECK(kept == N);
        CHECK(largest_removed <= smallest_kept);
      }
    }
  }
  const tt::Tensor w = sparse_matrix(8, 64, 1, 3);
  CHECK(same_values(tt::to_two_four(tt::masked(w, tt::nm_mask(w, 2, 4))).dense(),
                    tt::masked(w, tt::nm_mask(w, 2, 4))));
}

TEST_CASE("groups lie along rows, also of a transposed matrix, and impossible groups are refused") {
  const tt::Tensor w = sparse_matrix(8, 12, 1, 3).t();
  CHECK(same_values(tt::nm_mask(w, 2, 4).to(tt::f32), tt::nm_mask(w.contiguous(), 2, 4).to(tt::f32)));
  const auto code = [](int64_t K, int64_t N, int64_t M) {
    return errors::thrown_by([=] { tt::nm_mask(tt::ones({2, K}), N, M); }).code;
  };
  CHECK(code(8, 2, 4) == "");
  CHECK(code(6, 2, 4) == "TT-PRUNE-01");
  CHECK(code(8, 0, 4) == "TT-PRUNE-01");
  CHECK(code(8, 5, 4) == "TT-PRUNE-01");
  CHECK(code(8, -1, -1) == "TT-PRUNE-01");
  CHECK(tt::nm_mask(tt::empty({0, 8}), 2, 4).shape() == tt::Shape{0, 8});
}
