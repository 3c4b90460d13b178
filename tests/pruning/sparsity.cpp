#include <tinytorch/pruning/sparsity.hpp>

#include <pruning/formats.hpp>

using namespace test;

namespace {

// The definition: sort (NaN last, then score, then position) and remove the first `count`.
std::vector<bool> by_sorting(const std::vector<double>& scores, int64_t count) {
  std::vector<size_t> order(scores.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (std::isnan(scores[a]) || std::isnan(scores[b]))
      return !std::isnan(scores[a]) && std::isnan(scores[b]);
    return scores[a] < scores[b];
  });
  std::vector<bool> keep(scores.size(), true);
  for (int64_t i = 0; i < count; ++i) keep[order[static_cast<size_t>(i)]] = false;
  return keep;
}

std::vector<bool> flags(const tt::Tensor& mask) {
  std::vector<bool> out;
  for (const int64_t v : mask.to(tt::i64).to_vector<int64_t>()) out.push_back(v != 0);
  return out;
}

}  // namespace

TEST_CASE("a mask removes an exact count, ties by position and NaN last, as by sorting") {
  tt::Generator g(1);
  for (const int64_t n : {1, 2, 7, 64, 1000}) {
    // Few distinct values, so that there are many ties, and some NaN.
    tt::Tensor scores = tt::randint(0, 5, {n}, tt::i64, tt::cpu, g).to(tt::f64);
    for (int64_t i = 0; i < n; i += 9) scores.data<double>()[i] = std::nan("");
    for (const double sparsity : {0.0, 0.1, 0.5, 0.87, 0.999}) {
      const auto count = static_cast<int64_t>(std::llround(sparsity * static_cast<double>(n)));
      CHECK(flags(tt::mask_of_scores(scores, sparsity)) == by_sorting(scores.to_vector<double>(), count));
    }
  }
}

TEST_CASE("row masks treat each row by itself, for any dtype and layout") {
  const tt::Tensor scores = sparse_matrix(13, 40, 1, 3).t();  // not contiguous
  const std::vector<bool> all = flags(tt::row_masks_of_scores(scores, 0.4));
  for (int64_t n = 0; n < 40; ++n) {
    const std::vector<bool> row(all.begin() + n * 13, all.begin() + (n + 1) * 13);
    CHECK(row == by_sorting(scores.select(0, n).to_vector<double>(), 5));
  }
  CHECK(tt::row_masks_of_scores(tt::empty({3, 0}), 0.5).shape() == tt::Shape{3, 0});
  CHECK(flags(tt::mask_of_scores(tt::from_data(std::vector<int32_t>{3, 1, 2, 4}, {4}, tt::cpu), 0.5)) ==
        std::vector<bool>{true, false, false, true});
}

TEST_CASE("masked sets removed elements to 0, a NaN too; sparsity counts masks and zeros alike") {
  const tt::Tensor w = tt::from_data(std::vector<float>{1, std::nanf(""), 3, 0}, {2, 2}, tt::cpu),
                   mask = tt::from_data(std::vector<float>{1, 0, 1, 1}, {2, 2}, tt::cpu) != 0;
  CHECK(tt::masked(w, mask).to_vector<float>() == std::vector<float>{1, 0, 3, 0});
  CHECK(tt::sparsity_of(mask) == 0.25);
  CHECK(tt::sparsity_of(tt::masked(w, mask)) == 0.5);
  CHECK(tt::sparsity_of(tt::empty({0, 3})) == 0);
}

TEST_CASE("sparsities and masks that do not fit are refused") {
  const auto code = [](auto&& f) { return errors::thrown_by(f).code; };
  for (const double s : {-0.1, 1.0, 1.5, std::nan("")})
    CHECK(code([&] { tt::mask_of_scores(tt::ones({4}), s); }) == "TT-PRUNE-02");
  CHECK(code([] { tt::masked(tt::ones({4}), tt::ones({4})); }) == "TT-PRUNE-03");
  CHECK(code([] { tt::masked(tt::ones({4}), tt::ones({1}) != 0); }) == "TT-PRUNE-03");
  CHECK(code([] { tt::row_masks_of_scores(tt::ones({4}), 0.5); }) == "TT-SHAPE-02");
}
