// Products, rearrangements and indexed reads and writes composed of others: PyTorch's values and gradients,
// every dtype, gaps in memory, no elements, errors.
#include <tinytorch/tensor/ops/composed_shape.hpp>
// The header above must compile by itself.

#include <doctest/doctest.h>

#include <cmath>
#include <support/errors.hpp>
#include <support/everyday.hpp>

namespace tt = tinytorch;
using tt::Tensor;
using tt::Tensors;

namespace {

const everyday::Calls kShapeCalls = {
    {"mm", [](const Tensors& in, const Tensor&) { return tt::mm(in[0], in[1]); }},
    {"mv", [](const Tensors& in, const Tensor&) { return tt::mv(in[0], in[1]); }},
    {"bmm", [](const Tensors& in, const Tensor&) { return tt::bmm(in[0], in[1]); }},
    {"addmm", [](const Tensors& in, const Tensor&) { return tt::addmm(in[0], in[1], in[2], 0.5, 2); }},
    {"tensordot", [](const Tensors& in, const Tensor&) { return tt::tensordot(in[0], in[1]); }},
    {"tile",
     [](const Tensors& in, const Tensor&) {
       return tt::tile(in[0], {2, 3});
     }},
    {"repeat_interleave",
     [](const Tensors& in, const Tensor&) { return tt::repeat_interleave(in[0], 3, 1); }},
    {"repeat_interleave_all",
     [](const Tensors& in, const Tensor&) { return tt::repeat_interleave(in[0], 2); }},
    {"movedim", [](const Tensors& in, const Tensor&) { return tt::movedim(in[0], 0, -1); }},
    {"unflatten",
     [](const Tensors& in, const Tensor&) {
       return tt::unflatten(in[0], 1, {2, -1});
     }},
    {"hstack", [](const Tensors& in, const Tensor&) { return tt::hstack(in); }},
    {"vstack", [](const Tensors& in, const Tensor&) { return tt::vstack(in); }},
    {"fliplr", [](const Tensors& in, const Tensor&) { return tt::fliplr(in[0]); }},
    {"flipud", [](const Tensors& in, const Tensor&) { return tt::flipud(in[0]); }},
    {"meshgrid_ij", [](const Tensors& in, const Tensor&) { return tt::stack(tt::meshgrid(in)); }},
    {"meshgrid_xy", [](const Tensors& in, const Tensor&) { return tt::stack(tt::meshgrid(in, "xy")); }},
    {"pixel_shuffle", [](const Tensors& in, const Tensor&) { return tt::pixel_shuffle(in[0], 2); }},
    {"pixel_unshuffle", [](const Tensors& in, const Tensor&) { return tt::pixel_unshuffle(in[0], 2); }},
    {"diff", [](const Tensors& in, const Tensor&) { return tt::diff(in[0], 2, 1); }},
    {"take_along_dim", [](const Tensors& in, const Tensor& i) { return tt::take_along_dim(in[0], i, 1); }},
    {"index_add", [](const Tensors& in, const Tensor& i) { return tt::index_add(in[0], 1, i, in[1]); }},
    {"index_fill", [](const Tensors& in, const Tensor& i) { return tt::index_fill(in[0], 1, i, 1.5); }},
    {"bincount", [](const Tensors& in, const Tensor& i) { return tt::bincount(i, in[0], 6); }},
    {"argsort", [](const Tensors& in, const Tensor&) { return tt::argsort(in[0], 0, true); }},
    {"isin", [](const Tensors& in, const Tensor&) { return tt::isin(in[0], in[1]); }},
    {"searchsorted_0", [](const Tensors& in, const Tensor&) { return tt::searchsorted(in[0], in[1]); }},
    {"searchsorted_1", [](const Tensors& in, const Tensor&) { return tt::searchsorted(in[0], in[1], true); }},
    {"bucketize_0", [](const Tensors& in, const Tensor&) { return tt::bucketize(in[0], in[1]); }},
    {"bucketize_1", [](const Tensors& in, const Tensor&) { return tt::bucketize(in[0], in[1], true); }},
};

}  // namespace

TEST_CASE("composed rearrangements have PyTorch's values and gradients") {
  everyday::check(kShapeCalls, false);
}

TEST_CASE("composed rearrangements of every dtype") {
  for (const tt::DType t :
       {tt::f64, tt::f32, tt::f16, tt::bf16, tt::i64, tt::i32, tt::i8, tt::u8, tt::boolean}) {
    INFO(tt::name_of(t));
    const Tensor x = tt::from_data<int64_t>({1, 0, 1, 1, 0, 0}, {2, 3}).to(t);
    const auto numbers = [](const Tensor& y) { return y.to_vector<double>(); };
    CHECK(tt::repeat_interleave(x, 2, 0).dtype() == t);
    CHECK(numbers(tt::repeat_interleave(x, 2, 0)) == std::vector<double>{1, 0, 1, 1, 0, 1, 1, 0, 0, 1, 0, 0});
    CHECK(numbers(tt::movedim(x, 1, 0)) == std::vector<double>{1, 1, 0, 0, 1, 0});
    CHECK(numbers(tt::tile(x, {2})) == std::vector<double>{1, 0, 1, 1, 0, 1, 1, 0, 0, 1, 0, 0});
    CHECK(numbers(tt::unflatten(x, 1, {3, 1})) == numbers(x));
    CHECK(numbers(tt::ravel(x)) == numbers(x));
    CHECK(numbers(tt::fliplr(x)) == std::vector<double>{1, 0, 1, 0, 0, 1});
    if (t == tt::boolean) continue;
    const Tensor index = tt::from_data<int64_t>({1, 1});
    CHECK(numbers(tt::index_add(x, 0, index, tt::ones({2, 3}, t))) == std::vector<double>{1, 0, 1, 3, 2, 2});
    CHECK(numbers(tt::index_fill(x, 0, index, 5)) == std::vector<double>{1, 0, 1, 5, 5, 5});
    CHECK(numbers(tt::isin(x, tt::zeros({1}, t))) == std::vector<double>{0, 1, 0, 0, 1, 1});
  }
}

TEST_CASE("composed rearrangements of scalars and of no elements") {
  const Tensor none = tt::zeros({0, 3}), one = tt::zeros({});
  CHECK(tt::movedim(one, 0, 0).rank() == 0);
  CHECK(tt::repeat_interleave(one, 3).shape() == tt::Shape{3});
  CHECK(tt::repeat_interleave(none, 2, 0).shape() == tt::Shape{0, 3});
  CHECK(tt::repeat_interleave(tt::zeros({2}), 0, 0).shape() == tt::Shape{0});
  CHECK(tt::diff(tt::zeros({1})).shape() == tt::Shape{0});
  CHECK(tt::diff(tt::zeros({2}), 5).shape() == tt::Shape{0});
  CHECK(tt::mm(tt::zeros({2, 0}), none).shape() == tt::Shape{2, 3});
  CHECK(tt::hstack({one, one}).shape() == tt::Shape{2});
  CHECK(tt::vstack({one, one}).shape() == tt::Shape{2, 1});
  CHECK(tt::isin(one, none).to_vector<int64_t>() == std::vector<int64_t>{0});
  CHECK(tt::bincount(tt::zeros({0}, tt::i64)).shape() == tt::Shape{0});
  CHECK(tt::bincount(tt::from_data<int64_t>({3, 1, 3})).to_vector<int64_t>() ==
        std::vector<int64_t>{0, 1, 0, 2});
  CHECK(tt::searchsorted(tt::zeros({0}), tt::zeros({2})).to_vector<int64_t>() == std::vector<int64_t>{0, 0});
  CHECK(tt::bucketize(tt::full({}, std::nan("")), tt::from_data({1.0f, 2.0f})).item<int64_t>() == 2);
  CHECK(tt::rand_like(tt::zeros({2, 3}, tt::f64)).dtype() == tt::f64);
  CHECK(tt::randn_like(none).shape() == tt::Shape{0, 3});
  CHECK(tt::expand_as(tt::zeros({3}), tt::zeros({2, 3})).shape() == tt::Shape{2, 3});
  CHECK(tt::reshape_as(tt::zeros({6}), tt::zeros({2, 3})).shape() == tt::Shape{2, 3});
  CHECK(tt::swapaxes(none, 0, 1).shape() == tt::Shape{3, 0});
  CHECK(tt::broadcast_to(one, {2, 2}).shape() == tt::Shape{2, 2});
  const Tensor nan = tt::full({2}, std::nan(""));
  CHECK(tt::addmm(nan, tt::ones({1, 2}), tt::ones({2, 2}), 0).to_vector<double>() ==
        std::vector<double>{2, 2});
}

TEST_CASE("composed rearrangements refuse what they cannot do") {
  const Tensor x = tt::zeros({2, 3}), i = tt::from_data<int64_t>({0, 5});
  test::expect_error("TT-SHAPE-04", "mm", [&] { tt::mm(x, tt::zeros({3})); });
  test::expect_error("TT-SHAPE-02", "bmm", [] { tt::bmm(tt::zeros({1, 2, 3}), tt::zeros({2, 3, 4})); });
  test::expect_error("TT-SHAPE-13", "tensordot", [&] { tt::tensordot(x, x, 1); });
  test::expect_error("TT-SHAPE-12", "repeat_interleave", [&] { tt::repeat_interleave(x, -1); });
  test::expect_error("TT-SHAPE-01", "unflatten", [&] { tt::unflatten(x, 1, {2, -1}); });
  test::expect_error("TT-SHAPE-10", "hstack", [] { tt::hstack({}); });
  test::expect_error("TT-RANGE-08", "meshgrid", [&] { tt::meshgrid({tt::zeros({2})}, "yx"); });
  test::expect_error("TT-SHAPE-12", "pixel_shuffle", [] { tt::pixel_shuffle(tt::zeros({3, 2, 2}), 2); });
  test::expect_error("TT-SHAPE-12", "pixel_unshuffle", [] { tt::pixel_unshuffle(tt::zeros({3, 2, 2}), 0); });
  test::expect_error("TT-SHAPE-13", "take_along_dim", [&] { tt::take_along_dim(x, i, 0); });
  test::expect_error("TT-SHAPE-02", "index_add", [&] { tt::index_add(x, 0, i, x.slice(0, 0, 1)); });
  const Tensor on_cpu = x.to(tt::cpu);  // a GPU reports a wrong index later
  test::expect_error("TT-RANGE-05", "index", [&] { tt::index_add(on_cpu, 0, i.to(tt::cpu), on_cpu); });
  test::expect_error("TT-SHAPE-02", "searchsorted", [&] { tt::searchsorted(x, tt::zeros({2})); });
}
