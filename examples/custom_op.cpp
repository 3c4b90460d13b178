// A user-defined operation: y = x / (1 + |x|), the softsign, as one primitive with its derivative. The
// library composes tt::softsign of three operations; one primitive reads x once.
//
// A primitive states in one place its shape rule, its work, its kernel and its vector-Jacobian product. It
// then behaves like any other op: operands are checked, autograd records it, and profilers count it.
//
//   dy/dx = 1 / (1 + |x|)^2 = (1 - |y|)^2       so it is enough to save y
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <tinytorch/autograd/gradcheck.hpp>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/tensor/apply.hpp>
#include <tinytorch/tensor/rules.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

struct Softsign : tt::Primitive<Softsign> {
  static constexpr const char* kName = "softsign";

  tt::Specs infer(const tt::Tensors& in, tt::Loc loc) const override {
    tt::require_floating(kName, in[0], loc);
    return {{in[0].shape(), in[0].dtype()}};
  }
  // FLOPs per element: |x|, an addition and a division.
  double flops(const tt::Tensors& in, const tt::Tensors&) const override {
    return 3 * static_cast<double>(in[0].numel());
  }
  // The output is already allocated and contiguous. The input may have any strides.
  void run(const tt::Tensors& in, tt::Tensors& out) const override {
    const tt::Tensor x = in[0].contiguous();
    tt::dispatch(x.dtype(), [&]<class T>(T*) {
      if constexpr (std::is_floating_point_v<T>) {
        const T* from = x.data<T>();
        T* to = out[0].data<T>();
        tt::parallel_for(x.numel(), 32768, [=](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) to[i] = from[i] / (1 + std::abs(from[i]));
        });
      } else {
        tt::fail("TT-DTYPE-02", "softsign: implemented for f32 and f64\n  hint: convert with .to(tt::f32)");
      }
    });
  }

  tt::Save saves() const override { return tt::Save::outputs; }
  // It is written with tensor ops, which is slower than a kernel but works on every device.
  tt::Tensors vjp(const tt::Saved& saved, const tt::Tensors& grads) const override {
    return {grads[0] * tt::square(1 - tt::abs(saved.outputs[0]))};
  }
};

tt::Tensor one_pass_softsign(const tt::Tensor& x, TT_LOC) { return tt::apply(Softsign{}, {x}, loc); }

int main(int argc, char** argv) {
  CLI::App app("Define an operation with its derivative, and check it");
  CLI11_PARSE(app, argc, argv);

  const tt::Tensor x = tt::from_data({-3.f, -1.f, 0.f, 0.5f, 9.f});
  std::printf("x        softsign(x)\n");
  const std::vector<float> in = x.to_vector(), y = one_pass_softsign(x).to_vector();
  for (size_t i = 0; i < y.size(); ++i) std::printf("%-8g %g\n", in[i], y[i]);

  // Compares the derivative with finite differences in f64 on a transposed view, because an op must not
  // assume contiguous operands.
  tt::Generator generator(1);
  tt::Tensor leaf = tt::randn({3, 4}, tt::f64, tt::cpu, generator);
  leaf.requires_grad_();
  const tt::GradcheckResult check = tt::gradcheck(
      [](const tt::Tensors& in) { return one_pass_softsign(tt::square(in[0]).t() - 0.5); }, {leaf});
  std::printf("gradcheck: %s\n", check ? "passed" : check.message.c_str());

  // The op's own rule rejects a wrong dtype, and the message names this line.
  try {
    one_pass_softsign(tt::arange(0, 3));
  } catch (const tt::Error& e) {
    std::printf("expected error: %s\n", e.what());
  }
  const bool values_right = std::abs(y[0] + 0.75f) < 1e-6f && std::abs(y[4] - 0.9f) < 1e-6f;
  return check && values_right ? 0 : 1;
}
