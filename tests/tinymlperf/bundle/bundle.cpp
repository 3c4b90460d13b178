// Bundles: packed, read, unpacked whole or not at all; and the rules of tier T0.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <support/bundles.hpp>
#include <support/refusals.hpp>
#include <tinymlperf/bundle/rules.hpp>
#include <tinytorch/tinytorch.hpp>

namespace fs = std::filesystem;
using namespace tinymlperf;
using namespace tinymlperf::bundle;
using test::holds, test::refusal;

namespace {

std::string rules_refusal(const Manifest& m, const std::vector<ArchiveFile>& files) {
  const Bundle b = read_bundle(pack(m, files));
  return refusal([&] { check_rules(b); });
}
size_t entries_of(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

}  // namespace

TEST_CASE("the same folder packs to the same bundle, whose id is the digest of the file") {
  const std::string bytes = test::bundle_bytes("mlp");
  CHECK(bytes == test::bundle_bytes("mlp"));
  CHECK(bytes != test::bundle_bytes("mlp", 2));
  const Bundle b = read_bundle(bytes);
  CHECK(b.id == sha256(bytes));
  CHECK(b.manifest.name == "mlp");
  REQUIRE(b.files.size() == 2);
  CHECK(b.find("model.json"));
  CHECK_FALSE(b.find("manifest.json"));
  CHECK_NOTHROW(check_rules(b));
}

TEST_CASE("unpacked and packed again it is the same bundle") {
  const TemporaryFolder folder;
  const std::string bytes = test::bundle_bytes("mlp");
  unpack(read_bundle(bytes), folder.path() / "out" / "mlp");
  std::ifstream manifest(folder.path() / "out" / "mlp" / kManifestFile);
  const Manifest m = parse_manifest({std::istreambuf_iterator<char>(manifest), {}});
  CHECK(pack(m, read_folder(folder.path() / "out" / "mlp")) == bytes);
  CHECK(load_entry(folder.path() / "out" / "mlp").network.spec().name == "mlp");
}

TEST_CASE("what cannot be unpacked whole is not there at all") {
  const TemporaryFolder folder;
  Bundle b = read_bundle(test::bundle_bytes("mlp"));
  CHECK(holds(refusal([&] { unpack(b, folder.path()); }), "a name that is not taken"));
  b.files.push_back({"model.json/inside", "a file is no folder"});
  CHECK_THROWS(unpack(b, folder.path() / "mlp"));
  CHECK(entries_of(folder.path()) == 0);
}

TEST_CASE("manifest and files must say the same") {
  const auto files = test::entry_files("mlp");
  Manifest m = test::manifest("mlp");
  for (const ArchiveFile& f : files)
    m.files.push_back({f.path, static_cast<int64_t>(f.content.size()), sha256(f.content)});
  const auto read = [&](const Manifest& says, std::vector<ArchiveFile> has) {
    has.insert(has.begin(), {kManifestFile, to_json(says).dump()});
    return refusal([&] { read_bundle(write_archive(has)); });
  };
  CHECK(read(m, files).empty());
  auto changed = m;
  changed.files[0].sha256 = sha256("other");
  CHECK(holds(read(changed, files), "model.json: expected"));
  changed = m, ++changed.files[1].bytes;
  CHECK(holds(read(changed, files), "weights.safetensors: expected"));
  changed = m, changed.files.pop_back();
  CHECK(holds(read(changed, files), "a line on weights.safetensors"));
  CHECK(holds(read(m, {files[0]}), "no more file"));
  CHECK(holds(read(m, {files[1], files[0]}), "expected model.json"));
  CHECK(holds(refusal([&] { read_bundle(write_archive(files)); }), "manifest.json as its first file"));
  CHECK(holds(refusal([&] { read_bundle(write_archive({})); }), "no file"));
}

TEST_CASE("a folder with links is not packed") {
  const TemporaryFolder folder;
  fs::create_symlink("/etc/passwd", folder.path() / "notes.txt");
  CHECK(holds(refusal([&] { read_folder(folder.path()); }), "a plain file"));
  CHECK(holds(refusal([&] { read_folder(folder.path() / "none"); }), "a folder that can be read"));
}

TEST_CASE("tier T0: a model, its weights, and texts") {
  auto files = test::entry_files("mlp");
  Manifest m = test::manifest("mlp");
  CHECK(rules_refusal(m, files).empty());
  files.push_back({"src/train.cpp", "int main() {}\n"});
  CHECK(rules_refusal(m, files).empty());
  CHECK(holds(rules_refusal(m, {files[0]}), "weights.safetensors"));
  m.tier = "T2";
  CHECK(holds(rules_refusal(m, files), "expected T0"));
  m.tier = "T0", m.benchmarks = {"nothing"};
  CHECK(holds(rules_refusal(m, files), "benchmark"));
  m.benchmarks = {"dig"}, m.scenarios = {"train"};
  CHECK(holds(rules_refusal(m, files), "scenario"));
  m = test::manifest("other");
  CHECK(holds(rules_refusal(m, files), "the manifest's name other"));
}

TEST_CASE("tier T0: nothing that is not text, and no weights that do not fit") {
  const auto sound = test::entry_files("mlp");
  const Manifest m = test::manifest("mlp");
  for (const auto& [path, content] :
       std::vector<std::pair<std::string, std::string>>{{"program",
                                                         "\x7f"
                                                         "ELF"},
                                                        {"a.txt", "\xff\xfe"},
                                                        {"a.txt", std::string("nul\0", 4)},
                                                        {"a.txt", "\x1b[2J"},
                                                        {"a.md", std::string(kTextBytes + 1, 'x')},
                                                        {"a.html", "<p>"}}) {
    auto files = sound;
    files.push_back({path, content});
    CHECK(holds(rules_refusal(m, files), "expected text"));
  }
  auto files = sound;
  files[1].content.resize(40);
  CHECK(holds(rules_refusal(m, files), "weights.safetensors"));
  files = sound;
  files[0].content = "{}";
  CHECK(holds(rules_refusal(m, files), "model.json"));
}
