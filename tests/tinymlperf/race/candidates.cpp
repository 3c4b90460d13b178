// Tests of the search for a race's candidates: valid entries take part, and each invalid one has its reason.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <tinymlperf/race/candidates.hpp>

namespace fs = std::filesystem;
using namespace tinymlperf;

namespace {

struct Folder {
  fs::path path = fs::temp_directory_path() / "tinymlperf_candidates_test";
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

TEST_CASE("find_entries() finds entries and folders of entries, and refuses other paths") {
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

TEST_CASE(
    "starters() puts the baseline first, keeps each name once, and gives a reason for each other entry") {
  const Folder f;
  const auto model = [](const std::string& name) {
    return R"({"schema": 1, "name": ")" + name + R"(", "author": "Ada", "input": [1, 28, 28], "classes": 10,
              "layers": [{"type": "flatten"}, {"type": "linear", "in": 784, "out": 10}]})";
  };
  f.put("a/model.json", model("alpha"));
  f.put("b/model.json", "{");
  f.put("c/model.json", model("base"));
  f.put("d/model.json", model("alpha"));
  f.put("e/plugin.cpp", "int main() {}");
  fs::create_directories(f.path / "g");
  std::vector<RefusedEntry> refused;
  std::vector<fs::path> folders;
  for (const char* name : {"a", "b", "c", "d", "e", "g"}) folders.push_back(f.path / name);
  const Starters in = starters(folders, "base", refused);
  CHECK(names(in.folders) == std::vector<std::string>{"c", "a", "e"});
  REQUIRE(in.entries.size() == 3);
  CHECK(in.entries[0].name == "base");
  CHECK(in.entries[1].author == "Ada");
  CHECK(in.entries[1].parameters == 7850);
  CHECK(in.entries[2].name == "e");
  CHECK(in.entries[2].parameters == 0);
  REQUIRE(refused.size() == 3);
  CHECK(refused[0].reason.find("model.json: expected JSON") != std::string::npos);
  CHECK(refused[1].path == (f.path / "d").string());  // entry a has the same name
  CHECK(refused[1].reason.find("a name that no earlier entry has") != std::string::npos);
  CHECK(refused[2].reason.find("model.json") != std::string::npos);
}
