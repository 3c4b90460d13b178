// The text of the library's own functions that generated kernels begin with.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <tinytorch/acceleration/prelude.hpp>

using namespace tinytorch::acceleration;
namespace fs = std::filesystem;

namespace {
struct TemporaryFolder {
  std::string path = (fs::temp_directory_path() / "tinytorch-test-XXXXXX").string();
  TemporaryFolder() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~TemporaryFolder() { fs::remove_all(path); }
};
void write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path) << text;
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Small headers of the names that a prelude is made from.
void write_headers(const std::string& folder) {
  const std::string root = folder + "/tinytorch/";
  write(root + "core/config.hpp", "#pragma once\n#define TT_BUILD cpu_only\n");
  write(root + "core/dtype.hpp", "#include <string>\n#include <tinytorch/core/error.hpp>\nint dtype;\n");
  write(root + "core/scalar_math.hpp",
        "#include <cmath>\n  # include <tinytorch/core/config.hpp>\nint math;\n");
  write(root + "backend/parameters.hpp",
        "enum class PointwiseLoss { mse };\nenum class Activation { none,\n relu };\nstruct Unused {};\n");
  write(root + "backend/activation.hpp",
        "// a comment\n#include <tinytorch/core/scalar_math.hpp>\nint activation;\n");
  write(root + "backend/functors.hpp",
        "#include <tinytorch/backend/activation.hpp>\n#include <tinytorch/core/dtype.hpp>\n"
        "#include <tinytorch/core/scalar_math.hpp>\n#if 1\nint functors;\n#endif\n");
}
}  // namespace

TEST_CASE("headers are joined in the order of their includes, each once, without other headers") {
  const TemporaryFolder folder;
  write_headers(folder.path);
  const Prelude p = make_prelude({folder.path});
  CHECK(p.problem == "");
  CHECK(!has(p.text, "#include"));
  CHECK(!has(p.text, "# include"));
  CHECK(!has(p.text, "comment"));
  CHECK(!has(p.text, "Unused"));
  CHECK(has(p.text, "enum class Activation { none,\n relu };"));
  CHECK(has(p.text, "#if 1\nint functors;\n#endif\n"));
  const size_t math = p.text.find("int math;"), activation = p.text.find("int activation;");
  CHECK(math < activation);
  CHECK(activation < p.text.find("int dtype;"));
  CHECK(p.text.find("int math;", math + 1) == std::string::npos);
}

TEST_CASE("a header of an earlier folder replaces the library's, also in parts") {
  const TemporaryFolder folder;
  write_headers(folder.path + "/library");
  write(folder.path + "/student/tinytorch/backend/activation.hpp",
        "#include <tinytorch/core/scalar_math.hpp>\n#include <tasks/backend/activation.hpp>\n");
  write(folder.path + "/student/tasks/backend/activation.hpp", "int mine;\n");
  const Prelude p = make_prelude({folder.path + "/student", folder.path + "/library"});
  CHECK(p.problem == "");
  CHECK(has(p.text, "int mine;"));
  CHECK(!has(p.text, "int activation;"));
}

TEST_CASE("a missing header is the problem that is reported") {
  const TemporaryFolder folder;
  write_headers(folder.path);
  fs::remove(folder.path + "/tinytorch/core/dtype.hpp");
  const Prelude p = make_prelude({folder.path});
  CHECK(p.text == "");
  CHECK(has(p.problem, "tinytorch/core/dtype.hpp"));
  write(folder.path + "/tinytorch/core/dtype.hpp", "");
  write(folder.path + "/tinytorch/backend/parameters.hpp", "enum class Activation { none };\n");
  CHECK(has(make_prelude({folder.path}).problem, "PointwiseLoss"));
}

#if defined(TINYTORCH_LINKS_HEADER_FOLDERS) || defined(TINYTORCH_HEADER_FOLDERS)
TEST_CASE("the build names the folders of the library's headers") {
  CHECK(kernel_prelude().problem == "");
  CHECK(has(kernel_prelude().text, "gelu_tanh_value"));
}
#endif
