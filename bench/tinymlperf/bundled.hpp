// The models every race starts with: four ways to read a digit, from too small to far too large.
//
// Each is written as its model.json would be, so that the bundled entries pass the same reader as anyone
// else's.
#pragma once

#include <cstdint>
#include <string>
#include <tinymlperf/entry.hpp>
#include <vector>

namespace tinymlperf {

struct Recipe {
  EntrySpec spec;
  int64_t epochs = 0;
  double learning_rate = 0;  // the highest one of the schedule
};

namespace detail {

inline Recipe recipe(const char* name, const char* description, int64_t epochs, double learning_rate,
                     const char* layers) {
  const Json document{{"schema", 1},
                      {"name", name},
                      {"author", "tinytorch"},
                      {"description", description},
                      {"input", Task{}.input},
                      {"classes", Task{}.classes},
                      {"layers", Json::parse(layers)}};
  return {parse_entry(document.dump()), epochs, learning_rate};
}

}  // namespace detail

inline std::vector<Recipe> bundled_recipes() {
  using detail::recipe;
  return {
      recipe("linear", "One matrix: ten templates, one per digit.", 6, 5e-3,
             R"([{"type": "flatten"}, {"type": "linear", "in": 784, "out": 10}])"),
      recipe("mlp", "Two layers without any idea of neighbourhood.", 6, 2e-3,
             R"([{"type": "flatten"}, {"type": "linear", "in": 784, "out": 128}, {"type": "relu"},
                 {"type": "linear", "in": 128, "out": 10}])"),
      recipe("lenet", "Convolutions, pooling, three linear layers (LeCun et al. 1998). The baseline.", 5,
             3e-3,
             R"([{"type": "conv2d", "in": 1, "out": 6, "kernel": 5, "padding": 2}, {"type": "relu"},
                 {"type": "max_pool2d", "kernel": 2},
                 {"type": "conv2d", "in": 6, "out": 16, "kernel": 5}, {"type": "relu"},
                 {"type": "max_pool2d", "kernel": 2}, {"type": "flatten"},
                 {"type": "linear", "in": 400, "out": 120}, {"type": "relu"},
                 {"type": "linear", "in": 120, "out": 84}, {"type": "relu"},
                 {"type": "linear", "in": 84, "out": 10}])"),
      recipe("wasteful", "Wide convolutions at full resolution: many times the work of lenet.", 2, 2e-3,
             R"([{"type": "conv2d", "in": 1, "out": 16, "kernel": 5, "padding": 2}, {"type": "relu"},
                 {"type": "conv2d", "in": 16, "out": 16, "kernel": 5, "padding": 2}, {"type": "relu"},
                 {"type": "max_pool2d", "kernel": 2},
                 {"type": "conv2d", "in": 16, "out": 32, "kernel": 5, "padding": 2}, {"type": "relu"},
                 {"type": "max_pool2d", "kernel": 2}, {"type": "flatten"},
                 {"type": "linear", "in": 1568, "out": 256}, {"type": "relu"},
                 {"type": "linear", "in": 256, "out": 10}])"),
  };
}

}  // namespace tinymlperf
