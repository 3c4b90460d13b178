// Cases of the views, for tensor/ops/shape. The oracles are index arithmetic.
#pragma once

#include <support/op_case.hpp>

namespace cases {

inline OpCase view_case(std::string name, std::function<Shape(int64_t)> shape,
                        std::function<Tensor(const Tensor&)> f, std::function<Array(const Array&)> g) {
  OpCase c;
  c.name = std::move(name);
  c.operands = {{.shape = std::move(shape)}};
  c.forward = [f](const Tensors& in) { return f(in[0]); };
  c.oracle = [g](const std::vector<Array>& in) { return g(in[0]); };
  c.dtypes = kAnything;
  c.ulps = 0;
  c.view = true;
  c.flops = [](const std::vector<Array>&, const Array&) { return 0.0; };
  return c;
}

inline Array reshaped(Array a, const Shape& shape) {
  a.shape = shape;
  return a;
}

inline std::vector<OpCase> shape_cases() {
  const auto grid = [](int64_t n) { return Shape{2, n, 6}; };
  std::vector<OpCase> all;
  all.push_back(view_case(
      "reshape", grid,
      [](const Tensor& x) {
        return tt::reshape(x, {2, x.shape()[1], 3, 2});
      },
      [](const Array& a) {
        return reshaped(a, {2, a.shape[1], 3, 2});
      }));
  all.push_back(view_case(
      "flatten", grid, [](const Tensor& x) { return tt::flatten(x, 0, 1); },
      [](const Array& a) {
        return reshaped(a, {2 * a.shape[1], 6});
      }));
  all.push_back(view_case(
      "unsqueeze", grid, [](const Tensor& x) { return tt::unsqueeze(x, -2); },
      [](const Array& a) {
        return reshaped(a, {2, a.shape[1], 1, 6});
      }));
  all.push_back(view_case(
      "squeeze",
      [](int64_t n) {
        return Shape{n, 1, 3};
      },
      [](const Tensor& x) { return tt::squeeze(x, 1); },
      [](const Array& a) {
        return reshaped(a, {a.shape[0], 3});
      }));
  for (OpCase& c : all) c.view = false, c.flops = {};  // may copy, depending on the strides
  all.push_back(view_case(
      "transpose", grid, [](const Tensor& x) { return tt::transpose(x, 0, -1); },
      [](const Array& a) {
        return oracle::tabulate({6, a.shape[1], 2}, [&](const Dims& i) { return a({i[2], i[1], i[0]}); });
      }));
  all.push_back(view_case(
      "permute", grid,
      [](const Tensor& x) {
        return tt::permute(x, {2, 0, -2});
      },
      [](const Array& a) {
        return oracle::tabulate({6, 2, a.shape[1]}, [&](const Dims& i) { return a({i[1], i[2], i[0]}); });
      }));
  all.push_back(view_case(
      "expand",
      [](int64_t n) {
        return Shape{n, 1};
      },
      [](const Tensor& x) {
        return tt::expand(x, {2, -1, 3});
      },
      [](const Array& a) {
        return oracle::tabulate({2, a.shape[0], 3}, [&](const Dims& i) { return a({i[1], 0}); });
      }));
  all.push_back(view_case(
      "slice with step", grid, [](const Tensor& x) { return tt::slice(x, 1, 1, -1, 3); },
      [](const Array& a) {
        int64_t count = 0;
        for (int64_t at = 1; at < a.shape[1] - 1; at += 3) ++count;
        return oracle::tabulate({2, count, 6}, [&](const Dims& i) { return a({i[0], 1 + 3 * i[1], i[2]}); });
      }));
  all.push_back(view_case(
      "slice open", grid, [](const Tensor& x) { return tt::slice(x, -1, -4); },
      [](const Array& a) {
        return oracle::tabulate({2, a.shape[1], 4}, [&](const Dims& i) { return a({i[0], i[1], i[2] + 2}); });
      }));
  OpCase select = view_case(
      "select", grid, [](const Tensor& x) { return tt::select(x, 2, -2); },
      [](const Array& a) {
        return oracle::tabulate({2, a.shape[1]}, [&](const Dims& i) { return a({i[0], i[1], 4}); });
      });
  all.push_back(select);
  OpCase contiguous = view_case(
      "contiguous", grid, [](const Tensor& x) { return tt::contiguous(x.transpose(0, 1)); },
      [](const Array& a) {
        return oracle::tabulate({a.shape[1], 2, 6}, [&](const Dims& i) { return a({i[1], i[0], i[2]}); });
      });
  contiguous.view = false, contiguous.flops = {};
  all.push_back(contiguous);
  return all;
}

// Views as calls.
// clang-format off
inline std::vector<OpCase> shape_calls() {
  return {
      OP("x.reshape(4, -1)", reshape(x, {4, -1})),
      OP("x.reshape(y.shape)", reshape(x, y.shape())).bench("x m"),
      OP("x.flatten(1)", flatten(x, 1)),
      OP("x.flatten()", flatten(x)),
      OP("x.transpose(0, -1)", transpose(x, 0, -1)),
      OP("x.transpose(0, 1)", transpose(x, 0, 1)).bench("m"),
      OP("x.permute(2, 0, 1)", permute(x, {2, 0, 1})),
      OP("x.unsqueeze(-1)", unsqueeze(x, -1)),
      OP("x.squeeze(1)", squeeze(x, 1)),
      OP("x[:, -2:]", slice(x, 1, -2)),
      OP("x[:, :, ::2]", slice(x, 2, 0, kEnd, 2)),
      OP("x[:-1]", slice(x, 0, 0, -1)),
      OP("x[1:-1]", slice(x, 0, 1, -1)).bench("x"),
      OP("x[:, -1]", select(x, 1, -1)),
      OP("x.split(2, 1)", split(x, 2, 1)),
      OP("x.chunk(2, -1)", chunk(x, 2, -1)),
      OP("x.unsqueeze(1).expand(-1, 2, -1, -1)", expand(unsqueeze(x, 1), {-1, 2, -1, -1})),
  };
}
// clang-format on

}  // namespace cases
