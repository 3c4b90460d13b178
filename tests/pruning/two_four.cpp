#include <tinytorch/pruning/two_four.hpp>

#include <pruning/formats.hpp>

using namespace test;

namespace {

// Normal numbers of which each group of four keeps 0, 1 or 2, at changing places.
tt::Tensor two_of_four(int64_t N, int64_t K, tt::DType dtype) {
  tt::Tensor w = sparse_matrix(N, K, 1, 4);
  for (int64_t i = 0; i < N * K; ++i) {
    const int64_t group = i / 4, place = i % 4, first = group % 4, second = (group / 4) % 4;
    const bool keep = group % 7 != 0 && (place == first || place == second);
    if (!keep) w.data<float>()[i] = 0;
  }
  return (dtype == tt::i8 || dtype == tt::i32 ? w * 40 : w).to(dtype);
}

}  // namespace

TEST_CASE("2:4: round trip of every dtype, all pairs of places, rows of any multiple of 4, exact bytes") {
  for (const tt::DType dtype : kStoredTypes) {
    for (const auto& [N, K] :
         {std::pair<int64_t, int64_t>{1, 4}, {3, 16}, {5, 20}, {4, 256}, {0, 8}, {3, 0}}) {
      const tt::Tensor w = two_of_four(N, K, dtype);
      const tt::TwoFourMatrix s = tt::to_two_four(w);
      CHECK(same_values(s.dense(), w));
      CHECK(s.values().shape() == tt::Shape{N, K / 2});
      CHECK(s.bytes() == N * K / 2 * static_cast<int64_t>(tt::size_of(dtype)) + N * ((K + 15) / 16) * 2);
    }
  }
  const tt::TwoFourMatrix bf16 = tt::to_two_four(two_of_four(8, 64, tt::bf16));
  CHECK(bf16.bytes() * 16 == 8 * 64 * 2 * 9);
}

TEST_CASE("2:4: the words of places are those of mma.sp, and places ascend also if numbers are missing") {
  // Groups: {1, 3}, {} -> {0, 1}, {2} -> {0, 2}, {0} -> {0, 1}, and in the next word {2, 3}.
  const tt::Tensor w = tt::from_data(
      std::vector<float>{0, 5, 0, 6, 0, 0, 0, 0, 0, 0, 7, 0, 8, 0, 0, 0, 0, 0, 9, 10}, {1, 20}, tt::cpu);
  const tt::TwoFourMatrix s = tt::to_two_four(w);
  CHECK(s.values().to_vector<float>() == std::vector<float>{5, 6, 0, 0, 0, 7, 8, 0, 9, 10});
  const auto group = [](int first, int second) { return first | second << 2; };
  const int word = group(1, 3) | group(0, 1) << 4 | group(0, 2) << 8 | group(0, 1) << 12;
  const auto* const words = s.view().places;
  CHECK(words[0] == word);
  CHECK(words[1] == (group(2, 3) | group(0, 1) << 4 | group(0, 1) << 8 | group(0, 1) << 12));
}

TEST_CASE("2:4: rows of other lengths, dense groups, and parts that do not fit, are refused") {
  const auto code = [](auto&& f) { return errors::thrown_by(f).code; };
  for (const int64_t K : {1, 2, 3, 6, 17})
    CHECK(code([&] { tt::to_two_four(tt::zeros({2, K})); }) == "TT-PRUNE-01");
  tt::Tensor w = two_of_four(4, 8, tt::f32).clone();
  w.slice(0, 2, 3).slice(1, 4, 7).fill_(1);
  errors::check_error(
      "TT-PRUNE-01: to_two_four: row 2 has 3 numbers other than 0 in columns 4 to 7\n  rule: at most 2 of 4\n"
      "  hint: w * nm_mask(w, 2, 4)",
      [&] { tt::to_two_four(w); });
  const tt::TwoFourMatrix s = tt::to_two_four(two_of_four(4, 24, tt::f32));
  const auto with = [&](const tt::Tensor& values, const tt::Tensor& places) {
    return code([&] { tt::TwoFourMatrix(values, places); });
  };
  CHECK(with(s.values(), s.places()) == "");
  CHECK(with(s.values(), s.places().slice(0, 1)) == "TT-PRUNE-05");
  CHECK(with(s.values().slice(1, 0, 11).contiguous(), s.places()) == "TT-PRUNE-05");
  CHECK(with(s.values(), tt::zeros_like(s.places())) == "TT-PRUNE-05");  // both places are 0
}
