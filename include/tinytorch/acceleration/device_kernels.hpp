// Generated kernels of a GPU: compiled by NVRTC in the background, kept in the kernel cache, and tried.
//
//   std::shared_ptr<DeviceKernel> k = DeviceKernels::shared().build(text, true);
//   if (const auto* kernel = k->usable(trial)) ...   null until it is compiled and tried
//
// The trial of an elementwise kernel is that of the kernels for the CPU (kernel_check.hpp): random and
// special values, against the interpreter on the device, with the same bits. It runs on the thread that wants
// the kernel, because it queues work on that thread's stream. A kernel that fails it is never used.
#pragma once

#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <tinytorch/acceleration/emit_cuda.hpp>
#include <tinytorch/acceleration/kernel_cache.hpp>
#include <tinytorch/acceleration/kernel_check.hpp>
#include <tinytorch/acceleration/nvrtc.hpp>
#include <tinytorch/backend/cuda/launch.hpp>
#include <tinytorch/backend/cuda/runtime/loaded_kernel.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::acceleration {

using backend::cuda::LoadedKernel;

// Belongs to the key of the cache; it changes when the emitted text changes its meaning.
inline constexpr int kDeviceEmitterVersion = 2;

// Queues a kernel: `call` with these results and inputs, of `count` elements.
inline void launch_pointwise(const LoadedKernel& kernel, const KernelCall& call, int elements,
                             std::span<void* const> out, std::span<const void* const> in, int64_t count) {
  std::vector<std::byte> argument;  // the struct of emit_cuda.hpp, which has no padding
  const auto add = [&](const void* from, size_t bytes) {
    const auto* const first = static_cast<const std::byte*>(from);
    argument.insert(argument.end(), first, first + bytes);
  };
  const void* const absent = nullptr;
  add(out.data(), out.size_bytes());
  if (out.empty()) add(&absent, sizeof absent);
  add(in.data(), in.size_bytes());
  if (in.empty()) add(&absent, sizeof absent);
  add(call.arguments.data(), call.arguments.size() * sizeof(int64_t));
  add(&count, sizeof count);
  backend::cuda::launch(kernel, ceil_div(ceil_div(count, int64_t{elements}), int64_t{kDeviceBlock}),
                        kDeviceBlock, argument.data());
}

// Memory on the current device with the content of a view of the host.
class DeviceCopy {
 public:
  explicit DeviceCopy(const View& host)
      : host_(host), bytes_(bytes_of(host)), data_(backend::cuda::allocate(bytes_, device_)) {
    backend::cuda::copy_bytes(data_, Device{DeviceType::cuda, device_}, host.data, Device(), bytes_);
  }
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;
  ~DeviceCopy() { backend::cuda::deallocate(data_, bytes_, device_); }
  View view() const {
    View v = host_;
    v.data = data_;
    return v;
  }
  void fetch() const {
    backend::cuda::copy_bytes(host_.data, Device(), data_, Device{DeviceType::cuda, device_}, bytes_);
  }

 private:
  static size_t bytes_of(const View& v) {
    int64_t last = 0;
    for (int d = 0; d < v.rank(); ++d) last += (v.shape[d] - 1) * v.strides[d];
    return static_cast<size_t>(last + 1) * size_of(v.dtype);
  }
  View host_;
  int device_ = backend::cuda::current_device();
  size_t bytes_;
  void* data_;
};

// True if the kernel gives the bits of the device's interpreter.
inline bool agrees_on_device(const PointwiseProgram& program, const KernelLayout& layout, int elements,
                             const LoadedKernel& kernel) {
  uint64_t seed = 1;
  for (const int64_t length : {1, 3, 7, 64, 65, 255, 257, 1031}) {
    const int64_t n = layout.rows && elements > 1 ? length * elements : length;
    const KernelTrial trial(program, layout, 3, n, seed++, true);
    std::vector<std::unique_ptr<DeviceCopy>> copies;
    std::vector<View> in, mine, expected;
    const auto copy = [&](const std::vector<View>& from, std::vector<View>& to) {
      for (const View& v : from) {
        copies.push_back(std::make_unique<DeviceCopy>(v));
        to.push_back(copies.back()->view());
      }
    };
    copy(trial.in(), in), copy(trial.mine(), mine), copy(trial.expected(), expected);
    std::vector<void*> out_data;
    std::vector<const void*> in_data;
    for (const View& v : mine) out_data.push_back(v.data);
    for (const View& v : in) in_data.push_back(v.data);
    if constexpr (TINYTORCH_WITH_CUDA) backend::cuda::pointwise(program, expected, in);
    launch_pointwise(kernel, trial.call(), elements, out_data, in_data, trial.mine()[0].numel());
    for (const auto& c : copies) c->fetch();
    if (!trial.results_agree()) return false;
  }
  return true;
}

class DeviceKernel {
 public:
  // The kernel if it is compiled and passed its trial, which this call makes if nobody did: `agrees` is true
  // if the kernel's results are right. Null during the capture of a CUDA graph if the trial is still to come.
  const LoadedKernel* usable(const std::function<bool(const LoadedKernel&)>& agrees) {
    if (const LoadedKernel* ready = ready_) return ready;
    if (!compiled_ || tried_) return nullptr;
    if (backend::cuda::is_capturing()) return nullptr;
    const std::lock_guard guard(mutex_);
    if (tried_) return ready_;
    tried_ = true;
    if (!problem_.empty()) return nullptr;
    const LoadedKernel* const loaded = backend::cuda::load_kernel(code_, "tinytorch_kernel", problem_);
    try {
      if (loaded && !agrees(*loaded)) problem_ = "its results differ from the interpreter's";
    } catch (const std::exception& error) {
      problem_ = std::string("its trial failed: ") + error.what();
    }
    if (problem_.empty()) ready_ = loaded;
    return ready_;
  }
  // Waits for the compiler. Why the kernel is not used; empty if it is, or if it was not tried yet.
  std::string problem() {
    wait();
    const std::lock_guard guard(mutex_);
    return problem_;
  }
  bool from_cache() const { return from_cache_; }
  void wait() {
    const std::lock_guard guard(waiting_);
    if (work_.valid()) work_.get();
  }

 private:
  friend class DeviceKernels;
  std::atomic<const LoadedKernel*> ready_{nullptr};
  std::atomic<bool> compiled_{false}, tried_{false}, from_cache_{false};
  std::vector<char> code_;
  std::string problem_;
  std::mutex mutex_, waiting_;
  std::future<void> work_;
};

// The generated kernels of this process.
class DeviceKernels {
 public:
  explicit DeviceKernels(std::string cache_folder = KernelCache::default_folder())
      : cache_(std::move(cache_folder)) {}

  // Objects that the compiling threads use are made first, so that they are destroyed after the threads at
  // the end of the program.
  static DeviceKernels& shared() {
    device_prelude(), nvrtc();
    static DeviceKernels kernels;
    return kernels;
  }

  // Starts to make a kernel of this text for the current device, or finds the one that was made before. In
  // the background, or before returning.
  std::shared_ptr<DeviceKernel> build(const std::string& text, bool background) {
    const std::string architecture = backend::cuda::architecture();
    std::shared_ptr<DeviceKernel> kernel;
    {
      const std::lock_guard guard(mutex_);
      std::shared_ptr<DeviceKernel>& known = kernels_[architecture + "\n" + text];
      if (!known) {
        known = std::make_shared<DeviceKernel>();
        DeviceKernel* const made = known.get();  // the map keeps it
        made->work_ = std::async(std::launch::async,
                                 [this, made, architecture, text] { make(*made, architecture, text); });
      }
      kernel = known;
    }
    if (!background) kernel->wait();
    return kernel;
  }

 private:
  void make(DeviceKernel& kernel, const std::string& architecture, const std::string& text) {
    std::string problem;
    std::vector<char> code;
    try {
      code = code_of(kernel, architecture, text, problem);
    } catch (const std::exception& error) {
      problem = error.what();
    }
    {
      const std::lock_guard guard(kernel.mutex_);
      kernel.code_ = std::move(code);
      kernel.problem_ = std::move(problem);
    }
    kernel.compiled_ = true;
  }

  std::vector<char> code_of(DeviceKernel& kernel, const std::string& architecture, const std::string& text,
                            std::string& problem) {
    const Prelude& prelude = device_prelude();
    problem = !prelude.problem.empty() ? prelude.problem
              : architecture.empty()   ? "there is no GPU"
                                       : nvrtc().problem;
    if (!problem.empty()) return {};
    const std::string source = prelude.text + text;
    Sha256 sum;
    sum.add("tinytorch device kernel " + std::to_string(kDeviceEmitterVersion) + "\n" + nvrtc().identity +
            "\n");
    for (const std::string& option : nvrtc_options(architecture)) sum.add(option + "\n");
    sum.add(source);
    const std::string key = sum.hex();
    const auto lock = locked(key);
    if (lock) {
      if (std::vector<char> found = cached(key); !found.empty()) {
        kernel.from_cache_ = true;
        return found;
      }
    }
    std::vector<char> code = compile_cuda(source, architecture, problem);
    if (lock && !code.empty()) keep(key, source, code);
    return code;
  }
  // The cache's functions are called by one thread at a time; compilers run side by side.
  std::unique_ptr<FileLock> locked(const std::string& key) {
    const std::lock_guard guard(caching_);
    return cache_.lock(key);
  }
  std::vector<char> cached(const std::string& key) {
    const std::lock_guard guard(caching_);
    if (!cache_.find(key)) return {};
    std::ifstream file(cache_.entry(key) + "/kernel.so", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void keep(const std::string& key, const std::string& source, const std::vector<char>& code) {
    const std::lock_guard guard(caching_);
    const std::string folder = cache_.building(key);
    if (folder.empty()) return;
    std::ofstream(folder + "/source.cpp", std::ios::binary) << source;
    std::ofstream(folder + "/kernel.so", std::ios::binary)
        .write(code.data(), static_cast<std::streamsize>(code.size()));
    cache_.publish(key, "compiled");
  }

  KernelCache cache_;
  std::mutex mutex_, caching_;
  std::map<std::string, std::shared_ptr<DeviceKernel>> kernels_;  // by architecture and text
};

}  // namespace tinytorch::inline TT_BUILD::acceleration
