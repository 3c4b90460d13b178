// Entries good and bad side by side: the good ones take part, each bad one has its reason.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <tinymlperf/race/lobby.hpp>

namespace fs = std::filesystem;
using namespace tinymlperf;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / "tinymlperf_lobby_test";
  Folder() {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  void put(const std::string& name, const std::string& text) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name) << text;
  }
};

std::vector<std::string> names(const std::vector<fs::path>& paths) {
  std::vector<std::string> out;
  for (const auto& p : paths) out.push_back(p.filename().string());
  return out;
}

}  // namespace

TEST_CASE("an entry, a folder of entries, and things that are neither") {
  const Folder f;
  f.put("alone/model.json", "{}");
  f.put("many/b/model.json", "{}");
  f.put("many/a/weights.safetensors", "");
  f.put("many/readme.txt", "");
  f.put("file", "");
  fs::create_directories(f.path / "empty");
  std::vector<RefusedEntry> refused;
  const auto found = find_entries(
      {f.path / "alone", f.path / "many", f.path / "file", f.path / "absent", f.path / "empty"}, refused);
  CHECK(names(found) == std::vector<std::string>{"alone", "a", "b"});
  REQUIRE(refused.size() == 3);
  CHECK(refused[0].reason.find("found a file") != std::string::npos);
  CHECK(refused[1].reason.find("found nothing") != std::string::npos);
  CHECK(refused[2].reason.find("model.json") != std::string::npos);
}

TEST_CASE("one entry's failure of any kind leaves the others in, in order") {
  std::vector<RefusedEntry> refused;
  const auto admit = [](const fs::path& folder) -> std::string {
    const std::string name = folder.string();
    if (name == "refusal") throw Refusal("model.json", "layers[1].in", "784", "783");
    if (name == "memory") throw std::bad_alloc();
    if (name == "runtime") throw std::runtime_error("out of range");
    return name.substr(0, 1);
  };
  const auto in = admit_all<std::string>(
      {"alpha", "refusal", "memory", "apple", "runtime", "beta"}, admit,
      [](const std::string& s) { return s; }, refused);
  CHECK(in == std::vector<std::string>{"a", "b"});
  REQUIRE(refused.size() == 4);
  CHECK(refused[0].path == "refusal");
  CHECK(refused[0].reason == "model.json: layers[1].in: expected 784, found 783");
  CHECK(refused[1].reason.find("memory") != std::string::npos);
  CHECK(refused[2].path == "apple");  // its name was taken by alpha
  CHECK(refused[2].reason.find("name") != std::string::npos);
  CHECK(refused[3].reason == "out of range");
}

TEST_CASE("a reason is one line and keeps what was expected and found") {
  const std::runtime_error e(
      "TT-IO-03: cannot read 'w' as safetensors\n  expected: 8 bytes\n  found:    0 bytes\n"
      "  hint: x\n  at file.cpp:3");
  CHECK(reason_of(e) == "TT-IO-03: cannot read 'w' as safetensors; expected: 8 bytes; found: 0 bytes");
  CHECK(reason_of(std::runtime_error("plain")) == "plain");
}
