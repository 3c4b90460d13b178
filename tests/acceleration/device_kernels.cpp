// Generated kernels of a GPU: the state of one, the kernel cache, and the trial. Without a GPU, a kernel is
// never usable and says why.
#include <doctest/doctest.h>

#include <filesystem>
#include <tinytorch/acceleration/device_kernels.hpp>

using namespace tinytorch;
using namespace tinytorch::acceleration;
using Kind = PointwiseStep::Kind;

namespace {

PointwiseProgram with(backend::UnaryFn fn) {
  return {f32, {f32}, {{Kind::unary, static_cast<uint8_t>(fn), f32, {0, -1, -1}, {}}}, {1}};
}
const KernelLayout kFlat{false, {InputLayout::contiguous}};

std::shared_ptr<DeviceKernel> build(DeviceKernels& kernels, const PointwiseProgram& program, int elements,
                                    bool background) {
  return kernels.build(emit_cuda(program, kFlat, elements), background);
}
const LoadedKernel* usable(DeviceKernel& kernel, const PointwiseProgram& program) {
  return kernel.usable([&](const LoadedKernel& k) { return agrees_on_device(program, kFlat, 8, k); });
}

struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / "tinytorch-XXXXXX").string();
  Folder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Folder() { std::filesystem::remove_all(path); }
};

}  // namespace

TEST_CASE("a kernel is made once, and found in the cache by another process's builder") {
  const Folder folder;
  const PointwiseProgram program = with(backend::UnaryFn::exp);
  DeviceKernels kernels(folder.path + "/cache"), others(folder.path + "/cache");
  const auto made = build(kernels, program, 8, false);
  CHECK(build(kernels, program, 8, true) == made);
  CHECK(build(kernels, program, 1, true) != made);
  if (backend::cuda::architecture().empty()) {
    CHECK(usable(*made, program) == nullptr);
    CHECK(made->problem() != "");
    return;
  }
  REQUIRE(nvrtc().problem == "");
  CHECK(usable(*made, program) != nullptr);
  CHECK(made->problem() == "");
  CHECK_FALSE(made->from_cache());
  const auto found = build(others, program, 8, false);
  CHECK(usable(*found, program) != nullptr);
  CHECK(found->from_cache());
}

TEST_CASE("the trial refuses a kernel of another program") {
  if (backend::cuda::architecture().empty()) {
    std::string problem;
    CHECK(backend::cuda::load_kernel({}, "tinytorch_kernel", problem) == nullptr);
    CHECK(problem != "");
    return;
  }
  DeviceKernels kernels("");
  const PointwiseProgram exp = with(backend::UnaryFn::exp), expm1 = with(backend::UnaryFn::expm1);
  const auto made = build(kernels, exp, 8, false);
  CHECK(usable(*made, expm1) == nullptr);
  CHECK(made->problem().find("differ") != std::string::npos);
}
