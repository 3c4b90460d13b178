#include <tinytorch/pruning/sparse_parts.hpp>

#include <pruning/formats.hpp>

using namespace test;

TEST_CASE("kept elements are those other than 0, of every dtype and layout; NaN is kept and -0 is not") {
  for (const tt::DType dtype : kStoredTypes) {
    const tt::Tensor w = sparse_matrix(9, 20, 0.4, 2, dtype).t();
    const tt::pruning::KeptElements kept("test", w, tt::Loc::current());
    CHECK(kept.count() == nonzero_count(w));
    const std::vector<double> values = w.to_vector<double>();
    for (int64_t n = 0; n < 20; ++n)
      for (int64_t k = 0; k < 9; ++k) CHECK(kept.at(n, k) == (values[static_cast<size_t>(n * 9 + k)] != 0));
  }
  const std::vector<float> special{std::numeric_limits<float>::quiet_NaN(), -0.0f, 0.0f, 1e-45f};
  const tt::pruning::KeptElements kept("test", tt::from_data(special, {1, 4}, tt::cpu), tt::Loc::current());
  CHECK(kept.at(0, 0));
  CHECK_FALSE(kept.at(0, 1));
  CHECK_FALSE(kept.at(0, 2));
  CHECK(kept.at(0, 3));
}

TEST_CASE("offsets begin with 0, never descend and end with the count") {
  const auto offsets = [](const std::vector<int64_t>& at, int64_t n, int64_t last) {
    return tt::pruning::are_offsets(tt::from_data(at, {static_cast<int64_t>(at.size())}, tt::cpu), n, last,
                                    tt::Loc::current());
  };
  CHECK(offsets({0, 0, 3, 3}, 3, 3));
  CHECK_FALSE(offsets({0, 0, 3, 3}, 2, 3));
  CHECK_FALSE(offsets({0, 0, 3, 3}, 3, 4));
  CHECK_FALSE(offsets({1, 1, 3, 3}, 3, 3));
  CHECK_FALSE(offsets({0, 4, 3, 3}, 3, 3));
  CHECK_FALSE(tt::pruning::are_offsets(tt::Tensor(), 3, 3, tt::Loc::current()));
}
