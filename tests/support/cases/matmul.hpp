// Cases of the matrix product, for backend/cpu/gemm and tensor/ops/matmul.
#pragma once

#include <support/op_case.hpp>

namespace cases {

// a [..., M, K] times b [..., K, N], both of rank 2 or more; batch dimensions broadcast.
inline Array matmul_oracle(const Array& a, const Array& b) {
  const int ra = a.shape.size(), rb = b.shape.size();
  Shape shape =
      oracle::broadcast(Shape(a.shape.begin(), a.shape.end() - 2), Shape(b.shape.begin(), b.shape.end() - 2));
  const int64_t K = a.shape[ra - 1];
  shape.push_back(a.shape[ra - 2]);
  shape.push_back(b.shape[rb - 1]);
  Array out(shape);
  out.magnitude.assign(out.values.size(), 0);
  oracle::for_each_index(shape, [&](const Dims& i) {
    Dims left = i, right = i;
    const int r = i.size();
    double sum = 0, size = 0;
    for (int64_t k = 0; k < K; ++k) {
      left[r - 1] = right[r - 2] = k;
      const double term = a(left) * b(right);
      sum += term;
      size += std::abs(term);
    }
    out(i) = sum;
    out.magnitude[out.position(i)] = size;
  });
  return out;
}

inline OpCase matmul_case(std::string name, std::function<Shape(int64_t)> a,
                          std::function<Shape(int64_t)> b) {
  OpCase c;
  c.name = "matmul " + std::move(name);
  c.operands = {{.shape = std::move(a)}, {.shape = std::move(b)}};
  c.forward = [](const Tensors& in) { return tt::matmul(in[0], in[1]); };
  c.oracle = [](const std::vector<Array>& in) { return matmul_oracle(in[0], in[1]); };
  c.dtypes = kNumbers;
  c.ulps = 8;
  c.flops = [](const std::vector<Array>& in, const Array& out) {
    return 2 * static_cast<double>(out.values.size()) * static_cast<double>(in[0].shape.back());
  };
  c.sizes = {0, 1, 2, 7, 13, 14, 15, 31, 33, 65};
  c.gradient_sizes = {1, 3};
  return c;
}

inline std::vector<OpCase> matmul_cases() {
  std::vector<OpCase> all;
  const auto d = [](auto f) { return f; };
  all.push_back(matmul_case("square", d([](int64_t n) {
                              return Shape{n, n};
                            }),
                            d([](int64_t n) {
                              return Shape{n, n};
                            })));
  all.push_back(matmul_case("tall", d([](int64_t n) {
                              return Shape{2 * n + 1, n};
                            }),
                            d([](int64_t n) {
                              return Shape{n, 3};
                            })));
  all.push_back(matmul_case("deep", d([](int64_t n) {
                              return Shape{3, 9 * n};
                            }),
                            d([](int64_t n) {
                              return Shape{9 * n, 5};
                            })));
  all.push_back(matmul_case("row", d([](int64_t n) {
                              return Shape{1, 5 * n};
                            }),
                            d([](int64_t n) {
                              return Shape{5 * n, 4 * n};
                            })));
  all.push_back(matmul_case("batched", d([](int64_t n) {
                              return Shape{3, n, 5};
                            }),
                            d([](int64_t n) {
                              return Shape{3, 5, n + 1};
                            })));
  all.push_back(matmul_case("broadcast batches", d([](int64_t n) {
                              return Shape{2, 1, n, 4};
                            }),
                            d([](int64_t n) {
                              return Shape{3, 4, n};
                            })));
  all.push_back(matmul_case("shared right", d([](int64_t n) {
                              return Shape{2, n, 5};
                            }),
                            d([](int64_t n) {
                              return Shape{5, n};
                            })));
  all.back().flops = {};
  // A vector acts as a row or a column, and its added dimension is removed from the result.
  OpCase vector = matmul_case("matrix times vector", d([](int64_t n) {
                                return Shape{n, n + 2};
                              }),
                              d([](int64_t n) { return Shape{n + 2}; }));
  vector.oracle = [](const std::vector<Array>& in) {
    Array column = in[1];
    column.shape.push_back(1);
    Array out = matmul_oracle(in[0], column);
    out.shape.pop_back();
    return out;
  };
  vector.flops = {};
  all.push_back(vector);
  OpCase left = matmul_case("vector times matrices", d([](int64_t n) { return Shape{n}; }), d([](int64_t n) {
                              return Shape{2, n, 3};
                            }));
  left.oracle = [](const std::vector<Array>& in) {
    Array row = in[0];
    row.shape.insert(0, 1);
    Array out = matmul_oracle(row, in[1]);
    out.shape = {2, 3};
    return out;
  };
  left.flops = {};
  all.push_back(left);
  OpCase dot =
      matmul_case("dot", d([](int64_t n) { return Shape{n}; }), d([](int64_t n) { return Shape{n}; }));
  dot.oracle = [](const std::vector<Array>& in) {
    Array out{Shape{}}, size{Shape{}};
    out.magnitude = {0};
    for (size_t i = 0; i < in[0].values.size(); ++i) {
      out.values[0] += in[0].values[i] * in[1].values[i];
      out.magnitude[0] += std::abs(in[0].values[i] * in[1].values[i]);
    }
    return out;
  };
  dot.flops = {};
  all.push_back(dot);
  return all;
}

inline std::vector<OpCase> linear_cases() {
  std::vector<OpCase> all;
  for (const bool bias : {false, true}) {
    for (const bool batched : {false, true}) {
      OpCase c;
      c.name = std::string("linear") + (bias ? " with bias" : "") + (batched ? " batched" : "");
      c.operands = {{.shape =
                         [=](int64_t n) {
                           return batched ? Shape{2, n, 5} : Shape{n, n};
                         }},
                    {.shape = [=](int64_t n) {
                      return batched ? Shape{4, 5} : Shape{7, n};
                    }}};
      if (bias) c.operands.push_back({.shape = [=](int64_t) { return Shape{batched ? 4 : 7}; }});
      c.forward = [=](const Tensors& in) { return tt::linear(in[0], in[1], bias ? in[2] : Tensor()); };
      c.oracle = [=](const std::vector<Array>& in) {
        const int64_t N = in[1].shape[0], K = in[1].shape[1];
        const Array weight_t = oracle::tabulate({K, N}, [&](const Dims& i) { return in[1]({i[1], i[0]}); });
        Array out = matmul_oracle(in[0], weight_t);
        for (size_t i = 0; bias && i < out.values.size(); ++i) {
          const double b = in[2].values[i % static_cast<size_t>(N)];
          out.values[i] += b;
          out.magnitude[i] += std::abs(b);
        }
        return out;
      };
      c.ulps = 8;
      c.sizes = {0, 1, 2, 7, 14, 33};
      c.gradient_sizes = {1, 3};
      if (!batched) {
        c.flops = [](const std::vector<Array>& in, const Array& out) {
          return 2 * static_cast<double>(out.values.size()) * static_cast<double>(in[0].shape.back());
        };
      }
      all.push_back(c);
    }
  }
  return all;
}

// Matrix products as calls, alone and with fused neighbours.
// clang-format off
inline std::vector<OpCase> matmul_calls() {
  return {
      OP("torch.matmul(x, y)", matmul(x, y)).bench("square other").bench("square other_t", "matmul transposed")
          .bench("square other_row", "matmul vector").bench_grad("square other"),
      OP("x @ y.T", matmul(x, transpose(y, 0, 1))),
      OP("F.linear(x, y)", linear(x, y)),
      OP("F.linear(x, y, z)", linear(x, y, z)).bench("m weight row").bench_grad("m weight row"),
      OP("F.gelu(F.linear(x, y, z))", linear_activation(x, y, z, Activation::gelu)),
      OP("F.relu(F.linear(x, y, z))", linear_activation(x, y, z, Activation::relu)),
      OP("F.gelu(F.linear(x, y, z), approximate='tanh')", linear_activation(x, y, z, Activation::gelu_tanh)),
      OP("u + F.linear(x, y, z)", linear_residual(x, y, z, u)).bench("m weight row k"),
      OP("z + F.linear(x, y)", linear_residual(x, y, {}, z)),
      OP("F.gelu(x + y)", bias_activation(x, y, Activation::gelu)).bench("m row").bench_grad("m row"),
      OP("F.gelu(x + y, approximate='tanh')", bias_activation(x, y, Activation::gelu_tanh)),
      OP("F.silu(x + y)", bias_activation(x, y, Activation::silu)),
      OP("F.linear(F.gelu(F.linear(x, y, z), approximate='tanh'), u, v)", mlp(x, y, z, u, v, Activation::gelu_tanh)),
      OP("F.linear(F.gelu(F.linear(x, y, z)), u, v)", mlp(x, y, z, u, v, Activation::gelu)),
      OP("F.linear(F.relu(F.linear(x, y)), z)", mlp(x, y, {}, z, {}, Activation::relu)),
  };
}
// clang-format on

}  // namespace cases
