// Numbers that change from replay to replay: filled before each replay, in stream order, and not during the
// capture.
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <support/device.hpp>
#include <support/errors.hpp>
#include <tinytorch/backend/cuda/runtime/graph.hpp>
#include <tinytorch/core/random.hpp>

namespace tt = tinytorch;
namespace cuda = tinytorch::backend::cuda;
using test::CachingScope;
using test::DeviceBytes;
using test::needs_devices;

namespace {

// Reads the value by a copy on the device, in place of a kernel.
void take(void* to, const void* value, size_t bytes) {
  cuda::copy_bytes(to, test::on_cuda(0), value, test::on_cuda(0), bytes);
}
template <class T>
T read(const void* address) {
  T value;
  cuda::copy_bytes(&value, tt::cpu, address, test::on_cuda(0), sizeof value);
  return value;
}
uint64_t next_block() { return tt::default_generator().state().next_block; }

}  // namespace

TEST_CASE("outside of a capture on_replay gives false and replay_memory gives null") {
  int calls = 0;
  CHECK(!cuda::on_replay([&] { ++calls; }));
  CHECK(cuda::replay_memory(8, [&](void*) { ++calls; }) == nullptr);
  CHECK(cuda::random_offset(0) == nullptr);
  CHECK(calls == 0);
}

TEST_CASE("values are filled before each replay, after the functions of on_replay, not in the capture" *
          needs_devices()) {
  for (const bool caching : {true, false}) {
    CAPTURE(caching);
    const CachingScope scope(caching);
    const DeviceBytes output(2 * sizeof(double));
    int64_t step = 10;
    double rate = 0.5;
    int fills = 0;
    cuda::Graph graph;
    graph.capture([&] {
      CHECK(cuda::on_replay([&] { step += 1; }));
      const void* const value = cuda::replay_memory(sizeof(int64_t), [&](void* to) {
        fills += 1;
        std::memcpy(to, &step, sizeof step);
      });
      const void* const other =
          cuda::replay_memory(sizeof rate, [&](void* to) { std::memcpy(to, &rate, sizeof rate); });
      REQUIRE(value != nullptr);
      CHECK(reinterpret_cast<uintptr_t>(value) % 16 == 0);
      CHECK(reinterpret_cast<uintptr_t>(other) % 16 == 0);
      CHECK(value != other);
      take(output.data(), value, sizeof step);
      take(output.data() + sizeof step, other, sizeof rate);
    });
    CHECK(fills == 0);
    CHECK(step == 10);
    for (int k = 1; k <= 3; ++k) {
      rate = 0.5 * k;
      graph.replay();
      CHECK(fills == k);
      CHECK(read<int64_t>(output.data()) == 10 + k);
      CHECK(read<double>(output.data() + sizeof step) == 0.5 * k);
    }
  }
}

TEST_CASE("many values and large values do not overlap" * needs_devices()) {
  constexpr size_t kValues = 300;
  std::vector<std::vector<unsigned char>> sources;
  for (size_t k = 0; k < kValues; ++k) {
    sources.emplace_back(k == 150 ? size_t{100'000} : 1 + k % 200, static_cast<unsigned char>(k));
  }
  std::vector<std::unique_ptr<DeviceBytes>> outputs;
  for (const auto& s : sources) outputs.push_back(std::make_unique<DeviceBytes>(s.size()));
  cuda::Graph graph;
  graph.capture([&] {
    for (size_t k = 0; k < kValues; ++k) {
      const auto& source = sources[k];
      take(outputs[k]->data(),
           cuda::replay_memory(source.size(),
                               [&](void* to) { std::memcpy(to, source.data(), source.size()); }),
           source.size());
    }
  });
  for (int round = 0; round < 2; ++round) {
    for (auto& s : sources) s[0] = static_cast<unsigned char>(s[0] + 1);
    graph.replay();
    size_t wrong = 0;
    for (size_t k = 0; k < kValues; ++k) wrong += outputs[k]->read() != sources[k];
    CHECK(wrong == 0);
  }
}

TEST_CASE("replays that are queued one after the other, on any streams, see their own values" *
          needs_devices()) {
  const cuda::Stream other;
  const DeviceBytes busy(TINYTORCH_CUDA_SIM ? size_t{1} << 16 : size_t{1} << 28);
  constexpr size_t kRounds = 12, kSize = sizeof(int64_t);
  const DeviceBytes history(kRounds * kSize), moved(kRounds * kSize);
  int64_t step = 0;
  cuda::Graph graph;
  graph.capture([&] {  // writes the step before the previous ones
    cuda::on_replay([&] { step += 1; });
    busy.fill(1);
    take(moved.data(), history.data(), (kRounds - 1) * kSize);
    take(history.data() + kSize, moved.data(), (kRounds - 1) * kSize);
    take(history.data(), cuda::replay_memory(kSize, [&](void* to) { std::memcpy(to, &step, kSize); }), kSize);
  });
  for (size_t k = 0; k < kRounds; ++k) {
    std::optional<cuda::StreamGuard> guard;
    if (k % 2 == 1) guard.emplace(other);
    graph.replay();
  }
  cuda::synchronize_device(0);
  for (size_t k = 0; k < kRounds; ++k) {
    CHECK(read<int64_t>(history.data() + k * kSize) == static_cast<int64_t>(kRounds - k));
  }
}

TEST_CASE("each replay continues the random stream at the program's current position" * needs_devices()) {
  tt::manual_seed(7);
  tt::default_generator().reserve(100);
  const DeviceBytes output(sizeof(uint64_t));
  uint64_t first = 0;
  cuda::Graph graph;
  graph.capture([&] {
    first = tt::default_generator().reserve(5);
    const uint64_t* const offset = cuda::random_offset(7);
    REQUIRE(offset != nullptr);
    CHECK(cuda::random_offset(7) == offset);
    CHECK(cuda::random_offset(8) == nullptr);  // the seed of another generator
    take(output.data(), offset, sizeof(uint64_t));
    tt::default_generator().reserve(2);
  });
  CHECK(first == 100);
  CHECK(next_block() == 100);  // the capture ran nothing
  graph.replay();
  CHECK(first + read<uint64_t>(output.data()) == 100);
  CHECK(next_block() == 107);
  graph.replay();
  CHECK(first + read<uint64_t>(output.data()) == 107);
  tt::default_generator().reserve(1000);  // other code uses the generator in between
  graph.replay();
  CHECK(first + read<uint64_t>(output.data()) == 1114);
  CHECK(next_block() == 1121);
  tt::manual_seed(0);
}

TEST_CASE("a failed capture does not advance the random stream" * needs_devices()) {
  tt::manual_seed(3);
  const DeviceBytes output(100);
  cuda::Graph graph;
  CHECK_THROWS_AS(graph.capture([&] {
    tt::default_generator().reserve(5);
    output.fill(1);
    throw std::runtime_error("from the step");
  }),
                  std::runtime_error);
  CHECK(next_block() == 0);
  tt::manual_seed(0);
}

TEST_CASE("the memory of values is freed with the graph" * needs_devices()) {
  for (const bool caching : {true, false}) {
    CAPTURE(caching);
    const CachingScope scope(caching);
    const DeviceBytes output(16);
    cuda::release_cached(0);
    const auto before = cuda::memory_stats(0);
    for (int round = 0; round < 3; ++round) {
      cuda::Graph graph;
      graph.capture([&] {
        take(output.data(), cuda::replay_memory(16, [](void* to) { std::memset(to, 3, 16); }), 16);
      });
      graph.replay();
      CHECK(output.holds(3));
      CHECK(graph.reserved_bytes() > 0);
    }
    CHECK(cuda::memory_stats(0).current == before.current);
    cuda::release_cached(0);
    CHECK(cuda::memory_stats(0).reserved == before.reserved);
  }
}
