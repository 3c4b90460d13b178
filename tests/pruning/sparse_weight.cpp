#include <tinytorch/pruning/sparse_weight.hpp>

#include <cmath>
#include <pruning/formats.hpp>

using namespace test;

namespace {

const char* const kFormats[] = {"bitmap", "gaps", "csr", "bsr16", "bsr32", "bsr64"};

}  // namespace

TEST_CASE("a weight keeps its name, numbers and bytes in every format") {
  const tt::Tensor w = sparse_matrix(40, 72, 0.2, 3);
  for (const char* const format : kFormats) {
    const tt::SparseWeight s = tt::sparse_weight(w, format);
    CHECK(s.format() == format);
    CHECK(same_values(s.dense(), w));
    int64_t bytes = 0;
    for (const tt::NamedPart& p : s.parts())
      bytes += p.tensor.numel() * static_cast<int64_t>(tt::size_of(p.tensor.dtype()));
    CHECK(s.bytes() == bytes);
  }
  CHECK(tt::sparse_weight(tt::zeros({3, 8}), "2:4").format() == "2:4");
}

TEST_CASE("sparse_linear equals linear for every format, dtype of x, rank, bias and density") {
  for (const char* const format : kFormats) {
    for (const double density : {0.0, 0.3, 1.0}) {
      const tt::Tensor w = sparse_matrix(21, 70, density, 3);
      const tt::SparseWeight s = tt::sparse_weight(w, format);
      for (const tt::DType dtype : {tt::f32, tt::bf16, tt::f64}) {
        for (const tt::Shape& shape : {tt::Shape{70}, tt::Shape{0, 70}, tt::Shape{2, 3, 70}}) {
          tt::Generator g(4);
          const tt::Tensor x = tt::randn(shape, tt::f32, tt::cpu, g).to(dtype),
                           b = tt::randn({21}, tt::f32, tt::cpu, g);
          for (const bool biased : {false, true}) {
            const tt::Tensor y = tt::sparse_linear(x, s, biased ? b : tt::Tensor()),
                             expected = tt::linear(x.to(tt::f64), w.to(tt::f64),
                                                   biased ? b.to(tt::f64) : tt::Tensor());
            CHECK(y.dtype() == dtype);
            CHECK(y.shape() == expected.shape());
            const double tolerance = dtype == tt::bf16 ? 0.1 : 1e-4;
            if (y.numel() > 0) CHECK(tt::max(tt::abs(y.to(tt::f64) - expected)).item<double>() < tolerance);
          }
        }
      }
    }
  }
}

TEST_CASE("formats, shapes and devices without a kernel are refused, and so are gradients") {
  const auto code = [](auto&& f) { return errors::thrown_by(f).code; };
  const tt::SparseWeight s = tt::sparse_weight(sparse_matrix(5, 8, 0.5, 1), "bitmap");
  CHECK(code([] { tt::sparse_weight(tt::ones({2, 2}), "coo"); }) == "TT-PRUNE-01");
  CHECK(code([] { tt::sparse_weight(tt::ones({2, 2}), "bsr8"); }) == "TT-PRUNE-01");
  CHECK(code([&] { tt::sparse_linear(tt::ones({2, 7}), s); }) == "TT-SHAPE-02");
  CHECK(code([&] { tt::sparse_linear(tt::ones({2, 8}), s, tt::ones({8})); }) == "TT-SHAPE-02");
  CHECK(code([&] { tt::sparse_linear(tt::ones({}), s); }) == "TT-SHAPE-04");
  CHECK(code([&] { tt::sparse_linear(tt::ones({2, 8}, tt::i32, tt::cpu), s); }) == "TT-DTYPE-02");
  CHECK(code([] {
          tt::sparse_linear(tt::ones({2, 8}), tt::sparse_weight(tt::zeros({3, 8}), "2:4"));
        }) == "TT-PRUNE-06");
  const tt::SparseWeight there = s.to(tt::default_device());
  tt::Tensor x = tt::ones({2, 8}, tt::f32, tt::default_device());
  x.requires_grad_();
  CHECK(code([&] { tt::sum(tt::sparse_linear(x, there)).backward(); }) == "TT-GRAD-05");
}
