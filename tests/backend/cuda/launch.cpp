// The CUDA functions exist exactly if the build has CUDA; otherwise their use is an error with a hint.
#include <support/errors.hpp>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("is_built() is true exactly if TINYTORCH_WITH_CUDA is set") {
  CHECK(tt::backend::cuda::is_built() == (TINYTORCH_WITH_CUDA != 0));
}

TEST_CASE("without CUDA every creation of a CUDA tensor fails with an error and a hint") {
  if (tt::backend::cuda::is_built()) return;
  const std::string fix =
      ": this program was built without CUDA\n  hint: configure with -DTINYTORCH_WITH_CUDA=ON and link "
      "tinytorch::cuda, or keep the tensors on the CPU";
  const tt::Tensor x = tt::ones({2});
  const auto check = [&](const char* what, const std::function<void()>& f) {
    errors::check_error(std::string("TT-CUDA-01: ") + what + fix, f, __FILE__);
    CHECK(errors::thrown_by(f).without_cuda);
  };
  check("to(cuda:0)", [&] { x.to(tt::cuda); });
  check("to(cuda:1)", [&] { x.to(tt::Device{tt::DeviceType::cuda, 1}); });
  check("allocating a tensor on cuda:0", [&] { tt::empty({3}, tt::f32, tt::cuda); });
  check("allocating a tensor on cuda:0", [&] { tt::zeros({3}, tt::f32, tt::cuda); });
  check("allocating a tensor on cuda:0", [&] { tt::rand({3}, tt::f32, tt::cuda); });
  check("to(cuda:0)", [&] { tt::arange(0, 3, 1, tt::i64, tt::cuda); });
  check("to(cuda:0)", [&] { tt::from_data({1.0f}, {1}, tt::cuda); });
}
