// The cell of an LSTM on the CPU: one pass over the gates (the formulas: backend/lstm_cell.hpp).
#pragma once

#include <tinytorch/backend/lstm_cell.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// One step: gates [B, 4 H] in the order i, f, g, o, before their functions, and cell [B, H] -> the results.
// All have one floating dtype. A result may be the memory of an operand of its shape.
TT_API void lstm_cell(const LstmCellResults& out, const View& gates, const View& cell,
                      const LstmRows& rows = {});
// The derivative: activated [B, 4 H] and next [B, H] are results of the step from `cell`. out.cell may be the
// memory of upstream.cell, and out.hidden that of upstream.hidden.
TT_API void lstm_cell_grad(const LstmCellGrads& out, const LstmCellUpstream& upstream, const View& activated,
                           const View& cell, const View& next, const View& inside = {});

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(BACKEND)
#include <algorithm>
#include <tinytorch/backend/cpu/loops/contiguous.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/simd.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

inline constexpr int64_t kLstmGrain = 2048;  // elements of the cell that make another thread worthwhile

// Rows of B samples that one thread takes.
inline int64_t lstm_grain(int64_t features) { return std::max<int64_t>(1, kLstmGrain / features); }

// A row of the step: n elements; activated has 4 n values, or is null.
template <class T>
void lstm_row(T* hidden, T* next, T* activated, const T* gates, const T* cell, int64_t n) {
  TT_SIMD
  for (int64_t j = 0; j < n; ++j) {
    const auto v = LstmElement<T>::of_gates(gates[j], gates[n + j], gates[2 * n + j], gates[3 * n + j]);
    next[j] = v.next_cell(cell[j]);
    hidden[j] = v.hidden(next[j]);
    activated[j] = v.input, activated[n + j] = v.forget;
    activated[2 * n + j] = v.fresh, activated[3 * n + j] = v.output;
  }
}
// Its derivative; null gradients of results are 0.
template <class T>
void lstm_row_grad(T* dgates, T* dcell, const T* dhidden, const T* dnext, const T* activated, const T* cell,
                   const T* next, int64_t n) {
  TT_SIMD
  for (int64_t j = 0; j < n; ++j) {
    const LstmElement<T> v{activated[j], activated[n + j], activated[2 * n + j], activated[3 * n + j]};
    const auto d = LstmElementGrad<T>::of(v, cell[j], next[j], dhidden[j], dnext[j]);
    dgates[j] = d.input, dgates[n + j] = d.forget, dgates[2 * n + j] = d.fresh, dgates[3 * n + j] = d.output;
    dcell[j] = d.cell;
  }
}

TT_API void lstm_cell(const LstmCellResults& out, const View& gates, const View& cell, const LstmRows& rows) {
  const int64_t B = cell.shape[0], n = cell.shape[1];
  if (B == 0 || n == 0) return;
  dispatch_floating(cell.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> g(gates), c(cell), before(rows.hidden);
    const ContiguousInput<uint8_t> inside(
        {rows.inside.data, DType::u8, rows.inside.shape, rows.inside.strides});
    ContiguousOutput<T> hidden(out.hidden), next(out.cell), activated(out.activated), output(out.output);
    parallel_for(B, lstm_grain(n), [&](int64_t begin, int64_t end) {
      Scratch<T> unused(activated.data() ? 0 : 4 * n);
      for (int64_t b = begin; b < end; ++b) {
        T *const h = hidden.data() + b * n, *const to = next.data() + b * n;
        const bool rests = inside.data() && inside.data()[b] == 0;
        if (rests) {
          std::copy_n(before.data() + b * n, n, h), std::copy_n(c.data() + b * n, n, to);
          if (activated.data()) std::fill_n(activated.data() + b * 4 * n, 4 * n, T(0));
        } else {
          lstm_row(h, to, activated.data() ? activated.data() + b * 4 * n : unused.data(),
                   g.data() + b * 4 * n, c.data() + b * n, n);
        }
        if (!output.data()) continue;
        if (rests) std::fill_n(output.data() + b * n, n, T(0));
        if (!rests) std::copy_n(h, n, output.data() + b * n);
      }
    });
    for (ContiguousOutput<T>* result : {&hidden, &next, &activated, &output}) result->write_back();
  });
}

// total = a + b, where null is 0.
template <class T>
void lstm_gradient_sum(T* total, const T* a, const T* b, int64_t n) {
  for (int64_t j = 0; j < n; ++j) total[j] = (a ? a[j] : T(0)) + (b ? b[j] : T(0));
}

TT_API void lstm_cell_grad(const LstmCellGrads& out, const LstmCellUpstream& upstream, const View& activated,
                           const View& cell, const View& next, const View& inside) {
  const int64_t B = cell.shape[0], n = cell.shape[1];
  if (B == 0 || n == 0) return;
  dispatch_floating(cell.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> a(activated), c(cell), to(next), dh(upstream.hidden), dc(upstream.cell),
        dy(upstream.output);
    const ContiguousInput<uint8_t> in({inside.data, DType::u8, inside.shape, inside.strides});
    ContiguousOutput<T> dgates(out.gates), dcell(out.cell), dhidden(out.hidden);
    parallel_for(B, lstm_grain(n), [&](int64_t begin, int64_t end) {
      Scratch<T> sums(2 * n);
      T *const of_hidden = sums.data(), *const of_cell = of_hidden + n;
      for (int64_t b = begin; b < end; ++b) {
        const auto row = [&](const ContiguousInput<T>& v) { return v.data() ? v.data() + b * n : nullptr; };
        const bool rests = in.data() && in.data()[b] == 0;
        lstm_gradient_sum<T>(of_hidden, row(dh), rests ? nullptr : row(dy), n);
        lstm_gradient_sum<T>(of_cell, row(dc), nullptr, n);
        T *const g = dgates.data() + b * 4 * n, *const d = dcell.data() + b * n;
        if (rests) std::fill_n(g, 4 * n, T(0)), std::copy_n(of_cell, n, d);
        if (!rests)
          lstm_row_grad(g, d, of_hidden, of_cell, a.data() + b * 4 * n, c.data() + b * n, to.data() + b * n,
                        n);
        if (!dhidden.data()) continue;
        if (rests) std::copy_n(of_hidden, n, dhidden.data() + b * n);
        if (!rests) std::fill_n(dhidden.data() + b * n, n, T(0));
      }
    });
    for (ContiguousOutput<T>* result : {&dgates, &dcell, &dhidden}) result->write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
