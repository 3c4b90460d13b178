// Maximum error of every elementary function over all 2^32 floats, against libm in double precision, whose
// error is below 1e-8 of a float's last place.
//
//   bench_math_errors                      all functions, about a minute each
//   bench_math_errors --only erf --step 1021 --json out.json    every 1021st float, which takes seconds
// Errors are in ulps of the exact value (ulps.hpp). sin and cos are tested up to kMaxTrigArgument, above
// which the library calls libm. Errors of normal_cdf are in units of 2^-24, the ulp of [1/2, 1), everywhere,
// because its lower tail is a fit of the logarithm. Exit status 1: the largest error of a function is above
// the bound that core/scalar_math.hpp promises; 2: the program failed.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <bit>
#include <cmath>
#include <common/guarded.hpp>
#include <common/provenance.hpp>
#include <common/results_file.hpp>
#include <functional>
#include <limits>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <tinytorch/core/parallel.hpp>
#include <tinytorch/core/scalar_math.hpp>
#include <ulps.hpp>
#include <vector>

using nlohmann::json;
namespace tt = tinytorch;
namespace math = tinytorch::math;

namespace {

struct Worst {
  double ulps = 0;
  float at = 0;
  int64_t above_one = 0, floats = 0;
  void merge(const Worst& other) {
    if (other.ulps > ulps) ulps = other.ulps, at = other.at;
    above_one += other.above_one, floats += other.floats;
  }
};

double ulps_of_half(float got, double exact) {
  if (std::isnan(exact) || std::isnan(got)) return bench::ulps(got, exact);
  return std::abs(static_cast<double>(got) - exact) * 0x1p24;
}

// A block of floats is evaluated in one loop that the compiler vectorizes, as in the library.
template <class F, class G>
Worst worst_of(F approximate, G exact, float limit, double (*units)(float, double), uint32_t step) {
  constexpr int64_t kBlock = 4096;
  const int64_t floats = ((int64_t{1} << 32) + step - 1) / step, blocks = (floats + kBlock - 1) / kBlock;
  Worst all;
  std::mutex mutex;
  tt::parallel_for(blocks, 64, [&](int64_t begin, int64_t end) {
    Worst mine;
    std::vector<float> x(kBlock), y(kBlock);
    for (int64_t block = begin; block < end; ++block) {
      const int64_t n = std::min(kBlock, floats - block * kBlock);
      for (int64_t i = 0; i < n; ++i)
        x[static_cast<size_t>(i)] = std::bit_cast<float>(static_cast<uint32_t>(block * kBlock + i) * step);
      const float* const from = x.data();
      float* const to = y.data();
      TT_SIMD
      for (int64_t i = 0; i < n; ++i) to[i] = approximate(from[i]);
      for (int64_t i = 0; i < n; ++i) {
        if (std::abs(from[i]) > limit) continue;
        const double error = units(to[i], exact(static_cast<double>(from[i])));
        if (error > mine.ulps) mine.ulps = error, mine.at = from[i];
        mine.above_one += error > 1;
        mine.floats += 1;
      }
    }
    const std::lock_guard lock(mutex);
    all.merge(mine);
  });
  return all;
}

struct Function {
  template <class F, class G>
  Function(const char* title, double promise, F approximate, G exact,
           float limit = std::numeric_limits<float>::infinity(), double (*units)(float, double) = bench::ulps)
      : name(title),
        promised(promise),
        measure([=](uint32_t step) { return worst_of(approximate, exact, limit, units, step); }) {}

  const char* name;
  double promised;
  std::function<Worst(uint32_t step)> measure;
};

const Function kFunctions[] = {
    {"exp", 1.1, [](float x) { return math::exp(x); }, [](double x) { return std::exp(x); }},
    {"log", 1.0, [](float x) { return math::log(x); }, [](double x) { return std::log(x); }},
    {"tanh", 2.7, [](float x) { return math::tanh(x); }, [](double x) { return std::tanh(x); }},
    {"erf", 1.5, [](float x) { return math::erf(x); }, [](double x) { return std::erf(x); }},
    {"sin", 1.9, [](float x) { return math::sin(x); }, [](double x) { return std::sin(x); },
     math::kMaxTrigArgument},
    {"cos", 1.9, [](float x) { return math::cos(x); }, [](double x) { return std::cos(x); },
     math::kMaxTrigArgument},
    {"normal_cdf", 1.25, [](float x) { return math::normal_cdf(x); },
     [](double x) { return 0.5 * std::erfc(x * -0.70710678118654752); },
     std::numeric_limits<float>::infinity(), ulps_of_half}};

int run(int argc, char** argv) {
  CLI::App app("Maximum errors of the elementary functions over all floats");
  uint32_t step = 1;
  std::vector<std::string> only;
  std::string out;
  app.add_option("--step", step, "test only every STEPth float")->check(CLI::Range(1u, 1u << 20));
  app.add_option("--only", only, "names of the functions to test");
  app.add_option("--json", out, "write the results here");
  CLI11_PARSE(app, argc, argv);
  for (const std::string& name : only) {
    if (std::ranges::none_of(kFunctions, [&](const Function& f) { return f.name == name; })) {
      fmt::print(
          stderr,
          "bench_math_errors: unknown function {}; known are exp, log, tanh, erf, sin, cos, normal_cdf\n",
          name);
      return 2;
    }
  }
  const bench::ResultsFile file(out);
  json rows = json::array();
  bool within_bounds = true;
  fmt::print("{:<10} {:>12} {:>10} {:>16} {:>12} {:>9}\n", "", "floats", "worst ulp", "at", "above 1 ulp",
             "promised");
  for (const Function& f : kFunctions) {
    if (!only.empty() && std::ranges::find(only, f.name) == only.end()) continue;
    const Worst w = f.measure(step);
    within_bounds = within_bounds && w.ulps <= f.promised;
    fmt::print("{:<10} {:>12} {:>10.3f} {:>16.8g} {:>12} {:>9}{}\n", f.name, w.floats, w.ulps, w.at,
               w.above_one, f.promised, w.ulps <= f.promised ? "" : "  above the bound");
    rows.push_back({{"function", f.name},
                    {"floats", w.floats},
                    {"worst_ulps", w.ulps},
                    {"at", w.at},
                    {"above_one_ulp", w.above_one},
                    {"promised", f.promised}});
    file.keep(rows);
  }
  file.finish({{"machine", bench::provenance()}, {"step", step}, {"functions", rows}});
  return within_bounds ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded(
      "bench_math_errors", [&] { return run(argc, argv); }, 2);
}
