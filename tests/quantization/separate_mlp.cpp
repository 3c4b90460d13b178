#include <tinytorch/quantization/separate_mlp.hpp>

#include <doctest/doctest.h>

#include <tinytorch/autograd/grad_mode.hpp>

using namespace tinytorch;

TEST_CASE("an MLP in two calls computes what the fused one does, and calls its layers") {
  manual_seed(2);
  const NoGrad no_grad;
  for (const Activation fn :
       {Activation::none, Activation::relu, Activation::silu, Activation::gelu, Activation::gelu_tanh}) {
    CAPTURE(static_cast<int>(fn));
    Mlp fused(6, 11, fn);
    const Tensor x = randn({2, 3, 6});
    const std::vector<double> want = fused(x).to_vector<double>();
    int calls = 0;
    for (Linear* const layer : {&fused.up, &fused.down}) layer->on_call([&](const Tensor&) { ++calls; });
    fused.replace(std::make_shared<quantization::SeparateMlp>(fused));
    const std::vector<double> got = fused(x).to_vector<double>();
    CHECK(calls == 2);
    CHECK(got.size() == want.size());
    for (size_t i = 0; i < want.size(); ++i) CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-5));
    std::string paths;
    fused.for_each_module([&](const std::string& path, Module&) { paths += path + ","; });
    CHECK(paths == ",up,down,");
    fused.replace(nullptr);
    (void)fused(x);
    CHECK(calls == 2);  // the fused operation calls no layer
  }
}
