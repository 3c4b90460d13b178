// model.json: valid files are read exactly. All others are refused with the file, the place, what was
// expected and what was found.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <tinymlperf/entries/entry.hpp>
#include <tinymlperf/entries/load.hpp>

using tinymlperf::EntrySpec;
using tinymlperf::Json;
using tinymlperf::parse_entry;
using tinymlperf::Refusal;
using tinymlperf::Shape;
using tinymlperf::Sides;
using tinymlperf::Task;

namespace {

Json lenet() {
  return Json::parse(R"({
    "schema": 1, "name": "lenet-5", "author": "someone", "input": [1, 28, 28], "classes": 10,
    "layers": [
      {"type": "conv2d", "in": 1, "out": 6, "kernel": 5, "padding": 2}, {"type": "relu"},
      {"type": "max_pool2d", "kernel": 2},
      {"type": "conv2d", "in": 6, "out": 16, "kernel": 5, "bias": false}, {"type": "batch_norm2d", "in": 16},
      {"type": "gelu"}, {"type": "avg_pool2d", "kernel": 3, "stride": 2},
      {"type": "flatten"}, {"type": "dropout", "p": 0.25}, {"type": "linear", "in": 256, "out": 10}]})");
}

Json keyword_net() {
  return Json::parse(R"({
    "schema": 1, "benchmark": "kws", "name": "words", "input": [1, 49, 10], "classes": 12,
    "layers": [
      {"type": "conv2d", "in": 1, "out": 8, "kernel": [10, 4], "stride": 2, "padding": [5, 1]},
      {"type": "conv2d", "in": 8, "out": 8, "kernel": 3, "padding": 1, "groups": 8, "bias": false},
      {"type": "avg_pool2d", "kernel": [5, 1]}, {"type": "adaptive_avg_pool2d", "output": [2, 1]},
      {"type": "flatten"}, {"type": "batch_norm1d", "in": 16}, {"type": "linear", "in": 16, "out": 12}]})");
}

struct Reason {
  std::string file, where, expected, found;
};

Reason reason_for(const std::string& text, const Task& task = tinymlperf::task_of("dig")) {
  try {
    parse_entry(text, task);
  } catch (const Refusal& r) {
    CHECK(std::string(r.what()).find(r.expected) != std::string::npos);
    CHECK(std::string(r.what()).find(r.found) != std::string::npos);
    return {r.file, r.where, r.expected, r.found};
  }
  FAIL("accepted: ", text);
  return {};
}
Reason reason_for(const Json& document) { return reason_for(document.dump()); }

// The reason for which lenet() is refused after one value was replaced.
Reason with(const char* pointer, const Json& value) {
  Json document = lenet();
  document[Json::json_pointer(pointer)] = value;
  return reason_for(document);
}

}  // namespace

TEST_CASE("a valid entry has the shapes, tensors, parameters and multiply-adds that were computed by hand") {
  const EntrySpec spec = parse_entry(lenet().dump());
  CHECK(spec.name == "lenet-5");
  CHECK(spec.author == "someone");
  REQUIRE(spec.layers.size() == 10);
  CHECK(spec.layers[2].stride == 2);  // the default stride of pooling is its kernel
  CHECK(spec.layers[6].stride == 2);
  CHECK(spec.layers[3].bias == false);
  CHECK(spec.layers[8].p == 0.25);
  // 28 -> 28 -> 14 -> 10 -> floor((10-3)/2)+1 = 4; 16*4*4 = 256
  std::vector<std::pair<std::string, Shape>> tensors;
  for (const auto& t : spec.tensors) tensors.emplace_back(t.name, t.shape);
  std::sort(tensors.begin(), tensors.end());
  CHECK(tensors == std::vector<std::pair<std::string, Shape>>{{"0.bias", {6}},
                                                              {"0.weight", {6, 1, 5, 5}},
                                                              {"3.weight", {16, 6, 5, 5}},
                                                              {"4.bias", {16}},
                                                              {"4.running_mean", {16}},
                                                              {"4.running_var", {16}},
                                                              {"4.weight", {16}},
                                                              {"9.bias", {10}},
                                                              {"9.weight", {10, 256}}});
  CHECK(spec.parameters == (150 + 6) + 2400 + 32 + (2560 + 10));
  CHECK(spec.multiply_adds == 6 * 28 * 28 * 25 + 16 * 10 * 10 * 6 * 25 + 2560);
}

TEST_CASE("an entry is the same after it was written and read again") {
  const EntrySpec spec = parse_entry(lenet().dump());
  const EntrySpec again = parse_entry(tinymlperf::to_json(spec).dump());
  CHECK(tinymlperf::to_json(again) == tinymlperf::to_json(spec));
  CHECK(again.parameters == spec.parameters);
  CHECK(again.multiply_adds == spec.multiply_adds);
}

TEST_CASE("non-square windows, groups and adaptive pooling have the sizes that were computed by hand") {
  const EntrySpec spec = parse_entry(keyword_net().dump(), tinymlperf::task_of("kws"));
  CHECK(spec.benchmark == "kws");
  CHECK(spec.outputs == 12);
  CHECK(spec.layers[0].kernel == Sides(10, 4));
  CHECK(spec.layers[0].padding == Sides(5, 1));
  CHECK(spec.layers[2].stride == Sides(5, 1));  // the default stride of pooling is its kernel
  // 49 x 10 -> (49 + 10 - 10) / 2 + 1 = 25, (10 + 2 - 4) / 2 + 1 = 5 -> 25 x 5 -> 5 x 5 -> 2 x 1
  std::vector<std::pair<std::string, Shape>> tensors;
  for (const auto& t : spec.tensors) tensors.emplace_back(t.name, t.shape);
  CHECK(tensors == std::vector<std::pair<std::string, Shape>>{{"0.weight", {8, 1, 10, 4}},
                                                              {"0.bias", {8}},
                                                              {"1.weight", {8, 1, 3, 3}},
                                                              {"5.weight", {16}},
                                                              {"5.bias", {16}},
                                                              {"5.running_mean", {16}},
                                                              {"5.running_var", {16}},
                                                              {"6.weight", {12, 16}},
                                                              {"6.bias", {12}}});
  CHECK(spec.parameters == (320 + 8) + 72 + 32 + (192 + 12));
  CHECK(spec.multiply_adds == 8 * 25 * 5 * 40 + 8 * 25 * 5 * 9 + 192);  // each group reads one channel
  const EntrySpec again = parse_entry(tinymlperf::to_json(spec).dump(), tinymlperf::task_of("kws"));
  CHECK(tinymlperf::to_json(again) == tinymlperf::to_json(spec));
  CHECK(again.layers[0].kernel == spec.layers[0].kernel);
  CHECK(again.layers[1].groups == 8);
}

TEST_CASE("invalid windows, groups and outputs are refused") {
  const auto reason = [](const char* pointer, const Json& value) {
    Json document = keyword_net();
    document[Json::json_pointer(pointer)] = value;
    return reason_for(document.dump(), tinymlperf::task_of("kws"));
  };
  for (const Json& value :
       {Json{3}, Json{3, 3, 3}, Json{"3", 3}, Json{0, 3}, Json{3, 1025}, Json{3, 2.5}, Json("3")})
    CHECK(reason("/layers/0/kernel", value).where.find("layers[0].kernel") == 0);
  CHECK(reason("/layers/0/kernel", Json{60, 4}).expected == "at most the padded input side 59");
  CHECK(reason("/layers/0/kernel", Json{10, 13}).expected == "at most the padded input side 12");
  Reason r = reason("/layers/0/stride", Json{2, 1});
  CHECK(r.where == "layers[0].stride");
  CHECK(r.found == "[2, 1]");
  CHECK(reason("/layers/1/groups", 3).expected == "a number that divides 8 and 8");
  CHECK(reason("/layers/1/groups", 0).where == "layers[1].groups");
  CHECK(reason("/layers/1/groups", 65537).where == "layers[1].groups");
  CHECK(reason("/layers/2/padding", Json{3, 0}).expected == "at most half the kernel");
  CHECK(reason("/layers/2/padding", Json{2, 0}).expected.find("equal to the kernel") != std::string::npos);
  CHECK(reason("/layers/2/stride", 1).expected.find("equal to the kernel") != std::string::npos);
  CHECK(reason("/layers/3/output", Json{6, 1}).expected == "at most the input's sides [5, 5]");
  CHECK(reason("/layers/3/output", Json{0, 1}).where == "layers[3].output[0]");
  CHECK(reason("/layers/4", {{"type", "batch_norm1d"}, {"in", 16}}).expected.find("a flat input") == 0);
  CHECK(reason("/layers/5/in", 17).expected == "16");
}

TEST_CASE("the option compile is true or false, is kept, and does not change what the model computes") {
  Json document = lenet();
  const EntrySpec plain = parse_entry(document.dump());
  CHECK_FALSE(plain.compile);
  CHECK_FALSE(tinymlperf::to_json(plain).contains("compile"));
  CHECK_FALSE(tinymlperf::asks_to_compile(document.dump()));
  document["compile"] = false;
  CHECK_FALSE(parse_entry(document.dump()).compile);
  CHECK_FALSE(tinymlperf::asks_to_compile(document.dump()));
  document["compile"] = true;
  const EntrySpec compiled = parse_entry(document.dump());
  CHECK(compiled.compile);
  CHECK(tinymlperf::asks_to_compile(document.dump()));
  CHECK(parse_entry(tinymlperf::to_json(compiled).dump()).compile);
  CHECK(tinymlperf::layers_of_spec(compiled) == tinymlperf::layers_of_spec(plain));
  for (const Json& value : {Json(1), Json("true"), Json(nullptr), Json::array({true})}) {
    const Reason r = with("/compile", value);
    CHECK(r.file == "model.json");
    CHECK(r.where == "compile");
    CHECK(r.expected == "true or false");
    CHECK(r.found == value.dump());
    Json wrong = lenet();
    wrong["compile"] = value;
    CHECK_FALSE(tinymlperf::asks_to_compile(wrong.dump()));
  }
  for (const char* const text : {"", "[true]", "{\"compile\": true"})
    CHECK_FALSE(tinymlperf::asks_to_compile(text));
  CHECK_FALSE(tinymlperf::asks_to_compile(std::string(1000000, '[')));
}

TEST_CASE("an entry of another benchmark is refused for its benchmark first") {
  Json document = keyword_net();
  Reason r = reason_for(document);
  CHECK(r.where == "benchmark");
  CHECK(r.expected.find("\"dig\"") == 0);
  CHECK(r.found == "\"kws\"");
  r = reason_for(lenet().dump(), tinymlperf::task_of("kws"));  // the default benchmark is dig
  CHECK(r.where == "benchmark");
  CHECK(r.found == "\"dig\"");
  document["benchmark"] = 3;
  CHECK(reason_for(document).found == "3");
  document["benchmark"] = "dig";
  CHECK(reason_for(document).where == "input");
  CHECK_THROWS_WITH_AS(tinymlperf::task_of("tea"), doctest::Contains("\"tea\"; there are dig, kws, ad, lm"),
                       std::invalid_argument);
}

TEST_CASE("texts that are not JSON, not an object or of another schema are refused") {
  CHECK(reason_for(std::string("{\"schema\": 1,")).expected == "JSON");
  CHECK(reason_for(std::string("")).expected == "JSON");
  CHECK(reason_for(std::string("\xff\xfe")).expected == "JSON");
  CHECK(reason_for(std::string("[1, 2]")).expected == "an object");
  CHECK(reason_for(std::string(1000000, '[')).expected == "at most 64 levels of [ and {");
  CHECK(with("/schema", 2).where == "schema");
  CHECK(with("/schema", "1").found == "\"1\"");
  Json document = lenet();
  document.erase("name");
  const Reason r = reason_for(document);
  CHECK(r.file == "model.json");
  CHECK(r.where == "name");
  CHECK(r.found == "no such key");
}

TEST_CASE("shape errors name the layer, its input shape and the value in the file") {
  Reason r = with("/layers/9/in", 257);
  CHECK(r.where == "layers[9].in");
  CHECK(r.expected == "256");
  CHECK(r.found == "257");
  r = with("/layers/3/in", 5);
  CHECK(r.where == "layers[3].in");
  CHECK(r.expected == "6 channels");
  r = with("/layers/9/out", 11);
  CHECK(r.where == "layers");
  CHECK(r.expected.find("[10]") != std::string::npos);
  CHECK(r.found == "[11]");
  r = with("/layers/7", {{"type", "relu"}});
  CHECK(r.where == "layers[9]");
  CHECK(r.found == "an input of shape [16, 4, 4]");
  r = with("/layers/2/kernel", 29);
  CHECK(r.where == "layers[2].kernel");
  CHECK(r.expected == "at most the padded input side 28");
  CHECK(with("/layers/1", {{"type", "flatten"}}).expected.find("an image input") == 0);
  CHECK(with("/input", Json{1, 32, 32}).expected == "[1, 28, 28]");
  CHECK(with("/classes", 100).where == "classes");
}

TEST_CASE("unknown layers and misspelled keys are refused, not ignored") {
  Reason r = with("/layers/1/type", "relu6");
  CHECK(r.where == "layers[1].type");
  CHECK(r.found == "\"relu6\"");
  CHECK(r.expected.find("conv2d") != std::string::npos);
  CHECK(with("/layers/0/pading", 2).found == "\"pading\"");
  CHECK(with("/layer", 2).found == "\"layer\"");
  CHECK(with("/layers/1", "relu").where == "layers[1]");
  CHECK(with("/layers", Json::array()).found == "0 elements");
}

TEST_CASE("numbers of a wrong type or out of range are refused") {
  CHECK(with("/layers/0/out", 6.0).where == "layers[0].out");
  CHECK(with("/layers/0/out", -6).where == "layers[0].out");
  CHECK(with("/layers/0/out", 0).where == "layers[0].out");
  CHECK(with("/layers/0/out", uint64_t{1} << 63).where == "layers[0].out");
  CHECK(with("/layers/0/out", true).where == "layers[0].out");
  CHECK(with("/layers/0/stride", 0).where == "layers[0].stride");
  CHECK(with("/layers/0/bias", 1).where == "layers[0].bias");
  CHECK(with("/layers/8/p", 1).where == "layers[8].p");
  CHECK(with("/layers/8/p", "x").where == "layers[8].p");
}

TEST_CASE("an entry beyond the limits on its cost is refused before anything is allocated") {
  CHECK(with("/layers/0/out", 65536).where == "layers[0]");  // activations
  CHECK(with("/layers/0/padding", 1024).where.find("layers[0]") == 0);
  Json document = lenet();
  document["layers"] = Json::array({{{"type", "flatten"}}});
  int64_t width = 784;
  for (int i = 0; i < 3; ++i) {
    document["layers"].push_back({{"type", "linear"}, {"in", width}, {"out", 30000}});
    width = 30000;
  }
  CHECK(reason_for(document).expected.find("parameters") != std::string::npos);
  document["layers"] = Json::array();
  for (int i = 0; i < 257; ++i) document["layers"].push_back({{"type", "relu"}});
  CHECK(reason_for(document).found == "257 elements");
  document["layers"] =
      Json::array({{{"type", "conv2d"}, {"in", 1}, {"out", 400}, {"kernel", 3}, {"padding", 1}}});
  for (int i = 0; i < 2; ++i)
    document["layers"].push_back(
        {{"type", "conv2d"}, {"in", 400}, {"out", 400}, {"kernel", 3}, {"padding", 1}});
  CHECK(reason_for(document).expected.find("multiply-adds") != std::string::npos);
}

TEST_CASE("names and texts that could break a table or a web page are refused") {
  for (const char* name : {"", "../x", ".hidden", "-rf", "a b", "<b>", "a\x1b[31m", "naïve"})
    CHECK(with("/name", name).where == "name");
  CHECK(with("/name", std::string(33, 'a')).where == "name");
  CHECK(with("/description", std::string(501, 'a')).where == "description");
  // The reason quotes only the beginning of a long value, with escaped control characters.
  const Reason r = with("/layers/1/type", std::string(100000, '\x1b'));
  CHECK(r.found.size() < 80);
  CHECK(r.found.find('\x1b') == std::string::npos);
}

TEST_CASE(
    "parsing after any value was deleted or replaced returns a spec or throws Refusal, and nothing else") {
  const Json values[] = {nullptr,       true,           -1,        0, 1, 1e300, uint64_t{1} << 63, "", "relu",
                         Json::array(), Json::object(), Json{2, 1}};
  int refused = 0, accepted = 0;
  const auto attempt = [&](const Json& document, const Task& task) {
    try {
      parse_entry(document.dump(), task);
      ++accepted;
    } catch (const Refusal&) {
      ++refused;
    }
  };
  for (const Json& valid : {lenet(), keyword_net()}) {
    const Task& task = tinymlperf::task_of(valid.value("benchmark", "dig"));
    const Json base = valid.flatten();
    for (const auto& [pointer, ignored] : base.items()) {
      for (const Json& value : values) {
        Json document = valid;
        document[Json::json_pointer(pointer)] = value;
        attempt(document, task);
      }
      Json without = base;
      without.erase(pointer);
      attempt(without.unflatten(), task);
    }
  }
  CHECK(refused > 600);
  CHECK(accepted > 0);
}

TEST_CASE("a file that is cut off at any byte is refused as invalid JSON") {
  const std::string text = lenet().dump();
  for (size_t n = 0; n < text.size(); ++n) CHECK(reason_for(text.substr(0, n)).expected == "JSON");
}

TEST_CASE("folder_name() returns the last part of a path, however the path is written") {
  CHECK(tinymlperf::folder_name("a") == "a");
  CHECK(tinymlperf::folder_name("a/") == "a");
  CHECK(tinymlperf::folder_name("a/b//") == "b");
  CHECK(tinymlperf::folder_name("a/../c/") == "c");
  CHECK(tinymlperf::folder_name("/x/y/.") == "y");
  CHECK(tinymlperf::folder_name(".") == std::filesystem::current_path().filename().string());
}

TEST_CASE("files that are absent, directories or too large are refused") {
  const auto folder = std::filesystem::temp_directory_path() / "tinymlperf_entry_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder / "model.json");
  const auto code = [&](const char* name) {
    try {
      return tinymlperf::detail::read_limited(folder / name, 10);
    } catch (const Refusal& r) {
      return std::string(r.what());
    }
  };
  CHECK(code("model.json") == "model.json: expected a file, found no such file in the entry");
  CHECK(code("absent") == "absent: expected a file, found no such file in the entry");
  std::ofstream(folder / "long") << "12345678901";
  CHECK(code("long") == "long: expected at most 10 bytes, found 11 bytes");
  std::ofstream(folder / "fits") << "1234567890";
  CHECK(code("fits") == "1234567890");
  std::filesystem::remove_all(folder);
}
