#include <cstring>
#include <support/check.hpp>
#include <tinytorch/benchmarking/submission.hpp>

using namespace course;
using namespace benchmarking;
using benchmarking::detail::json_number;

namespace {

Turn turn(double scale) {
  Turn t{60 * scale, 12, {}};
  for (int i = 0; i < 12; ++i) t.latencies.push_back(scale * uniform(0.5, 1.5));
  return t;
}
std::vector<Turn> turns(int n, double scale) {
  std::vector<Turn> out;
  for (int i = 0; i < n; ++i) out.push_back(turn(scale * uniform(0.9, 1.1)));
  return out;
}
// A result with two contenders of 14 turns; the third contender has no turns.
Result result(Quantity quantity = Quantity::p90_latency) {
  return {"2 cores of a \"laptop\"\n",
          7,
          quantity,
          {{"lenet", turns(14, 1)}, {"mlp", turns(14, 0.5)}, {"new", {}}}};
}

// ---- the check's own reader: values of a JSON text by their path

Json parsed(const std::string& text) {
  try {
    return parse_json(as_bytes(text), "your text");
  } catch (const Error& e) {
    expect("the written text is valid JSON", false,
           std::string(e.what()) + "\n  the text: " + text.substr(0, 400));
    throw;
  }
}
const Json& in(const Json& json, const std::string& path) {
  const Json* at = &json;
  for (size_t start = 0; start < path.size();) {
    const size_t end = std::min(path.find('.', start), path.size());
    const std::string name = path.substr(start, end - start);
    if (const Json::Array* all = at->array()) {
      const auto i = static_cast<size_t>(std::stoul(name));
      expect("there is " + path, i < all->size(), "that array has " + shown(all->size()) + " elements");
      at = &(*all)[i];
    } else {
      const Json* next = at->find(name);
      expect("there is " + path, next != nullptr, "no \"" + name + '"');
      at = next;
    }
    start = end + 1;
  }
  return *at;
}
void expect_text(const Json& json, const std::string& path, const std::string& want) {
  const std::string* got = in(json, path).string();
  expect(path + " is the string " + want, got && *got == want, got ? "got " + *got : "it is not a string");
}
void expect_number(const Json& json, const std::string& path, double want) {
  const Json::Number* got = in(json, path).number();
  expect(
      path + " is the number " + shown(want), got && got->real == want,
      got ? "got " + shown(got->real) + "; it must be read as the same double again" : "it is not a number");
}
void expect_names(const Json& json, const std::string& path, const std::vector<std::string>& names) {
  const Json::Object* object = in(json, path).object();
  const std::string where = path.empty() ? "the whole" : path;
  expect(where + " is an object", object != nullptr);
  for (const std::string& n : names) expect(where + " has \"" + n + '"', in(json, path).find(n) != nullptr);
  expect_equal(where + ": members", object->size(), names.size());
}

// ---- the check's own texts: valid except for one change

// Each contender has one turn of 8 samples in 2 s: 4 samples per second, and too few turns for a ratio.
std::string sound() {
  const std::string turn =
      R"({"seconds": 2, "samples": 8, "latencies": [0.25, 0.5], "rate": 0, "tokens": [], "to_first": []})";
  const auto contender = [&](const char* name) {
    return std::string(R"({"name": ")") + name + R"(", "turns": [)" + turn +
           R"(], "value": 4, "times_the_baseline": null})";
  };
  return R"({"schema": "tinytorch-result-1", "machine": "m", "seed": 5, "quantity": "throughput", "contenders": [)" +
         contender("base") + ", " + contender("mine") + "]}";
}
// The text with the last occurrence of `old` replaced, which is in the last contender if contenders have it.
std::string changed(const std::string& old, const std::string& with) {
  std::string text = sound();
  return text.replace(text.rfind(old), old.size(), with);
}
std::string code_of(const std::string& text) {
  try {
    (void)read_result(text);
  } catch (const Error& e) {
    if (std::string(e.code()) == "TT-TODO") throw;
    return e.code();
  }
  return "accepted";
}
void expect_refused(const std::string& what, const std::string& text, const std::string& code = "TT-IO-03") {
  expect_equal("read_result of a text " + what, code_of(text), code);
}

std::string digest_of(std::string_view content) {  // known digests of the contents in this check
  if (content.empty()) return "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
  if (content == "abc") return "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
  return std::string(60, '0') + shown(1000 + content.size());
}

}  // namespace

TEST_CASE("10.12 a number is read back as the same double") {
  for (const double x : {0.1, 1.0 / 3, 1e-300, 123456789.123456789, -2.5, 5e-324, 1.7976931348623157e308}) {
    const std::string text = json_number(x);
    const Json::Number* back = parsed(text).number();
    expect("json_number(" + shown(x) + "): got " + text, back && back->real == x,
           "17 digits are enough for any double, 6 digits are not");
  }
  expect_equal("json_number(-0.0) gives the positive zero", json_number(-0.0), std::string("0"));
  expect_equal("json_number(12)", parsed(json_number(12)).integer(), std::optional<int64_t>(12));
  for (const double x : {std::nan(""), HUGE_VAL, -HUGE_VAL})
    expect_throws("TT-STAT-01", "json_number(" + shown(x) + "), which JSON does not have",
                  [&] { (void)json_number(x); });
}

TEST_CASE("10.12 a result holds all that a check of it needs") {
  const Result r = result(Quantity::throughput);
  const Json json = parsed(result_json(r));
  expect_names(json, "", {"schema", "machine", "seed", "quantity", "contenders"});
  expect_text(json, "schema", "tinytorch-result-1");
  expect_text(json, "machine", r.machine);
  expect_number(json, "seed", 7);
  expect_text(json, "quantity", "throughput");
  expect_text(parsed(result_json(result())), "quantity", "p90_latency");
  expect_equal("contenders", in(json, "contenders").array()->size(), size_t{3});
  for (size_t i = 0; i < 3; ++i) {
    const std::string at = "contenders." + shown(i);
    expect_names(json, at, {"name", "turns", "value", "times_the_baseline"});
    expect_text(json, at + ".name", r.contenders[i].name);
    const std::vector<Turn>& all = r.contenders[i].turns;
    expect_equal(at + ".turns: number of turns", in(json, at + ".turns").array()->size(), all.size());
    for (size_t k = 0; k < all.size(); ++k)
      expect_number(json, at + ".turns." + shown(k) + ".latencies.11", all[k].latencies[11]);
  }
}

TEST_CASE("10.12 a result's claims are computed from its samples") {
  for (const Quantity q : {Quantity::p90_latency, Quantity::throughput}) {
    const Result r = result(q);
    const Json json = parsed(result_json(r));
    for (const size_t i : {size_t{0}, size_t{1}}) {
      const Claim want = claim_of(q, r.contenders[i].turns, r.contenders[0].turns);
      const std::string at = "contenders." + shown(i);
      expect_number(json, at + ".value", *want.value);
      expect_number(json, at + ".times_the_baseline.estimate", want.times_the_baseline->estimate);
      expect_number(json, at + ".times_the_baseline.low", want.times_the_baseline->low);
      expect_number(json, at + ".times_the_baseline.high", want.times_the_baseline->high);
    }
    expect("the value of a contender without turns is null", in(json, "contenders.2.value").is_null());
    expect("the ratio of a contender without turns is null",
           in(json, "contenders.2.times_the_baseline").is_null());
  }
}

TEST_CASE("10.12 a result is read back to the last bit") {
  for (const Quantity q : {Quantity::p90_latency, Quantity::throughput}) {
    const Result r = result(q), back = read_result(result_json(r));
    expect_equal("the machine, after reading", back.machine, r.machine);
    expect_equal("the seed, after reading", back.seed, r.seed);
    expect("the quantity is the same after reading", back.quantity == q);
    expect_equal("contenders", back.contenders.size(), size_t{3});
    for (size_t i = 0; i < 3; ++i) {
      expect_equal("the name of a contender, after reading", back.contenders[i].name, r.contenders[i].name);
      expect_equal("turns", back.contenders[i].turns.size(), r.contenders[i].turns.size());
      for (size_t k = 0; k < back.contenders[i].turns.size(); ++k) {
        const Turn &got = back.contenders[i].turns[k], &want = r.contenders[i].turns[k];
        expect(
            "turn " + shown(k) + " of " + r.contenders[i].name + ": every number is the same after reading",
            got.seconds == want.seconds && got.samples == want.samples && got.latencies == want.latencies);
      }
    }
    expect_equal("the result that was read gives the same text", result_json(back), result_json(r));
  }
  Result spoken{"m", 1, Quantity::time_per_token, {{"lm", {{9, 2, {1, 3}, 0, {2, 3}, {0.5, 0.25}}}}}};
  const Turn t = read_result(result_json(spoken)).contenders.at(0).turns.at(0);
  expect("a turn of a generator has its tokens and the seconds to the first token",
         t.tokens == std::vector<int64_t>{2, 3} && t.to_first == Numbers{0.5, 0.25});
  spoken = {"m", 1, Quantity::rate, {{"server", {{9, 2, {1, 3}, 50, {}, {}}}}}};
  expect_equal("the rate of a turn of a server",
               read_result(result_json(spoken)).contenders.at(0).turns.at(0).rate, 50.0);
}

TEST_CASE("10.12 another schema, and missing or unknown names, are refused") {
  expect_equal("read_result of a valid text", code_of(sound()), std::string("accepted"));
  expect_refused("with schema tinytorch-result-2", changed("result-1", "result-2"), "TT-IO-04");
  expect_refused("with another schema and other names", R"({"schema": "tinymlperf-run-1", "class": "smoke"})",
                 "TT-IO-04");
  expect_refused("without a schema", changed(R"("schema": "tinytorch-result-1", )", ""));
  expect_refused("whose schema is 1", changed(R"("tinytorch-result-1")", "1"));
  for (const char* name :
       {"machine", "seed", "quantity", "contenders", "name", "turns", "value", "times_the_baseline",
        "seconds", "samples", "latencies", "rate", "tokens", "to_first"}) {
    const std::string quoted = std::string("\"") + name + "\":";
    expect_refused(std::string("with another name instead of \"") + name + '"',
                   changed(quoted, "\"nothing\":"));
    expect_refused(std::string("with an additional name beside \"") + name + '"',
                   changed(quoted, "\"more\": 1, " + quoted));
  }
  for (const char* gone : {R"("machine": "m", )", R"("seconds": 2, )", R"(, "to_first": [])",
                           R"("value": 4, )", R"(, "times_the_baseline": null)"})
    expect_refused(std::string("without ") + gone, changed(gone, ""));
  for (const char* text : {"[]", "7", "null", R"({"schema": "tinytorch-result-1")"})
    expect_refused(std::string("that is ") + text, text);
}

TEST_CASE("10.12 values of another type or outside their range are refused") {
  const std::pair<const char*, const char*> wrong[] = {
      {R"("seed": 5)", R"("seed": -5)"},
      {R"("seed": 5)", R"("seed": 0.5)"},
      {R"("seed": 5)", R"("seed": "5")"},
      {R"("machine": "m")", R"("machine": null)"},
      {R"("throughput")", R"("speed")"},
      {R"("throughput")", "1"},
      {R"("seconds": 2)", R"("seconds": -2)"},
      {R"("seconds": 2)", R"("seconds": "2")"},
      {R"("seconds": 2)", R"("seconds": 0)"},
      {R"("samples": 8)", R"("samples": 0)"},
      {R"("samples": 8)", R"("samples": 8.5)"},
      {"[0.25, 0.5]", "[0.25, -0.5]"},
      {"[0.25, 0.5]", "[0.25, null]"},
      {"[0.25, 0.5]", "0.25"},
      {R"("rate": 0)", R"("rate": -1)"},
      {R"("tokens": [])", R"("tokens": [1])"},
      {R"("tokens": [])", R"("tokens": [1, 0])"},
      {R"("to_first": [])", R"("to_first": [1])"},
      {R"("times_the_baseline": null)", R"("times_the_baseline": 1)"},
      {R"("times_the_baseline": null)", R"("times_the_baseline": {"estimate": 1, "low": 1})"},
      {R"("value": 4)", R"("value": "4")"}};
  for (const auto& [old, with] : wrong) expect_refused(std::string("with ") + with, changed(old, with));
  expect_refused("without contenders", R"({"schema": "tinytorch-result-1", "machine": "m", "seed": 5, )"
                                       R"("quantity": "throughput", "contenders": []})");
}

TEST_CASE("10.12 a value that does not follow from its samples is refused") {
  expect_refused("whose value is 5 instead of 4", changed(R"("value": 4)", R"("value": 5)"), "TT-STAT-08");
  expect_refused("whose value is null", changed(R"("value": 4)", R"("value": null)"), "TT-STAT-08");
  expect_refused("whose number of samples was changed", changed(R"("samples": 8)", R"("samples": 80)"),
                 "TT-STAT-08");
  expect_refused("with a ratio, although there are too few turns for one",
                 changed(R"("times_the_baseline": null)",
                         R"("times_the_baseline": {"estimate": 1, "low": 1, "high": 1})"),
                 "TT-STAT-08");
  expect_refused("whose quantity was changed", changed("throughput", "p90_latency"), "TT-STAT-08");
  // The ratio is recomputed with the turns of the baseline.
  std::string text = result_json(result());
  const size_t at = text.rfind("\"low\": ");
  expect("the text has a ratio", at != std::string::npos);
  expect_refused("whose ratio's lower bound was raised", text.insert(at + 7, "1"), "TT-STAT-08");
  try {
    (void)read_result(changed(R"("value": 4)", R"("value": 5)"));
  } catch (const Error& e) {
    const std::string what = e.what();
    expect("the message names the contender and the number: " + what,
           what.find("mine") != std::string::npos &&
               what.find("the value is claimed as 5") != std::string::npos);
  }
}

TEST_CASE("10.12 the files of a bundle are listed with path, bytes and digest, in order") {
  std::vector<BundleFile> files{{"weights.safetensors", std::string("a\0b", 3)},
                                {"manifest.json", "{}"},
                                {"model.json", "abc"},
                                {"Notes.md", ""},
                                {"src/train.cpp", "int main() {}"}};
  for (int round = 0; round < 5; ++round) {
    std::shuffle(files.begin(), files.end(), random_source());
    const std::vector<FileRecord> got = records_of(files, digest_of);
    expect_equal("records of 5 files, one of which is manifest.json", got.size(), size_t{4});
    const char* want[] = {"Notes.md", "model.json", "src/train.cpp", "weights.safetensors"};
    const int64_t bytes[] = {0, 3, 13, 3};
    for (size_t i = 0; i < 4; ++i) {
      expect_equal("file " + shown(i) + ", in the order of the paths", got[i].path, std::string(want[i]));
      expect_equal("bytes of " + got[i].path, got[i].bytes, bytes[i]);
    }
    expect_equal("the digest of an empty file, by the given function", got[0].sha256, digest_of(""));
    expect_equal("the digest of \"abc\"", got[1].sha256, digest_of("abc"));
  }
}

TEST_CASE("10.12 a manifest that the judge accepts") {
  Manifest m;
  m.name = "mlp", m.author = "Ada \"the first\"", m.team = "A & B", m.division = "closed";
  m.hardware = "cpu-1t", m.scenarios = {"offline"}, m.weights = "i8", m.accumulation = "i32";
  m.quantizer = "minmax", m.quantizer_text = "by\tchannel", m.calibration = {0, 5, 7},
  m.passes = {"fold", "fuse"};
  m.files = records_of({{"model.json", "abc"}, {"a.md", ""}}, digest_of);
  m.claims = {{"accuracy", 0.97}, {"gain", 1.0 / 3}};
  m.deterministic = false, m.seed_policy = "fixed", m.notes = "two\nlines", m.licence = "CC0-1.0";
  const Json json = parsed(manifest_json(m));
  expect_names(
      json, "",
      {"schema", "name", "author", "team", "division", "tier", "benchmark", "scenario", "hw_class", "dtype",
       "quantizer", "passes", "files", "claims", "deterministic", "seed_policy", "notes", "licence"});
  expect_number(json, "schema", 1);
  const std::pair<const char*, std::string> texts[] = {{"name", m.name},
                                                       {"author", m.author},
                                                       {"team", m.team},
                                                       {"division", m.division},
                                                       {"tier", m.tier},
                                                       {"benchmark.0", "dig"},
                                                       {"scenario.0", "offline"},
                                                       {"hw_class", "cpu-1t"},
                                                       {"dtype.weights", "i8"},
                                                       {"dtype.activations", "f32"},
                                                       {"dtype.accum", "i32"},
                                                       {"quantizer.method", "minmax"},
                                                       {"quantizer.text", m.quantizer_text},
                                                       {"passes.1", "fuse"},
                                                       {"files.0.path", "a.md"},
                                                       {"files.1.path", "model.json"},
                                                       {"files.1.sha256", digest_of("abc")},
                                                       {"claims.0.metric", "accuracy"},
                                                       {"seed_policy", "fixed"},
                                                       {"notes", m.notes},
                                                       {"licence", "CC0-1.0"}};
  for (const auto& [path, want] : texts) expect_text(json, path, want);
  expect_names(json, "files.1", {"path", "bytes", "sha256"});
  expect_names(json, "claims.1", {"metric", "value"});
  expect_number(json, "files.1.bytes", 3);
  expect_number(json, "claims.1.value", 1.0 / 3);
  expect_number(json, "quantizer.calib_ids.1", 5);
  expect("deterministic is false",
         in(json, "deterministic").boolean() && !*in(json, "deterministic").boolean());
  m.deterministic = true, m.files.clear();
  const Json bare = parsed(manifest_json(m));
  expect("deterministic is true",
         in(bare, "deterministic").boolean() && *in(bare, "deterministic").boolean());
  expect_equal("a manifest without files has an empty array",
               in(bare, "files").array() && in(bare, "files").array()->empty(), true);
}
