#include <tinytorch/layers/norm.hpp>
#include <tinytorch/transformer/language_model.hpp>

#include "bigram.hpp"
#include "layers.hpp"

using namespace course;

namespace {

double loss_by_definition(const Bigram& model, const Numbers& tokens, const Numbers& targets, int64_t C) {
  const Parameters p(model);
  double sum = 0, count = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (targets[i] == -100) continue;
    const double* row = p["table.weight"].data() + static_cast<int64_t>(tokens[i]) * C;
    const Numbers logits = linear_of(p.below("out"), Numbers(row, row + C), C);
    double all = 0;
    for (const double x : logits) all += std::exp(x);
    sum += std::log(all) - logits[static_cast<size_t>(targets[i])];
    count += 1;
  }
  return sum / count;
}

void check(int64_t B, int64_t T, int64_t V, int64_t C, bool shows, int hidden = 0) {
  Bigram model(V, C, shows);
  randomize(model, 1);
  const Tensor tokens = random_tokens({B, T}, V);
  Numbers wanted = numbers_of(random_tokens({B, T}, V));
  for (int i = 0; i < hidden; ++i) wanted[static_cast<size_t>(i * 2)] = -100;
  const Tensor loss = model.loss(tokens, tensor_of({B, T}, wanted, i64));
  const std::string what = "loss of tokens [" + std::to_string(B) + ", " + std::to_string(T) + "], V " +
                           std::to_string(V) + (shows ? ", with a head_weight" : ", head(x) alone") +
                           (hidden ? ", some targets -100" : "");
  expect_close(what, loss, {loss_by_definition(model, numbers_of(tokens), wanted, C)}, Shape{},
               {.roundings = 100});
  loss.backward();
  expect_gradients(what, model);
}

// A module whose parts have the names of a transformer's parts.
struct Named : Module {
  Linear projection{120, 120}, qkv{120, 120}, down{120, 120}, up{120, 120};
  LayerNorm norm{120};
  struct Part : Module {
  } attention, mlp;
  Named() {
    attention.add("qkv", qkv), attention.add("projection", projection);
    mlp.add("up", up), mlp.add("down", down);
    add("attention", attention), add("mlp", mlp), add("norm", norm);
  }
};

double deviation_of(const Tensor& x) {
  double sum = 0;
  const Numbers v = numbers_of(x);
  for (const double a : v) sum += a * a;
  return std::sqrt(sum / static_cast<double>(v.size()));
}

}  // namespace

TEST_CASE("4.12 the loss is the mean of -log of the probability of each target") {
  check(1, 1, 2, 1, false);
  check(2, 5, 7, 3, false);
  check(3, 1, 11, 2, false);
}

TEST_CASE("4.12 a head that is only a product needs no logits in memory") {
  check(1, 1, 2, 1, true);
  check(2, 5, 7, 3, true);
}

TEST_CASE("4.12 targets of -100 do not count") {
  check(2, 5, 7, 3, false, 4);
  check(2, 5, 7, 3, true, 4);
}

TEST_CASE("4.12 tokens and targets of different shapes are refused") {
  for (const bool shows : {false, true}) {
    Bigram model(5, 2, shows);
    expect_throws("TT-SHAPE-02", "loss of tokens [2, 3] and targets [2, 4]", [&] {
      model.loss(random_tokens({2, 3}, 5), random_tokens({2, 4}, 5));
    });
    expect_throws("TT-SHAPE-02", "loss of tokens [2, 3] and targets [3, 2]", [&] {
      model.loss(random_tokens({2, 3}, 5), random_tokens({3, 2}, 5));
    });
  }
}

TEST_CASE("4.12 matrices start normal, biases at 0, norms unchanged") {
  Named model;
  initialize_transformer(model, 0.3);
  expect(
      "initialize_transformer with 0.3: the deviation of attention.qkv.weight [120, 120] is 0.3 within 5 %",
      std::abs(deviation_of(model.qkv.weight) / 0.3 - 1) < 0.05,
      "it is " + shown(deviation_of(model.qkv.weight)));
  const Numbers w = numbers_of(model.up.weight);
  const double mean = std::accumulate(w.begin(), w.end(), 0.0) / static_cast<double>(w.size());
  expect("the mean of mlp.up.weight is 0 within 0.015", std::abs(mean) < 0.015, "it is " + shown(mean));
  expect("biases are 0", deviation_of(model.qkv.bias) == 0 && deviation_of(model.down.bias) == 0);
  expect("weights of norms stay 1, because they are vectors",
         numbers_of(model.norm.weight) == Numbers(120, 1.0));
}

TEST_CASE("4.12 the last matrix of a branch starts smaller by the root of the number of branches") {
  Named model;
  initialize_transformer(model, 0.3, 9);
  for (const auto& [name, weight, want] :
       {std::tuple<const char*, Tensor, double>{"attention.projection.weight", model.projection.weight, 0.1},
        {"mlp.down.weight", model.down.weight, 0.1},
        {"attention.qkv.weight", model.qkv.weight, 0.3},
        {"mlp.up.weight", model.up.weight, 0.3}}) {
    const double got = deviation_of(weight);
    expect(std::string("initialize_transformer with 0.3 and 9 branches: the deviation of ") + name + " is " +
               shown(want) + " within 5 %",
           std::abs(got / want - 1) < 0.05, "it is " + shown(got));
  }
}
