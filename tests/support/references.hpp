// Reference implementations of operations on images, as plain loops over doubles, for the kernels of every
// backend.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

namespace test {

// --- convolution ---

struct ConvCase {
  int64_t N, C, H, W, M, KH, KW, stride, padding, dilation, groups;
};

// Convolution by its definition, seven loops, adding to the selected one of the three operands.
enum class ConvOperand { out, dx, dw };
inline std::vector<double> conv_reference(const ConvCase& c, ConvOperand wanted, const std::vector<double>& x,
                                          const std::vector<double>& w, const std::vector<double>& y,
                                          int64_t OH, int64_t OW) {
  const int64_t group_c = c.C / c.groups, group_m = c.M / c.groups;
  std::vector<double> result((wanted == ConvOperand::out  ? y
                              : wanted == ConvOperand::dx ? x
                                                          : w)
                                 .size(),
                             0.0);
  for (int64_t n = 0; n < c.N; ++n)
    for (int64_t m = 0; m < c.M; ++m)
      for (int64_t oh = 0; oh < OH; ++oh)
        for (int64_t ow = 0; ow < OW; ++ow)
          for (int64_t k = 0; k < group_c; ++k)
            for (int64_t kh = 0; kh < c.KH; ++kh)
              for (int64_t kw = 0; kw < c.KW; ++kw) {
                const int64_t ih = oh * c.stride - c.padding + kh * c.dilation;
                const int64_t iw = ow * c.stride - c.padding + kw * c.dilation;
                if (ih < 0 || ih >= c.H || iw < 0 || iw >= c.W) continue;
                const auto xi =
                    static_cast<size_t>(((n * c.C + m / group_m * group_c + k) * c.H + ih) * c.W + iw);
                const auto wi = static_cast<size_t>(((m * group_c + k) * c.KH + kh) * c.KW + kw);
                const auto yi = static_cast<size_t>(((n * c.M + m) * OH + oh) * OW + ow);
                if (wanted == ConvOperand::out) result[yi] += x[xi] * w[wi];
                if (wanted == ConvOperand::dx) result[xi] += y[yi] * w[wi];
                if (wanted == ConvOperand::dw) result[wi] += y[yi] * x[xi];
              }
  return result;
}

// --- pooling ---

struct PoolCase {
  int64_t N, C, H, W, kernel, stride, padding;
};

// Calls f(output, input) for every element of every window; input is -1 for padding.
inline void visit_windows(const PoolCase& c, int64_t OH, int64_t OW,
                          const std::function<void(size_t, int64_t)>& f) {
  for (int64_t p = 0; p < c.N * c.C; ++p)
    for (int64_t oh = 0; oh < OH; ++oh)
      for (int64_t ow = 0; ow < OW; ++ow)
        for (int64_t kh = 0; kh < c.kernel; ++kh)
          for (int64_t kw = 0; kw < c.kernel; ++kw) {
            const int64_t ih = oh * c.stride - c.padding + kh, iw = ow * c.stride - c.padding + kw;
            const bool inside = ih >= 0 && ih < c.H && iw >= 0 && iw < c.W;
            f(static_cast<size_t>((p * OH + oh) * OW + ow), inside ? (p * c.H + ih) * c.W + iw : -1);
          }
}

struct PoolExpected {
  std::vector<double> y, dx;
};

// adaptive_avg_pool2d of planes [H, W] to [OH, OW], and its gradient.
inline PoolExpected expected_adaptive_avg_pool(int64_t H, int64_t W, int64_t OH, int64_t OW,
                                               const std::vector<double>& in,
                                               const std::vector<double>& grad) {
  PoolExpected out{std::vector<double>(grad.size(), 0.0), std::vector<double>(in.size(), 0.0)};
  for (size_t o = 0; o < grad.size(); ++o) {
    const auto p = static_cast<int64_t>(o) / (OH * OW), i = static_cast<int64_t>(o) / OW % OH,
               j = static_cast<int64_t>(o) % OW;
    std::vector<size_t> members;
    for (int64_t h = 0; h < H; ++h)
      for (int64_t w = 0; w < W; ++w) {
        // Row h belongs to output i if [h, h + 1) overlaps [i H / OH, (i + 1) H / OH).
        const bool row = h * OH < (i + 1) * H && (h + 1) * OH > i * H;
        const bool col = w * OW < (j + 1) * W && (w + 1) * OW > j * W;
        if (row && col) members.push_back(static_cast<size_t>((p * H + h) * W + w));
      }
    for (size_t m : members) {
      out.y[o] += in[m] / static_cast<double>(members.size());
      out.dx[m] += grad[o] / static_cast<double>(members.size());
    }
  }
  return out;
}

inline const PoolCase kPoolCases[] = {
    {1, 1, 1, 1, 1, 1, 0}, {2, 3, 8, 8, 2, 2, 0},   {2, 3, 9, 7, 3, 2, 1},   {1, 2, 37, 35, 2, 2, 0},
    {3, 1, 5, 6, 3, 1, 1}, {2, 2, 11, 13, 5, 3, 2}, {1, 5, 17, 70, 3, 1, 0}, {2, 2, 10, 10, 2, 4, 0}};

// --- normalization ---

inline constexpr double kNormEps = 1e-3;

struct NormExpected {
  std::vector<double> y, dx, dw, db;
};

// Normalizes groups of elements: group_of(i) is the group of element i, channel_of(i) the index of its
// parameters.
template <class Group, class Channel>
NormExpected norm_reference(const std::vector<double>& x, const std::vector<double>& w,
                            const std::vector<double>& b, const std::vector<double>& dy, size_t groups,
                            Group&& group_of, Channel&& channel_of) {
  std::vector<double> count(groups), mean(groups), var(groups), mean_g(groups), mean_gh(groups);
  NormExpected e{std::vector<double>(x.size()), std::vector<double>(x.size()), std::vector<double>(w.size()),
                 std::vector<double>(w.size())};
  for (size_t i = 0; i < x.size(); ++i) count[group_of(i)] += 1, mean[group_of(i)] += x[i];
  for (size_t g = 0; g < groups; ++g) mean[g] /= count[g];
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t g = group_of(i);
    var[g] += (x[i] - mean[g]) * (x[i] - mean[g]) / count[g];
  }
  const auto normalized = [&](size_t i) {
    return (x[i] - mean[group_of(i)]) / std::sqrt(var[group_of(i)] + kNormEps);
  };
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t g = group_of(i), c = channel_of(i);
    const double h = normalized(i);
    e.y[i] = h * w[c] + b[c];
    e.dw[c] += dy[i] * h;
    e.db[c] += dy[i];
    mean_g[g] += dy[i] * w[c] / count[g];
    mean_gh[g] += dy[i] * w[c] * h / count[g];
  }
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t g = group_of(i);
    e.dx[i] =
        (dy[i] * w[channel_of(i)] - mean_g[g] - normalized(i) * mean_gh[g]) / std::sqrt(var[g] + kNormEps);
  }
  return e;
}

}  // namespace test
