// The walk over the elements of many parameters: each element is visited once, at any number of threads.
#include <tinytorch/backend/cpu/optimizer_slots.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <vector>

namespace tt = tinytorch;
using namespace tt::backend;

TEST_CASE("for_slots visits each element of each slot once and counts one step") {
  const int before = tt::thread_count();
  for (const int threads : {1, 2, 5}) {
    tt::set_thread_count(threads);
    const std::vector<int64_t> sizes = {0, 3, 1024, 50'000, 0, 1, 16'385};
    std::vector<std::vector<float>> values;
    std::vector<int64_t> steps(sizes.size(), 9);
    std::vector<OptimizerSlot> slots;
    for (const int64_t n : sizes) values.emplace_back(static_cast<size_t>(n));
    for (size_t i = 0; i < sizes.size(); ++i) {
      const View all{values[i].data(), tt::f32, {sizes[i]}, {1}};
      slots.push_back({all, all, {}, {}, {&steps[i], tt::i64, {}, {}}, 0});
    }
    double scalars[kStepScalarCount] = {1, 1, 0};
    cpu::slots::for_slots("a test", slots, {scalars, tt::f64, {kStepScalarCount}, {1}}, false,
                          [](const OptimizerSlot& slot, double factor, int64_t begin, int64_t end) {
                            for (int64_t i = begin; i < end; ++i) {
                              slot.parameter.as<float>()[i] += static_cast<float>(factor);
                            }
                          });
    for (const auto& each : values) CHECK(each == std::vector<float>(each.size(), 1.0f));
    CHECK(steps == std::vector<int64_t>(sizes.size(), 10));
  }
  tt::set_thread_count(before);
}
