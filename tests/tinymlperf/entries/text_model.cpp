// Language models as entries: valid and invalid model.json, the required weights, scores and continuations.
#include <doctest/doctest.h>

#include <cmath>
#include <tinymlperf/entries/packed_entry.hpp>
#include <tinymlperf/entries/text_model.hpp>
#include <tinymlperf/support/temporary_folder.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;

namespace {

Json small() {
  return Json::parse(R"({"schema": 1, "benchmark": "lm", "name": "small", "type": "gpt", "context": 70,
                         "features": 12, "layers": 2, "heads": 3})");
}
EntrySpec parse(const Json& document) { return parse_entry(document.dump(), task_of("lm")); }

std::string where(const char* key, const Json& value) {
  Json document = small();
  document[key] = value;
  try {
    parse(document);
  } catch (const Refusal& r) {
    return r.where;
  }
  return "accepted";
}

TextModel model(uint64_t seed) {
  const EntrySpec spec = parse(small());
  tt::manual_seed(seed);
  return {spec, check_weights(spec, "w", build_gpt(spec)->state_dict())};
}

tt::Tensor windows(const std::vector<std::string>& texts) {
  std::vector<int64_t> bytes;
  for (const std::string& t : texts)
    for (const char c : t) bytes.push_back(static_cast<unsigned char>(c));
  return tt::from_data(bytes, {static_cast<int64_t>(texts.size()), static_cast<int64_t>(texts[0].size())});
}

}  // namespace

TEST_CASE("the tensors and the number of parameters that model.json implies are those of the model") {
  for (const auto& [layers, features, heads] : {std::array<int64_t, 3>{1, 4, 1}, {2, 12, 3}, {3, 8, 8}}) {
    Json document = small();
    document["layers"] = layers, document["features"] = features, document["heads"] = heads;
    const EntrySpec spec = parse(document);
    const auto gpt = build_gpt(spec);
    const tt::StateDict state = gpt->state_dict();
    CHECK(state.size() == spec.tensors.size());
    for (const TensorSpec& t : spec.tensors) {
      CAPTURE(t.name);
      REQUIRE(state.count(t.name) == 1);
      CHECK(state.at(t.name).shape() == to_shape(t.shape));
    }
    CHECK(spec.parameters == gpt->parameter_count());
    CHECK(tinymlperf::to_json(parse(tinymlperf::to_json(spec))) == tinymlperf::to_json(spec));
  }
}

TEST_CASE("invalid language models are refused") {
  CHECK(where("type", "rnn") == "type");
  CHECK(where("context", 63) == "context");  // shorter than the windows of the benchmark
  CHECK(where("context", 4097) == "context");
  CHECK(where("features", 4097) == "features");
  CHECK(where("heads", 5) == "heads");
  CHECK(where("heads", 0) == "heads");
  CHECK(where("layers", 65) == "layers");
  CHECK(where("layers", Json::array()) == "layers");
  CHECK(where("input", Json{64}) == "");  // an unknown key
  Json document = small();
  document["layers"] = 64, document["features"] = 4096, document["heads"] = 1;
  CHECK_THROWS_WITH_AS(parse(document), doctest::Contains("parameters"), Refusal);
  document["layers"] = 12, document["features"] = 512;
  CHECK_THROWS_WITH_AS(parse(document), doctest::Contains("multiply-adds"), Refusal);
  CHECK_THROWS_WITH_AS(parse_entry(small().dump()), doctest::Contains("benchmark"), Refusal);
}

TEST_CASE("scores belong to the byte after each window and do not depend on the other windows") {
  const TextModel m = model(1);
  const tt::Tensor both = m.score(windows({"the cat sleeps", "where is zoe? "}));
  REQUIRE(both.shape() == tt::Shape{2, 256});
  const auto alone = m.score(windows({"where is zoe? "})).to_vector<float>();
  const auto second = both.slice(0, 1).contiguous().to_vector<float>();
  for (size_t i = 0; i < 256; ++i) CHECK(second[i] == doctest::Approx(alone[i]).epsilon(1e-4));
  CHECK(model(2).score(windows({"where is zoe? "})).to_vector<float>() != alone);
  std::vector<std::string> many(130, "the cat sleeps");
  CHECK(m.score(windows(many)).shape() == tt::Shape{130, 256});
  CHECK_THROWS_AS(m.score(windows({std::string(71, 'a')})), std::invalid_argument);
}

TEST_CASE("a continuation consists of the most likely bytes, which are reported one by one") {
  const TextModel m = model(1);
  const std::string prompt = "the cat ";
  const std::vector<uint8_t> start(prompt.begin(), prompt.end());
  std::vector<uint8_t> told;
  const auto all = m.continue_prompt(start, 5, [&](uint8_t byte) { told.push_back(byte); });
  CHECK(told == all);
  REQUIRE(all.size() == 5);
  std::string text = prompt;
  for (const uint8_t byte : all) {
    const auto scores = m.score(windows({text})).to_vector<float>();
    CHECK(std::max_element(scores.begin(), scores.end()) - scores.begin() == byte);
    text += static_cast<char>(byte);
  }
  CHECK_THROWS_AS(m.continue_prompt(start, 63, [](uint8_t) {}), std::invalid_argument);
}

TEST_CASE("packed weights of a language model are scored and continued, and packed again to the same bytes") {
  const TemporaryFolder folder;
  Json document = small();
  document["features"] = 32, document["heads"] = 2;
  const EntrySpec spec = parse(document);
  tt::manual_seed(4);
  save_entry(folder / "baseline", spec, build_gpt(spec)->state_dict());
  QuantizerSpec q;
  q.format = "Q4_0", q.head = "Q8_0", q.method = "gptq", q.calibration = {0, 5, 7999};
  std::filesystem::create_directories(folder / "packed");
  const auto packed = folder / "packed" / kPackedFile;
  const tt::QuantizationReport report = pack_weights(folder / "baseline", spec, q, packed);
  CHECK(report.bytes < report.bytes_before);
  tt::write_file((folder / "packed" / kModelFile).string(), to_json(spec).dump());
  tt::write_file((folder / "packed" / kQuantizerFile).string(), to_json(q).dump());
  const std::string bytes = tinymlperf::detail::read_limited(packed, 1 << 26);
  for (const auto& from : {folder / "baseline", std::filesystem::path()}) {
    pack_again(folder / "packed", from, folder / "again");
    CHECK(tinymlperf::detail::read_limited(folder / "again", 1 << 26) == bytes);
  }
  const TextModel floats = load_text_model(folder / "baseline"), model = load_text_model(folder / "packed");
  const tt::Tensor x = windows({"the cat", "a dog r"});
  const std::vector<float> exact = floats.score(x).to_vector<float>(),
                           found = model.score(x).to_vector<float>();
  double signal = 0, noise = 0;
  for (size_t i = 0; i < exact.size(); ++i)
    signal += double{exact[i]} * exact[i], noise += std::pow(double{exact[i]} - found[i], 2);
  CHECK(noise > 0);
  CHECK(noise < 0.05 * signal);
  const std::string prompt = "the ";
  size_t streamed = 0;
  CHECK(model
            .continue_prompt({reinterpret_cast<const uint8_t*>(prompt.data()), 4}, 5,
                             [&](uint8_t) { ++streamed; })
            .size() == 5);
  CHECK(streamed == 5);
}
