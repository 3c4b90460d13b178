#include <tinytorch/pruning/magnitude.hpp>

#include <pruning/formats.hpp>

using namespace test;

namespace {

int64_t removed(const tt::Tensor& mask) { return mask.numel() - nonzero_count(mask.to(tt::f32)); }

}  // namespace

TEST_CASE("by layer: exact counts in every dtype, and no kept magnitude is below a removed one") {
  for (const tt::DType dtype : {tt::f32, tt::f64, tt::bf16, tt::f16, tt::i8}) {
    const tt::Tensor w = sparse_matrix(17, 33, 1, 2, dtype);
    for (const double sparsity : {0.0, 0.3, 0.9}) {
      const tt::Tensor mask = tt::magnitude_mask(w, sparsity);
      CHECK(removed(mask) == std::llround(sparsity * 17 * 33));
      const std::vector<double> values = w.to_vector<double>(), keep = mask.to(tt::f32).to_vector<double>();
      double largest_removed = 0, smallest_kept = 1e9;
      for (size_t i = 0; i < values.size(); ++i) {
        if (keep[i] == 0) largest_removed = std::max(largest_removed, std::abs(values[i]));
        if (keep[i] != 0) smallest_kept = std::min(smallest_kept, std::abs(values[i]));
      }
      CHECK(largest_removed <= smallest_kept);
    }
  }
  // Equal magnitudes: the first go, and signs do not matter.
  const tt::Tensor ties = tt::from_data(std::vector<float>{-1, 1, -1, 1, 2, -2}, {6}, tt::cpu);
  CHECK(tt::magnitude_mask(ties, 0.5).to(tt::i64).to_vector<int64_t>() ==
        std::vector<int64_t>{0, 0, 0, 1, 1, 1});
}

TEST_CASE("globally: one threshold for all tensors, so that the one of small numbers loses more") {
  const tt::Tensor small = sparse_matrix(20, 30, 1, 1) * 0.5, large = sparse_matrix(40, 10, 1, 2);
  const tt::Tensors by_layer = tt::magnitude_masks({small, large}, 0.6),
                    global = tt::magnitude_masks({small, large}, 0.6, tt::MaskScope::global);
  CHECK(removed(by_layer[0]) == 360);
  CHECK(removed(by_layer[1]) == 240);
  CHECK(removed(global[0]) + removed(global[1]) == 600);
  CHECK(removed(global[0]) > 400);
  double largest_removed = 0, smallest_kept = 1e9;
  for (size_t t = 0; t < 2; ++t) {
    const std::vector<double> values = (t == 0 ? small : large).to_vector<double>(),
                              keep = global[t].to(tt::f32).to_vector<double>();
    CHECK(global[t].shape() == (t == 0 ? small : large).shape());
    for (size_t i = 0; i < values.size(); ++i) {
      if (keep[i] == 0) largest_removed = std::max(largest_removed, std::abs(values[i]));
      if (keep[i] != 0) smallest_kept = std::min(smallest_kept, std::abs(values[i]));
    }
  }
  CHECK(largest_removed <= smallest_kept);
}

TEST_CASE("random masks have the same exact count, and another seed gives another mask") {
  tt::Generator a(1), b(1), c(2);
  const tt::Tensor first = tt::random_mask({10, 30}, 0.37, a), same = tt::random_mask({10, 30}, 0.37, b),
                   other = tt::random_mask({10, 30}, 0.37, c);
  CHECK(removed(first) == 111);
  CHECK(removed(other) == 111);
  CHECK(same_values(first.to(tt::f32), same.to(tt::f32)));
  CHECK_FALSE(same_values(first.to(tt::f32), other.to(tt::f32)));
}

TEST_CASE("a global threshold that would remove a whole tensor is refused") {
  const auto code = [](auto&& f) { return errors::thrown_by(f).code; };
  const tt::Tensors weights{tt::ones({4, 4}) * 0.01, tt::ones({10, 10})};
  CHECK(code([&] { tt::magnitude_masks(weights, 0.5, tt::MaskScope::global); }) == "TT-PRUNE-04");
  CHECK(code([&] { tt::magnitude_masks(weights, 0.5); }) == "");
  CHECK(code([&] { tt::magnitude_masks(weights, 1, tt::MaskScope::global); }) == "TT-PRUNE-02");
  CHECK(tt::magnitude_masks({}, 0.5, tt::MaskScope::global).empty());
}
