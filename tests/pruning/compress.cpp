#include <tinytorch/pruning/compress.hpp>

#include <pruning/formats.hpp>
#include <tinytorch/io/json.hpp>
#include <tinytorch/layers/adam.hpp>
#include <tinytorch/pruning/distill.hpp>

using namespace test;

namespace {

struct Net : tt::Module {
  tt::Linear a{8, 64}, b{64, 64}, out{64, 4};
  Net() { add("a", a), add("b", b), add("out", out); }
  tt::Tensor forward(const tt::Tensor& x) override { return out(tt::relu(b(tt::relu(a(x))))); }
};

tt::Tensor random(const tt::Shape& shape, uint64_t seed) {
  tt::Generator g(seed);
  return tt::randn(shape, tt::f32, tt::cpu, g).to(tt::default_device());
}

// The teacher's function is what there is to learn.
struct Setting {
  Net teacher;  // equal to the model before
  tt::Tensor x = random({64, 8}, 1), held_out = random({64, 8}, 2), goal;
  int distilled = 0;
  tt::CompressionTask task;

  explicit Setting(const Net& model) {
    teacher.load_state_dict(model.state_dict());
    const tt::NoGrad no_grad;
    goal = teacher(held_out);
    task.build = [] { return std::make_unique<Net>(); };
    task.distill = [this](tt::Module& student, tt::Module& from) {
      ++distilled;
      tt::AdamW optimizer(student.named_parameters(), {.lr = 3e-3, .weight_decay = 0});
      const tt::Tensor wanted = tt::teacher_logits(from, x);
      for (int i = 0; i < 25; ++i) {
        optimizer.zero_grad();
        tt::mse_loss(student(x), wanted).backward();
        optimizer.step();
      }
    };
    task.loss = [this](tt::Module& m) { return tt::mse_loss(m(held_out), goal).item<double>(); };
    task.input = x;
  }
};

}  // namespace

TEST_CASE("the model fits the budget, is the chosen row, and the report leaves out each step in turn") {
  tt::manual_seed(3);
  Net net;
  Setting s(net);
  const int64_t before = tt::quantization::bytes_of(net), budget = before / 4;
  const tt::CompressionReport r = tt::compress(net, budget, s.task, {.rounds = 1});
  INFO(r.text());
  CHECK(r.budget == budget);
  CHECK(r.rows[0].name == "before");
  CHECK(r.rows[0].bytes == before);
  CHECK(r.rows[0].loss == 0);
  const tt::CompressionRow& chosen = r.chosen();
  CHECK(chosen.verdict == "fits");
  CHECK(chosen.bytes <= budget);
  CHECK(tt::quantization::bytes_of(net) == chosen.bytes);
  {
    const tt::NoGrad no_grad;
    CHECK(s.task.loss(net) == doctest::Approx(chosen.loss));
  }
  int candidates = 1;
  for (const tt::CompressionRow& row : r.rows) {
    CHECK(row.seconds > 0);
    if (row.name != "candidate") continue;
    ++candidates;
    CHECK(row.bytes <= budget);
    CHECK(row.loss >= chosen.loss);
  }
  CHECK(candidates == 3);  // one for each format
  REQUIRE(r.find("without distill"));
  CHECK(r.find("without distill")->bytes == chosen.bytes);
  CHECK(r.find("without distill")->loss > chosen.loss);
  const bool pruned = chosen.sparsity > 0, packed = !chosen.format.empty();
  CHECK((r.find("without pruning") != nullptr) == pruned);
  CHECK((r.find("without packing") != nullptr) == packed);
  if (pruned) {
    CHECK(r.find("without pruning")->verdict == "over budget");
    CHECK(r.find("mask only")->verdict == "mask only");
    CHECK(r.find("mask only")->bytes == before);
  }
  CHECK(s.distilled == 3 + (pruned ? 1 : 0) + (packed ? 1 : 0));
  CHECK(r.text().find("budget: " + std::to_string(budget)) != std::string::npos);
  const tt::Json json = tt::parse_json(tt::as_bytes(r.json()));
  CHECK(json.find("rows")->array()->size() == r.rows.size());
  CHECK(json.find("budget")->integer() == budget);
}

TEST_CASE("a budget of all bytes prunes nothing; the teacher is the model as it was, in every training") {
  tt::manual_seed(4);
  Net net;
  Setting s(net);
  const auto distill = s.task.distill;
  s.task.distill = [&](tt::Module& student, tt::Module& from) {
    distill(student, from);
    const tt::NoGrad no_grad;
    CHECK(same_values(from(s.held_out), s.goal));
  };
  const tt::CompressionReport r = tt::compress(net, tt::quantization::bytes_of(net), s.task,
                                               {.formats = {""}, .ablation = false, .rounds = 1});
  CHECK(r.rows.size() == 2);
  CHECK(r.chosen().sparsity == 0);
  CHECK(r.chosen().format.empty());
  CHECK(net.a.weight.size(0) == 64);
}

TEST_CASE("budgets that no choice reaches and incomplete tasks are refused, and the model stays") {
  tt::manual_seed(5);
  Net net;
  Setting s(net);
  const auto code = [](auto&& f) { return errors::thrown_by(f).code; };
  CHECK(code([&] { tt::compress(net, 100, s.task); }) == "TT-PRUNE-10");
  CHECK(code([&] { tt::compress(net, 1 << 20, s.task, {.formats = {"Q9"}}); }) == "TT-QUANT-01");
  CHECK(code([&] { tt::compress(net, 1 << 20, s.task, {.sparsities = {1}}); }) == "TT-PRUNE-02");
  tt::CompressionTask task = s.task;
  task.loss = {};
  CHECK(code([&] { tt::compress(net, 1 << 20, task); }) == "TT-PRUNE-10");
  const tt::NoGrad no_grad;
  CHECK(same_values(net(s.held_out), s.goal));
  CHECK(s.distilled == 0);
}
