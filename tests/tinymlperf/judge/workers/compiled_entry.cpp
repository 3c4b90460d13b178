// The option "compile" of a model.json: the worker's answers have the bits that they have without it, and
// what cannot be compiled is an error that says so.
#include <doctest/doctest.h>

#include <support/errors.hpp>
#include <support/linear_entry.hpp>
#include <support/sanitized.hpp>
#include <tinymlperf/benchmarks/benchmarks.hpp>
#include <tinymlperf/entries/packed_entry.hpp>
#include <tinymlperf/judge/workers/training_worker.hpp>
#include <tinymlperf/support/temporary_folder.hpp>
#include <tinymlperf/training/train.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge;

namespace {

// An entry in two folders, which differ in the option alone.
struct Pair {
  TemporaryFolder folder;
  std::filesystem::path plain = folder.path() / "plain", compiled = folder.path() / "compiled";
  std::string benchmark;

  explicit Pair(EntrySpec spec, uint64_t seed = 3) : benchmark(spec.benchmark) {
    tt::Generator random(seed);
    const std::shared_ptr<tt::Module> model = build_model(spec, random, seed);
    for (const auto& [name, tensor] : model->state_dict())  // statistics of a model that was trained
      if (name.ends_with("running_var")) tt::Tensor(tensor).copy_(tt::rand(tensor.shape()) + 0.5);
    save_entry(plain, spec, model->state_dict());
    spec.compile = true;
    save_entry(compiled, spec, model->state_dict());
  }
  Respond answers(bool with_option) const {
    return answers_of_entry(with_option ? compiled : plain, benchmark);
  }
};

std::vector<float> numbers_of(const channel::Tensors& answer) {
  const auto values = answer.at(0).values<float>();
  return {values.begin(), values.end()};
}

// Asks both for queries of these sizes, each several times, so that captures and replays take part.
void check_same_bits(const Pair& entries, const std::vector<int64_t>& sizes) {
  const auto benchmark = make_benchmark(entries.benchmark);
  benchmark->draw(200, 77);
  const Respond plain = entries.answers(false), compiled = entries.answers(true);
  int64_t next = 0;
  for (int round = 0; round < 5; ++round) {
    for (const int64_t size : sizes) {
      CAPTURE(size);
      std::vector<int64_t> samples;
      for (int64_t i = 0; i < size; ++i) samples.push_back(next++ % 200);
      const Query query{.id = 1, .inputs = benchmark->inputs(samples), .token = {}};
      const std::vector<float> want = numbers_of(plain(query)), got = numbers_of(compiled(query));
      REQUIRE(want.size() == got.size());
      CHECK(std::memcmp(want.data(), got.data(), want.size() * sizeof(float)) == 0);
    }
  }
}

EntrySpec every_layer() {
  return parse_entry(R"({"schema": 1, "name": "all", "input": [1, 28, 28], "classes": 10, "layers": [
    {"type": "conv2d", "in": 1, "out": 6, "kernel": [5, 3], "padding": [2, 1]}, {"type": "batch_norm2d", "in": 6},
    {"type": "relu"}, {"type": "max_pool2d", "kernel": 2}, {"type": "conv2d", "in": 6, "out": 6, "kernel": 3,
    "groups": 6, "bias": false}, {"type": "silu"}, {"type": "avg_pool2d", "kernel": [3, 1]},
    {"type": "adaptive_avg_pool2d", "output": [2, 3]}, {"type": "sigmoid"}, {"type": "flatten"},
    {"type": "batch_norm1d", "in": 36}, {"type": "dropout", "p": 0.25}, {"type": "linear", "in": 36, "out": 20},
    {"type": "tanh"}, {"type": "linear", "in": 20, "out": 16}, {"type": "gelu"},
    {"type": "linear", "in": 16, "out": 10, "bias": false}]})");
}

}  // namespace

TEST_CASE("an answer has the same bits with the option, for every benchmark, layer and size of a query") {
  check_same_bits(Pair(every_layer()), {1, 8, 3, 17, 1, 40});
  for (const char* const benchmark : {"dig", "kws", "ad", "lm"}) {
    CAPTURE(benchmark);
    check_same_bits(Pair(bundled_recipes(benchmark).back().spec), {1, 8, 5});
  }
}

TEST_CASE("more sizes of a query than there are recordings are answered, too") {
  check_same_bits(Pair(test::linear_spec("linear")), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
}

TEST_CASE("packed weights are compiled as floats are") {
  const EntrySpec spec = parse_entry(R"({"schema": 1, "name": "small", "input": [1, 28, 28], "classes": 10,
    "layers": [{"type": "flatten"}, {"type": "linear", "in": 784, "out": 64}, {"type": "relu"},
               {"type": "linear", "in": 64, "out": 10}]})");
  for (const char* const format : {"I8", "Q4_0"}) {
    CAPTURE(format);
    const Pair entries(spec);
    for (const auto& folder : {entries.plain, entries.compiled}) {
      const QuantizerSpec quantizer{.format = format, .layers = {{"1", "I8"}}};
      (void)pack_weights(entries.plain, spec, quantizer, folder / kPackedFile);
    }
    for (const auto& folder : {entries.plain, entries.compiled})
      std::filesystem::remove(folder / kWeightsFile);
    check_same_bits(entries, {1, 8, 5});
  }
}

TEST_CASE("with the option a pass is captured and replayed, and what cannot be captured is an error") {
  EntrySpec spec = test::linear_spec("linear");
  int runs = 0;
  const Forward counted = [&](const tt::Tensor& x) {
    ++runs;
    return tt::relu(x * 2);
  };
  const tt::Tensor x = tt::ones({3, 4});
  const tt::NoGrad no_grad;
  const Forward plain = forward_of(spec, counted);
  for (int i = 0; i < 20; ++i) plain(x);
  CHECK(runs == 20);
  spec.compile = true, runs = 0;
  const Forward compiled = forward_of(spec, counted);
  for (int i = 0; i < 20; ++i) CHECK(tt::allclose(compiled(x), tt::full({3, 4}, 2)));
  CHECK(runs == 3);  // the first three calls record; the others replay
  const Forward reads = forward_of(spec, [](const tt::Tensor& t) { return t * t.sum().item<float>(); });
  CHECK(errors::thrown_by([&] { reads(x); }).code.starts_with("TT-COMPILE-"));
}

TEST_CASE("a text is not continued with the option, and a recipe may not have it") {
  const Pair entries(bundled_recipes("lm").back().spec);
  const std::vector<uint8_t> prompt{65, 66, 67};
  const int64_t count = 2;
  Query query{.id = 1,
              .inputs = {make_tensor<uint8_t>(DType::u8, {3}, prompt),
                         make_tensor<int64_t>(DType::i64, {1}, std::span(&count, 1))},
              .token = [](const channel::Tensor&) {}};
  CHECK(entries.answers(false)(query).at(0).values<uint8_t>().size() == 2);
  CHECK_THROWS_WITH_AS(entries.answers(true)(query),
                       doctest::Contains("compile: a text is continued token by"), std::invalid_argument);
  EntrySpec recipe = test::linear_spec("linear");
  recipe.training.emplace();
  CHECK(require_training(recipe).epochs == 1);
  recipe.compile = true;
  CHECK_THROWS_WITH_AS(require_training(recipe), doctest::Contains("model.json: compile: expected no such"),
                       Refusal);
}
