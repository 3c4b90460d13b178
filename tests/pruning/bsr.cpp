#include <tinytorch/pruning/bsr.hpp>

#include <pruning/formats.hpp>

using namespace test;

namespace {

// A matrix with whole blocks of zeros: block (r, c) is kept if (r + 2 c) % 3 == 0.
tt::Tensor block_matrix(int64_t N, int64_t K, int64_t B, tt::DType dtype) {
  tt::Tensor w = sparse_matrix(N, K, 1, 4);
  for (int64_t n = 0; n < N; ++n)
    for (int64_t k = 0; k < K; ++k)
      if ((n / B + 2 * (k / B)) % 3 != 0) w.data<float>()[n * K + k] = 0;
  return (dtype == tt::i8 || dtype == tt::i32 ? w * 40 : w).to(dtype);
}

}  // namespace

TEST_CASE("BSR: round trip of every dtype and block, with partial blocks at the edges") {
  for (const tt::DType dtype : kStoredTypes) {
    for (const int64_t B : {16, 32, 64}) {
      for (const auto& [N, K] :
           {std::pair<int64_t, int64_t>{1, 1}, {64, 64}, {65, 100}, {130, 31}, {0, 9}, {9, 0}}) {
        const tt::Tensor w = block_matrix(N, K, B, dtype);
        const tt::BsrMatrix s = tt::to_bsr(w, B);
        CHECK(same_values(s.dense(), w));
        int64_t expected = 0;
        for (int64_t r = 0; r < (N + B - 1) / B; ++r)
          for (int64_t c = 0; c < (K + B - 1) / B; ++c) expected += (r + 2 * c) % 3 == 0 ? 1 : 0;
        CHECK(s.blocks() == expected);
        CHECK(s.stored() == expected * B * B);
        CHECK(s.bytes() == s.stored() * static_cast<int64_t>(tt::size_of(dtype)) + 4 * expected +
                               8 * ((N + B - 1) / B + 1));
      }
    }
  }
  CHECK(tt::to_bsr(tt::zeros({40, 40}), 16).blocks() == 0);
  CHECK(tt::to_bsr(tt::ones({40, 40}), 16).blocks() == 9);
}

TEST_CASE("BSR: values that begin between multiples of 16 bytes are copied, others are shared") {
  for (const tt::DType dtype : {tt::f32, tt::bf16, tt::i8}) {
    const tt::Tensor w = block_matrix(40, 70, 16, dtype);
    const tt::BsrMatrix s = tt::to_bsr(w, 16);
    for (const int64_t skipped : {0, 1, 3, 16}) {
      const tt::Tensor memory = tt::zeros({s.stored() + skipped}, dtype, tt::cpu);
      tt::Tensor values = memory.slice(0, skipped).reshape(s.values().shape());
      values.copy_(s.values());
      REQUIRE(values.is_contiguous());
      const tt::BsrMatrix m(values, s.indices(), s.offsets(), 40, 70);
      const auto address = reinterpret_cast<uintptr_t>(m.view().values);
      const bool aligned = skipped * static_cast<int64_t>(tt::size_of(dtype)) % 16 == 0;
      CHECK(address % 16 == 0);
      CHECK((address == reinterpret_cast<uintptr_t>(values.view_of().data)) == aligned);
      CHECK(same_values(m.dense(), w));
    }
  }
  const tt::Tensor nothing = tt::zeros({256 + 1}, tt::f32, tt::cpu).slice(0, 257).reshape({0, 16, 16});
  const tt::BsrMatrix empty(nothing, tt::zeros({0}, tt::i32, tt::cpu), tt::zeros({3}, tt::i64, tt::cpu), 20,
                            9);
  CHECK(empty.blocks() == 0);
  CHECK(same_values(empty.dense(), tt::zeros({20, 9})));
}

TEST_CASE("BSR: other blocks, and parts that do not fit, are refused") {
  const tt::BsrMatrix s = tt::to_bsr(block_matrix(70, 70, 16, tt::f32), 16);
  const auto with = [&](const tt::Tensor& values, const tt::Tensor& indices, const tt::Tensor& offsets,
                        int64_t N, int64_t K) {
    return errors::thrown_by([&] { tt::BsrMatrix(values, indices, offsets, N, K); }).code;
  };
  CHECK(with(s.values(), s.indices(), s.offsets(), 70, 70) == "");
  CHECK(with(s.values(), s.indices(), s.offsets(), 70, 30) == "TT-PRUNE-05");
  CHECK(with(s.values(), s.indices(), s.offsets(), 90, 70) == "TT-PRUNE-05");
  CHECK(with(s.values().slice(0, 1), s.indices(), s.offsets(), 70, 70) == "TT-PRUNE-05");
  CHECK(with(s.values(), s.indices() - 1, s.offsets(), 70, 70) == "TT-PRUNE-05");
  CHECK(with(s.values(), s.indices() * 0, s.offsets(), 70, 70) == "TT-PRUNE-05");
  CHECK(with(s.values(), s.indices(), s.offsets() - 1, 70, 70) == "TT-PRUNE-05");
  for (const int64_t B : {0, 1, 8, 17, 128})
    CHECK(errors::thrown_by([&] { tt::to_bsr(tt::ones({4, 4}), B); }).code == "TT-PRUNE-01");
}
