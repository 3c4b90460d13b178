// The library as a program of device code, on a GPU or on the emulator: its answers are graded as those of a
// match, after the run on other inputs that comes before each measured one.
#include <tinymlperf/device/program.hpp>

#include <doctest/doctest.h>

#include <random>
#include <support/device.hpp>
#include <support/few.hpp>
#include <tinymlperf/device/device_check.hpp>
#include <tinymlperf/device/measured_op.hpp>
#include <tinymlperf/judge/match/grade.hpp>
#include <tinytorch/tinytorch.hpp>

#if TINYTORCH_WITH_CUDA

using namespace tinymlperf;
using namespace tinymlperf::judge::kernels;

namespace {

// The tensor that fill_idle() writes in memory of the device.
channel::Tensor idle(channel::Tensor t, uint8_t packed) {
  if (t.bytes.empty()) return t;
  const test::DeviceBytes memory(t.bytes.size());
  device::fill_idle(memory.data(), t, packed);
  device::cuda::copy_bytes(t.bytes.data(), tinytorch::cpu, memory.data(), tinytorch::cuda, t.bytes.size());
  return t;
}

channel::Tensor answer(device::Program& program, const KernelTask& task, const channel::Tensors& in,
                       const Shape& sides) {
  const std::vector<std::byte> bytes = device::detail::run_once(program, task, in, sides);
  return {task.result, task.output(sides), channel::Bytes(bytes.begin(), bytes.end())};
}

}  // namespace

TEST_CASE("the library's answers on a device are right, on small and odd shapes" * test::needs_devices()) {
  const uint64_t seed = std::random_device{}();
  INFO("seed ", seed);
  tinytorch::Generator random(seed);
  device::LibraryProgram program;
  for (const KernelTask& task : tasks()) {
    if (!program.has(task.name) || test::left_out(4)) continue;
    CAPTURE(task.name);
    for (const Shape& sides : draw_hidden_shapes(task, random)) {
      for (const Distribution d :
           {Distribution::ordinary, task.adversarial[random.below(task.adversarial.size())]}) {
        const channel::Tensors in = draw_inputs(task, sides, d, random.below(1u << 30));
        channel::Tensors others = in;
        for (channel::Tensor& t : others) t = idle(t, task.idle_byte);
        (void)answer(program, task, others, sides);
        const Grade grade = Grader(task, sides, d, in)({answer(program, task, in, sides)});
        CHECK_MESSAGE(grade.right, grade.reason);
      }
    }
  }
}

TEST_CASE("inputs of a run that is not measured are zeros, the same integers, or bytes that have a meaning" *
          test::needs_devices()) {
  const auto first_byte = [](channel::DType dtype, uint8_t packed) {
    const auto n = static_cast<int64_t>(16 / channel::bytes_of_one(dtype));
    const channel::Bytes found = idle({dtype, {n}, channel::Bytes(16, std::byte{3})}, packed).bytes;
    CHECK(std::ranges::count(found, found[0]) == 16);
    return static_cast<int>(found[0]);
  };
  using channel::DType;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i8})
    CHECK(first_byte(dtype, 0x44) == 0);
  for (const DType dtype : {DType::i32, DType::i64}) CHECK(first_byte(dtype, 0x44) == 3);
  CHECK(first_byte(DType::u8, 0x44) == 0x44);
  CHECK(first_byte(DType::u8, 0) == 0);
}

TEST_CASE("the library has every op on a device, but not the product with codes of activations" *
          test::needs_devices()) {
  const device::LibraryProgram program;
  const bool sparse = device::cuda::properties(0).major >= 8;
  for (const KernelTask& task : tasks()) {
    CAPTURE(task.name);
    CHECK(program.has(task.name) == (task.name != "gemv_q4_0" && (task.name != "spmm_24" || sparse)));
  }
  CHECK_FALSE(program.has("sort"));
}

#endif
