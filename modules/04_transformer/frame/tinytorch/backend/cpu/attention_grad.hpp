// Gradients of attention on the CPU, from out and the logarithms of the sums (lse). Probabilities were not
// kept: each is formed anew, p = e^(score - lse).
//
// The frame of a course header: it has the given parts, and includes the functions of task 4.7.
#pragma once

#include <tinytorch/backend/parameters.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// Shapes as in attention(); dq like q, dk and dv like k; all are written.
TT_API void attention_grad(const View& dq, const View& dk, const View& dv, const View& dout, const View& q,
                           const View& k, const View& v, const View& out, const View& lse,
                           const AttentionParameters& parameters);

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#if TT_BODIES(PRODUCTS) || defined(TINYTORCH_TASK)
#include <tinytorch/backend/cpu/attention.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

// The arrays of one call: queries [B, H, T, D], keys and values [B, G, S, D], all contiguous.
template <class T>
struct AttentionArrays {
  const T *dout, *q, *k, *v, *out, *lse;
  T *dq, *dk, *dv;
};

}  // namespace tinytorch::inline TT_BUILD::backend::cpu

#include <tasks/backend/cpu/attention_grad.hpp>

namespace tinytorch::inline TT_BUILD::backend::cpu {

TT_API void attention_grad(const View& dq, const View& dk, const View& dv, const View& dout, const View& q,
                           const View& k, const View& v, const View& out, const View& lse,
                           const AttentionParameters& parameters) {
  dispatch_floating(q.dtype, [&]<class T>(
                                 T*) {  // 16-bit operands are computed, and gradients added up, in f32
    const DenseInput<T> in_dout(dout), in_q(q), in_k(k), in_v(v), in_out(out);
    DenseOutput<T> to_dq(dq), to_dk(dk), to_dv(dv);
    const AttentionArrays<T> arrays{in_dout.data(), in_q.data(),  in_k.data(),  in_v.data(), in_out.data(),
                                    lse.as<T>(),    to_dq.data(), to_dk.data(), to_dv.data()};
    const int64_t G = k.shape[1];
    parallel_for(k.shape[0] * G, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) group_grad(arrays, i / G, i % G, q.shape, k.shape, parameters);
    });
    to_dq.write_back(), to_dk.write_back(), to_dv.write_back();
  });
}

}  // namespace tinytorch::inline TT_BUILD::backend::cpu
#endif
