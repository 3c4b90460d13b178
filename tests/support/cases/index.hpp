// Cases of joining and indexing, for backend/cpu/index and tensor/ops/index.
#pragma once

#include <algorithm>
#include <numeric>
#include <support/op_case.hpp>

namespace cases {

inline OpCase moving(std::string name, std::vector<Operand> operands,
                     std::function<Tensor(const Tensors&)> forward,
                     std::function<Array(const std::vector<Array>&)> oracle_of) {
  OpCase c;
  c.name = std::move(name);
  c.operands = std::move(operands);
  c.forward = std::move(forward);
  c.oracle = std::move(oracle_of);
  c.dtypes = kAnything;
  c.ulps = 0;
  c.flops = [](const std::vector<Array>&, const Array&) { return 0.0; };
  return c;
}

inline std::vector<OpCase> rearranging_cases() {
  const auto grid = [](int64_t n) { return Shape{3, n, 2}; };
  std::vector<OpCase> all;
  all.push_back(moving(
      "cat",
      {{.shape = mat()},
       {.shape =
            [](int64_t n) {
              return Shape{n, 1};
            }},
       {.shape = mat(0)}},
      [](const Tensors& in) { return tt::cat(in, -1); },
      [](const std::vector<Array>& in) {
        return oracle::tabulate({in[0].shape[0], 4}, [&](const Dims& i) {
          return i[1] < 3 ? in[0](i) : in[1]({i[0], 0});
        });
      }));
  all.push_back(moving(
      "cat of rows",
      {{.shape = mat()},
       {.shape =
            [](int64_t n) {
              return Shape{n + 1, 3};
            }}},
      [](const Tensors& in) { return tt::cat(in); },
      [](const std::vector<Array>& in) {
        const int64_t n = in[0].shape[0];
        return oracle::tabulate({2 * n + 1, 3}, [&](const Dims& i) {
          return i[0] < n ? in[0](i) : in[1]({i[0] - n, i[1]});
        });
      }));
  all.push_back(moving(
      "stack", {{.shape = mat()}, {.shape = mat()}}, [](const Tensors& in) { return tt::stack(in, 1); },
      [](const std::vector<Array>& in) {
        return oracle::tabulate({in[0].shape[0], 2, 3}, [&](const Dims& i) {
          return in[static_cast<size_t>(i[1])]({i[0], i[2]});
        });
      }));
  all.back().flops = {};
  all.push_back(moving(
      "pad", {{.shape = mat()}},
      [](const Tensors& in) {
        return tt::pad(in[0], {{1, 0}, {2, 3}}, 5);
      },
      [](const std::vector<Array>& in) {
        return oracle::tabulate({in[0].shape[0] + 1, 8}, [&](const Dims& i) {
          const bool inside = i[0] >= 1 && i[1] >= 2 && i[1] < 5;
          return inside ? in[0]({i[0] - 1, i[1] - 2}) : 5.0;
        });
      }));
  all.back().dtypes = kNumbers;
  all.push_back(moving(
      "flip", {{.shape = grid}},
      [](const Tensors& in) {
        return tt::flip(in[0], {0, -2});
      },
      [](const std::vector<Array>& in) {
        return oracle::tabulate(in[0].shape, [&](const Dims& i) {
          return in[0]({2 - i[0], in[0].shape[1] - 1 - i[1], i[2]});
        });
      }));
  for (const int64_t diagonal : {-2, 0, 3}) {
    const auto square = [](int64_t n) { return Shape{2, n, n + 1}; };
    all.push_back(moving(
        "tril", {{.shape = square}}, [=](const Tensors& in) { return tt::tril(in[0], diagonal); },
        [=](const std::vector<Array>& in) {
          return oracle::tabulate(in[0].shape,
                                  [&](const Dims& i) { return i[2] - i[1] <= diagonal ? in[0](i) : 0; });
        }));
    all.back().sizes = {0, 1, 2, 5, 33};
    all.push_back(moving(
        "triu", {{.shape = square}}, [=](const Tensors& in) { return tt::triu(in[0], diagonal); },
        [=](const std::vector<Array>& in) {
          return oracle::tabulate(in[0].shape,
                                  [&](const Dims& i) { return i[2] - i[1] >= diagonal ? in[0](i) : 0; });
        }));
    all.back().sizes = {0, 1, 2, 5, 33};
  }
  return all;
}

inline std::vector<OpCase> indexing_cases() {
  std::vector<OpCase> all;
  for (const int dim : {0, 1, 2}) {
    const auto source = [=](int64_t n) {
      Shape s{3, 4, 2};
      s[dim] = n + 1;
      return s;
    };
    const auto index_shape = [=](int64_t n) {  // smaller than x in the other dimensions, longer along dim
      Shape s{2, 3, 2};
      s[dim] = 2 * n;
      return s;
    };
    const Operand index{.shape = index_shape, .dtype = tt::i64, .below = [](int64_t n) { return n + 1; }};
    const std::string at = " dim " + std::to_string(dim);
    all.push_back(moving(
        "index_select" + at,
        {{.shape = source},
         {.shape = [](int64_t n) { return Shape{2 * n}; },
          .dtype = tt::i64,
          .below = [](int64_t n) { return n + 1; }}},
        [=](const Tensors& in) { return tt::index_select(in[0], dim, in[1]); },
        [=](const std::vector<Array>& in) {
          Shape s = in[0].shape;
          s[dim] = in[1].shape[0];
          return oracle::tabulate(s, [&](Dims i) {
            i[dim] = static_cast<int64_t>(in[1]({i[dim]}));
            return in[0](i);
          });
        }));
    all.push_back(moving(
        "gather" + at, {{.shape = source}, index},
        [=](const Tensors& in) { return tt::gather(in[0], dim - 3, in[1]); },
        [=](const std::vector<Array>& in) {
          return oracle::tabulate(in[1].shape, [&](const Dims& i) {
            Dims from = i;
            from[dim] = static_cast<int64_t>(in[1](i));
            return in[0](from);
          });
        }));
    OpCase add = moving(
        "scatter_add" + at, {{.shape = source}, index, {.shape = index_shape}},
        [=](const Tensors& in) { return tt::scatter_add(in[0], dim, in[1], in[2]); },
        [=](const std::vector<Array>& in) {
          Array out = in[0];
          for (double v : in[0].values) out.magnitude.push_back(std::abs(v));
          oracle::for_each_index(in[1].shape, [&](const Dims& i) {
            Dims to = i;
            to[dim] = static_cast<int64_t>(in[1](i));
            out(to) += in[2](i);
            out.magnitude[out.position(to)] += std::abs(in[2](i));
          });
          return out;
        });
    add.dtypes = {tt::f32, tt::f64, tt::i8, tt::u8, tt::i32, tt::i64};
    add.ulps = 8;
    add.flops = [](const std::vector<Array>& in, const Array&) {
      return static_cast<double>(in[2].values.size());
    };
    all.push_back(add);
  }
  for (OpCase& c : all) c.sizes = {0, 1, 2, 7, 33}, c.gradient_sizes = {0, 1, 3};
  return all;
}

// The positions that sort one row; stable in both directions, so equal values keep their order.
inline std::vector<size_t> sorted_order(const std::vector<double>& row, bool descending) {
  std::vector<size_t> order(row.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return descending ? row[a] > row[b] : row[a] < row[b]; });
  return order;
}

inline Array sort_oracle(const Array& x, int dim, int64_t k, bool descending, bool indices) {
  Shape shape = x.shape;
  shape[dim] = k;
  return oracle::tabulate(shape, [&](Dims i) {
    const int64_t rank = i[dim];
    std::vector<double> row;
    for (i[dim] = 0; i[dim] < x.shape[dim]; ++i[dim]) row.push_back(x(i));
    const size_t at = sorted_order(row, descending)[static_cast<size_t>(rank)];
    return indices ? static_cast<double>(at) : row[at];
  });
}

inline std::vector<OpCase> sorting_cases() {
  std::vector<OpCase> all;
  for (const int dim : {0, 1}) {
    for (const bool descending : {false, true}) {
      const auto shape = [=](int64_t n) { return dim == 0 ? Shape{n, 3} : Shape{2, n}; };
      const std::string how =
          std::string(descending ? " descending" : " ascending") + " dim " + std::to_string(dim);
      OpCase sort = moving(
          "sort" + how, {{.shape = shape, .distinct = true}},
          [=](const Tensors& in) { return tt::sort(in[0], dim, descending).values; },
          [=](const std::vector<Array>& in) {
            return sort_oracle(in[0], dim, in[0].shape[dim], descending, false);
          });
      OpCase order = sort;
      order.name = "sort indices" + how;
      order.forward = [=](const Tensors& in) { return tt::sort(in[0], dim, descending).indices; };
      order.oracle = [=](const std::vector<Array>& in) {
        return sort_oracle(in[0], dim, in[0].shape[dim], descending, true);
      };
      order.result = ResultType::i64;
      order.differentiable = false;
      OpCase top = sort;
      top.name = "topk" + how;
      top.forward = [=](const Tensors& in) {
        return tt::topk(in[0], (in[0].shape()[dim] + 1) / 2, dim, descending).values;
      };
      top.oracle = [=](const std::vector<Array>& in) {
        return sort_oracle(in[0], dim, (in[0].shape[dim] + 1) / 2, descending, false);
      };
      for (OpCase* c : {&sort, &order, &top}) {
        c->sizes = {0, 1, 2, 7, 33};
        c->flops = {};
        all.push_back(*c);
      }
    }
  }
  return all;
}

inline std::vector<OpCase> index_cases() {
  std::vector<OpCase> all = rearranging_cases();
  for (const auto& part : {indexing_cases(), sorting_cases()})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

// Copies, rearrangements, indexing and sorting as calls.
// clang-format off
inline std::vector<OpCase> index_calls() {
  return {
      OP("x.clone()", clone(x)).bench("x"),
      OP("x.contiguous()", contiguous(x)).bench("square_t", "contiguous transposed").bench("image_nhwc", "contiguous permuted"),
      OP("x.transpose(1, 2).contiguous()", contiguous(transpose(x, 1, 2))),
      OP("x.float().to(bf16).double()", cast(cast(x, bf16), f32)),
      OP("x.float().to(f16).double()", cast(cast(x, f16), f32)),
      OP("x.to(bf16)", cast(x, bf16)).bench("x", "cast bf16").only_timed(),
      OP("x.to(f32)", cast(x, f32)).bench("half", "cast f32").only_timed(),
      OP("x.double()", cast(x, f64)),
      OP("x.to(i32)", cast(x, i32)),
      OP("x.to(i64)", cast(x, i64)).bench("x", "cast i64"),
      OP("x.to(u8)", cast(x, u8)),
      OP("x.to(torch.bool)", cast(x, boolean)),
      OP("torch.cat((x, y))", cat({x, y})).bench("x y"),
      OP("torch.cat((x, y), 1)", cat({x, y}, 1)).bench("m k", "cat columns"),
      OP("torch.cat((x, y), -1)", cat({x, y}, -1)),
      OP("torch.cat((x, y, x), 0)", cat({x, y, x}, 0)),
      OP("torch.stack((x, y), 1)", stack({x, y}, 1)).bench("x y"),
      OP("F.pad(x, (0, 1, 1, 2), value=2.5)", pad(x, {{0, 0}, {1, 2}, {0, 1}}, 2.5)),
      OP("F.pad(x, (2, 2, 1, 1))", pad(x, {{1, 1}, {2, 2}})).bench("m"),
      OP("x.flip(0)", flip(x, {0})).bench("m"),
      OP("x.flip(1)", flip(x, {1})).bench("m", "flip rows"),
      OP("x.flip(0, -1)", flip(x, {0, -1})),
      OP("x.tril()", tril(x)).bench("square"),
      OP("x.tril(-1)", tril(x, -1)),
      OP("x.triu()", triu(x)).bench("square"),
      OP("x.triu(1)", triu(x, 1)),
      OP("x.index_select(0, y)", index_select(x, 0, y)).bench("m row_index"),
      OP("x.index_select(1, y)", index_select(x, 1, y)),
      OP("torch.isnan(x)", isnan(x)),
      OP("torch.isinf(x)", isinf(x)),
      OP("torch.isfinite(x)", isfinite(x)),
      OP("torch.outer(x, y)", outer(x, y)),
      OP("F.one_hot(x, 5)", one_hot(x, 5)),
      OP("x.repeat(2, 3)", repeat(x, {2, 3})),
      OP("x.roll(1, 0)", roll(x, 1, 0)),
      OP("torch.einsum('ij,kj->ik', x, y)", einsum("ij,kj->ik", {x, y})),
      OP("x.gather(0, y)", gather(x, 0, y)).bench("m column_index", "gather columns"),
      OP("x.gather(-1, y)", gather(x, -1, y)),
      OP("x.gather(1, y)", gather(x, 1, y)).bench("m integers", "gather rows").bench_grad("m integers", "gather rows"),
      OP("x.scatter_add(0, y, z)", scatter_add(x, 0, y, z)).bench("m column_index k", "scatter_add columns"),
      OP("x.scatter_add(-1, y, z)", scatter_add(x, -1, y, z)),
      OP("x.scatter_add(1, y, z)", scatter_add(x, 1, y, z)).bench("m integers k", "scatter_add rows"),
      OP("torch.sort(x, dim=-1, stable=True)", sort(x)).bench("m", "sort rows").bench("x").bench("integers", "sort i64"),
      OP("torch.sort(x, dim=0, descending=True, stable=True)", sort(x, 0, true)),
      OP("torch.sort(x, dim=-1, descending=True, stable=True)", sort(x, -1, true)),
      OP("x.topk(3)", topk(x, 3)),
      OP("x.topk(10)", topk(x, 10)).bench("m", "topk rows").bench("x"),
      OP("x.topk(2, 0, largest=False)", topk(x, 2, 0, false)),
  };
}
// clang-format on

}  // namespace cases
