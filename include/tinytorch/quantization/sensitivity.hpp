// Measures by how much the outputs of a model change if its layers are quantized, and the time of a layer.
//
//   relative_error   sum |y - y0|^2 / sum |y0|^2 over all outputs
//   divergence       mean KL(softmax(y0) || softmax(y)) of the rows of the outputs, in nats. For a language
//                    model this is the information that a token loses; a loss hides errors that cancel.
#pragma once

#include <chrono>
#include <tinytorch/quantization/calibration.hpp>

namespace tinytorch::inline TT_BUILD::quantization {

// The outputs of all batches, f32 on the CPU.
inline std::vector<Tensor> outputs_of(Module& model, const Calibration& calibration, Loc loc) {
  std::vector<Tensor> out;
  run_batches(
      model, calibration, [&](const Tensor& y) { out.push_back(calibration_values("outputs", y, loc)); },
      loc);
  return out;
}

inline double relative_error(const std::vector<Tensor>& exact, const std::vector<Tensor>& changed) {
  double signal = 0, error = 0;
  for (size_t b = 0; b < exact.size(); ++b) {
    const float *const y0 = exact[b].data<float>(), *const y = changed[b].data<float>();
    for (int64_t i = 0; i < exact[b].numel(); ++i) {
      const double off = static_cast<double>(y[i]) - static_cast<double>(y0[i]);
      signal = math::multiply_add(static_cast<double>(y0[i]), static_cast<double>(y0[i]), signal);
      error = math::multiply_add(off, off, error);
    }
  }
  return signal > 0 ? error / signal : error;
}

// log of the sum of e^y of a row.
inline double log_sum_exp(const float* y, int64_t n) {
  const double largest = static_cast<double>(*std::max_element(y, y + n));
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(y[i]) - largest);
  return largest + std::log(sum);
}

inline double divergence(const std::vector<Tensor>& exact, const std::vector<Tensor>& changed) {
  double sum = 0;
  int64_t rows = 0;
  for (size_t b = 0; b < exact.size(); ++b) {
    const int64_t V = exact[b].rank() > 0 ? exact[b].size(-1) : 1, count = V > 0 ? exact[b].numel() / V : 0;
    std::vector<double> of_row(static_cast<size_t>(count));
    parallel_for(count, 16, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float *const p = exact[b].data<float>() + r * V, *const q = changed[b].data<float>() + r * V;
        const double from = log_sum_exp(p, V), to = log_sum_exp(q, V);
        double kl = 0;
        for (int64_t i = 0; i < V; ++i) {
          const double log_p = static_cast<double>(p[i]) - from;
          kl = math::multiply_add(std::exp(log_p), log_p - (static_cast<double>(q[i]) - to), kl);
        }
        of_row[static_cast<size_t>(r)] = kl;
      }
    });
    for (const double kl : of_row) sum += kl;
    rows += count;
  }
  return rows > 0 ? std::max(0.0, sum / static_cast<double>(rows)) : 0;
}

// Remembers the last input of a float layer, and times it and its packed form on it, in turn.
class LayerTimer {
 public:
  LayerTimer(Linear& layer, Module& packed) : layer_(layer), packed_(packed) {
    hooks_.add(layer, [this](const Tensor& x) { input_ = x.detach(); });
  }
  // The least seconds of five calls of each.
  void measure(double& seconds_before, double& seconds) {
    const NoGrad no_grad;
    seconds_before = seconds = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 5; ++i) {
      seconds_before = std::min(seconds_before, once([&] { return layer_.forward(input_); }));
      seconds = std::min(seconds, once([&] { return packed_.forward(input_); }));
    }
  }

 private:
  // Reading one result waits for a GPU.
  template <class F>
  static double once(F&& f) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    const Tensor y = f();
    if (!y.device().is_cpu() && y.numel() > 0) (void)y.reshape({-1}).slice(0, 0, 1).to(cpu);
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  Linear& layer_;
  Module& packed_;
  CallHooks hooks_;
  Tensor input_;
};

}  // namespace tinytorch::inline TT_BUILD::quantization
