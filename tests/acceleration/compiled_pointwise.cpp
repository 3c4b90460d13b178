// Compiled pointwise programs against the interpreter and against single operations: the same bits. Without a
// C++ compiler there is nothing to test but that run() says so.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <support/few.hpp>
#include <support/pointwise_programs.hpp>
#include <tinytorch/acceleration/compiled_pointwise.hpp>
#include <tinytorch/backend/cpu/pointwise.hpp>
#include <vector>

namespace {
using namespace tinytorch_tests;
using namespace tinytorch::acceleration;
using Kind = PointwiseStep::Kind;

// A folder that is removed at the end.
struct TemporaryFolder {
  std::string path = (std::filesystem::temp_directory_path() / "tinytorch-test-XXXXXX").string();
  TemporaryFolder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
};

// The number of elements of the compiled results that differ from single operations. The kernel is compiled
// for the inputs drawn; -1: there is no kernel for them.
int64_t differences(CompiledPointwise& compiled, const tt::Shape& shape, tt::Generator& random) {
  const PointwiseProgram& program = compiled.program();
  Arrays arrays;
  std::vector<View> in, out;
  for (const tt::DType d : program.inputs) in.push_back(arrays.input(random, d, shape));
  const std::vector<View> expected = single_operations(program, in, shape, arrays);
  for (const View& v : expected) out.push_back(arrays.contiguous(v.dtype, shape));
  if (!compiled.run(out, in)) {
    for (const auto& kernel : compiled.kernels()) {
      CHECK(kernel->problem == "");
    }
    return -1;
  }
  int64_t different = 0;
  for (size_t k = 0; k < out.size(); ++k) different += different_bits(out[k], expected[k]);
  return different;
}
}  // namespace

TEST_CASE("random programs give the bits of single operations") {
  if (!host_compiler() || !kernel_prelude().problem.empty()) return;
  const TemporaryFolder folder;
  KernelBuilder builder({.cache_folder = folder.path, .must_be_faster = false});
  tt::Generator random(21);
  int ran = 0;
  for (int round = 0; round < 10; ++round) {
    const int steps = round == 9 ? 60 : 1 + static_cast<int>(random.below(12));
    const RandomProgram made(random, round % 4 == 3 ? tt::f64 : tt::f32,
                             1 + static_cast<int>(random.below(4)), steps);
    CompiledPointwise compiled(made.program, {.background = false, .builder = &builder});
    INFO("round ", round, ", ", made.program.steps.size(), " steps");
    const tt::Shape shapes[] = {{1237}, {7, 101}, {3, 4, 5, 37}};
    const int64_t different = differences(compiled, shapes[round % 3], random);
    CHECK(different <= 0);
    ran += different == 0;
  }
  CHECK(ran >= 5);
}

TEST_CASE("every function, every dtype, any size") {
  if (!host_compiler() || !kernel_prelude().problem.empty()) return;
  const TemporaryFolder folder;
  KernelBuilder builder({.cache_folder = folder.path, .must_be_faster = false});
  tt::Generator random(22);
  for (const tt::DType dtype : test::some_of<tt::DType>({tt::f32, tt::f64, tt::bf16, tt::f16}, 1)) {
    for (const bool is_unary : {true, false}) {
      PointwiseProgram program;
      program.compute = dtype == tt::f64 ? tt::f64 : tt::f32;
      program.inputs = {dtype, dtype};
      for (int fn = 0; fn < (is_unary ? kUnaryCount : kBinaryCount); ++fn) {
        const bool compares =
            !is_unary && fn >= static_cast<int>(BinaryFn::eq) && fn <= static_cast<int>(BinaryFn::logical_or);
        program.steps.push_back(
            {is_unary ? Kind::unary : Kind::binary,
             static_cast<uint8_t>(fn),
             compares || (is_unary && fn == static_cast<int>(UnaryFn::logical_not)) ? tt::boolean : dtype,
             {0, is_unary ? -1 : 1, -1},
             {0.25, 1.5}});
        program.outputs.push_back(fn + 2);
      }
      CompiledPointwise compiled(program, {.background = false, .builder = &builder});
      for (const int64_t n : {1, 5, 8, 31, 1009, 40000}) {
        Arrays arrays;
        std::vector<View> in, out;
        for (int k = 0; k < 2; ++k) {
          in.push_back(arrays.contiguous(dtype, {n}));
          std::vector<double> values(static_cast<size_t>(n));
          for (double& x : values)
            x = random.uniform() < 0.1 ? 1e30 * random.uniform(-1, 1) : random.uniform(-4, 4);
          write_flat(in.back(), 0, values.data(), n);
        }
        const std::vector<View> expected = single_operations(program, in, {n}, arrays);
        for (const View& v : expected) out.push_back(arrays.contiguous(v.dtype, {n}));
        INFO(tt::name_of(dtype), n);
        const bool ran = compiled.run(out, in);
        INFO(compiled.kernels().front()->problem);
        CHECK(ran);
        if (!ran) continue;
        for (size_t k = 0; k < out.size(); ++k) {
          INFO("function ", k);
          CHECK(different_bits(out[k], expected[k]) == 0);
        }
      }
    }
  }
}
