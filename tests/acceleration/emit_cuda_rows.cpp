// The text of row kernels for a GPU. That they compute the right numbers is tested in device_rows.cpp.
#include <doctest/doctest.h>

#include <support/row_functions.hpp>
#include <tinytorch/acceleration/emit_cuda_rows.hpp>
#include <tinytorch/acceleration/nvrtc.hpp>
#include <tinytorch/acceleration/row_groups.hpp>

using namespace tinytorch;
using namespace tinytorch::acceleration;
using tinytorch_tests::rows_of_function;

namespace {

Tensors plain_softmax(const Tensors& x) {
  const Tensor e = exp(x[0] - max(x[0], {-1}, true));
  return {e / sum(e, {-1}, true)};
}
size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("a softmax is three passes: two reductions, and the results") {
  const RowProgram program = rows_of_function(plain_softmax, {randn({6, 40})});
  const RowScalars scalars(program);
  CHECK(scalars.levels == 2);
  CHECK(scalars.compute == f32);
  const std::string text = emit_cuda_rows(program, {.elements = 4, .lanes = 32, .parts = 1});
  CHECK(count(text, "over_lanes<Fold::max>(") == 1);
  CHECK(count(text, "over_lanes<Fold::sum>(") == 1);
  CHECK(count(text, "store_elements(static_cast") == 1);
  CHECK(count(text, "load_elements(c0") == 1);  // the input is read once
}

TEST_CASE("reductions that do not depend on each other share a pass") {
  const RowProgram program = rows_of_function(
      [](const Tensors& x) {
        return Tensors{x[0] * sum(x[0], {-1}, true) + max(x[0], {-1}, true) - mean(x[0] * x[0], {-1}, true)};
      },
      {randn({6, 40})});
  CHECK(RowScalars(program).levels == 1);
}

TEST_CASE("sizes are arguments, not text") {
  const RowCut cut{.elements = 4, .lanes = 128, .parts = 2};
  CHECK(emit_cuda_rows(rows_of_function(plain_softmax, {randn({6, 40})}), cut) ==
        emit_cuda_rows(rows_of_function(plain_softmax, {randn({9, 1000})}), cut));
}

TEST_CASE("how rows are cut") {
  const auto cut = [](const Shape& shape, DType dtype, uintptr_t address = 256) {
    const RowProgram program = rows_of_function(plain_softmax, {randn(shape).to(dtype)});
    void* const out[] = {reinterpret_cast<void*>(uintptr_t{512})};
    const void* const in[] = {reinterpret_cast<const void*>(address)};
    return row_cut(program, out, in);
  };
  CHECK(cut({100, 128}, f32) == RowCut{.elements = 4, .lanes = 32, .parts = 1});
  CHECK(cut({100, 128}, bf16) == RowCut{.elements = 8, .lanes = 16, .parts = 1});
  CHECK(cut({100, 5}, f32) == RowCut{.elements = 4, .lanes = 4, .parts = 1, .shifted = true});
  CHECK(cut({100, 512}, f32) == RowCut{.elements = 4, .lanes = 32, .parts = 4});
  CHECK(cut({100, 768}, f32) == RowCut{.elements = 4, .lanes = 128, .parts = 2});
  CHECK(cut({100, 1024}, bf16) == RowCut{.elements = 8, .lanes = 32, .parts = 4});
  CHECK(cut({100, 8192}, f32) == RowCut{.elements = 4, .lanes = 512, .parts = 4});
  CHECK(cut({100, 1023}, f32)->shifted);             // vectors would cross rows
  CHECK(cut({100, 1024}, f32, 260)->elements == 1);  // an address between vectors
  CHECK_FALSE(cut({100, 1024}, f32, 260)->shifted);
  CHECK(cut({100, 50257}, f32)->parts == 0);  // too long for registers
  CHECK(cut({100, 50257}, bf16)->parts == 7);
  CHECK_FALSE(cut({2, 100000}, f32));  // few and long rows
}

TEST_CASE("NVRTC compiles random functions of rows") {
  REQUIRE(device_prelude().problem == "");
  if (!nvrtc().problem.empty()) {
    MESSAGE("not run: ", nvrtc().problem);
    return;
  }
  uint64_t seed = 100;
  for (const DType dtype : {f32, f64, bf16, f16}) {
    for (const RowCut cut : {RowCut{4, 32, 2}, RowCut{8, 256, 1}, RowCut{1, 1024, 0}, RowCut{2, 512, 3, true},
                             RowCut{2, 16, 1}, RowCut{4, 1024, 0, true}}) {
      const RowProgram program = rows_of_function(tinytorch_tests::RowFunction{++seed},
                                                  tinytorch_tests::row_arguments({6, 40}, dtype, cpu));
      std::string problem;
      CHECK(!compile_cuda(device_prelude().text + emit_cuda_rows(program, cut), "sm_90", problem).empty());
      CHECK(problem == "");
    }
  }
}
