#include <tinytorch/quantization/search.hpp>

#include <quantization/planted.hpp>
#include <set>
#include <support/errors.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace test;
namespace q = tinytorch::quantization;

namespace {

tt::Gpt2 model_of(bool tied = true) {
  tt::manual_seed(11);
  tt::Gpt2 model({.vocabulary = 48,
                  .context = 16,
                  .features = 32,
                  .layers = 2,
                  .heads = 2,
                  .deviation = 0.3,
                  .tied = tied});
  model.eval();
  return model;
}
tt::Tensor ids() {
  tt::Generator g(12);
  return tt::randint(0, 48, {4, 16}, tt::i64, tt::cpu, g);
}
// Bytes and divergence of the whole model in one format.
tt::MixTrial uniform(const std::string& format, bool head, const std::string& method) {
  tt::Gpt2 model = model_of();
  const std::vector<tt::Tensor> exact = q::outputs_of(model, {ids()}, tt::Loc::current());
  const auto report = tt::quantize(
      model, {.format = format, .head = head ? format : "", .method = method, .calibration = {ids()}});
  return {format, report.bytes, q::divergence(exact, q::outputs_of(model, {ids()}, tt::Loc::current()))};
}

}  // namespace

TEST_CASE("a mix never exceeds its budget, and is at least as good as each format alone that fits") {
  const tt::NoGrad no_grad;
  const std::vector<std::string> formats{"Q8_0", "Q4_0", "Q4_1"};
  for (const std::string method : {"nearest", "mse"}) {
    for (const bool head : {false, true}) {
      CAPTURE(method);
      CAPTURE(head);
      std::vector<tt::MixTrial> alone;
      for (const std::string& f : formats) alone.push_back(uniform(f, head, method));
      const int64_t least = alone[1].bytes, most = alone[0].bytes;
      double before = std::numeric_limits<double>::infinity();
      bool mixes = false;
      for (int64_t step = 0; step <= 5; ++step) {
        const int64_t budget = least + (most - least) * step / 5;
        CAPTURE(budget);
        tt::Gpt2 model = model_of();
        const std::vector<tt::Tensor> exact = q::outputs_of(model, {ids()}, tt::Loc::current());
        const tt::FormatSearch found = tt::search_formats(
            model,
            {.formats = formats, .bytes = budget, .calibration = {ids()}, .head = head, .method = method});
        CHECK(q::relative_error(exact, q::outputs_of(model, {ids()}, tt::Loc::current())) <
              1e-9);  // the model is as before
        const tt::QuantizationReport report = tt::quantize(model, found.config);
        const double real = q::divergence(exact, q::outputs_of(model, {ids()}, tt::Loc::current()));
        CHECK(report.bytes <= budget);
        CHECK(report.bytes == found.bytes());
        CHECK(real == doctest::Approx(found.divergence()).epsilon(1e-6));
        for (const tt::MixTrial& one : alone)
          if (one.bytes <= budget) CHECK(real <= one.divergence * (1 + 1e-6));
        before = std::min(before, real);
        std::set<std::string> used;
        for (const auto& [path, format] : found.formats) used.insert(format);
        mixes = mixes || used.size() > 1;
        CHECK(found.formats.size() == (head ? 9 : 8));
      }
      CHECK(mixes);
      CHECK(before <= alone[0].divergence * (1 + 1e-6));  // the largest budget holds Q8_0
    }
  }
}

TEST_CASE("a search says the same again, keeps layers, and skips formats whose block does not fit") {
  const tt::NoGrad no_grad;
  const auto run = [] {
    tt::Gpt2 model = model_of();
    return tt::search_formats(
        model, {.formats = {"Q4_0", "Q4_K", ""}, .bytes = 1 << 20, .calibration = {ids()}, .method = "gptq"});
  };
  const tt::FormatSearch a = run(), b = run();
  CHECK(a.formats == b.formats);
  CHECK(a.divergence() == b.divergence());
  CHECK(a.text() == b.text());
  for (const tt::FormatTrial& t : a.layers) CHECK(t.format != "Q4_K");  // rows of 32 and 128
  CHECK(a.divergence() == doctest::Approx(0).epsilon(1e-9));            // all layers fit in floats
  for (const auto& [path, format] : a.formats) CHECK(format.empty());
  CHECK(a.text().find("kept") != std::string::npos);
}

TEST_CASE("the step with the largest gain for each byte is taken first") {
  using Options = std::vector<q::LayerOptions>;
  const auto layer = [](std::vector<std::pair<int64_t, double>> trials) {
    q::LayerOptions l;
    for (const auto& [bytes, kl] : trials) l.options.push_back({nullptr, {"", "", bytes, kl}});
    return l;
  };
  const Options layers{layer({{-10, 0.5}, {-30, 0.9}}), layer({{-30, 0.2}, {-20, 0.1}, {0, 0.0}})};
  CHECK(q::greedy_mix(layers, -61).empty());
  CHECK(q::greedy_mix(layers, -60) == std::vector<size_t>{1, 0});
  CHECK(q::greedy_mix(layers, -50) == std::vector<size_t>{1, 1});  // 0.1 for 10 bytes; 0.4 needs 20
  CHECK(q::greedy_mix(layers, -40) == std::vector<size_t>{0, 0});  // 0.4 for 20 bytes is more for each byte
  CHECK(q::greedy_mix(layers, 0) == std::vector<size_t>{0, 2});
  // A larger format with more error is never chosen.
  CHECK(q::greedy_mix({layer({{0, 0.3}, {10, 0.4}})}, 100) == std::vector<size_t>{0});
}

TEST_CASE("budgets that are too small, unknown formats and methods, and calibration that is missing") {
  tt::Gpt2 model = model_of();
  const auto code = [&](const tt::SearchOptions& o) {
    return errors::thrown_by([&] { tt::search_formats(model, o); });
  };
  const errors::Thrown small = code({.formats = {"Q8_0"}, .bytes = 100, .calibration = {ids()}});
  CHECK(small.code == "TT-QUANT-09");
  CHECK(small.text.find(std::to_string(uniform("Q8_0", false, "nearest").bytes)) != std::string::npos);
  CHECK(code({.calibration = {ids()}}).code == "TT-QUANT-09");  // no budget
  CHECK(code({.formats = {"Q8_9"}, .bytes = 1 << 20, .calibration = {ids()}}).code == "TT-QUANT-01");
  CHECK(code({.bytes = 1 << 20, .calibration = {ids()}, .method = "awq"}).code == "TT-QUANT-08");
  CHECK(code({.bytes = 1 << 20}).code == "TT-CALIB-02");
  tt::LayerNorm none(4);
  const tt::FormatSearch nothing =
      tt::search_formats(none, {.bytes = 1000, .calibration = {tt::ones({1, 4})}});
  CHECK(nothing.formats.empty());
  CHECK(nothing.bytes() == 32);
}
