// Functions that are composed of other operations, which have the kernels and the derivatives: isnan, isinf,
// isfinite, outer, one_hot, repeat, roll, einsum.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <algorithm>
#include <limits>
#include <tinytorch/tensor/ops/index.hpp>
#include <tinytorch/tensor/ops/matmul.hpp>
#include <tinytorch/tensor/ops/reduce.hpp>
#include <tinytorch/tensor/ops/shape.hpp>

namespace tinytorch::inline TT_BUILD {

TT_API Tensor isnan(const Tensor& x, Loc loc) {
  require_defined("isnan", loc, x);
  return ne(x, x, loc);
}
TT_API Tensor isinf(const Tensor& x, Loc loc) {
  require_defined("isinf", loc, x);
  if (!is_floating(x.dtype())) return zeros(x.shape(), DType::boolean, x.device(), loc);
  const Tensor infinite = scalar_like(std::numeric_limits<double>::infinity(), x, loc);
  return eq(abs(x.detach(), loc), infinite, loc);
}
TT_API Tensor isfinite(const Tensor& x, Loc loc) {
  require_defined("isfinite", loc, x);
  if (!is_floating(x.dtype())) return ones(x.shape(), DType::boolean, x.device(), loc);
  const Tensor infinite = scalar_like(std::numeric_limits<double>::infinity(), x, loc);
  return lt(abs(x.detach(), loc), infinite, loc);
}

TT_API Tensor outer(const Tensor& a, const Tensor& b, Loc loc) {
  require_defined("outer", loc, a, b);
  for (const Tensor* t : {&a, &b}) require_rank("outer", *t, 1, "a vector [N]", loc);
  return mul(unsqueeze(a, 1, loc), b, loc);
}

TT_API Tensor one_hot(const Tensor& index, int64_t classes, Loc loc) {
  require_defined("one_hot", loc, index);
  require_index("one_hot", index, loc);
  if (classes < 0 && index.numel() > 0) classes = max(index, {}, false, loc).item<int64_t>() + 1;
  if (classes < 1) {
    fail("TT-RANGE-03", "one_hot: needs at least one class, or an index to find their number", loc);
  }
  require_in_range("one_hot", index, classes, loc);
  const Tensor all = arange(0, classes, 1, DType::i64, index.device(), loc);
  return cast(eq(unsqueeze(index, -1, loc), all, loc), DType::i64, loc);
}

TT_API Tensor repeat(const Tensor& x, const Dims& counts, Loc loc) {
  require_defined("repeat", loc, x);
  Shape shape = x.shape();
  while (shape.size() < counts.size()) shape.insert(0, 1);
  const bool fits =
      counts.size() >= x.rank() && std::all_of(counts.begin(), counts.end(), [](auto n) { return n >= 0; });
  if (!fits) {
    fail("TT-SHAPE-12",
         "repeat: needs a count >= 0 for each dimension of " + x.describe() + ", got " + counts.str(), loc);
  }
  Tensor y = reshape(x, shape, loc);
  for (int d = 0; d < counts.size(); ++d) {
    if (counts[d] == 0) y = slice(y, d, 0, 0, 1, loc);
    if (counts[d] > 1) y = cat(Tensors(static_cast<size_t>(counts[d]), y), d, loc);
  }
  return y.storage() == x.storage() ? clone(y, loc) : y;
}

TT_API Tensor roll(const Tensor& x, const Dims& shifts, const Dims& dims, Loc loc) {
  require_defined("roll", loc, x);
  if (dims.empty() && shifts.size() == 1)
    return reshape(roll(reshape(x, {-1}, loc), shifts, 0, loc), x.shape(), loc);
  if (dims.size() != shifts.size()) {
    fail("TT-SHAPE-12",
         "roll: needs one shift per dimension, got shifts " + shifts.str() + " and dimensions " + dims.str(),
         loc);
  }
  Tensor y = x;
  for (int i = 0; i < dims.size(); ++i) {
    const int d = indexed_dim("roll", x, static_cast<int>(dims[i]), loc);
    const int64_t n = x.shape()[d];
    const int64_t by = n > 0 ? (shifts[i] % n + n) % n : 0;
    if (by > 0) y = cat({slice(y, d, n - by, kEnd, 1, loc), slice(y, d, 0, n - by, 1, loc)}, d, loc);
  }
  return y.storage() == x.storage() ? clone(y, loc) : y;
}

// A tensor whose dimensions are named by letters.
struct Lettered {
  Tensor tensor;
  std::string letters;

  int64_t size(char c) const { return tensor.shape()[static_cast<int>(letters.find(c))]; }
  bool has(char c) const { return letters.find(c) != std::string::npos; }
  Tensor in_order(const std::string& order, Loc loc) const {
    Dims dims;
    for (char c : order) dims.push_back(static_cast<int64_t>(letters.find(c)));
    return permute(tensor, dims, loc);
  }
  // Sums over the letters that are not in `kept`.
  Lettered summed(const std::string& kept, Loc loc) const {
    Dims gone;
    std::string rest;
    for (size_t i = 0; i < letters.size(); ++i) {
      if (kept.find(letters[i]) == std::string::npos) {
        gone.push_back(static_cast<int64_t>(i));
      } else {
        rest += letters[i];
      }
    }
    return gone.empty() ? *this : Lettered{sum(tensor, gone, false, loc), rest};
  }
};

// The product of a and b, summed over their common letters that are not in `kept`: one product of matrices
// [batch, rows, sum] and [batch, sum, columns].
inline Lettered contract(Lettered a, Lettered b, const std::string& kept, Loc loc) {
  const auto is_kept = [&](char c) { return kept.find(c) != std::string::npos; };
  a = a.summed(kept + b.letters, loc), b = b.summed(kept + a.letters, loc);
  std::string batch, rows, both, columns;
  int64_t sizes[4] = {1, 1, 1, 1};
  for (char c : a.letters) {
    const int part = !b.has(c) ? 1 : is_kept(c) ? 0 : 2;
    (part == 0 ? batch : part == 1 ? rows : both) += c;
    sizes[part] *= a.size(c);
  }
  for (char c : b.letters) {
    if (a.has(c)) continue;
    columns += c;
    sizes[3] *= b.size(c);
  }
  Shape shape;
  for (char c : batch + rows) shape.push_back(a.size(c));
  for (char c : columns) shape.push_back(b.size(c));
  const Tensor left = reshape(a.in_order(batch + rows + both, loc), {sizes[0], sizes[1], sizes[2]}, loc);
  const Tensor right = reshape(b.in_order(batch + both + columns, loc), {sizes[0], sizes[2], sizes[3]}, loc);
  return {reshape(matmul(left, right, loc), shape, loc), batch + rows + columns};
}

TT_API Tensor einsum(const std::string& equation, const Tensors& operands, Loc loc) {
  require_defined("einsum", operands, loc);
  const auto refuse = [&](const std::string& why) {
    fail("TT-SHAPE-13",
         "einsum: \"" + equation + "\" " + why +
             "\n  rule: one group of letters per operand, as in \"ij,jk->ik\"",
         loc);
  };
  std::string text;
  std::copy_if(equation.begin(), equation.end(), std::back_inserter(text), [](char c) { return c != ' '; });
  const size_t arrow = text.find("->");
  const std::string inputs = text.substr(0, arrow);
  std::vector<Lettered> terms;
  size_t at = 0;
  for (const Tensor& t : operands) {
    const size_t end = std::min(inputs.find(',', at), inputs.size());
    if (at > inputs.size()) refuse("has fewer groups than operands");
    terms.push_back({t, inputs.substr(at, end - at)});
    at = end + 1;
    if (static_cast<int>(terms.back().letters.size()) != t.rank())
      refuse("does not fit the rank of " + t.describe());
  }
  if (operands.empty() || at <= inputs.size()) refuse("has more groups than operands");
  std::string once;
  int64_t sizes[128] = {};
  int uses[128] = {};
  for (const Lettered& term : terms) {
    for (size_t i = 0; i < term.letters.size(); ++i) {
      const char c = term.letters[i];
      if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))) refuse("has a character that is no letter");
      if (term.letters.find(c, i + 1) != std::string::npos) refuse("has a letter twice in one operand");
      const int64_t size = term.tensor.shape()[static_cast<int>(i)];
      if (uses[static_cast<int>(c)]++ > 0 && sizes[static_cast<int>(c)] != size)
        refuse(std::string("gives two sizes to ") + c + ": " + describe_operands(operands));
      sizes[static_cast<int>(c)] = size;
    }
  }
  for (int c = 0; c < 128; ++c) {
    if (uses[c] == 1) once += static_cast<char>(c);
  }
  const std::string result = arrow == std::string::npos ? once : text.substr(arrow + 2);
  for (size_t i = 0; i < result.size(); ++i) {
    const int c = static_cast<unsigned char>(result[i]);
    if (c > 127 || uses[c] == 0) refuse("has a letter in the result that no operand has");
    if (result.find(result[i], i + 1) != std::string::npos) refuse("has a letter twice in the result");
  }
  Lettered product = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    std::string kept = result;
    for (size_t later = i + 1; later < terms.size(); ++later) kept += terms[later].letters;
    product = contract(product, terms[i], kept, loc);
  }
  return product.summed(result, loc).in_order(result, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
