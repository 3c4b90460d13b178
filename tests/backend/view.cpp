#include <doctest/doctest.h>

#include <tinytorch/backend/view.hpp>

using tinytorch::DType;
using tinytorch::backend::View;

TEST_CASE("numel counts the elements, and contiguous is row-major without gaps") {
  float data[24] = {};
  const View dense{data, DType::f32, {2, 3, 4}, {12, 4, 1}};
  CHECK(dense.rank() == 3);
  CHECK(dense.numel() == 24);
  CHECK(dense.contiguous());
  CHECK(dense.as<float>() == data);
  CHECK_FALSE(View{data, DType::f32, {3, 2}, {1, 3}}.contiguous());  // transposed
  CHECK_FALSE(View{data, DType::f32, {2, 2}, {4, 2}}.contiguous());  // every second column
  CHECK_FALSE(View{data, DType::f32, {2, 3}, {0, 1}}.contiguous());  // broadcast
  CHECK(View{data, DType::f32, {1, 3}, {77, 1}}.contiguous());  // the stride of a size of 1 does not matter
  CHECK(View{data, DType::f32, {}, {}}.contiguous());
  CHECK(View{data, DType::f32, {}, {}}.numel() == 1);
  CHECK(View{data, DType::f32, {0, 5}, {9, 9}}.contiguous());  // no elements
}

TEST_CASE("batches_of drops the last two dimensions") {
  float data[24] = {};
  const View batches = tinytorch::backend::batches_of({data, DType::f32, {2, 3, 2, 2}, {12, 4, 2, 1}});
  CHECK(batches.data == data);
  CHECK(batches.shape == tinytorch::Shape{2, 3});
  CHECK(batches.strides == tinytorch::Strides{12, 4});
  CHECK(tinytorch::backend::batches_of({data, DType::f32, {2, 2}, {2, 1}}).rank() == 0);
}
