// The next byte: what distributions are worth, which may stand for each other, and what a generation must be.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <tinymlperf/benchmarks/language.hpp>
#include <tinymlperf/support/temporary_folder.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::judge;

namespace {

constexpr int64_t kWindows = 200;
constexpr uint64_t kSeed = 5;

struct Drawn {
  LanguageBenchmark benchmark;
  std::string text = tinytorch::grammar::text(kWindows * (kContextBytes + 1), kSeed);
  Drawn() { benchmark.draw(kWindows, kSeed); }
  size_t came(int64_t sample) const {
    return static_cast<unsigned char>(
        text[static_cast<size_t>(sample * (kContextBytes + 1) + kContextBytes)]);
  }
  template <class F>
  tinytorch::statistics::Interval worth(F&& scores) const {
    std::vector<Answer> answers;
    for (int64_t i = 0; i < kWindows; ++i) answers.push_back(scores(i));
    const Quality q = benchmark.quality(answers);
    CHECK(tinytorch::statistics::mean(q.credit) == doctest::Approx(q.value.estimate));
    return q.value;
  }
};
const Drawn& drawn() {
  static const Drawn d;
  return d;
}

Answer uniform() { return Answer(256, 0.0f); }
Answer favour(size_t byte, float by) {
  Answer a = uniform();
  a[byte] += by;
  return a;
}

}  // namespace

TEST_CASE("certainty, ignorance, bytes by their frequency, and being wrong") {
  const Drawn& d = drawn();
  CHECK(d.worth([&](int64_t i) { return favour(d.came(i), 1000); }).estimate == 0);
  CHECK(d.worth([](int64_t) { return uniform(); }).estimate == doctest::Approx(-8));
  CHECK(d.worth([](int64_t) { return Answer(256, 3e38f); }).estimate == doctest::Approx(-8));
  CHECK(d.worth([&](int64_t i) { return favour(d.came(i), -1000); }).estimate == -32);
  CHECK(d.worth([&](int64_t i) { return favour(d.came(i), -INFINITY); }).estimate == -32);
  CHECK(d.worth([](int64_t) { return Answer(256, NAN); }).estimate == -32);
  CHECK(d.worth([](int64_t) { return Answer(256, -INFINITY); }).estimate == -32);
  CHECK(d.worth([&](int64_t i) { return favour(d.came(i), INFINITY); }).estimate == -32);
  CHECK(d.worth([](int64_t) { return Answer(); }).estimate == -32);  // no answer at all
  // Half of the probability on the byte that came: one bit.
  CHECK(d.worth([&](int64_t i) { return favour(d.came(i), std::log(255.0f)); }).estimate ==
        doctest::Approx(-1));
  // Frequencies alone know more than nothing and less than a model that is good enough.
  Answer frequencies(256, -INFINITY);
  for (int byte = 0; byte < 128; ++byte) {
    const auto n = std::count(d.text.begin(), d.text.end(), static_cast<char>(byte));
    if (n > 0) frequencies[static_cast<size_t>(byte)] = std::log(static_cast<float>(n));
  }
  const auto of_frequencies = d.worth([&](int64_t) { return frequencies; });
  CHECK(of_frequencies.estimate > -5);
  CHECK(of_frequencies.estimate < d.benchmark.floor());
  CHECK(of_frequencies.low < of_frequencies.estimate);
  CHECK(of_frequencies.estimate < of_frequencies.high);
  // No model is better than the grammar itself, and the floor leaves room for one that is not perfect.
  CHECK(d.benchmark.floor() < -tinytorch::grammar::entropy_bits_per_character());
}

TEST_CASE("distributions agree when they are the same to a thousandth, whatever is added to all scores") {
  const LanguageBenchmark& b = drawn().benchmark;
  Answer moved = favour(7, 3);
  for (float& s : moved) s += 1.5f;
  CHECK(b.agrees(favour(7, 3), moved));
  CHECK(b.agrees(favour(7, 3), favour(7, 3.0001f)));
  CHECK_FALSE(b.agrees(favour(7, 3), favour(7, 3.1f)));
  CHECK_FALSE(b.agrees(favour(7, 3), favour(8, 3)));
  CHECK_FALSE(b.agrees(favour(7, 3), uniform()));
  CHECK_FALSE(b.agrees(Answer(256, NAN), Answer(256, NAN)));
}

TEST_CASE("windows follow from the seed, and the byte that is asked is not in them") {
  const Drawn& d = drawn();
  CHECK(d.benchmark.size() == kWindows);
  const std::vector<int64_t> asked{3, 0};
  const auto inputs = d.benchmark.inputs(asked);
  REQUIRE(inputs.size() == 1);
  CHECK(inputs[0].dtype == channel::DType::u8);
  CHECK(inputs[0].shape == std::vector<int64_t>{2, kContextBytes});
  const auto values = inputs[0].values<uint8_t>();
  const size_t T = kContextBytes;
  CHECK(std::string(values.begin(), values.begin() + kContextBytes) == d.text.substr(3 * (T + 1), T));
  CHECK(std::string(values.begin() + kContextBytes, values.end()) == d.text.substr(0, T));
  LanguageBenchmark other;
  other.draw(4, kSeed + 1);
  CHECK(other.inputs(asked)[0].bytes != inputs[0].bytes);
  for (const uint64_t published : {kTrainingSeed, kValidationSeed})
    CHECK_THROWS_AS(other.draw(4, published), std::invalid_argument);
}

TEST_CASE(
    "a generation: the beginnings of samples, the question before a token, and which is the likeliest") {
  const Drawn& d = drawn();
  const Generation* g = d.benchmark.generation();
  REQUIRE(g != nullptr);
  const size_t T = kContextBytes;
  CHECK(g->beginning(2) == d.text.substr(2 * (T + 1), kPromptBytes));
  CHECK(g->other_text(5000, 9).size() == 5000);
  CHECK(g->other_text(5000, 9) == g->other_text(5000, 9));
  CHECK(g->other_text(5000, 9) != g->other_text(5000, 10));
  const auto before = g->before("some text abc");
  const auto values = before.at(0).values<uint8_t>();
  CHECK(std::string(values.begin(), values.end()) == "some text abc");
  CHECK(before.at(0).shape == std::vector<int64_t>{1, 13});
  CHECK(g->likeliest(favour('d', 3), 'd'));
  CHECK_FALSE(g->likeliest(favour('d', 3), 'e'));
  CHECK(g->likeliest(uniform(), 'e'));  // as likely as any
  CHECK_FALSE(g->likeliest(Answer(256, NAN), 'd'));
  CHECK(g->bits(uniform(), 'e') == doctest::Approx(8));
  CHECK(g->bits(favour('d', std::log(255.0f)), 'd') == doctest::Approx(1));
  CHECK(g->bits(favour('d', -INFINITY), 'd') == 32);
  CHECK(g->bits(Answer(256, NAN), 'd') == 32);
}

TEST_CASE(
    "windows of varied lengths have those of the text before a checked token, and another byte is asked") {
  LanguageBenchmark b;
  b.vary_lengths({kPromptBytes, 1, kGeneratedBytes});
  b.draw(2000, kSeed);
  const std::string text = tinytorch::grammar::text(2000 * (kContextBytes + 1), kSeed);
  std::vector<Answer> right, last;
  int64_t shortest = 0;
  std::vector<int64_t> lengths;
  for (int64_t s = 0; s < 2000; ++s) {
    const std::vector<int64_t> one{s};
    const auto window = b.inputs(one).at(0);
    lengths.push_back(window.shape.at(1));
    CHECK(b.work(s) == static_cast<double>(lengths.back()));
    const auto values = window.values<uint8_t>();
    const auto from = static_cast<size_t>(s * (kContextBytes + 1)), n = values.size();
    CHECK(std::string(values.begin(), values.end()) == text.substr(from, n));
    right.push_back(favour(static_cast<uint8_t>(text[from + n]), 1000));
    last.push_back(favour(static_cast<uint8_t>(text[from + kContextBytes]), 1000));
    shortest += lengths.back() == kPromptBytes;
  }
  CHECK(b.quality(right).value.estimate == 0);
  CHECK(b.quality(last).value.estimate < -10);
  const auto [least, most] = std::ranges::minmax(lengths);
  CHECK(least == kPromptBytes);
  CHECK(most == kPromptBytes + kGeneratedBytes - 1);
  CHECK(std::abs(static_cast<double>(shortest) / 2000 - 0.25 - 0.75 / kGeneratedBytes) < 0.06);
  const auto other = std::ranges::find_if(lengths, [&](int64_t n) { return n != lengths[0]; });
  const std::vector<int64_t> two{0, other - lengths.begin()};
  CHECK_THROWS_AS(b.inputs(two), std::logic_error);
  b.vary_lengths({});
  CHECK(b.inputs(two).at(0).shape == std::vector<int64_t>{2, kContextBytes});
  // Prompts of several lengths: half of them have one of the first two.
  b.vary_lengths({kSharedBytes + 1, kUserBytes, kSharedGeneratedBytes});
  int64_t few = 0;
  for (int64_t s = 0; s < 2000; ++s) {
    const std::vector<int64_t> one{s};
    const int64_t n = b.inputs(one).at(0).shape.at(1);
    CHECK(n > kSharedBytes);
    CHECK(n < kContextBytes);
    few += n <= kSharedBytes + 2 + kSharedGeneratedBytes - 1;
  }
  CHECK(few > 1000);
  CHECK(few < 1800);
}

namespace {

// A text whose bytes say where they stand, so that a window tells its place: three of these in a row name
// one.
std::string places(size_t bytes) {
  std::string out;
  for (uint32_t i = 0; out.size() < bytes; ++i)
    out += {static_cast<char>(i & 255), static_cast<char>(i >> 8 & 255),
            static_cast<char>(0xA0 | (i >> 16 & 15))};
  out.resize(bytes);
  return out;
}

struct TextFile {
  TemporaryFolder folder;
  std::filesystem::path path = folder / "mine.txt";
  explicit TextFile(const std::string& content) { std::ofstream(path, std::ios::binary) << content; }
};

std::vector<std::string> windows_of(const LanguageBenchmark& b) {
  std::vector<int64_t> all(static_cast<size_t>(b.size()));
  std::iota(all.begin(), all.end(), int64_t{0});
  const auto inputs = b.inputs(all);
  const auto values = inputs[0].values<uint8_t>();
  std::vector<std::string> out;
  for (size_t i = 0; i < values.size(); i += kContextBytes)
    out.emplace_back(values.begin() + static_cast<std::ptrdiff_t>(i),
                     values.begin() + static_cast<std::ptrdiff_t>(i + kContextBytes));
  return out;
}

}  // namespace

TEST_CASE("a text of one's own: windows of its last three fifths, none of which shows what another asks") {
  const TextFile file(places(100000));
  const UserText text = read_user_text(file.path);
  CHECK(text.name == "mine.txt");
  CHECK(text.bytes() == 100000);
  CHECK(text.to_learn.size() == 40000);
  CHECK(text.to_learn + text.held_out == places(100000));
  LanguageBenchmark one(text), again(text), other(text);
  one.draw(900, 5), again.draw(900, 5), other.draw(900, 6);
  CHECK(windows_of(one) == windows_of(again));
  CHECK(windows_of(one) != windows_of(other));
  std::vector<size_t> starts;
  for (const std::string& w : windows_of(one)) starts.push_back(text.held_out.find(w));
  CHECK_FALSE(std::ranges::is_sorted(starts));
  std::ranges::sort(starts);
  REQUIRE(starts.back() < text.held_out.size());
  for (size_t i = 1; i < starts.size(); ++i) CHECK(starts[i] - starts[i - 1] >= kContextBytes + 1);
  // The byte that is asked is the one that follows in the file.
  std::vector<Answer> right;
  for (const std::string& w : windows_of(one)) {
    Answer a(256, 0.0f);
    a[static_cast<unsigned char>(text.held_out[text.held_out.find(w) + kContextBytes])] = 1000;
    right.push_back(a);
  }
  CHECK(one.quality(right).value.estimate == 0);
}

TEST_CASE("the floor of one's own text is what its frequencies alone say") {
  std::string even;
  for (int i = 0; i < 4000; ++i) even += "abcd"[i % 4];
  CHECK(bits_by_frequency(even) == doctest::Approx(2));
  CHECK(bits_by_frequency(std::string(50, 'a')) == 0);
  const TextFile file(even);
  CHECK(LanguageBenchmark(read_user_text(file.path)).floor() == doctest::Approx(-2).epsilon(1e-3));
}

TEST_CASE("a text that is too short says how long it must be") {
  const auto complaint = [](auto&& f) -> std::string {
    try {
      f();
    } catch (const std::invalid_argument& e) {
      return e.what();
    }
    return "";
  };
  const auto holds = [](const std::string& text, const char* piece) {
    return text.find(piece) != std::string::npos;
  };
  const TextFile small(places(2599)), fits(places(20000));
  CHECK(holds(complaint([&] { (void)read_user_text(small.path); }), "at least 2600 bytes, found 2599"));
  CHECK(holds(complaint([&] { (void)read_user_text(small.folder / "none"); }), "--text none"));
  LanguageBenchmark b(read_user_text(fits.path));
  CHECK_NOTHROW(b.draw(183, 5));
  const std::string said = complaint([&] { b.draw(10000, 5); });
  CHECK(holds(said, "--text mine.txt: 10000 windows of 65 bytes"));
  CHECK(holds(said, "at least 1083442 bytes"));
  CHECK(holds(said, "found 20000"));
  // The size that its message asks for is enough for every seed.
  const TextFile enough(places(1083442 / 100 + 110));
  for (uint64_t seed = 3; seed < 200; ++seed)
    CHECK_NOTHROW(LanguageBenchmark(read_user_text(enough.path)).draw(100, seed));
}
