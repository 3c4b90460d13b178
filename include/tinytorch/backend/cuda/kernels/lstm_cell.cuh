// The cell of an LSTM, forward and backward (contract: backend/cpu/lstm_cell.hpp). A thread computes one
// element of the cell. Limit: memory bandwidth, and for small batches the time of a launch.
#pragma once

#include <tinytorch/backend/cuda/device/contiguous.cuh>
#include <tinytorch/backend/cuda/device/elements.cuh>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/backend/lstm_cell.hpp>

namespace tinytorch::inline TT_BUILD::backend::cuda {

inline constexpr int kLstmThreads = 256;

// Arrays of one step; null if absent. Results may be the memory of operands, so none is __restrict__.
template <class T>
struct LstmArrays {
  T *hidden, *next, *activated, *output;
  const T *gates, *cell, *before;
  const bool* inside;
};
template <class T>
struct LstmGradArrays {
  T *dgates, *dcell, *dhidden;
  const T *of_hidden, *of_cell, *of_output, *activated, *cell, *next;
  const bool* inside;
};

// The element of a thread: i of [B, H], its sample b, and the place of its first gate in [B, 4 H].
struct LstmPlace {
  int64_t i, b, first;
  explicit __device__ __forceinline__ LstmPlace(int64_t features)
      : i(static_cast<int64_t>(blockIdx.x) * kLstmThreads + threadIdx.x),
        b(i / features),
        first(i + 3 * b * features) {}
};

template <class T>
static __global__ void __launch_bounds__(kLstmThreads)
    lstm_cell_kernel(LstmArrays<T> a, int64_t features, int64_t count) {
  using A = Compute<T>;
  const LstmPlace place(features);
  const int64_t i = place.i, b = place.b, first = place.first;
  if (i >= count) return;
  if (a.inside && !a.inside[b]) {
    const T kept = a.before[i];
    a.next[i] = a.cell[i];
    a.hidden[i] = kept;
    if (a.output) a.output[i] = to<T>(A(0));
    for (int k = 0; a.activated && k < 4; ++k) a.activated[first + k * features] = to<T>(A(0));
    return;
  }
  const auto gate = [&](int k) { return to<A>(a.gates[first + k * features]); };
  const auto v = LstmElement<A>::of_gates(gate(0), gate(1), gate(2), gate(3));
  const A next = v.next_cell(to<A>(a.cell[i]));
  const T hidden = to<T>(v.hidden(next));
  a.next[i] = to<T>(next);
  a.hidden[i] = hidden;
  if (a.output) a.output[i] = hidden;
  if (!a.activated) return;
  a.activated[first] = to<T>(v.input);
  a.activated[first + features] = to<T>(v.forget);
  a.activated[first + 2 * features] = to<T>(v.fresh);
  a.activated[first + 3 * features] = to<T>(v.output);
}

template <class T>
static __global__ void __launch_bounds__(kLstmThreads)
    lstm_cell_grad_kernel(LstmGradArrays<T> a, int64_t features, int64_t count) {
  using A = Compute<T>;
  const LstmPlace place(features);
  const int64_t i = place.i, b = place.b, first = place.first;
  if (i >= count) return;
  const bool rests = a.inside && !a.inside[b];
  const auto at = [&](const T* v) { return v ? to<A>(v[i]) : A(0); };
  const A dhidden = at(a.of_hidden) + (rests ? A(0) : at(a.of_output)), dnext = at(a.of_cell);
  LstmElementGrad<A> d{A(0), A(0), A(0), A(0), dnext};
  if (!rests) {
    const auto gate = [&](int k) { return to<A>(a.activated[first + k * features]); };
    const LstmElement<A> v{gate(0), gate(1), gate(2), gate(3)};
    d = LstmElementGrad<A>::of(v, to<A>(a.cell[i]), to<A>(a.next[i]), dhidden, dnext);
  }
  a.dgates[first] = to<T>(d.input);
  a.dgates[first + features] = to<T>(d.forget);
  a.dgates[first + 2 * features] = to<T>(d.fresh);
  a.dgates[first + 3 * features] = to<T>(d.output);
  a.dcell[i] = to<T>(d.cell);
  if (a.dhidden) a.dhidden[i] = to<T>(rests ? dhidden : A(0));
}

void lstm_cell(const LstmCellResults& out, const View& gates, const View& cell, const LstmRows& rows) {
  const int64_t count = cell.numel();
  if (count == 0) return;
  const Contiguous inside(rows.inside);
  dispatch_stored(cell.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> g(gates), c(cell), before(rows.hidden);
    ContiguousOutput<T> hidden(out.hidden), next(out.cell), activated(out.activated), output(out.output);
    const LstmArrays<T> arrays{hidden.data(), next.data(), activated.data(), output.data(),
                               g.data(),      c.data(),    before.data(),    inside.as<const bool>()};
    launch(lstm_cell_kernel<T>, over(count, kLstmThreads), arrays, cell.shape[1], count);
    for (ContiguousOutput<T>* result : {&hidden, &next, &activated, &output}) result->write_back();
  });
}

void lstm_cell_grad(const LstmCellGrads& out, const LstmCellUpstream& upstream, const View& activated,
                    const View& cell, const View& next, const View& inside) {
  const int64_t count = cell.numel();
  if (count == 0) return;
  const Contiguous in(inside);
  dispatch_stored(cell.dtype, [&]<class T>(T*) {
    const ContiguousInput<T> a(activated), c(cell), n(next), dh(upstream.hidden), dc(upstream.cell),
        dy(upstream.output);
    ContiguousOutput<T> dgates(out.gates), dcell(out.cell), dhidden(out.hidden);
    const LstmGradArrays<T> arrays{dgates.data(), dcell.data(),       dhidden.data(), dh.data(),
                                   dc.data(),     dy.data(),          a.data(),       c.data(),
                                   n.data(),      in.as<const bool>()};
    launch(lstm_cell_grad_kernel<T>, over(count, kLstmThreads), arrays, cell.shape[1], count);
    for (ContiguousOutput<T>* result : {&dgates, &dcell, &dhidden}) result->write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cuda
