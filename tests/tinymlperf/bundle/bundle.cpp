// Tests of bundles (pack, read, unpack), of the rules of the tiers T0, T1 and T2, and of the static rules for
// source.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <support/bundles.hpp>
#include <support/refusals.hpp>
#include <tinymlperf/bundle/rules.hpp>
#include <tinymlperf/entries/packed_entry.hpp>
#include <tinytorch/tinytorch.hpp>
#include <tree/source_folder.hpp>

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

TEST_CASE("a bundle that is unpacked and packed again has the same bytes") {
  const TemporaryFolder folder;
  const std::string bytes = test::bundle_bytes("mlp");
  unpack(read_bundle(bytes), folder.path() / "out" / "mlp");
  std::ifstream manifest(folder.path() / "out" / "mlp" / kManifestFile);
  const Manifest m = parse_manifest({std::istreambuf_iterator<char>(manifest), {}});
  CHECK(pack(m, read_folder(folder.path() / "out" / "mlp")) == bytes);
  CHECK(load_entry(folder.path() / "out" / "mlp").network.spec().name == "mlp");
}

TEST_CASE("unpacking that fails leaves no folder") {
  const TemporaryFolder folder;
  Bundle b = read_bundle(test::bundle_bytes("mlp"));
  CHECK(holds(refusal([&] { unpack(b, folder.path()); }), "a path that does not exist yet"));
  b.files.push_back({"model.json/inside", "a file is not a folder"});
  CHECK_THROWS(unpack(b, folder.path() / "mlp"));
  CHECK(entries_of(folder.path()) == 0);
}

TEST_CASE("the manifest must list exactly the files, with their sizes and digests") {
  const auto files = test::entry_files("mlp");
  Manifest m = test::manifest("mlp");
  for (const ArchiveFile& f : files)
    m.files.push_back({f.path, static_cast<int64_t>(f.content.size()), sha256(f.content)});
  const auto read = [&](const Manifest& says, std::vector<ArchiveFile> has) {
    has.insert(has.begin(), {kManifestFile, tinytorch::benchmarking::manifest_json(says)});
    return refusal([&] { read_bundle(write_archive(has)); });
  };
  CHECK(read(m, files).empty());
  auto changed = m;
  changed.files[0].sha256 = sha256("other");
  CHECK(holds(read(changed, files), "model.json: expected"));
  changed = m, ++changed.files[1].bytes;
  CHECK(holds(read(changed, files), "weights.safetensors: expected"));
  changed = m, changed.files.pop_back();
  CHECK(holds(read(changed, files), "an entry for weights.safetensors"));
  CHECK(holds(read(m, {files[0]}), "no further file"));
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

TEST_CASE("tier T0: a submission holds a model, its weights, and text files") {
  auto files = test::entry_files("mlp");
  Manifest m = test::manifest("mlp");
  CHECK(rules_refusal(m, files).empty());
  files.push_back({"src/train.cpp", "int main() {}\n"});
  CHECK(rules_refusal(m, files).empty());
  CHECK(holds(rules_refusal(m, {files[0]}), "weights.safetensors"));
  m.tier = "T1";
  CHECK(holds(rules_refusal(m, files), "kernel, since a plan launches kernels"));
  m.tier = "T0", m.benchmarks = {"nothing"};
  CHECK(holds(rules_refusal(m, files), "benchmark"));
  m.benchmarks = {"dig"}, m.scenarios = {"train"};
  CHECK(holds(rules_refusal(m, files), "scenario"));
  m.scenarios = {"time_to_quality"};
  CHECK(holds(rules_refusal(m, files), "for training benchmarks"));
  m.scenarios = {"generation"};
  CHECK(holds(rules_refusal(m, files), "dig generates nothing"));
  m.benchmarks = {"dig", "lm"};  // where one of them generates, the others are not asked in the scenario
  CHECK(!holds(rules_refusal(m, files), "scenario"));
  m.benchmarks = {"lm"}, m.division = "closed", m.scenarios = {"offline", "shared_prefix"};
  CHECK(holds(rules_refusal(m, files), "it is for the division open"));
  m = test::manifest("mlp");
  // A plugin is refused, although the manifest declares tier T0.
  files.push_back({"plugin.cpp", "int main() {}\n"});
  CHECK(holds(rules_refusal(m, files), "no code in tier T0"));
  files.pop_back();
  m = test::manifest("other");
  CHECK(holds(rules_refusal(m, files), "the manifest's name other"));
}

TEST_CASE("tier T0: files that are not text, and weights that do not fit the model, are refused") {
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

TEST_CASE(
    "tier T0 with packed weights: one file of weights, a quantizer in the closed division, and numbers as "
    "declared") {
  const TemporaryFolder folder;
  unpack(read_bundle(test::bundle_bytes("mlp")), folder / "mlp");
  const std::string model = *read_bundle(test::bundle_bytes("mlp")).find(kModelFile);
  const EntrySpec spec = parse_entry(model);
  QuantizerSpec q;
  q.format = "I8", q.calibration = {3, 5};
  (void)pack_weights(folder / "mlp", spec, q, folder / "packed");
  const auto text_of = [](const fs::path& file) { return tinymlperf::detail::read_limited(file, 1 << 26); };
  std::vector<ArchiveFile> files{
      {kModelFile, model}, {kPackedFile, text_of(folder / "packed")}, {kQuantizerFile, to_json(q).dump()}};
  Manifest m = test::manifest("mlp");
  m.division = "closed", m.quantizer = "nearest", m.weights = m.activations = "i8", m.calibration = {3, 5};
  CHECK(rules_refusal(m, files).empty());
  Manifest other = m;
  other.weights = "i4";
  CHECK(holds(rules_refusal(other, files), "dtype.weights: expected i8, as quantizer.json says, found i4"));
  other = m, other.activations = "f32";
  CHECK(holds(rules_refusal(other, files), "dtype.activations"));
  other = m, other.quantizer = "gptq";
  CHECK(holds(rules_refusal(other, files), "quantizer.method"));
  other = m, other.calibration = {3};
  CHECK(holds(rules_refusal(other, files), "quantizer.calib_ids: expected [3,5]"));
  CHECK(holds(rules_refusal(m, {files[0], files[1]}), "the quantizer by which"));
  other = m, other.division = "open";
  CHECK(rules_refusal(other, {files[0], files[1]}).empty());
  CHECK(holds(rules_refusal(other, {files[0], files[2]}), "packed.safetensors beside it"));
  auto both = files;
  both.push_back({kWeightsFile, text_of(folder / "mlp" / kWeightsFile)});
  CHECK(holds(rules_refusal(m, both), "either float weights or packed.safetensors"));
  auto longer = files;
  longer[2].content += std::string(1 << 16, ' ');
  CHECK(holds(rules_refusal(m, longer), "bytes that describe"));
  auto damaged = files;
  damaged[1].content[damaged[1].content.size() - 1] ^= 1;
  CHECK(holds(rules_refusal(m, damaged), "packed.safetensors: expected weights that can be read"));
}

TEST_CASE("the numbers of a result.json in the bundle must follow from its samples") {
  namespace bm = tinytorch::benchmarking;
  auto files = test::entry_files("mlp");
  const Manifest m = test::manifest("mlp");
  const std::string text =
      bm::result_json({"2 cores", 1, bm::Quantity::throughput, {{"mlp", {{2, 8, {0.25}}}}}});  // 4 a second
  files.push_back({"result.json", text});
  CHECK(rules_refusal(m, files).empty());
  const size_t value = text.find("\"value\": 4");
  REQUIRE(value != std::string::npos);
  files.back().content.replace(value, 10, "\"value\": 5");
  CHECK(holds(rules_refusal(m, files), "the value is claimed as 5.0"));
  files.back().content = "{}";
  CHECK(holds(rules_refusal(m, files), "result.json"));
}

TEST_CASE("tier T0 without weights: a training recipe for a training benchmark") {
  auto files = test::entry_files("mlp");
  files.pop_back();
  Manifest m = test::manifest("mlp");
  m.benchmarks = {"ttq-dig"}, m.scenarios = {"time_to_quality"};
  CHECK(holds(rules_refusal(m, files), "how the model is to be trained"));
  Json model = Json::parse(files[0].content);
  model["training"] = {{"epochs", 5}};
  files[0].content = model.dump();
  CHECK(rules_refusal(m, files).empty());
  m.benchmarks = {"ttq-lm"};
  CHECK(holds(rules_refusal(m, files), "benchmark"));
  m.benchmarks = {"ttq-dig"}, m.scenarios = {"offline"};
  CHECK(holds(rules_refusal(m, files), "for training benchmarks"));
  m.benchmarks = {"ttq-dig", "dig"}, m.scenarios = {"time_to_quality"};
  CHECK(holds(rules_refusal(m, files), "for training benchmarks"));
}

TEST_CASE("tier T2: source of limited size beside plugin.cpp, in the open division only") {
  Manifest m = test::manifest("plugin");
  m.tier = "T2";
  const std::vector<ArchiveFile> sound{
      {"model.hpp", "#pragma once\n"}, {"plugin.cpp", "int main() {}\n"}, {"notes/why.md", "words\n"}};
  CHECK(rules_refusal(m, sound).empty());
  const auto refused = [&](const ArchiveFile& more) {
    auto files = sound;
    files.push_back(more);
    return rules_refusal(m, files);
  };
  CHECK(holds(rules_refusal(m, {sound[0]}), "a file plugin.cpp"));
  CHECK(holds(refused({"a/b.hpp", "int x;\n"}), "source beside plugin.cpp"));
  CHECK(holds(refused({"plugin.o",
                       "\x7f"
                       "ELF"}),
              "expected text"));
  CHECK(holds(refused({"weights.safetensors", "text"}), "expected text"));
  CHECK(holds(refused({"a.hpp", std::string(kTextBytes + 1, 'x')}), "expected text"));
  auto many = sound, large = sound;
  for (int i = 0; i < 32; ++i) many.push_back({"h" + std::to_string(i) + ".h", "int x;\n"});
  CHECK(holds(rules_refusal(m, many), "at most 32 source files"));
  for (int i = 0; i < 5; ++i) large.push_back({"h" + std::to_string(i) + ".h", std::string(kTextBytes, 'x')});
  CHECK(holds(rules_refusal(m, large), "1048576 bytes in total"));
  m.division = "closed";
  CHECK(holds(rules_refusal(m, sound), "nobody can check which model"));
}

TEST_CASE("tier T2: headers that replace the library's, with a plugin, with a model, or alone for krn") {
  Manifest m = test::manifest("mine");
  m.tier = "T2";
  const ArchiveFile plugin{"plugin.cpp", "int main() {}\n"},
      view{"include/tinytorch/tensor/strides.hpp", "#pragma once\n#include <chrono>\n"},
      softmax{"include/tinytorch/backend/cpu/softmax.hpp", "#pragma once\n"};
  CHECK(rules_refusal(m, {plugin, softmax, view}) == "");
  const Bundle b = read_bundle(pack(m, {plugin, view, softmax}));
  CHECK(header_set_of(b).names() ==
        std::vector<std::string>{"tinytorch/backend/cpu/softmax.hpp", "tinytorch/tensor/strides.hpp"});
  // The static rules apply to replaced headers, too.
  REQUIRE(reasons_to_look(b).size() == 1);
  CHECK(holds(reasons_to_look(b)[0], "include/tinytorch/tensor/strides.hpp:2: reads a clock"));

  const auto refused = [&](const std::string& path) {
    return rules_refusal(m, {plugin, {path, "#pragma once\n"}});
  };
  CHECK(holds(
      refused("include/tinytorch/core/shape.hpp"),
      "a header outside core/ (headers of core/ cannot be replaced; move the change to another header)"));
  CHECK(holds(refused("include/tinytorch/tensor/mine.hpp"), "the path of the library's header"));
  CHECK(holds(refused("include/tinytorch/tensor/mine.hpp"),
              "the library has no include/tinytorch/tensor/mine.hpp"));
  CHECK(holds(refused("include/tinymlperf/judge/match.hpp"), "replaces nothing"));
  CHECK(holds(refused("include/tinytorch/backend/cpu/gemv.hpp"),
              "; it is include/tinytorch/backend/cpu/gemm/gemv.hpp now"));
  CHECK(holds(refused("include/view.hpp"), "or beside plugin.cpp"));
  CHECK(holds(refused("include/tinytorch/backend/cuda/kernels/softmax.cuh"), "a .hpp header"));
  CHECK(holds(refused("include/tinytorch/README.md"), "a .hpp header"));
  CHECK(holds(refused("src/tinytorch/tensor/strides.hpp"), "source beside plugin.cpp"));
  CHECK(holds(refusal([] { HeaderSet().add("include/tinytorch/tensor/../tensor/strides.hpp", 1); }),
              "replaces nothing"));
  CHECK(holds(refusal([] {
                HeaderSet set;
                for (size_t i = 0; i <= HeaderSet::kMost; ++i)
                  set.add("include/tinytorch/tensor/strides.hpp", 1);
              }),
              "at most 128 headers and 1048576 bytes of them"));
  CHECK(holds(refusal([] { HeaderSet().add("include/tinytorch/tensor/strides.hpp", (1 << 20) + 1); }),
              "remove headers that do not differ from the library's"));

  // Without a plugin, the judge compiles its program for the model, or the library's kernels, with these
  // headers.
  CHECK(holds(rules_refusal(m, {view}), "beside include/ a plugin.cpp, or a model.json"));
  auto files = test::entry_files("mine");
  files.push_back(view);
  CHECK(rules_refusal(m, files) == "");
  files[1].content.resize(40);
  CHECK(holds(rules_refusal(m, files), "weights.safetensors"));
  Manifest kernels = m;
  kernels.division = "kernel", kernels.benchmarks = {"krn"}, kernels.scenarios = {"single_stream"};
  CHECK(rules_refusal(kernels, {view}) == "");
  CHECK(holds(rules_refusal(kernels, files), "leave the model out"));
  m.division = "closed";
  CHECK(holds(rules_refusal(m, {plugin, view}), "nobody can check which model"));
  // A submission of tier T0 must not replace headers.
  Manifest data = test::manifest("mine");
  CHECK(holds(rules_refusal(data, files), "no code in tier T0"));
}

TEST_CASE("tier T1: a plan and the device code that it names, without host code") {
  const fs::path source = fs::path(tinytorch_tree::kSourceFolder) / "bench/tinymlperf/kernels/plain";
  std::vector<ArchiveFile> files;
  for (const char* name : {"plan.json", "blocks.cuh"})
    files.push_back({name, tinymlperf::detail::read_limited(source / name, 1 << 20)});
  files.push_back({"kernels.cu", "__global__ void softmax_rows(const float* x) { long t = clock64(); }\n"});
  Manifest m = test::manifest("plain");
  m.tier = "T1", m.division = "kernel", m.hardware = "gpu(NVIDIA H200)";
  m.benchmarks = {"krn"}, m.scenarios = {"single_stream"};
  CHECK(rules_refusal(m, files) == "");
  const Bundle sound = read_bundle(pack(m, files));
  CHECK(holds(reasons_to_look(sound).at(0), "kernels.cu:1: reads a clock"));

  m.hardware = "cpu-mt";
  CHECK(holds(rules_refusal(m, files), "gpu(NAME), since a plan is for a GPU"));
  m.hardware = "gpu(NVIDIA H200)", m.division = "open", m.benchmarks = {"dig"};
  CHECK(holds(rules_refusal(m, files), "kernel, since a plan launches kernels"));
  m.division = "kernel", m.benchmarks = {"krn"};
  files.push_back({"main.cpp", "int main() {}\n"});
  CHECK(holds(rules_refusal(m, files), "no host code in tier T1"));
  files.pop_back();
  CHECK(holds(rules_refusal(m, {files[0], files[1]}), "a file kernels.cu"));
  CHECK(holds(rules_refusal(m, {files[1], files[2]}), "a file plan.json"));
  Json plan = Json::parse(files[0].content);
  plan["ops"]["fft"] = plan["ops"]["softmax"];
  files[0].content = plan.dump();
  CHECK(holds(rules_refusal(m, files), "ops.fft: expected an op that `tinymlperf kernels` lists"));
  files[0].content = "{";
  CHECK(holds(rules_refusal(m, files), "plan.json: expected JSON"));
}

TEST_CASE("static rules report the line and the reason, and report nothing for harmless source") {
  const auto reasons = [](const std::string& text) { return static_reasons("plugin.cpp", text); };
  CHECK(reasons("int main() { return systematic(thread_of); }\n").empty());
  CHECK(static_reasons("notes.md", "fork()").empty());
  const auto found = reasons("int a;\nint b = fork();\nsystem(\"ls\");\n");
  REQUIRE(found.size() == 1);
  CHECK(found[0] == "plugin.cpp:2: starts other programs (2 lines)");
  CHECK(holds(reasons("open(\"/proc/self/mem\")").at(0), "inspects the environment in which it runs"));
  CHECK(holds(reasons("#include \"../judge.hpp\"").at(0), "includes a file from outside of the submission"));
  CHECK(holds(reasons("#define JOIN(a, b) a##b").at(0), "joins names with ##"));
  CHECK(holds(reasons("x = std::chrono::steady_clock::now();").at(0), "reads a clock"));
  // Words in a comment do not count, unless the line may end a block comment or a raw string.
  CHECK(reasons("  // a tile of a times b, in each thread\n").empty());
  CHECK(holds(reasons("/*\n// */ system(\"ls\");\n").at(0), "plugin.cpp:2: starts other programs"));
  CHECK(holds(reasons("// */ int pid = fork();\n").at(0), "starts other programs"));
  CHECK(holds(reasons("R\"(\n//)\"; fork();\n").at(0), "plugin.cpp:2: starts other programs"));
  CHECK(holds(reasons(std::string(2000, 'x')).at(0), "too long"));
  std::string table = "float w[] = {\n";
  for (int i = 0; i < 1200; ++i) table += "0.5f,\n";
  CHECK(holds(reasons(table + "};").at(0), "contains 1200 numeric literals"));
  for (const char* line : {"#line 3 \"other.hpp\"", " # 3 \"other.hpp\"", "#  line 7"})
    CHECK(holds(reasons(line).at(0), "changes line numbers with #line"));
  CHECK(reasons("#include <vector>\n#define A 1\n").empty());
  // A backslash joins a line with the next one, even with blanks after it. Later lines keep their own
  // numbers.
  CHECK(static_reasons("k.cu", "int a;\nlong t = clo\\\nck\\ \t\r\n64();\nasm(\"nop\");\n") ==
        std::vector<std::string>{"k.cu:2: reads a clock, which only the judge needs",
                                 "k.cu:5: contains assembly code"});
  CHECK(holds(reasons("#define J(a, b) a#\\\n#b").at(0), "plugin.cpp:1: joins names"));
  CHECK(reasons("// a clock \\\nand a thread\n").empty());  // one comment on two lines
  // Uses of the library are reported, each name once.
  CHECK(reasons("int a;\n#include <tinytorch/backend/cpu/softmax.hpp>\nbackend::cpu::softmax(x); "
                "cpu::softmax(y);\n") ==
        std::vector<std::string>{"plugin.cpp:2: uses the library: tinytorch/backend/cpu/softmax.hpp, "
                                 "backend::cpu::softmax, cpu::softmax"});
  CHECK(holds(reasons("namespace hidden = tinytorch;").at(0), "uses the library: tinytorch"));
  CHECK(reasons("tinymlperf::serve(cpu, attic::x, my_tt::y);\n").empty());
  // A bundle has the reasons of all its rules together.
  Manifest m = test::manifest("plugin");
  m.tier = "T2";
  const Bundle b = read_bundle(pack(m, {{"plugin.cpp", "#include <chrono>\nasm(\"nop\");\n"}}));
  CHECK(reasons_to_look(b).size() == 2);
}

TEST_CASE("names that a macro joins are found in the preprocessor's output, with their line in the source") {
  const std::string output =
      "# 0 \"/entry/plugin.cpp\"\n# 1 \"/entry/plugin.cpp\"\n# 1 \"/usr/include/time.h\" 1 3\n"
      "int clock_gettime(int, void*);\n# 2 \"/entry/plugin.cpp\" 2\nint first;\n\n"
      "clock_gettime(1, 0);\n# 9 \"/entry/plugin.cpp\"\nint last;\n";
  const std::string after = preprocessed_lines(output, "/entry/plugin.cpp");
  CHECK(after == "\nint first;\n\nclock_gettime(1, 0);\n\n\n\n\nint last;\n");
  CHECK(hidden_reasons("plugin.cpp", "J(clock_, gettime)(1, 0);", after) ==
        std::vector<std::string>{
            "plugin.cpp:4: after the preprocessor, reads a clock, which only the judge needs"});
  CHECK(hidden_reasons("plugin.cpp", "clock_gettime(1, 0);", after).empty());  // the text itself shows it
  CHECK(holds(hidden_reasons("plugin.cpp", "J(tiny, torch)", "tinytorch::relu(x);\n").at(0),
              "plugin.cpp:1: uses the library: tinytorch::relu"));
}
