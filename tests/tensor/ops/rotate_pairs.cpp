#include <tinytorch/tensor/ops/rotate_pairs.hpp>

#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <tinytorch/acceleration/compiled.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;
using errors::thrown_by;
using tt::Tensor;

namespace {

// The definition by other operations.
Tensor composed(const Tensor& x, const Tensor& cos, const Tensor& sin, int64_t R) {
  const Tensor a = tt::slice(x, -1, 0, R / 2), b = tt::slice(x, -1, R / 2, R);
  return tt::cat({a * cos - b * sin, b * cos + a * sin, tt::slice(x, -1, R)}, -1);
}

}  // namespace

TEST_CASE("a rotation equals its definition, from a first position or by the position of each token") {
  tt::manual_seed(4);
  const Tensor angle = tt::randn({20, 6}), cos = tt::cos(angle), sin = tt::sin(angle);
  for (const int64_t D : {12, 15}) {
    const Tensor x = tt::randn({2, 3, 5, D});
    const Tensor first = tt::rotate_pairs(x, {.cos = cos, .sin = sin, .first = 7});
    CHECK(tt::allclose(first, composed(x, cos.slice(0, 7, 12), sin.slice(0, 7, 12), 12), 1e-6, 1e-6));
    const Tensor places = tt::from_data(std::vector<int64_t>{19, 0, 3, 3, 8});
    const Tensor each = tt::rotate_pairs(x, {.cos = cos, .sin = sin, .positions = places, .bound = 20});
    CHECK(tt::allclose(each, composed(x, tt::embedding(cos, places), tt::embedding(sin, places), 12), 1e-6,
                       1e-6));
    const Tensor back =
        tt::rotate_pairs(each, {.cos = cos, .sin = sin, .positions = places, .inverse = true});
    CHECK(tt::allclose(back, x, 1e-5, 1e-5));
  }
  CHECK(tt::rotate_pairs(tt::zeros({2, 0, 5, 12}), {.cos = cos, .sin = sin}).shape() ==
        tt::Shape{2, 0, 5, 12});
  CHECK(tt::rotate_pairs(tt::zeros({2, 1, 0, 12}), {.cos = cos, .sin = sin, .first = 99}).numel() == 0);
}

TEST_CASE("16-bit vectors are rotated in f32 and rounded once; heads of a packed projection need no copy") {
  tt::manual_seed(5);
  const Tensor angle = tt::randn({9, 8}), cos = tt::cos(angle), sin = tt::sin(angle);
  const tt::RotationTables tables{.cos = cos, .sin = sin};
  const Tensor packed = tt::randn({2, 9, 5, 16});
  const Tensor heads = tt::slice(packed.transpose(1, 2), 1, 0, 4);
  CHECK(tt::equal(tt::rotate_pairs(heads, tables), tt::rotate_pairs(heads.contiguous(), tables)));
  for (const tt::DType dtype : {tt::bf16, tt::f16}) {
    const Tensor x = heads.to(dtype);
    CHECK(tt::equal(tt::rotate_pairs(x, tables), tt::rotate_pairs(x.to(tt::f32), tables).to(dtype)));
  }
}

TEST_CASE("a compiled rotation checks the positions of every call") {
  const Tensor cos = tt::ones({4, 3}), sin = tt::zeros({4, 3}), x = tt::ones({1, 1, 2, 6});
  auto f = tt::compile([&](const tt::Tensors& in) {
    return tt::rotate_pairs(in[0], {.cos = cos, .sin = sin, .positions = in[1]});
  });
  const auto places = [](int64_t last) { return tt::from_data(std::vector<int64_t>{0, last}); };
  for (int i = 0; i < 6; ++i) CHECK(tt::equal(f(tt::Tensors{x, places(1)}), x));
  CHECK(thrown_by([&] { f(tt::Tensors{x, places(1000000000)}); }).code == "TT-RANGE-05");
}

TEST_CASE("tables, positions and dtypes that do not fit are refused") {
  const Tensor cos = tt::zeros({4, 3}), x = tt::zeros({1, 2, 3, 6});
  const auto code = [&](const Tensor& of, const tt::RotationTables& t) {
    return thrown_by([&] { tt::rotate_pairs(of, t); }).code;
  };
  CHECK(code(tt::zeros({2, 3, 6}), {.cos = cos, .sin = cos}) == "TT-SHAPE-02");
  CHECK(code(tt::zeros({1, 2, 3, 5}), {.cos = cos, .sin = cos}) == "TT-SHAPE-02");
  CHECK(code(x, {.cos = cos, .sin = tt::zeros({5, 3})}) == "TT-SHAPE-02");
  CHECK(code(x, {.cos = cos.to(tt::f64), .sin = cos.to(tt::f64)}) == "TT-SHAPE-02");
  CHECK(code(x, {.cos = cos, .sin = cos, .positions = tt::zeros({2}, tt::i64)}) == "TT-SHAPE-02");
  CHECK(code(x.to(tt::i32), {.cos = cos, .sin = cos}) == "TT-DTYPE-02");
  CHECK(code(x, {.cos = cos, .sin = cos, .first = 2}) == "TT-RANGE-05");
  CHECK(code(x, {.cos = cos, .sin = cos, .first = -1}) == "TT-RANGE-05");
  CHECK(code(x, {.cos = cos, .sin = cos, .first = INT64_MAX}) == "TT-RANGE-05");
  const auto outside = thrown_by([&] {
    tt::rotate_pairs(x, {.cos = cos, .sin = cos, .positions = tt::from_data(std::vector<int64_t>{0, 4, 1})});
  });
  CHECK(outside.code == "TT-RANGE-05");
  CHECK(outside.text.find("position 4 of token 1 is outside [0, 4)") != std::string::npos);
}
