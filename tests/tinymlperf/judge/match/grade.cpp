// Right and wrong answers of each op: an honest result passes, also one with another order of addition; bf16,
// zeros, the input itself and the last answer do not.
#include <doctest/doctest.h>

#include <bit>
#include <tinymlperf/judge/match/grade.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge::kernels;

namespace {

// The public shapes, made small: every side at most so large.
Shape small(const Shape& sides, const KernelTask& task) {
  Shape out = sides;
  for (size_t d = 0; d < out.size(); ++d)
    out[d] = std::clamp<int64_t>(out[d] / 8, std::max<int64_t>(6, task.least[d]), 48);
  return out;
}

struct Question {
  Question(const KernelTask& task, const Shape& sides, Distribution d, uint64_t seed)
      : inputs(draw_inputs(task, sides, d, seed)), grader(task, sides, d, inputs) {}
  Grade grade(std::span<const float> values) const {
    return grader(channel::Tensors{channel::make_tensor(grader.honest().shape, values)});
  }
  Grade grade(const channel::Tensor& answer) const { return grader(channel::Tensors{answer}); }
  std::vector<float> honest() const {
    const auto values = grader.honest().values<float>();
    return {values.begin(), values.end()};
  }
  channel::Tensors inputs;
  Grader grader;
};

float to_bf16(float x) {
  if (!std::isfinite(x)) return x;
  const auto bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000u);
}

// Inputs of f32 and f16, rounded to the 8 bits of bf16.
channel::Tensors with_bf16(channel::Tensors in) {
  for (channel::Tensor& t : in) {
    if (t.dtype == channel::DType::f32)
      for (float& x : t.mutable_values<float>()) x = to_bf16(x);
    if (t.dtype == channel::DType::f16)
      for (tinytorch::Half& x : t.mutable_values<tinytorch::Half>())
        x = tinytorch::Half(to_bf16(static_cast<float>(x)));
  }
  return in;
}

// x times decoded rows of Q4_0, each number of which is rounded.
std::vector<float> w4a16_product(const channel::Tensors& in, float (*round)(float)) {
  const auto k = static_cast<size_t>(in[0].shape[1]), n = static_cast<size_t>(in[1].shape[0]);
  const auto x = in[0].values<tinytorch::Half>();
  const auto blocks = in[1].values<uint8_t>();
  std::vector<float> w, out;
  for (size_t i = 0; i < n * k; ++i) {
    const uint8_t* const block = &blocks[i / 32 * 18];
    const int byte = block[2 + i % 16], code = (i % 32 < 16 ? byte & 15 : byte >> 4) - 8;
    tinytorch::Half scale;
    scale.bits = static_cast<uint16_t>(block[0] | block[1] << 8);
    w.push_back(round(static_cast<float>(scale) * static_cast<float>(code)));
  }
  for (size_t i = 0; i < x.size() / k * n; ++i) {
    float sum = 0;
    for (size_t p = 0; p < k; ++p) sum += w[i % n * k + p] * static_cast<float>(x[i / n * k + p]);
    out.push_back(sum);
  }
  return out;
}

}  // namespace

TEST_CASE("there are twelve ops or more, each with four shapes, all of which the library has") {
  CHECK(judge::kernels::tasks().size() >= 12);
  for (const KernelTask& task : judge::kernels::tasks()) {
    CAPTURE(task.name);
    CHECK(task.shapes.size() >= 4);
    CHECK(task.adversarial.size() >= 3);
    CHECK(std::ranges::count(library::kernels(), task.name, &Kernel::name) == 1);
    for (const Shape& sides : task.shapes) {
      CHECK(bytes_of(task, sides) > 1e5);
      CHECK(bytes_of(task, sides) < 32e6);
    }
  }
  CHECK_THROWS_AS((void)task_named("sort"), std::invalid_argument);
}

TEST_CASE("hidden shapes are small or odd, differ with the seed, and have a meaning") {
  for (const KernelTask& task : judge::kernels::tasks()) {
    CAPTURE(task.name);
    tinytorch::Generator one(1), two(2), again(1);
    const std::vector<Shape> first = draw_hidden_shapes(task, one);
    CHECK(first == draw_hidden_shapes(task, again));
    CHECK(first != draw_hidden_shapes(task, two));
    REQUIRE(first.size() == 3);
    for (const Shape& sides : first) {
      CHECK(count(task.output(sides)) > 0);
      for (size_t d = 0; d < sides.size(); ++d) {
        CHECK(sides[d] >= task.least[d]);
        CHECK(sides[d] <= task.most[d]);
        if (&sides != &first[0] && task.most[d] >= 5) CHECK(sides[d] % 2 == 1);
      }
    }
  }
}

TEST_CASE("the library's kernel is right, on hidden shapes and whatever the inputs hold") {
  for (const KernelTask& task : judge::kernels::tasks()) {
    tinytorch::Generator random(7);
    for (const Shape& sides : draw_hidden_shapes(task, random)) {
      std::vector<Distribution> all = task.adversarial;
      all.push_back(Distribution::ordinary);
      for (const Distribution d : all) {
        const Question q(task, sides, d, random.below(1 << 30));
        const Grade grade = q.grade(q.grader.honest());
        CHECK_MESSAGE(grade.right, grade.reason);
      }
    }
  }
}

TEST_CASE("for each op, a result in bf16, zeros, the input, and the answer to other inputs are wrong") {
  for (const KernelTask& task : judge::kernels::tasks()) {
    CAPTURE(task.name);
    for (const Shape& sides : task.shapes) {
      const Question q(task, small(sides, task), Distribution::ordinary, 5),
          before(task, small(sides, task), Distribution::ordinary, 6);
      CHECK(q.grade(q.grader.honest()).right);
      CHECK_FALSE(q.grade(before.grader.honest()).right);
      channel::Tensor zeros = q.grader.honest();
      std::ranges::fill(zeros.bytes, std::byte{0});
      CHECK_FALSE(q.grade(zeros).right);
      CHECK_FALSE(q.grade(empty_output(zeros.shape, task.result)).right);
      // bf16 inside: inputs are rounded, the result is as it comes. No op with integers only has such inputs.
      CHECK((q.grade(Grader(task, small(sides, task), Distribution::ordinary, with_bf16(q.inputs)).honest())
                 .right == (task.name == "gemm_int8" || task.name == "kv_append")));
      if (task.result != channel::DType::f32) continue;
      std::vector<float> answer = q.honest();
      CHECK(q.grade(answer).right);
      CHECK_FALSE(q.grade(before.honest()).right);
      for (float& x : answer) x = to_bf16(x);
      CHECK_FALSE(q.grade(answer).right);
      CHECK_FALSE(q.grade(std::vector<float>(answer.size())).right);
      CHECK_FALSE(q.grade(std::vector<float>(answer.size(), NAN)).right);
      if (q.inputs[0].dtype != channel::DType::f32) continue;
      const auto input = q.inputs[0].values<float>();
      for (size_t i = 0; i < answer.size(); ++i) answer[i] = input[i % input.size()];
      CHECK_FALSE(q.grade(answer).right);
    }
  }
}

TEST_CASE("another order of adding is right; a product of many is") {
  const KernelTask& task = task_named("matmul");
  const Question q(task, {6, 2048, 7}, Distribution::ordinary, 3);
  std::vector<float> answer(6 * 7);
  for (size_t i = 0; i < answer.size(); ++i)
    for (size_t k = 0; k < 2048; ++k)
      answer[i] += q.inputs[0].values<float>()[i / 7 * 2048 + k] * q.inputs[1].values<float>()[k * 7 + i % 7];
  const Grade grade = q.grade(answer);
  CHECK_MESSAGE(grade.right, grade.reason);
}

// The smallest hidden shapes have rows of few numbers, whose largest is sometimes small by chance.
TEST_CASE(
    "decoded weights that are rounded to f16, as the text permits, are right on the smallest shapes, too") {
  const KernelTask& task = task_named("gemm_w4a16");
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    tinytorch::Generator random(seed);
    const Question q(task, draw_hidden_shapes(task, random)[0], Distribution::ordinary, seed);
    const Grade grade =
        q.grade(w4a16_product(q.inputs, [](float w) { return static_cast<float>(tinytorch::Half(w)); }));
    CHECK_MESSAGE(grade.right, grade.reason);
  }
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Question q(task, {5, 32, 48}, Distribution::ordinary, seed);
    CHECK_FALSE(q.grade(w4a16_product(q.inputs, to_bf16)).right);
  }
}

TEST_CASE("layer norm far from 0: in two passes it is right, from the mean of squares it is not") {
  const KernelTask& task = task_named("layer_norm");
  const Question q(task, {16, 113}, Distribution::offset, 3);
  for (const bool two_passes : {true, false}) {
    std::vector<float> answer;
    for (size_t r = 0; r < 16; ++r) {
      const auto x = q.inputs[0].values<float>().subspan(r * 113, 113);
      float mean = 0, variance = 0;
      for (const float v : x) mean += v;
      mean /= 113;
      for (const float v : x) variance += two_passes ? (v - mean) * (v - mean) : v * v;
      variance = variance / 113 - (two_passes ? 0 : mean * mean);
      for (size_t j = 0; j < 113; ++j)
        answer.push_back((x[j] - mean) / std::sqrt(std::max(0.0f, variance) + 1e-5f) *
                             q.inputs[1].values<float>()[j] +
                         q.inputs[2].values<float>()[j]);
    }
    const Grade grade = q.grade(answer);
    CHECK_MESSAGE(grade.right == two_passes, grade.reason);
  }
}

TEST_CASE(
    "a whole number that is off by one, a NaN for an infinity, another form are wrong, with the place") {
  const KernelTask& task = task_named("matmul");
  const Question q(task, {5, 7, 3}, Distribution::zero_one, 3);
  std::vector<float> answer = q.honest();
  answer[4] = std::nextafter(answer[4], 100.0f);
  const Grade grade = q.grade(answer);
  CHECK_FALSE(grade.right);
  CHECK(grade.reason.find("matmul [5, 7, 3] zero_one: row 1, element 1: expected") == 0);
  CHECK(q.grader({}).reason == "expected one f32 tensor of [5, 3]");
  CHECK_FALSE(q.grader({channel::make_tensor({3, 5}, q.honest())}).right);

  const Question infinite(task_named("sum_rows"), {64, 5}, Distribution::not_finite, 3);
  std::vector<float> sums = infinite.honest();
  const auto place = std::ranges::find_if(sums, [](float x) { return std::isinf(x); });
  REQUIRE(place != sums.end());
  CHECK(infinite.grade(sums).right);
  *place = NAN;
  CHECK_FALSE(infinite.grade(sums).right);
  *place = 3e38f;
  CHECK_FALSE(infinite.grade(sums).right);
}

TEST_CASE("only the requested rows of a large answer are graded") {
  const Question q(task_named("add"), {6, 5}, Distribution::ordinary, 3);
  channel::Tensors answer{q.grader.honest()};
  answer[0].mutable_values<float>()[5 * 2] = 9;
  const std::vector<int64_t> others{0, 1, 3}, it{0, 2};
  CHECK(q.grader(answer, others).right);
  CHECK_FALSE(q.grader(answer, it).right);
}
