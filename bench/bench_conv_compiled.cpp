// Inference of a ResNet on the CPU, eager and compiled, of channels-first and of channels-last images.
//
//     bench_conv_compiled                              ResNet-18, batches of 1 and 8, images of 224 x 224,
//     f32 bench_conv_compiled --batch 4 --side 64 --width 32 --rounds 21 --json out.json
// Each round runs every form once, in turns of order. A ratio is the time of the eager function divided by
// that of the other form in the same round. A compiled function must have the bits of the eager one for
// images of the same layout. "captured layouts" is compiled without the choice of layouts
// (acceleration/channels_last.hpp).
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <common/guarded.hpp>
#include <common/provenance.hpp>
#include <common/results_file.hpp>
#include <functional>
#include <gemm_race.hpp>
#include <nlohmann/json.hpp>
#include <tinytorch/acceleration/compiled.hpp>
#include <tinytorch/benchmarking/clock.hpp>
#include <tinytorch/benchmarking/statistics.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tinytorch/vision/resnet.hpp>

using nlohmann::json;
namespace tt = tinytorch;

namespace {

double seconds_of(const std::function<void()>& work) {
  const double start = tt::benchmarking::SteadyClock{}();
  work();
  return tt::benchmarking::SteadyClock{}() - start;
}
// Statistics as after training, so that batch norm is not the identity.
void fill_statistics(tt::ResNet& net) {
  for (tt::NamedTensor& b : net.named_buffers()) {
    if (b.tensor.rank() == 1) b.tensor.copy_(tt::rand(b.tensor.shape()) + 0.5);
  }
}
tt::Tensor channels_last(const tt::Tensor& x) {
  return tt::permute(tt::contiguous(tt::permute(x, {0, 2, 3, 1})), {0, 3, 1, 2});
}

json run(tt::ResNet& net, int64_t batch, int64_t side, int64_t rounds) {
  const tt::Tensor first = tt::randn({batch, 3, side, side}), last = channels_last(first);
  const auto eager = [&](const tt::Tensor& x) { return net(x); };
  auto compiled = tt::compile(eager, {.kernels = tt::RegionKernels::compiled, .strict = true});
  auto as_captured =
      tt::compile(eager, {.channels_last = false, .kernels = tt::RegionKernels::compiled, .strict = true});
  for (int call = 0; call < 4; ++call) {  // captured, and looked at again
    for (const tt::Tensor& x : {first, last}) {
      if (!tt::same_bits(compiled(x), eager(x)) || !tt::same_bits(as_captured(x), eager(x)))
        throw std::runtime_error("the compiled function has other bits than the eager one");
    }
  }
  const std::function<void()> forms[] = {[&] { eager(first); }, [&] { compiled(first); },
                                         [&] { eager(last); }, [&] { compiled(last); },
                                         [&] { as_captured(first); }};
  const char* const names[] = {"eager", "compiled", "eager_channels_last", "compiled_channels_last",
                               "compiled_captured_layouts"};
  constexpr size_t kForms = std::size(names);
  std::vector<double> times[kForms];
  for (int64_t round = 0; round < rounds; ++round) {
    for (size_t k = 0; k < kForms; ++k) {
      const size_t form = round % 2 == 0 ? k : kForms - 1 - k;
      times[form].push_back(seconds_of(forms[form]));
    }
  }
  const tt::VariantReport report = compiled.reports()[0];
  json out = {{"batch", batch},
              {"side", side},
              {"kernels_captured", report.kernels_captured},
              {"kernels", report.kernels},
              {"bytes_moved_captured", report.bytes_moved_captured},
              {"bytes_moved", report.bytes_moved},
              {"compiled_times_eager", bench::quartiles(times[0], times[1])},
              {"captured_layouts_times_eager", bench::quartiles(times[0], times[4])},
              {"channels_last_times_eager", bench::quartiles(times[0], times[2])},
              {"compiled_times_eager_channels_last", bench::quartiles(times[2], times[3])}};
  for (size_t k = 0; k < kForms; ++k) out["seconds"][names[k]] = tt::statistics::median(times[k]);
  return out;
}

int run(int argc, char** argv) {
  CLI::App app{"Inference of a ResNet, eager and compiled"};
  std::vector<int64_t> batches{1, 8};
  int64_t side = 224, width = 64, rounds = 11;
  std::string path;
  app.add_option("--batch", batches, "sizes of the batch")->check(CLI::Range(1, 256));
  app.add_option("--side", side, "height and width of the images")->check(CLI::Range(8, 1024));
  app.add_option("--width", width, "channels of the first stage")->check(CLI::Range(1, 256));
  app.add_option("--rounds", rounds, "rounds")->check(CLI::Range(1, 1000));
  app.add_option("--json", path, "also write the numbers here");
  CLI11_PARSE(app, argc, argv);
  const bench::ResultsFile file(path);
  json out = {{"machine", bench::provenance()}, {"rounds", rounds}, {"width", width}};
  const tt::NoGrad guard;
  tt::ResNet net = tt::resnet18({.width = width});
  net.eval();
  fill_statistics(net);
  for (const int64_t batch : batches) {
    const json r = run(net, batch, side, rounds);
    fmt::print("batch {}: {} kernels -> {}, {:.1f} MB moved -> {:.1f} MB\n", batch,
               r["kernels_captured"].get<int64_t>(), r["kernels"].get<int64_t>(),
               r["bytes_moved_captured"].get<double>() * 1e-6, r["bytes_moved"].get<double>() * 1e-6);
    for (const auto& [name, seconds] : r["seconds"].items())
      fmt::print("  {:35} {:.2f} ms\n", name, 1e3 * seconds.get<double>());
    for (const char* key : {"compiled_times_eager", "captured_layouts_times_eager",
                            "channels_last_times_eager", "compiled_times_eager_channels_last"}) {
      const auto q = r[key].get<std::vector<double>>();
      fmt::print("  {:35} {:.2f} ({:.2f} to {:.2f})\n", key, q[1], q[0], q[2]);
    }
    std::fflush(stdout);
    out["batches"].push_back(r);
    file.keep(out);
  }
  file.finish(out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded("bench_conv_compiled", [&] { return run(argc, argv); });
}
