// An exported board as untrusted input: `tinymlperf import` imports it completely or throws a Refusal. After
// an import, the pages of the board can be made, the board verifies, and it can be exported and imported
// again.
//
// An input is board.json and the texts of the runs, with a line `----` before each run. @0 to @4 stand for
// the digests of five valid bundles, which every archive holds. The target imports the input as it is, and a
// second time with the numbers that follow from samples and the ranks corrected, since otherwise most inputs
// are refused early.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <support/bundles.hpp>
#include <tinymlperf/board/pages/front.hpp>
#include <tinymlperf/board/pages/submission.hpp>
#include <tinymlperf/board/pages/table.hpp>
#include <tinymlperf/board/store/transfer.hpp>
#include <tinymlperf/board/store/verify.hpp>

namespace {

using namespace tinymlperf;
using namespace tinymlperf::board;

void require(bool holds) {
  if (!holds) std::abort();
}

std::string made(const std::string& name, const char* division, const char* benchmark, bool model) {
  bundle::Manifest m = test::manifest(name);
  m.tier = model ? "T0" : "T2", m.division = division, m.benchmarks = {benchmark};
  m.scenarios = {"single_stream"};
  if (model) return bundle::pack(m, test::entry_files(name));
  return bundle::pack(m, {{"plugin.cpp", "// " + name + "\nint main() { return 0; }\n"}});
}
const std::array<std::string, 5>& bundles() {
  static const std::array all{made("base", "open", "dig", false), made("other", "open", "dig", false),
                              made("library", "kernel", "krn", false), made("ops", "kernel", "krn", false),
                              made("model", "closed", "dig", true)};
  return all;
}

// The text with the digests in place of @0, @1, ...
std::string filled(std::string text) {
  static const auto digests = [] {
    std::array<std::string, 5> out;
    for (size_t i = 0; i < out.size(); ++i) out[i] = bundle::sha256(bundles()[i]);
    return out;
  }();
  for (size_t i = 0; i < digests.size(); ++i) {
    const std::string name = "@" + std::to_string(i);
    for (size_t at = 0; (at = text.find(name, at)) != text.npos; at += digests[i].size())
      text.replace(at, name.size(), digests[i]);
  }
  return text;
}

constexpr std::string_view kBetween = "\n----\n";

struct Sections {
  std::string board;
  std::vector<std::string> runs;

  explicit Sections(const std::string& input) {
    size_t begin = 0, end = input.find(kBetween);
    board = input.substr(0, end);
    for (; end != input.npos; begin = end) {
      begin = end + kBetween.size(), end = input.find(kBetween, begin);
      runs.push_back(input.substr(begin, end == input.npos ? end : end - begin));
    }
  }
  std::string archive() const {
    std::vector<bundle::ArchiveFile> files{{kBoardFile, board}};
    for (size_t i = 0; i < bundles().size(); ++i) files.push_back({"b/" + std::to_string(i), bundles()[i]});
    for (size_t i = 0; i < runs.size(); ++i) files.push_back({"r/" + std::to_string(i), runs[i]});
    return bundle::write_archive(files);
  }
};

// The qualities and the audits of a match of models that follow from its samples and its evidence.
void correct_contenders(judge::AnyRun& run) {
  auto* const d = std::get_if<judge::RunDocument>(&run);
  if (!d || d->scenario == judge::Scenario::time_to_quality) return;
  for (judge::ContenderRecord& c : d->contenders) {
    if (const auto quality = tinymlperf::detail::quality_from_samples(c)) c.quality = quality;
    std::erase_if(c.audits, [](const auto& a) { return tinymlperf::detail::is_measured_audit(a.id); });
    if (c.evidence.empty()) continue;
    for (judge::AuditResult& a : judge::measured_audits(
             d->scenario, c.turns, c.evidence, judge::text_floor(d->quality_floor, c, d->contenders.front())))
      c.audits.push_back(std::move(a));
  }
}
// Corrects the numbers that follow from the samples of each run.
void correct_runs(Sections& sections) {
  for (std::string& run : sections.runs) try {
      judge::AnyRun read = judge::read_any_run(Json::parse(run));
      correct_contenders(read);
      run = judge::to_json(read).dump();
    } catch (const std::exception&) {
    }
}
// Corrects the ranks in board.json. Returns false if the board is refused.
bool correct_ranks(Sections& sections) {
  try {
    board::detail::Luggage luggage = board::detail::open_luggage(sections.archive());
    Store store(":memory:");
    board::detail::unload(store, luggage);
    luggage.board["ranks"] = ranks(store);
    sections.board = luggage.board.dump();
    return true;
  } catch (const Refusal&) {
    return false;
  }
}

void show(Store& store) {
  Queries queries(store);
  const Site site;
  (void)front_page(site, queries.front());
  for (const TableKey& key : queries.table_keys()) {
    const Table table = queries.table(key).value();
    (void)table_page(site, table, {1, 1, 0, table.rows.size()});
    (void)queries.history(key);
  }
  for (int64_t id = 1; const auto submission = queries.submission(id); ++id)
    (void)submission_page(site, *submission);
}

// A random value of the document, all with the same probability.
Json& any_value(Json& document, tinytorch::Generator& random) {
  std::vector<Json*> all{&document};
  for (size_t i = 0; i < all.size(); ++i)
    if (all[i]->is_structured())
      for (Json& inside : *all[i]) all.push_back(&inside);
  return *all[random.below(all.size())];
}

// Replaces, duplicates or removes one value. Random changes of bytes would seldom give valid JSON.
void change(Json& document, tinytorch::Generator& random) {
  static const Json others = Json::parse(R"([null, true, false, 0, 1, -1, 2, 0.5, 1e308, 1e-308, -1e308, 1001,
    2147483648, 9223372036854775807, -9223372036854775808, 18446744073709551615, "", "0", "@0", "@1", "@3", "b/0", "r/0",
    "dig", "krn", "lm", "ad", "ttq-dig", "single_stream", "multi_stream", "offline", "server", "generation",
    "time_to_quality", "open", "closed", "kernel", "T0", "T1", "smoke", "ranked", "official", "right", "wrong", "absent",
    "unasked", "public", "A9", "A11", "not made: it", "\u0000", "<b>", "\u00e9", [], {}, [1], [-1.5], [[1]]])");
  Json& value = any_value(document, random);
  const auto what = random.below(4);
  if (what == 0 && value.is_array() && !value.empty()) {
    value.push_back(Json(value[random.below(value.size())]));
  } else if (what == 1 && value.is_structured() && !value.empty()) {
    value.erase(std::next(value.begin(), static_cast<std::ptrdiff_t>(random.below(value.size()))));
  } else if (what == 2) {
    value = Json(any_value(document, random));
  } else {
    value = others[random.below(others.size())];
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  tinytorch::Generator random(seed);
  Sections sections(std::string(reinterpret_cast<const char*>(data), size));
  const auto place = random.below(sections.runs.size() + 1);
  std::string& text = place == 0 ? sections.board : sections.runs[place - 1];
  Json document = Json::parse(text, nullptr, false);
  if (random.below(8) == 0 || document.is_discarded()) return LLVMFuzzerMutate(data, size, most);
  for (size_t i = 0; i < 1 + random.below(3); ++i) change(document, random);
  text = document.dump(-1, ' ', true);
  std::string out = sections.board;
  for (const std::string& run : sections.runs) out += std::string(kBetween) + run;
  if (out.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::ranges::copy(out, data);
  return out.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const Sections sent(filled(std::string(reinterpret_cast<const char*>(data), size)));
  Sections right = sent;
  if (right.runs.size() > 8) return 0;
  correct_runs(right);
  if (!correct_ranks(right)) return 0;
  Store store(":memory:"), next(":memory:");
  try {
    (void)import_board(store, sent.archive());
  } catch (const Refusal&) {
    require(store.database().integer("SELECT count(*) FROM bundles") == 0);
  }
  const std::string archive = right.archive();
  (void)import_board(store, archive);
  const Imported again = import_board(store, archive);
  require(again.bundles == 0 && again.runs == 0);
  require(verify_board(store).empty());
  show(store);
  const std::string exported = export_board(store);
  (void)import_board(next, exported);
  require(export_board(next) == exported);
  return 0;
}
