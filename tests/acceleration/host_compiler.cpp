// Programs that are started, and the compiler that is found.
#include <doctest/doctest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <tinytorch/acceleration/host_compiler.hpp>

using namespace tinytorch::acceleration;
namespace fs = std::filesystem;

TEST_CASE("programs are started without a shell, and end in time") {
  using std::chrono::milliseconds;
  const ProgramResult both =
      run_program({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, milliseconds(5000));
  CHECK(!both.ok);
  CHECK(both.output == "out\nerr\n");
  CHECK(run_program({"/bin/echo", "$HOME; `x`"}, milliseconds(5000)).output == "$HOME; `x`\n");
  CHECK(run_program({"/no/such/program"}, milliseconds(5000)).problem != "");
  const ProgramResult input = run_program({"/bin/cat"}, milliseconds(5000));  // its input is empty
  CHECK(input.ok);
  // A program that does not end, with a child that holds the pipe open.
  const ProgramResult endless = run_program({"/bin/sh", "-c", "sleep 1000 & sleep 1000"}, milliseconds(50));
  CHECK(!endless.ok);
  CHECK(endless.problem.find("longer than 50 ms") != std::string::npos);
  CHECK(run_program({"/bin/sh", "-c", "yes | head -c 1000000"}, milliseconds(5000)).output.size() == 65536);
  CHECK(!find_program("no such program"));
  CHECK(find_program("sh"));
  CHECK(!find_program("/no/such/program"));
}

TEST_CASE("a compiler makes a library whose functions can be called") {
  const HostCompiler* const compiler = host_compiler();
  if (!compiler) return;
  CHECK(compiler->identity.starts_with(compiler->path));
  std::string folder = (fs::temp_directory_path() / "tinytorch; test-XXXXXX").string();
  REQUIRE(::mkdtemp(folder.data()) != nullptr);
  std::ofstream(folder + "/a.cpp") << "extern \"C\" int twice(int x) { return 2 * x; }\n";
  CHECK(compile(*compiler, {"-shared", "-fPIC"}, folder + "/a.cpp", folder + "/a.so") == "");
  std::string problem;
  auto* const twice = reinterpret_cast<int (*)(int)>(load_function(folder + "/a.so", "twice", problem));
  REQUIRE((twice != nullptr));
  CHECK(twice(21) == 42);
  CHECK(load_function(folder + "/a.so", "thrice", problem) == nullptr);
  CHECK(problem != "");
  CHECK(load_function(folder + "/b.so", "twice", problem) == nullptr);
  std::ofstream(folder + "/a.cpp") << "this is no program";
  CHECK(compile(*compiler, {"-shared"}, folder + "/a.cpp", folder + "/b.so").find("error") !=
        std::string::npos);
  fs::remove_all(folder);
}

TEST_CASE("the environment chooses the compiler") {
  const char* const before = std::getenv("TINYTORCH_CXX");
  const std::string saved = before ? before : "";
  ::setenv("TINYTORCH_CXX", "0", 1);
  CHECK(!find_compiler());
  ::setenv("TINYTORCH_CXX", "/bin/echo", 1);  // prints something for --version
  const auto chosen = find_compiler();
  CHECK((chosen && chosen->path == "/bin/echo"));
  before ? ::setenv("TINYTORCH_CXX", saved.c_str(), 1) : ::unsetenv("TINYTORCH_CXX");
}
