// CUDA graphs: recorded work, memory that a graph keeps, and operations that a capture refuses.
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <support/device.hpp>
#include <support/errors.hpp>
#include <thread>
#include <tinytorch/backend/cuda/runtime/graph.hpp>

namespace tt = tinytorch;
namespace cuda = tinytorch::backend::cuda;
using test::CachingScope;
using test::DeviceBytes;
using test::needs_devices;

namespace {
constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kBytes = 3 * kMiB;
size_t reserved() { return cuda::memory_stats(0).reserved; }
}  // namespace

TEST_CASE("a capture runs no work, each replay runs all captured work" * needs_devices()) {
  const DeviceBytes input(5000), middle(5000), output(5000);
  input.fill(1);
  middle.fill(0);
  output.fill(0);
  cuda::Graph graph;
  CHECK(!graph.is_captured());
  graph.capture([&] {
    CHECK(cuda::is_capturing());
    middle.copy_from(input);
    input.fill(9);
    output.copy_from(middle);
  });
  CHECK(!cuda::is_capturing());
  CHECK(cuda::current_stream() == nullptr);
  CHECK(graph.is_captured());
  CHECK(graph.nodes() == 3);
  CHECK(input.holds(1));
  CHECK(output.holds(0));
  graph.replay();
  CHECK(output.holds(1));
  CHECK(input.holds(9));
  input.fill(4);  // queued on the current stream, before the replay
  graph.replay();
  CHECK(output.holds(4));
  const cuda::Stream other;
  input.fill(6);
  cuda::synchronize();
  {
    const cuda::StreamGuard guard(other);
    graph.replay();
    CHECK(output.holds(6));
  }
}

TEST_CASE("memory allocated in a capture belongs to the graph alone until the graph is destroyed" *
          needs_devices()) {
  for (const bool caching : {true, false}) {
    CAPTURE(caching);
    const CachingScope scope(caching);
    cuda::release_cached(0);
    const size_t before = reserved();
    const DeviceBytes input(kBytes), output(kBytes);
    const size_t with_inputs = reserved();
    const unsigned char* inside = nullptr;
    {
      cuda::Graph graph;
      graph.capture([&] {
        const DeviceBytes temporary(kBytes);  // freed before the first replay
        inside = temporary.data();
        temporary.copy_from(input);
        output.copy_from(temporary);
      });
      CHECK(graph.reserved_bytes() >= kBytes);
      CHECK(reserved() == with_inputs + graph.reserved_bytes());
      cuda::release_cached(0);
      CHECK(graph.reserved_bytes() >= kBytes);
      std::vector<std::unique_ptr<DeviceBytes>> others;
      for (int k = 0; k < 5; ++k) {
        others.push_back(std::make_unique<DeviceBytes>(kBytes));
        CHECK(others.back()->data() != inside);
        others.back()->fill(100 + k);
      }
      input.fill(3);
      graph.replay();
      CHECK(output.holds(3));
      for (int k = 0; k < 5; ++k) CHECK(others[static_cast<size_t>(k)]->holds(100 + k));
    }
    cuda::release_cached(0);
    CHECK(reserved() == with_inputs);
    CHECK(with_inputs >= before + 2 * kBytes);
  }
}

TEST_CASE("a capture reuses memory that it has freed" * needs_devices()) {
  const CachingScope scope;
  const DeviceBytes output(kBytes);
  cuda::Graph graph;
  size_t different = 0;
  graph.capture([&] {
    const unsigned char* first = nullptr;
    for (int k = 0; k < 10; ++k) {
      const DeviceBytes temporary(kBytes);
      if (!first) first = temporary.data();
      different += temporary.data() != first;
      temporary.fill(k);
      output.copy_from(temporary);
    }
  });
  CHECK(different == 0);
  CHECK(graph.reserved_bytes() == 4 * kMiB);
  graph.replay();
  CHECK(output.holds(9));
}

TEST_CASE("memory that a captured step uses and frees is kept for its replays" * needs_devices()) {
  for (const bool caching : {true, false}) {
    CAPTURE(caching);
    const CachingScope scope(caching);
    cuda::release_cached(0);
    const DeviceBytes output(kBytes);
    const size_t before = reserved();
    {
      DeviceBytes gradient(kBytes);  // from an earlier step, freed by the captured one
      const unsigned char* const at = gradient.data();
      gradient.fill(7);
      cuda::Graph graph;
      graph.capture([&] {
        output.copy_from(gradient);
        gradient.free();
      });
      const DeviceBytes next(kBytes);
      CHECK(next.data() != at);
      next.fill(1);
      graph.replay();
      CHECK(output.holds(7));
    }
    cuda::release_cached(0);
    CHECK(reserved() == before);
  }
}

TEST_CASE("results outlive their graph" * needs_devices()) {
  for (const bool caching : {true, false}) {
    CAPTURE(caching);
    const CachingScope scope(caching);
    cuda::release_cached(0);
    const size_t before = reserved();
    std::optional<DeviceBytes> result;
    {
      cuda::Graph graph;
      graph.capture([&] {
        result.emplace(kBytes);
        result->fill(5);
      });
      graph.replay();
    }
    const DeviceBytes other(kBytes);
    CHECK(other.data() != result->data());
    other.fill(1);
    CHECK(result->holds(5));
    const size_t with_result = reserved();
    result.reset();
    CHECK(reserved() + kBytes <= with_result);  // no other request can use it, so it is released
    cuda::release_cached(0);
    CHECK(reserved() <= before + other.size() + kMiB);
  }
}

TEST_CASE("a result that is freed while its graph exists is not reused" * needs_devices()) {
  for (const bool caching : {true, false}) {
    CAPTURE(caching);
    const CachingScope scope(caching);
    std::optional<DeviceBytes> result;
    cuda::Graph graph;
    graph.capture([&] {
      result.emplace(kBytes);
      result->fill(5);
    });
    const unsigned char* const at = result->data();
    result.reset();
    const DeviceBytes other(kBytes);
    CHECK(other.data() != at);
    other.fill(1);
    graph.replay();
    CHECK(other.holds(1));
  }
}

TEST_CASE("repeated captures do not use more and more memory" * needs_devices()) {
  const CachingScope scope;
  const DeviceBytes output(kBytes);
  cuda::Graph graph;
  size_t after_first = 0;
  for (int round = 0; round < 20; ++round) {
    graph.capture([&] {
      const DeviceBytes temporary(kBytes);
      temporary.fill(round);
      output.copy_from(temporary);
    });
    graph.replay();
    CHECK(output.holds(round));
    if (round == 0) after_first = reserved();
  }
  CHECK(reserved() == after_first);
}

TEST_CASE("a graph may be destroyed while another is captured" * needs_devices()) {
  for (const bool caching : {true, false}) {
    CAPTURE(caching);
    const CachingScope scope(caching);
    cuda::release_cached(0);
    const size_t before = reserved();
    {
      const DeviceBytes output(kBytes);
      std::optional<cuda::Graph> old(std::in_place);
      old->capture([&] {
        const DeviceBytes temporary(kBytes);
        temporary.fill(1);
        output.copy_from(temporary);
      });
      old->replay();
      cuda::Graph next;
      next.capture([&] {
        const DeviceBytes temporary(kBytes);
        temporary.fill(2);
        old.reset();
        output.copy_from(temporary);
      });
      CHECK(output.holds(1));
      next.replay();
      CHECK(output.holds(2));
    }
    cuda::release_cached(0);
    CHECK(reserved() == before);
  }
}

TEST_CASE("a block in use on other streams is kept after its graph is destroyed" * needs_devices()) {
  const CachingScope scope;
  cuda::release_cached(0);
  const size_t bytes = TINYTORCH_CUDA_SIM ? 4 * kMiB : 256 * kMiB;
  const cuda::Stream other;
  const DeviceBytes copy(bytes), output(100);
  DeviceBytes shared(bytes);
  const unsigned char* const at = shared.data();
  shared.fill(5);
  cuda::synchronize();
  {
    const cuda::StreamGuard guard(other);
    for (int k = 0; k < 40; ++k) copy.fill(k);
    copy.copy_from(shared);
  }
  cuda::record_stream(shared.data(), 0, other.handle());
  {
    cuda::Graph graph;
    graph.capture([&] {
      output.fill(1);
      shared.free();
    });
  }
  const DeviceBytes next(bytes);
  if (!other.is_idle()) CHECK(next.data() != at);
  next.fill(6);
  other.synchronize();
  CHECK(copy.holds(5));
}

TEST_CASE("two graphs do not share memory" * needs_devices()) {
  const CachingScope scope;
  const DeviceBytes a(kBytes), b(kBytes);
  std::optional<DeviceBytes> kept_a, kept_b;
  cuda::Graph first, second;
  first.capture([&] {
    kept_a.emplace(kBytes);
    kept_a->fill(1);
  });
  second.capture([&] {
    kept_b.emplace(kBytes);
    kept_b->fill(2);
    b.copy_from(*kept_a);  // the result of one is an input of the other
  });
  first.replay();
  second.replay();
  CHECK(kept_a->holds(1));
  CHECK(kept_b->holds(2));
  CHECK(b.holds(1));
  cuda::Graph moved(std::move(first));
  CHECK(!first.is_captured());
  moved.replay();
  CHECK(kept_a->holds(1));
}

TEST_CASE("pinned memory feeds the replays" * needs_devices()) {
  const DeviceBytes device(5000);
  auto* const source = static_cast<unsigned char*>(cuda::allocate_pinned(5000));
  auto* const target = static_cast<unsigned char*>(cuda::allocate_pinned(5000));
  cuda::Graph graph;
  graph.capture([&] {
    cuda::copy_bytes_async(device.data(), test::on_cuda(0), source, tt::cpu, 5000);
    cuda::copy_bytes_async(target, tt::cpu, device.data(), test::on_cuda(0), 5000);
  });
  for (const int value : {3, 250}) {
    std::memset(source, value, 5000);
    graph.replay();
    cuda::synchronize();
    CHECK(target[0] == value);
    CHECK(target[4999] == value);
  }
  cuda::deallocate_pinned(source);
  cuda::deallocate_pinned(target);
}

TEST_CASE("other threads continue while one thread captures" * needs_devices()) {
  const CachingScope scope;
  const DeviceBytes output(kBytes);
  cuda::Graph graph;
  bool intact = false;
  graph.capture([&] {
    output.fill(1);
    std::thread([&] {
      const cuda::Stream stream;
      const cuda::StreamGuard guard(stream);
      CHECK(!cuda::is_capturing());
      const DeviceBytes block(20 * kMiB);
      block.fill(8);
      intact = block.holds(8);
    }).join();
  });
  CHECK(intact);
  CHECK(graph.nodes() == 1);
}

TEST_CASE("an operation that a capture does not allow is refused by name, and the capture is discarded" *
          needs_devices()) {
  const DeviceBytes block(5000);
  block.fill(1);
  std::vector<unsigned char> host(5000, 9);
  const auto refused = [&](const char* what, const std::function<void()>& step) {
    CAPTURE(what);
    cuda::Graph graph;
    errors::check_error(
        std::string("TT-CUDA-05: ") + what +
            ": not allowed while a graph is captured, because nothing runs before the replay\n  hint: a "
            "captured step may only queue device work; move .item(), .to(cpu), printing, new tensors from "
            "CPU data and synchronize() before or after it",
        [&] {
          graph.capture([&] {
            block.fill(2);
            step();
          });
        },
        __FILE__);
    CHECK(!graph.is_captured());
    CHECK(!cuda::is_capturing());
    CHECK(cuda::current_stream() == nullptr);
  };
  const tt::Device device = test::on_cuda(0);
  const cuda::Event event;
  refused("a copy to the CPU", [&] { cuda::copy_bytes(host.data(), tt::cpu, block.data(), device, 5000); });
  refused("a copy from the CPU", [&] { cuda::copy_bytes(block.data(), device, host.data(), tt::cpu, 5000); });
  refused("synchronize()", [] { cuda::synchronize(); });
  refused("synchronize_device()", [] { cuda::synchronize_device(0); });
  refused("waiting for an event", [&] { event.synchronize(); });
  refused("release_cached()", [] { cuda::release_cached(0); });
  refused(".item()", [] { cuda::refuse_in_capture(".item()"); });
  cuda::Graph other;
  refused("Graph::capture inside a capture", [&] { other.capture([&] { block.fill(3); }); });
  refused("Graph::replay", [&] { other.replay(); });
  CHECK(block.holds(1));
  other.capture([&] { block.fill(3); });
  other.replay();
  CHECK(block.holds(3));
}

TEST_CASE("exceptions of the captured step are passed on" * needs_devices()) {
  const CachingScope scope;
  const DeviceBytes output(kBytes);
  cuda::Graph graph;
  CHECK_THROWS_AS(graph.capture([&] {
    const DeviceBytes temporary(kBytes);
    temporary.fill(1);
    throw std::out_of_range("from the step");
  }),
                  std::out_of_range);
  CHECK(!cuda::is_capturing());
  CHECK(!graph.is_captured());
  graph.capture([&] { output.fill(2); });
  graph.replay();
  CHECK(output.holds(2));
}

TEST_CASE("replay without a capture is refused" * needs_devices()) {
  cuda::Graph graph;
  errors::check_error("TT-CUDA-05: Graph::replay: nothing was captured\n  hint: call capture() first",
                      [&] { graph.replay(); });
  errors::check_error(
      "TT-CUDA-05: Graph::capture: the step queued no work on the device\n  hint: are its tensors on cuda:0, "
      "and "
      "does it use the current stream?",
      [&] { graph.capture([] {}); });
  CHECK(graph.nodes() == 0);
  CHECK(graph.reserved_bytes() == 0);
}
