// Names and source lines from the symbols of the program's executable file.
#include <doctest/doctest.h>

#if TINYTORCH_CUDA_SIM
#include <tinytorch/backend/cuda/sim/symbols.hpp>

namespace sim = tinytorch::backend::cuda::sim;

namespace {

volatile int first = 0;  // volatile, else the compiler would keep only the used element of `kept`

template <class T, int N>
__attribute__((noinline)) int of_template(T value) {
  static thread_local T kept[N];
  const int at = first;
  kept[at] = static_cast<T>(kept[at] + value);
  return static_cast<int>(kept[at]);
}
__attribute__((noinline)) int plain(int x) { return of_template<float, 12>(1) + x; }

}  // namespace

TEST_CASE("names of kernels have template arguments but no namespaces") {
  CHECK(sim::kernel_name(reinterpret_cast<const void*>(&plain)) == "plain");
  CHECK(sim::kernel_name(reinterpret_cast<const void*>(&of_template<float, 12>)) == "of_template<float, 12>");
  CHECK(std::string(sim::mangled_name(reinterpret_cast<const void*>(&plain))).find("5plain") !=
        std::string::npos);
}

TEST_CASE("thread-local static variables have an address and a size") {
  CHECK(plain(1) == 2);
  const sim::Module module(reinterpret_cast<const void*>(&plain));
  bool found = false;
  for (const sim::Symbol& v : module.variables) {
    if (sim::demangled(v.mangled).find("of_template<float, 12>(float)::kept") == std::string::npos) continue;
    found = true;
    CHECK(v.bytes == 48);
    CHECK(sim::Module::find(module.variables, v.begin + 47) == &v);
    CHECK(reinterpret_cast<const float*>(module.shared_begin + v.begin)[0] == 1);
  }
  CHECK(found);
}

TEST_CASE("a code address has a source line") {
  const sim::Module module(reinterpret_cast<const void*>(&plain));
  const auto begin = reinterpret_cast<uintptr_t>(&plain) - module.base;
  CHECK(module.lines_of(begin + 2).find("symbols.cpp:") != std::string::npos);
  CHECK(module.lines_of(0).find("+0x0") != std::string::npos);  // no source line: the address
}

TEST_CASE("functions of one file share its symbols, which are read once") {
  const sim::Module& module = sim::module_of(reinterpret_cast<const void*>(&plain));
  CHECK(module.contains(reinterpret_cast<const void*>(&plain)));
  CHECK(module.contains(const_cast<const int*>(&first)));
  CHECK(&sim::module_of(reinterpret_cast<const void*>(&of_template<float, 12>)) == &module);
  int local = 0;
  CHECK_FALSE(module.contains(&local));
}

TEST_CASE("a file that cannot be read has no bytes") {
  CHECK(sim::MappedFile("/no/such/file").size() == 0);
  CHECK(sim::MappedFile("/proc/self/exe").size() > 1000);
}

TEST_CASE("constants are distinguished from variables") {
  static const char text[] = "constant";
  static int variable = 1;
  ++variable;
  const sim::Module module(reinterpret_cast<const void*>(&plain));
  const auto holds = [&](const void* p) {
    return std::any_of(module.constants.begin(), module.constants.end(),
                       [&](const auto& range) { return p >= range.first && p < range.second; });
  };
  CHECK(holds(text));
  CHECK(!holds(&variable));
}

#else
TEST_CASE("symbols: the test needs the emulator" * doctest::skip()) {}
#endif
