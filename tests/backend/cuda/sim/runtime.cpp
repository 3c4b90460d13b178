// Emulated CUDA runtime API: streams, captures and devices.
#include <support/device.hpp>

#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/runtime/native.cuh>

TEST_CASE("a capture runs no work, each launch of its graph runs all of it") {
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0) == cudaSuccess);
  void* memory = nullptr;
  CHECK(cudaMalloc(&memory, 4) == cudaSuccess);
  auto* const bytes = static_cast<unsigned char*>(memory);
  CHECK(cudaMemsetAsync(memory, 1, 4, stream) == cudaSuccess);
  CHECK(bytes[0] == 1);
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(cudaMemsetAsync(memory, 2, 4, stream) == cudaSuccess);
  CHECK(bytes[0] == 1);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  size_t nodes = 0;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes) == cudaSuccess);
  CHECK(nodes == 1);
  cudaGraphExec_t executable = nullptr;
  CHECK(cudaGraphInstantiate(&executable, graph, 0) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaMemsetAsync(memory, 1, 4, stream) == cudaSuccess);
    CHECK(cudaGraphLaunch(executable, stream) == cudaSuccess);
    CHECK(bytes[3] == 2);
  }
  CHECK(cudaGraphExecDestroy(executable) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("a call that would wait is refused during a capture, and invalidates it") {
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0) == cudaSuccess);
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
  (void)cudaGetLastError();
}

TEST_CASE("the environment sets the number of devices") {
  int count = 0;
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
  CHECK(count >= 1);
  CHECK(cudaSetDevice(count) == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(std::string(cudaGetErrorName(cudaErrorInvalidDevice)) == "cudaErrorInvalidDevice");
}

#else
TEST_CASE("the runtime API: the test needs the emulator" * doctest::skip()) {}
#endif
