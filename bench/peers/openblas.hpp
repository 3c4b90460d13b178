// OpenBLAS, loaded at run time by dlopen, once for each core type, because it chooses its kernels when it is
// loaded.
//
// dlopen loads a file only once, so each core type loads its own copy of the file. Use the OpenMP build
// (Debian: libopenblas0-openmp), which shares its threads with the other contenders. The build with its own
// threads keeps them spinning for milliseconds after a call, on cores that the next contender needs.
#pragma once

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <thread>

namespace bench {

class OpenBlas {
 public:
  // core_type: a value of OPENBLAS_CORETYPE, or "" for the library's own choice.
  OpenBlas(const std::string& library, const std::string& core_type) {
    void* const first = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    link_map* map = nullptr;
    if (!first || dlinfo(first, RTLD_DI_LINKMAP, &map) != 0)
      throw std::runtime_error(std::string("OpenBLAS cannot be loaded: ") + dlerror());
    const auto copy = std::filesystem::temp_directory_path() /
                      ("openblas-" + core_type + "-" + std::to_string(getpid()) + ".so");
    std::filesystem::copy_file(std::filesystem::canonical(map->l_name), copy,
                               std::filesystem::copy_options::overwrite_existing);
    if (!core_type.empty()) setenv("OPENBLAS_CORETYPE", core_type.c_str(), 1);
    void* const handle = dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    unsetenv("OPENBLAS_CORETYPE");
    std::filesystem::remove(copy);
    if (!handle) throw std::runtime_error(std::string("OpenBLAS cannot be loaded: ") + dlerror());
    sgemm_ = reinterpret_cast<Sgemm>(dlsym(handle, "cblas_sgemm"));
    core_ = reinterpret_cast<const char* (*)()>(dlsym(handle, "openblas_get_corename"))();
    openmp_ = reinterpret_cast<int (*)()>(dlsym(handle, "openblas_get_parallel"))() == 2;
    reinterpret_cast<void (*)(int)>(dlsym(handle, "openblas_set_num_threads"))(threads());
  }
  const std::string& core() const { return core_; }
  bool uses_openmp() const { return openmp_; }

  // c [M, N] = op(a) op(b), all row-major; transposed operands are stored as [K, M] and [N, K].
  void sgemm(bool a_transposed, bool b_transposed, int64_t M, int64_t N, int64_t K, const float* a,
             const float* b, float* c) const {
    constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;
    const auto m = static_cast<int>(M), n = static_cast<int>(N), k = static_cast<int>(K);
    sgemm_(kRowMajor, a_transposed ? kTransposed : kPlain, b_transposed ? kTransposed : kPlain, m, n, k, 1.0f,
           a, a_transposed ? m : k, b, b_transposed ? k : n, 0.0f, c, n);
  }

 private:
  using Sgemm = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float,
                         float*, int);
  static int threads() {
    const char* asked = std::getenv("OMP_NUM_THREADS");
    return asked ? std::atoi(asked) : static_cast<int>(std::thread::hardware_concurrency());
  }
  Sgemm sgemm_ = nullptr;
  std::string core_;
  bool openmp_ = false;
};

}  // namespace bench
