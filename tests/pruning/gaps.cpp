#include <tinytorch/pruning/gaps.hpp>

#include <pruning/formats.hpp>

using namespace test;

TEST_CASE("gaps: round trip of every dtype, shape and density, with exact bytes") {
  for (const tt::DType dtype : kStoredTypes) {
    for (const auto& [N, K] :
         {std::pair<int64_t, int64_t>{3, 1}, {5, 64}, {4, 63}, {7, 65}, {1, 900}, {0, 9}, {9, 0}}) {
      for (const double density : {0.0, 0.01, 0.3, 1.0}) {
        const tt::Tensor w = sparse_matrix(N, K, density, 5, dtype);
        const tt::GapMatrix s = tt::to_gaps(w);
        CHECK(same_values(s.dense(), w));
        // A row has an entry for each number and each whole run of 16 columns without one before it.
        int64_t entries = 0;
        const std::vector<double> numbers = w.to_vector<double>();
        for (int64_t n = 0; n < N; ++n) {
          int64_t before = -1, row = 0;
          for (int64_t k = 0; k < K; ++k) {
            if (numbers[static_cast<size_t>(n * K + k)] == 0) continue;
            row += 1 + (k - before - 1) / 16;
            before = k;
          }
          entries += (row + 7) / 8 * 8;
        }
        CHECK(s.entries() == entries);
        CHECK(s.bytes() == entries * static_cast<int64_t>(tt::size_of(dtype)) + entries / 2 + (N + 1) * 8);
      }
    }
  }
}

TEST_CASE("gaps: codes of an example, transposed matrices are read right, NaN stays and -0 goes") {
  tt::Tensor w = tt::zeros({2, 70});
  w.data<float>()[3] = 1, w.data<float>()[4] = 2;
  w.data<float>()[69] = std::numeric_limits<float>::quiet_NaN();
  w.data<float>()[70 + 5] = -0.0f;
  const tt::GapMatrix s = tt::to_gaps(w);
  // Columns 3, 4, then 20, 36, 52, 68 with the number 0, then 69; one more fills the row.
  CHECK(s.gaps().to_vector<int64_t>() == std::vector<int64_t>{0x03, 0xff, 0xff, 0x00});
  CHECK(s.offsets().to_vector<int64_t>() == std::vector<int64_t>{0, 8, 8});
  CHECK(same_values(s.dense(), w));
  const tt::Tensor t = sparse_matrix(9, 70, 0.4, 8).t();
  CHECK(same_values(tt::to_gaps(t).dense(), t.contiguous()));
}

TEST_CASE("gaps: parts that do not fit are refused, and memory that is not aligned is copied") {
  const tt::GapMatrix s = tt::to_gaps(sparse_matrix(4, 70, 0.5, 1));
  const auto code = [](auto&& f) { return errors::thrown_by(f).code; };
  const auto with = [&](const tt::Tensor& values, const tt::Tensor& gaps, const tt::Tensor& offsets,
                        int64_t K) { return code([&] { tt::GapMatrix(values, gaps, offsets, K); }); };
  CHECK(with(s.values(), s.gaps(), s.offsets(), 70) == "");
  CHECK(with(s.values(), s.gaps(), s.offsets(), 40) == "TT-PRUNE-05");
  CHECK(with(s.values().slice(0, 8), s.gaps(), s.offsets(), 70) == "TT-PRUNE-05");
  CHECK(with(s.values(), s.gaps(), s.offsets().slice(0, 2), 70) == "TT-PRUNE-05");
  CHECK(with(s.values(), s.gaps().to(tt::i32), s.offsets(), 70) == "TT-PRUNE-05");
  CHECK(with({}, s.gaps(), s.offsets(), 70) == "TT-PRUNE-05");
  tt::Tensor gaps = s.gaps().clone();
  gaps.data<uint8_t>()[0] = 0xff, gaps.data<uint8_t>()[1] = 0xff;  // its numbers end beyond column 70
  CHECK(with(s.values(), gaps, s.offsets(), 70) == "TT-PRUNE-05");
  tt::Tensor offsets = s.offsets().clone();
  offsets.data<int64_t>()[2] -= 4;
  CHECK(with(s.values(), s.gaps(), offsets, 70) == "TT-PRUNE-05");
  // 8 entries of the number 0 in a row of one column end at column 7; further is refused.
  const tt::Tensor zeros = tt::zeros({8}), one = tt::from_data<int64_t>({0, 8}, {2});
  CHECK(with(zeros, tt::zeros({4}, tt::u8), one, 1) == "");
  CHECK(with(zeros, tt::full({4}, 0x10, tt::u8), one, 1) == "TT-PRUNE-05");
  CHECK(code([] { tt::to_gaps(tt::ones({2, 3, 4})); }) == "TT-SHAPE-02");
  CHECK(code([] { tt::to_gaps(tt::Tensor()); }) == "TT-TENSOR-01");

  // An empty tensor of offsets is no matrix of -1 rows.
  CHECK(with(tt::zeros({0}), tt::zeros({0}, tt::u8), tt::zeros({0}, tt::i64), 5) == "TT-PRUNE-05");
  const tt::Tensor longer = tt::cat({tt::zeros({1}), s.values()}, 0);
  const tt::GapMatrix moved(longer.slice(0, 1), s.gaps(), s.offsets(), 70);
  CHECK(reinterpret_cast<uintptr_t>(moved.view().values) % 16 == 0);
  CHECK(same_values(moved.dense(), s.dense()));
}
