// Einstein's sum of products: the equation's letters name dimensions, and each pair of operands is one
// matmul.
//
// The dimensions of "..." get the characters 1 to 8, aligned at the right, so that they are letters like all
// others. A letter twice in an operand is replaced by a view of the diagonal.
#pragma once

#include <tinytorch/tensor/operators.hpp>

#if TT_BODIES(TENSOR)
#include <algorithm>
#include <iterator>
#include <string>
#include <tinytorch/tensor/ops/matmul.hpp>
#include <tinytorch/tensor/ops/reduce.hpp>
#include <tinytorch/tensor/ops/shape.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <vector>

namespace tinytorch::inline TT_BUILD {

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
  // The diagonal of the first two dimensions with letter c, as the last dimension.
  Lettered diagonal(char c, Loc loc) const {
    const int64_t n = size(c);
    const size_t first = letters.find(c), second = letters.find(c, first + 1);
    Dims order;
    std::string rest;
    Shape shape;
    for (int d = 0; d < tensor.rank(); ++d) {
      if (static_cast<size_t>(d) == first || static_cast<size_t>(d) == second) continue;
      order.push_back(d);
      shape.push_back(tensor.shape()[d]);
      rest += letters[static_cast<size_t>(d)];
    }
    order.push_back(static_cast<int64_t>(first));
    order.push_back(static_cast<int64_t>(second));
    shape.push_back(n * n);
    const int last = shape.size() - 1;
    return {slice(reshape(permute(tensor, order, loc), shape, loc), last, 0, kEnd, n + 1, loc), rest + c};
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

// The operands and the result of an equation, with letters for the dimensions of "...".
class Equation {
 public:
  std::vector<Lettered> terms;
  std::string result;

  Equation(const std::string& equation, const Tensors& operands, Loc loc)
      : equation_(equation), operands_(operands), loc_(loc) {
    std::string text;
    std::copy_if(equation.begin(), equation.end(), std::back_inserter(text), [](char c) { return c != ' '; });
    const size_t arrow = text.find("->");
    const std::string inputs = text.substr(0, arrow);
    size_t at = 0;
    for (const Tensor& t : operands) {
      if (at > inputs.size()) refuse("has fewer groups than operands");
      const size_t end = std::min(inputs.find(',', at), inputs.size());
      add_term(t, inputs.substr(at, end - at));
      at = end + 1;
    }
    if (operands.empty() || at <= inputs.size()) refuse("has more groups than operands");
    for (Lettered& term : terms) {
      broadcast(term);
      take_diagonals(term);
    }
    set_result(arrow == std::string::npos ? nullptr : text.c_str() + arrow + 2);
  }

 private:
  static constexpr const char* kDots = "...";
  const std::string& equation_;
  const Tensors& operands_;
  Loc loc_;
  int64_t sizes_[128] = {};
  int uses_[128] = {};

  [[noreturn]] void refuse(const std::string& why) const {
    fail("TT-SHAPE-13",
         "einsum: \"" + equation_ + "\" " + why +
             "\n  rule: one group of letters per operand, as in \"ij,jk->ik\"; \"...\" once in a group",
         loc_);
  }
  static bool is_dots(char c) { return c <= kMaxRank; }

  void add_term(const Tensor& t, std::string letters) {
    if (const size_t dots = letters.find(kDots); dots != std::string::npos) {
      std::string all;
      const int named = static_cast<int>(letters.size()) - 3;
      for (int i = t.rank() - named; i > 0; --i) all += static_cast<char>(kMaxRank + 1 - i);
      letters.replace(dots, 3, all);
    }
    if (static_cast<int>(letters.size()) != t.rank()) refuse("does not fit the rank of " + t.describe());
    for (size_t i = 0; i < letters.size(); ++i) {
      const char c = letters[i];
      if (!(is_dots(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')))
        refuse("has a character that is no letter");
      const auto at = static_cast<size_t>(c);
      const int64_t size = t.shape()[static_cast<int>(i)];
      if (uses_[at]++ == 0 || (is_dots(c) && sizes_[at] == 1)) {
        sizes_[at] = size;
      } else if (sizes_[at] != size && !(is_dots(c) && size == 1)) {
        refuse("gives two sizes to " + (is_dots(c) ? kDots : std::string(1, c)) + ": " +
               describe_operands(operands_));
      }
    }
    terms.push_back({t, letters});
  }
  // A dimension of "..." of size 1 beside a larger one is the same for all positions, so it is left out.
  void broadcast(Lettered& term) const {
    for (size_t i = term.letters.size(); i-- > 0;) {
      const int d = static_cast<int>(i);
      if (!is_dots(term.letters[i]) || term.tensor.shape()[d] == sizes_[static_cast<size_t>(term.letters[i])])
        continue;
      term = {squeeze(term.tensor, d, loc_), term.letters.substr(0, i) + term.letters.substr(i + 1)};
    }
  }
  void take_diagonals(Lettered& term) const {
    for (size_t i = 0; i < term.letters.size();) {
      const char c = term.letters[i];
      const bool twice = term.letters.find(c, i + 1) != std::string::npos;
      if (twice) term = term.diagonal(c, loc_);
      i = twice ? 0 : i + 1;
    }
  }
  // Sets the letters of the result: `given`, or, without an arrow, the dimensions of "..." and then the
  // letters that occur once.
  void set_result(const char* given) {
    std::string dots, once;
    for (int c = 0; c < 128; ++c) {
      if (uses_[c] > 0 && c <= kMaxRank) dots += static_cast<char>(c);
      if (uses_[c] == 1 && c > kMaxRank) once += static_cast<char>(c);
    }
    result = given ? given : dots + once;
    if (const size_t at = result.find(kDots); given && at != std::string::npos) result.replace(at, 3, dots);
    for (size_t i = 0; i < result.size(); ++i) {
      const int c = static_cast<unsigned char>(result[i]);
      if (c > 127 || uses_[c] == 0) refuse("has a letter in the result that no operand has");
      if (result.find(result[i], i + 1) != std::string::npos) refuse("has a letter twice in the result");
    }
  }
};

TT_API Tensor einsum(const std::string& equation, const Tensors& operands, Loc loc) {
  require_defined("einsum", operands, loc);
  const Equation e(equation, operands, loc);
  Lettered product = e.terms[0];
  for (size_t i = 1; i < e.terms.size(); ++i) {
    std::string kept = e.result;
    for (size_t later = i + 1; later < e.terms.size(); ++later) kept += e.terms[later].letters;
    product = contract(product, e.terms[i], kept, loc);
  }
  return product.summed(e.result, loc).in_order(e.result, loc);
}

}  // namespace tinytorch::inline TT_BUILD
#endif
