// From the text of a kernel to a function that runs: the compiler, the cache on disk, the trial, and a thread
// in the background.
//
// Each kernel is made once in a process, whatever number of programs need it. Nothing here throws: a kernel
// that cannot be made, gives other bits than the interpreter, or is slower, is reported and not used.
#pragma once

#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <tinytorch/acceleration/emit_cpu.hpp>
#include <tinytorch/acceleration/host_compiler.hpp>
#include <tinytorch/acceleration/kernel_cache.hpp>
#include <tinytorch/acceleration/kernel_check.hpp>
#include <tinytorch/acceleration/prelude.hpp>
#include <tinytorch/backend/cpu/elementwise.hpp>
#include <utility>
#include <vector>

namespace tinytorch::inline TT_BUILD::acceleration {

// Belongs to the key of the cache; it changes when the emitted text or the trial changes its meaning.
inline constexpr int kEmitterVersion = 1;

// True if the loops of this library join a product and a sum to one rounded operation. It depends on the
// options that the library was compiled with; a kernel is compiled alike.
inline bool library_joins_products() {
  volatile float one = 1, beside_one = 1 + 0x1p-12f;  // volatile: the compiler must not compute the result
  float a[32], b[32], out[32];
  for (int i = 0; i < 32; ++i) a[i] = one, b[i] = beside_one;
  const auto view = [](float* data) { return backend::View{data, DType::f32, Shape{32}, Strides{1}}; };
  backend::cpu::binary(backend::BinaryFn::tanh_grad, view(out), view(a), view(b));
  return out[0] != -0x1p-11f;  // a (1 - b b), where b b is not a float
}

inline std::vector<std::string> kernel_flags() {
  std::vector<std::string> flags = {"-x", "c++", "-std=c++20", "-O3"};
#if defined(__x86_64__)
  flags.push_back("-march=native");
#if !TT_FMA
  flags.insert(flags.end(), {"-mno-fma", "-mno-avx512f"});
#endif
#else
  flags.push_back("-mcpu=native");
#endif
#if defined(__clang__)
  const char* const joined = "-ffp-contract=on";  // within an expression: the default of clang
#else
  const char* const joined = "-ffp-contract=fast";
#endif
  flags.push_back(library_joins_products() ? joined : "-ffp-contract=off");
  flags.insert(flags.end(), {"-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared", "-nostdlib",
                             "-fvisibility=hidden", "-w"});
  return flags;
}

// The instructions of this processor, for which -march=native compiles.
inline std::string processor_features() {
  std::ifstream file("/proc/cpuinfo");
  std::string line, found;
  while (std::getline(file, line) && !line.empty())
    if (line.starts_with("flags") || line.starts_with("Features") || line.starts_with("model name"))
      found += line + "\n";
  return found;
}

// The state of a kernel that is being made. `run` is null until it may be used.
struct BuiltKernel {
  std::atomic<KernelFunction> run{nullptr};
  std::atomic<bool> finished{false};
  // The following are valid once `finished` is true.
  std::string key, problem;  // why it is not used
  bool from_cache = false;
  double seconds = 0;  // of the compiler
};

class KernelBuilder {
 public:
  struct Options {
    std::string cache_folder = KernelCache::default_folder();
    int64_t cache_bytes = KernelCache::kDefaultLimit;
    bool must_be_faster = true;              // false: a kernel is used even if the interpreter is faster
    const HostCompiler* compiler = nullptr;  // null: the one of this process
    const Prelude* prelude = nullptr;        // null: the one of this process
  };

  KernelBuilder() : KernelBuilder(Options()) {}
  explicit KernelBuilder(const Options& options)
      : cache_(options.cache_folder, options.cache_bytes), options_(options), owner_(::getpid()) {}
  KernelBuilder(const KernelBuilder&) = delete;
  KernelBuilder& operator=(const KernelBuilder&) = delete;
  // Waits for the kernel that is being compiled; those that wait are given up.
  ~KernelBuilder() {
    if (!worker_.joinable()) return;
    if (::getpid() != owner_) {  // a forked child has no such thread
      worker_.detach();
      return;
    }
    {
      const std::lock_guard guard(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    worker_.join();
  }

  // The builder of this process. Objects that its thread uses are made first, so that at the end of the
  // program they are destroyed after the builder, which waits for the thread.
  static KernelBuilder& shared() {
    [[maybe_unused]] static const bool made = (kernel_prelude(), host_compiler(), library_joins_products());
    static KernelBuilder builder;
    return builder;
  }

  // Starts to make a kernel, or finds the one that was made before. In the background, or before returning.
  std::shared_ptr<BuiltKernel> build(const PointwiseProgram& program, const KernelLayout& layout,
                                     bool background) {
    const std::string text = emit_cpu(program, layout);
    std::shared_ptr<BuiltKernel> kernel;
    {
      const std::lock_guard guard(mutex_);
      std::shared_ptr<BuiltKernel>& known = kernels_[text];
      if (known && (known->finished || background)) return known;
      if (!known) {
        known = std::make_shared<BuiltKernel>();
        kernel = known;
      } else {
        kernel = std::make_shared<BuiltKernel>();  // it waits in the queue, but the caller needs it now
      }
    }
    if (!background) {
      make(*kernel, program, layout, text);
      return kernel;
    }
    {
      const std::lock_guard guard(mutex_);
      jobs_.emplace_back([this, kernel, program, layout, text] { make(*kernel, program, layout, text); });
      if (!worker_.joinable()) worker_ = std::thread([this] { work(); });
    }
    wake_.notify_one();
    return kernel;
  }
  // Waits until no kernel is being made.
  void wait() {
    std::unique_lock lock(mutex_);
    idle_.wait(lock, [&] { return jobs_.empty() && !busy_; });
  }
  KernelCache& cache() { return cache_; }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
      if (stopping_) return;
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      busy_ = true;
      lock.unlock();
      job();
      lock.lock();
      busy_ = false;
      idle_.notify_all();
    }
  }

  void make(BuiltKernel& kernel, const PointwiseProgram& program, const KernelLayout& layout,
            const std::string& text) {
    const std::lock_guard guard(making_);
    try {
      kernel.problem = try_to_make(kernel, program, layout, text);
    } catch (const std::exception& error) {
      kernel.problem = error.what();
    }
    kernel.finished = true;
  }

  // Returns why the kernel is not used; empty if it is.
  std::string try_to_make(BuiltKernel& kernel, const PointwiseProgram& program, const KernelLayout& layout,
                          const std::string& text) {
    const Prelude& prelude = options_.prelude ? *options_.prelude : kernel_prelude();
    if (!prelude.problem.empty()) return prelude.problem;
    const HostCompiler* const compiler = options_.compiler ? options_.compiler : host_compiler();
    if (!compiler) return "there is no C++ compiler";
    const std::string source = prelude.text + text;
    const std::vector<std::string> flags = kernel_flags();
    std::vector<std::string> texts = {"tinytorch kernel " + std::to_string(kEmitterVersion),
                                      compiler->identity, processor_features(), source};
    texts.insert(texts.end(), flags.begin(), flags.end());
    kernel.key = kernel_key(texts);

    const auto lock = cache_.lock(kernel.key);
    if (lock) {
      if (const auto note = cache_.find(kernel.key)) {
        kernel.from_cache = true;
        if (*note != kUsable) return *note;
        return use(kernel, cache_.entry(kernel.key) + "/kernel.so");
      }
    }
    std::string folder = lock ? cache_.building(kernel.key) : std::string();
    const bool publish = !folder.empty();
    if (!publish) folder = temporary_folder();
    if (folder.empty()) return "there is no folder to compile in";
    std::string problem = compile_in(kernel, *compiler, flags, folder, source);
    KernelFunction function = nullptr;
    if (problem.empty()) {
      function =
          reinterpret_cast<KernelFunction>(load_function(folder + "/kernel.so", "tinytorch_kernel", problem));
    }
    if (function == nullptr) {
      remove(folder);
      return problem;
    }
    const std::string verdict = try_out(program, layout, function);
    if (publish) {
      cache_.publish(kernel.key, verdict);
    } else {
      remove(folder);  // a loaded library stays in memory
    }
    if (verdict != kUsable) return verdict;
    kernel.run = function;
    return {};
  }

  std::string try_out(const PointwiseProgram& program, const KernelLayout& layout,
                      KernelFunction function) const {
    if (!agrees_with_interpreter(program, layout, function))
      return "its results differ from the interpreter's";
    if (options_.must_be_faster && speed_against_interpreter(program, layout, function) < 1) return kSlower;
    return kUsable;
  }
  static std::string compile_in(BuiltKernel& kernel, const HostCompiler& compiler,
                                const std::vector<std::string>& flags, const std::string& folder,
                                const std::string& source) {
    std::ofstream file(folder + "/source.cpp", std::ios::binary);
    file << source;
    file.close();
    if (!file) return "the source cannot be written to " + folder;
    const auto start = std::chrono::steady_clock::now();
    std::string problem = compile(compiler, flags, folder + "/source.cpp", folder + "/kernel.so");
    kernel.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return problem;
  }
  static std::string use(BuiltKernel& kernel, const std::string& library) {
    std::string problem;
    void* const function = load_function(library, "tinytorch_kernel", problem);
    kernel.run = reinterpret_cast<KernelFunction>(function);
    return function ? std::string() : problem;
  }
  static std::string temporary_folder() {
    std::error_code error;
    std::string name = (std::filesystem::temp_directory_path(error) / "tinytorch-XXXXXX").string();
    return error || ::mkdtemp(name.data()) == nullptr ? std::string() : name;
  }
  static void remove(const std::string& folder) {
    std::error_code error;
    std::filesystem::remove_all(folder, error);
  }

  static constexpr const char *kUsable = "usable", *kSlower = "it is slower than the interpreter";
  KernelCache cache_;
  const Options options_;
  const pid_t owner_;
  std::mutex mutex_, making_;  // of the queue; of the compiler and the cache
  std::condition_variable wake_, idle_;
  std::map<std::string, std::shared_ptr<BuiltKernel>> kernels_;  // by their text
  std::deque<std::function<void()>> jobs_;
  bool busy_ = false, stopping_ = false;
  std::thread worker_;
};

}  // namespace tinytorch::inline TT_BUILD::acceleration
