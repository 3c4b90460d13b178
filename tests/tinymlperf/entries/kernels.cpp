// Answers of a plugin of kernels: to an op that it has, to one that it lacks, and to a query without an op.
#include <doctest/doctest.h>

#include <tinymlperf/entries/kernels.hpp>

using namespace tinymlperf;

namespace {

const std::vector<Kernel>& twice_and_half() {
  static const std::vector<Kernel> kernels{
      kernel("twice",
             [](Inputs in, std::span<float> out) {
               for (size_t i = 0; i < out.size(); ++i) out[i] = 2 * in[0].values<float>()[i];
             }),
      kernel("rounded",
             [](Inputs in, Tensor& out) {
               for (size_t i = 0; i < in[0].values<float>().size(); ++i)
                 out.mutable_values<int32_t>()[i] = static_cast<int32_t>(in[0].values<float>()[i]);
             }),
      kernel("half done", [](Inputs, std::span<float> out) { out[0] = 1; })};
  return kernels;
}

Tensors ask(std::string_view name, std::vector<int64_t> shape, std::vector<float> values,
            DType dtype = DType::f32) {
  const auto type = static_cast<uint8_t>(dtype);
  const auto sides = static_cast<int64_t>(shape.size()), n = static_cast<int64_t>(values.size());
  return answer_kernel_query(
      twice_and_half(),
      {make_tensor<char>(DType::u8, {static_cast<int64_t>(name.size())}, name),
       make_tensor<int64_t>(DType::i64, {sides}, shape),
       make_tensor<uint8_t>(DType::u8, {1}, std::span(&type, 1)), make_tensor({n}, values)});
}

}  // namespace

TEST_CASE("the kernel of the query's name fills an output of the query's shape") {
  const Tensors answer = ask("twice", {1, 3}, {1, 2, 3});
  REQUIRE(answer.size() == 1);
  CHECK(answer[0].dtype == DType::f32);
  CHECK(answer[0].shape == std::vector<int64_t>{1, 3});
  CHECK(std::ranges::equal(answer[0].values<float>(), std::vector<float>{2, 4, 6}));
}

TEST_CASE("an output has the type that the query asks for, and bytes 0xa5 where nothing was written") {
  const Tensors answer = ask("rounded", {3}, {7, -2}, DType::i32);
  REQUIRE(answer.at(0).dtype == DType::i32);
  CHECK(std::ranges::equal(answer[0].values<int32_t>(),
                           std::vector<int32_t>{7, -2, static_cast<int32_t>(0xa5a5a5a5)}));
  CHECK_THROWS((void)ask("rounded", {3}, {7, -2}, static_cast<DType>(8)));
}

TEST_CASE("elements that a kernel does not write are NaN") {
  const Tensors answer = ask("half done", {2}, {5, 5});
  CHECK(answer.at(0).values<float>()[0] == 1);
  CHECK(std::isnan(answer.at(0).values<float>()[1]));
}

TEST_CASE(
    "an unknown name is answered with no tensor, an empty name with an output, and an empty query is an "
    "error") {
  CHECK(ask("thrice", {1}, {1}).empty());
  const Tensors nothing = ask("", {2, 2}, {1});
  REQUIRE(nothing.size() == 1);
  CHECK(nothing[0].shape == std::vector<int64_t>{2, 2});
  CHECK(nothing[0].values<float>().size() == 4);
  CHECK_THROWS((void)answer_kernel_query(twice_and_half(), {}));
}
