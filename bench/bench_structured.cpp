// Structured pruning: how much of the saved arithmetic becomes saved time. ResNet-18 on images and GPT-2 on
// tokens, before and after half of the channels were removed, in the same rounds.
//
//   bench_structured                                  ResNet-18 (8 images of 64 x 64), GPT-2 (2 x 128 tokens)
//   bench_structured --models resnet18 --sparsity 0.3 0.5 0.7 --image 224 --batch 4
//   bench_structured --device cuda --json out.json
// "speed-up" is the time before divided by the time after, the median over rounds; "MACs" the same ratio of
// the arithmetic, which the operations count themselves; "share" is speed-up / MACs, 1 if all saved
// arithmetic is saved time. Channels that stay are rounded up to a multiple.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <common/guarded.hpp>
#include <common/provenance.hpp>
#include <common/results_file.hpp>
#include <gemm_race.hpp>
#include <memory>
#include <tinytorch/pruning/shrink.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/transformer/gpt2.hpp>
#include <tinytorch/vision/resnet.hpp>

using nlohmann::json;
namespace tt = tinytorch;

namespace {

struct FlopCounter : tt::OpObserver {
  double flops = 0;
  void after(const tt::PrimitiveBase&, const tt::Tensors&, const tt::Tensors&, tt::Cost cost) override {
    flops += cost.flops;
  }
};

double flops_of(tt::Module& model, const tt::Tensor& x) {
  FlopCounter counter;
  const tt::Observing observing(counter);
  (void)model(x);
  return counter.flops;
}

struct Settings {
  int64_t image = 64, batch = 8, tokens = 128, rounds = 9, multiple = 16;
  double seconds = 0.1;
  tt::Device device = tt::cpu;
};

// A model and its input; `small` is enough to find the groups.
struct Case {
  std::unique_ptr<tt::Module> model;
  tt::Tensor x, small;
};

Case make(const std::string& name, const Settings& s) {
  tt::manual_seed(1);
  if (name == "resnet18") {
    return {std::make_unique<tt::ResNet>(tt::resnet18({.classes = 10})),
            tt::randn({s.batch, 3, s.image, s.image}), tt::randn({1, 3, 32, 32})};
  }
  tt::Gpt2Config c;
  c.vocabulary = 1024, c.context = s.tokens, c.layers = 6;  // the head would hide the blocks
  const auto ids = [&](int64_t B, int64_t T) { return tt::randint(0, c.vocabulary, {B, T}); };
  return {std::make_unique<tt::Gpt2>(c), ids(2, s.tokens), ids(1, 2)};
}

json measure(const std::string& name, double sparsity, const Settings& s) {
  const tt::NoGrad no_grad;
  Case before = make(name, s), after = make(name, s);
  before.model->eval(), after.model->eval();
  const tt::ShrinkPlan plan =
      tt::plan_shrink(*after.model, after.small, {.sparsity = sparsity, .multiple = s.multiple});
  tt::shrink(*after.model, plan);
  for (tt::Module* const m : {before.model.get(), after.model.get()}) m->to(s.device);
  const tt::Tensor x = before.x.to(s.device);
  const auto call = [&](tt::Module& m) {
    return [&] {
      const tt::Tensor y = m(x);
      if (!s.device.is_cpu()) (void)y.reshape({y.numel()}).slice(0, 0, 1).to(tt::cpu);  // waits
    };
  };
  const auto taken =
      bench::race({{"before", call(*before.model)}, {"after", call(*after.model)}}, s.rounds, s.seconds);
  const std::vector<double> q = bench::quartiles(taken[0], taken[1]);
  const double macs = flops_of(*before.model, x) / flops_of(*after.model, x);
  std::string unknown;
  for (const std::string& op : plan.unknown_ops) unknown += (unknown.empty() ? "" : ", ") + op;
  const double first = tt::statistics::median(taken[0]), second = tt::statistics::median(taken[1]);
  fmt::print("{:9} {:>8.2f} {:>6}/{:<6} {:>9.1f} {:>9.1f} {:>8.2f} {:>6.2f}-{:<6.2f} {:>6.2f} {:>6.2f}  {}\n",
             name, sparsity, plan.groups_removed, plan.groups, first * 1e3, second * 1e3, q[1], q[0], q[2],
             macs, q[1] / macs, unknown);
  return {{"model", name},
          {"sparsity", sparsity},
          {"groups", plan.groups},
          {"groups_removed", plan.groups_removed},
          {"parameters_before", before.model->parameter_count()},
          {"parameters_after", after.model->parameter_count()},
          {"seconds_before", first},
          {"seconds_after", second},
          {"speed_up", q[1]},
          {"quartiles", q},
          {"macs", macs},
          {"share", q[1] / macs},
          {"ops_without_rule", unknown}};
}

int run(int argc, char** argv) {
  CLI::App app{"Structured pruning: saved time and saved arithmetic"};
  Settings s;
  std::string path, device = "cpu";
  std::vector<double> sparsities{0.5};
  std::vector<std::string> models{"resnet18", "gpt2"};
  app.add_option("--models", models, "resnet18, gpt2")->check(CLI::IsMember({"resnet18", "gpt2"}));
  app.add_option("--sparsity", sparsities, "shares of channels that go")->check(CLI::Range(0.01, 0.95));
  app.add_option("--image", s.image, "height and width of images")->check(CLI::Range(32, 512));
  app.add_option("--batch", s.batch, "images")->check(CLI::Range(1, 256));
  app.add_option("--tokens", s.tokens, "tokens of a row")->check(CLI::Range(8, 1024));
  app.add_option("--multiple", s.multiple, "of the channels that stay")->check(CLI::Range(1, 64));
  app.add_option("--rounds", s.rounds, "rounds")->check(CLI::Range(1, 1000));
  app.add_option("--device", device, "cpu or cuda")->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--json", path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  if (device == "cuda") s.device = tt::cuda;
  const bench::ResultsFile file(path);
  json out = {{"machine", bench::provenance()}, {"rounds", s.rounds}, {"device", s.device.str()}};
  fmt::print("{:9} {:>8} {:>13} {:>9} {:>9} {:>8} {:>13} {:>6} {:>6}  {}\n", "model", "sparsity",
             "groups gone", "before ms", "after ms", "speed-up", "quartiles", "MACs", "share",
             "ops without a rule");
  for (const std::string& name : models)
    for (const double sparsity : sparsities)
      out["results"].push_back(measure(name, sparsity, s)), file.keep(out);
  file.finish(out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_structured", [&] { return run(argc, argv); });
}
