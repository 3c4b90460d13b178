// The way of a kernel from its text to a function: cache, compiler, trial, background.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <tinytorch/acceleration/compiled_pointwise.hpp>
#include <tinytorch/backend/cpu/pointwise.hpp>
#include <vector>

namespace {
using namespace tinytorch;
using namespace tinytorch::acceleration;
using backend::BinaryFn;
using backend::UnaryFn;
namespace fs = std::filesystem;
using Kind = PointwiseStep::Kind;

struct TemporaryFolder {
  std::string path = (fs::temp_directory_path() / "tinytorch test-XXXXXX").string();  // with a space
  TemporaryFolder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~TemporaryFolder() { fs::remove_all(path); }
};

// gelu(a b).
PointwiseProgram program() {
  return {f32,
          {f32, f32},
          {{Kind::binary, static_cast<uint8_t>(BinaryFn::mul), f32, {0, 1, -1}, {}},
           {Kind::unary, static_cast<uint8_t>(UnaryFn::gelu), f32, {2, -1, -1}, {}}},
          {3}};
}
// Runs the program on 1000 elements; the kernel that was asked for.
struct Call {
  std::vector<float> a = std::vector<float>(1000, 0.5f), b = a, y = std::vector<float>(1000, -1);
  bool ran = false;
  std::shared_ptr<const BuiltKernel> kernel;

  explicit Call(KernelBuilder& builder, bool background = false) {
    CompiledPointwise compiled(program(), {.background = background, .builder = &builder});
    run(compiled);
  }
  void run(CompiledPointwise& compiled) {
    const View in[] = {{a.data(), f32, {1000}, {1}}, {b.data(), f32, {1000}, {1}}},
               out[] = {{y.data(), f32, {1000}, {1}}};
    ran = compiled.run(out, in);
    kernel = compiled.kernels().front();
  }
  bool right() const {
    std::vector<float> expected(1000);
    const View in[] = {{const_cast<float*>(a.data()), f32, {1000}, {1}},
                       {const_cast<float*>(b.data()), f32, {1000}, {1}}},
               out[] = {{expected.data(), f32, {1000}, {1}}};
    backend::cpu::pointwise(program(), out, in);
    return y == expected;
  }
};
std::string text_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
}  // namespace

TEST_CASE("a kernel is compiled once, and found by the next process") {
  if (!host_compiler() || !kernel_prelude().problem.empty()) return;
  const TemporaryFolder folder;
  std::string entry;
  {
    KernelBuilder builder({.cache_folder = folder.path, .must_be_faster = false});
    const Call first(builder), second(builder);
    CHECK(first.right());
    CHECK(!first.kernel->from_cache);
    CHECK(second.kernel == first.kernel);
    entry = builder.cache().entry(first.kernel->key);
    CHECK(text_of(entry + "/source.cpp").find("#include") == std::string::npos);
  }
  {
    KernelBuilder builder({.cache_folder = folder.path, .must_be_faster = false});
    const Call call(builder);
    CHECK(call.kernel->from_cache);
    CHECK(call.right());
  }
  // One changed byte: the library is not loaded, but compiled again.
  std::string library = text_of(entry + "/kernel.so");
  library[library.size() / 2] ^= 1;
  fs::remove(entry + "/kernel.so");  // this process still uses that file
  std::ofstream(entry + "/kernel.so", std::ios::binary) << library;
  KernelBuilder builder({.cache_folder = folder.path, .must_be_faster = false});
  const Call call(builder);
  CHECK(!call.kernel->from_cache);
  CHECK(builder.cache().bad_entries() == 1);
  CHECK(call.right());
}

TEST_CASE("without a cache folder a kernel is compiled for the process alone") {
  if (!host_compiler() || !kernel_prelude().problem.empty()) return;
  const TemporaryFolder folder;
  fs::permissions(folder.path, fs::perms::all);  // open to others
  for (const std::string& path : {std::string(), folder.path}) {
    KernelBuilder builder({.cache_folder = path, .must_be_faster = false});
    CHECK(!builder.cache().usable());
    const Call call(builder);
    CHECK(call.kernel->problem == "");
    CHECK(call.right());
    CHECK(fs::is_empty(folder.path));
  }
}

TEST_CASE("another compiler, even at the same place, makes another kernel") {
  if (!host_compiler() || !kernel_prelude().problem.empty()) return;
  const TemporaryFolder folder;
  const std::string script = folder.path + "/my c++";
  std::string keys[2];
  for (int k = 0; k < 2; ++k) {
    std::ofstream(script) << "#!/bin/sh\n"
                          << (k ? "# a new version\n" : "") << "exec '" << host_compiler()->path
                          << "' \"$@\"\n";
    fs::permissions(script, fs::perms::owner_all);
    const auto compiler = compiler_named(script);
    REQUIRE(compiler);
    KernelBuilder builder(
        {.cache_folder = folder.path + "/v1", .must_be_faster = false, .compiler = &*compiler});
    const Call call(builder);
    CHECK(call.right());
    CHECK(!call.kernel->from_cache);
    keys[k] = call.kernel->key;
  }
  CHECK(keys[0] != keys[1]);
}

TEST_CASE("a compiler that fails, or makes something else, is reported and changes nothing") {
  const TemporaryFolder folder;
  const std::string script = folder.path + "/c++";
  const auto problem = [&](const std::string& body) {
    std::ofstream(script) << "#!/bin/sh\n[ \"$1\" = --version ] && echo fake && exit 0\n" << body << "\n";
    fs::permissions(script, fs::perms::owner_all);
    const auto compiler = compiler_named(script);
    REQUIRE(compiler);
    KernelBuilder builder({.cache_folder = folder.path + "/v1", .compiler = &*compiler});
    const Call call(builder);
    CHECK(!call.ran);
    CHECK(call.y == std::vector<float>(1000, -1));
    return call.kernel->problem;
  };
  CHECK(problem("echo no space left >&2; exit 1").find("no space left") != std::string::npos);
  CHECK(problem("while [ \"$1\" != -o ]; do shift; done; echo text > \"$2\"") != "");
  CHECK(problem("exit 0") != "");
  CHECK(problem("kill -9 $$") != "");
}

TEST_CASE("a kernel with other functions than the library's is found out by the trial") {
  if (!host_compiler() || !kernel_prelude().problem.empty()) return;
  const TemporaryFolder folder;
  // A student's header that replaces the library's, with another gelu.
  fs::create_directories(folder.path + "/tinytorch/backend");
  std::string text;
  for (const fs::path& path : header_folders())
    if (text.empty()) text = text_of(path / "tinytorch/backend/activation.hpp");
  const std::string right = "return x * math::normal_cdf(x);";
  REQUIRE(text.find(right) != std::string::npos);
  text.replace(text.find(right), right.size(), "return x * math::normal_cdf(x) * T(1.0000001);");
  std::ofstream(folder.path + "/tinytorch/backend/activation.hpp") << text;
  std::vector<fs::path> folders = header_folders();
  folders.insert(folders.begin(), folder.path);
  const Prelude changed = make_prelude(folders);
  REQUIRE(changed.problem == "");
  CHECK(changed.text.find("1.0000001") != std::string::npos);

  KernelBuilder builder({.cache_folder = folder.path + "/v1", .must_be_faster = false, .prelude = &changed});
  const Call call(builder);
  CHECK(!call.ran);
  CHECK(call.kernel->problem == "its results differ from the interpreter's");
  // The verdict is in the cache as well: the next process does not try again.
  KernelBuilder next({.cache_folder = folder.path + "/v1", .must_be_faster = false, .prelude = &changed});
  const Call again(next);
  CHECK(again.kernel->from_cache);
  CHECK(!again.ran);

  const Prelude missing{{}, "the header was not found"};
  KernelBuilder without({.cache_folder = "", .prelude = &missing});
  CHECK(Call(without).kernel->problem.find("was not found") != std::string::npos);
}

TEST_CASE("in the background the caller goes on, and gets the kernel later") {
  if (!host_compiler() || !kernel_prelude().problem.empty()) return;
  const TemporaryFolder folder;
  KernelBuilder builder({.cache_folder = folder.path, .must_be_faster = false});
  CompiledPointwise compiled(program(), {.background = true, .builder = &builder});
  Call call(builder, true);
  call.run(compiled);
  builder.wait();
  call.run(compiled);
  CHECK(call.kernel->finished);
  CHECK(call.ran);
  CHECK(call.right());
  // A child of fork() has no such thread. It must still end.
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    { const Call in_child(builder, true); }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
}
