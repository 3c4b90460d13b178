// The board's commands as functions, from an entry's folder to a ranked table: their output and exit status.
#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <sstream>
#include <support/audited_run.hpp>
#include <support/board.hpp>
#include <support/printed.hpp>
#include <support/sanitized.hpp>
#include <tinymlperf/commands/board_commands.hpp>
#include <tinymlperf/commands/verify.hpp>
#include <tinytorch/tinytorch.hpp>

namespace fs = std::filesystem;
using namespace tinymlperf;

namespace {

using test::print, test::Printed;

struct Scene {
  TemporaryFolder folder;
  fs::path board = folder.path() / "board.db";

  fs::path entry(const std::string& name, uint64_t seed = 1) {
    const fs::path path = folder.path() / "entries" / name;
    fs::create_directories(path);
    for (const auto& file : test::entry_files(name, seed)) std::ofstream(path / file.path) << file.content;
    return path;
  }
  fs::path packed(const std::string& name, uint64_t seed = 1) {
    PackOptions o;
    o.folder = entry(name, seed), o.out = folder.path() / (name + ".tmlp"), o.author = "Ada",
    o.licence = "CC0-1.0";
    CHECK(print([&](auto* out) { return run_pack(o, out); }).status == kPass);
    return o.out;
  }
  std::string token(const std::string& name) {
    const Printed p = print([&](auto* out) { return run_user_add({board, name, {}}, out); });
    CHECK(p.status == kPass);
    return p.text.substr(0, 64);
  }
  Printed submit(const std::string& token, const fs::path& bundle, bool baseline = false) {
    return print([&](auto* out) { return run_submit({board, bundle, {token, {}}, baseline}, out); });
  }
  Printed show(int64_t id = 0) {
    return print([&](auto* out) { return run_show({board, id}, out); });
  }
};

}  // namespace

TEST_CASE("check says what submit would say") {
  Scene s;
  const auto check = [](const fs::path& path) {
    return print([&](auto* out) { return run_check({path}, out); });
  };
  const fs::path bundle = s.packed("mlp");
  CHECK(check(bundle).status == kPass);
  CHECK(check(bundle).holds("id " + bundle::sha256(tinymlperf::detail::read_bundle_file(bundle))));
  const fs::path folder = s.entry("lenet");
  CHECK(check(folder).status == kFailed);  // its model.json names no author
  auto m = test::manifest("lenet");
  m.files = {{"model.json", 0, bundle::sha256("")}};
  std::ofstream(folder / "manifest.json") << tinytorch::benchmarking::manifest_json(m);
  CHECK(check(folder).status == kPass);
  fs::resize_file(folder / "weights.safetensors", 30);
  CHECK(check(folder).status == kFailed);
  CHECK(check(folder).holds("refused: weights.safetensors"));
  CHECK(check(s.folder.path() / "none").status == kFailed);
}

TEST_CASE("pack makes the same bundle of the same folder, and none of an unfit one") {
  Scene s;
  PackOptions o;
  o.folder = s.entry("mlp"), o.out = s.folder.path() / "a.tmlp", o.author = "Ada";
  CHECK(print([&](auto* out) { return run_pack(o, out); }).status == kPass);
  const std::string first = tinymlperf::detail::read_bundle_file(o.out);
  o.out = s.folder.path() / "b.tmlp";
  CHECK(print([&](auto* out) { return run_pack(o, out); }).status == kPass);
  CHECK(tinymlperf::detail::read_bundle_file(o.out) == first);
  o.out = s.folder.path() / "c.tmlp", o.division = "shut";
  CHECK(print([&](auto* out) { return run_pack(o, out); }).holds("refused: manifest.json: division"));
  CHECK_FALSE(fs::exists(o.out));
}

TEST_CASE("a plugin's folder and one with a recipe are packed as what they are") {
  Scene s;
  const fs::path plugin = s.folder.path() / "scorer";
  fs::create_directories(plugin);
  std::ofstream(plugin / "plugin.cpp") << "#include <chrono>\nint main() {}\n";
  PackOptions o;
  o.folder = plugin, o.out = s.folder.path() / "scorer.tmlp", o.licence = "MIT";
  CHECK(print([&](auto* out) { return run_pack(o, out); }).holds("author"));
  o.author = "Ada";
  const Printed packed = print([&](auto* out) { return run_pack(o, out); });
  CHECK_MESSAGE(packed.status == kPass, packed.text);
  CHECK(packed.holds("scorer by Ada"));
  const fs::path recipe = s.entry("recipe");
  fs::remove(recipe / "weights.safetensors");
  Json model;
  std::ifstream(recipe / "model.json") >> model;
  model["training"] = {{"epochs", 3}};
  std::ofstream(recipe / "model.json") << model.dump();
  o.folder = recipe, o.out = s.folder.path() / "recipe.tmlp";
  REQUIRE(print([&](auto* out) { return run_pack(o, out); }).status == kPass);
  const auto m = bundle::read_bundle(tinymlperf::detail::read_bundle_file(o.out)).manifest;
  CHECK(m.tier == "T0");
  CHECK(m.benchmarks == std::vector<std::string>{"ttq-dig"});
  CHECK(m.scenarios == std::vector<std::string>{"time_to_quality"});
}

TEST_CASE("check and submit compile a plugin, and say what the compiler says" *
          doctest::skip(test::kSanitized)) {
  Scene s;
  const fs::path plugin = s.folder.path() / "scorer";
  fs::create_directories(plugin);
  PackOptions o;
  o.folder = plugin, o.out = s.folder.path() / "scorer.tmlp", o.licence = "MIT", o.author = "Ada";
  const auto packed = [&](const char* source) {
    std::ofstream(plugin / "plugin.cpp") << source;
    REQUIRE(print([&](auto* out) { return run_pack(o, out); }).status == kPass);
    return o.out;
  };
  const fs::path good = packed("#include <chrono>\nint main() {}\n");
  const Printed checked = print([&](auto* out) { return run_check({good}, out); });
  CHECK(checked.holds("C2: it compiles"));
  CHECK(checked.holds("can be submitted (tier T2"));
  CHECK(checked.holds("look at plugin.cpp:1: reads a clock"));
  const fs::path bad = packed("int main() { return missing; }\n");
  const Printed refused = print([&](auto* out) { return run_check({bad}, out); });
  CHECK(refused.status == kFailed);
  CHECK(refused.holds("refused: C2: compile"));
  CHECK(refused.holds("missing"));
  const std::string token = s.token("Ada");
  const Printed submitted = s.submit(token, bad);
  CHECK(submitted.status == kFailed);
  CHECK_MESSAGE(submitted.holds("C2: compile"), submitted.text);
}

TEST_CASE("from a folder to a rank: user, baseline, submission, match, table") {
  Scene s;
  const std::string token = s.token("Ada");
  const fs::path base = s.packed("base"), mlp = s.packed("mlp", 2);
  CHECK(s.submit(token, mlp).holds("a baseline"));
  CHECK(s.submit(token, base, true).holds("submission 1 is the baseline"));
  CHECK(s.submit("wrong", mlp).status == kFailed);
  CHECK(s.submit(token, mlp).holds("submission 2, job 1"));
  CHECK(s.submit(token, mlp).holds("which was there already"));
  CHECK(s.show().holds("queued"));
  {
    board::Store store(s.board);
    while (const auto c = store.queue().claim("cpu-mt"))
      store.queue().finish(*c, test::run_document({"base", bundle::sha256(store.bundle_bytes(1).value())},
                                                  {"mlp", bundle::sha256(store.bundle_bytes(2).value())},
                                                  {.scenario = c->scenario, .speedup = 2}));
  }
  const Printed table = s.show();
  CHECK(table.holds("dig, open, cpu-mt"));
  CHECK(table.text.find("mlp") < table.text.find("base"));
  const Printed mine = s.show(2);
  CHECK(mine.holds("mlp by Ada"));
  CHECK(mine.holds("weights.safetensors"));
  CHECK(mine.holds("against base"));
  CHECK(s.show(9).status == kSetUpProblem);
  CHECK(print([&](auto* out) {
          return run_head_to_head({s.board, {token, {}}, 2, 1}, out);
        }).text == "job 3\n");
  CHECK(print([&](auto* out) {
          return run_head_to_head({s.board, {token, {}}, 2, 2}, out);
        }).status == kFailed);

  const Printed verified = print([&](auto* out) { return run_verify_board(s.board, out); });
  CHECK(verified.status == kPass);
  CHECK(verified.holds("every rank follows from the raw samples"));
  const fs::path file = s.folder.path() / "all.tar", other = s.folder.path() / "other.db";
  CHECK(print([&](auto* out) { return run_export({s.board, file}, out); }).status == kPass);
  CHECK(print([&](auto* out) {
          return run_import({other, file}, out);
        }).holds("2 bundles and 2 runs are new"));
  CHECK(print([&](auto* out) { return run_import({other, file}, out); }).holds("2 and 2 were there already"));
  CHECK(print([&](auto* out) { return run_verify_board(other, out); }).status == kPass);
}

TEST_CASE("a refused run is appealed against, listed and answered") {
  Scene s;
  const std::string token = s.token("Ada");
  s.submit(token, s.packed("base"), true), s.submit(token, s.packed("mlp", 2));
  {
    board::Store store(s.board);
    const auto c = store.queue().claim("cpu-mt").value();
    auto d =
        test::run_document({"base", bundle::sha256(store.bundle_bytes(1).value())},
                           {"mlp", bundle::sha256(store.bundle_bytes(2).value())}, {.scenario = c.scenario});
    d.contenders[1].out = "it said nothing";
    store.queue().finish(c, d);
  }
  const auto list = [&] { return print([&](auto* out) { return run_appeal_list({s.board}, out); }); };
  const auto appeal = [&](const char* note) {
    return print([&](auto* out) { return run_appeal_add({s.board, {token, {}}, 2, 1, note}, out); });
  };
  const auto answer = [&](int64_t id, const char* text) {
    return print([&](auto* out) { return run_appeal_answer({s.board, id, text}, out); });
  };
  CHECK(list().text == "there is no appeal\n");
  CHECK(appeal("").status == kFailed);
  CHECK(appeal("It was asked too late.").text == "appeal 1\n");
  CHECK(appeal("And again.").holds("refused: appeal: run: expected at most one appeal"));
  CHECK(list().holds("against run 1 of submission 2 (mlp): It was asked too late."));
  CHECK(list().holds("no answer yet"));
  CHECK(answer(9, "no").status == kFailed);
  CHECK(answer(1, "It was not.").text == "appeal 1 is answered\n");
  CHECK(list().holds(": It was not."));
}

TEST_CASE("a command that makes a token prints it alone, so that a redirection is a token file") {
  Scene s;
  using Command = std::function<int(std::FILE*, std::FILE*)>;
  // Returns what a command prints, and checks its notes.
  const auto output = [](const Command& run, int status, const std::string& notes_hold) {
    Printed out;
    const Printed notes = print([&](std::FILE* to) {
      out = print([&](std::FILE* token) { return run(token, to); });
      return out.status;
    });
    CHECK(notes.status == status);
    CHECK(notes.holds(notes_hold));
    return out.text;
  };
  const auto user_add = [&](auto* out, auto* notes) {
    return run_user_add({s.board, "Ada", {}}, out, notes);
  };
  const auto renew = [&](auto* out, auto* notes) { return run_course_renew({s.board, "Ada"}, out, notes); };
  const auto worker_add = [&](auto* out, auto* notes) {
    return run_course_worker_add({s.board, "bench-1"}, out, notes);
  };
  const std::string first = output(user_add, kPass, "Ada may submit with this token");
  const std::string second = output(renew, kPass, "Ada has a new token");
  for (const std::string& token : {first, second}) {
    CHECK(token.size() == 65);
    CHECK(token.find_first_not_of("0123456789abcdef") == 64);
    CHECK(token.back() == '\n');
  }
  CHECK(first != second);
  const std::string worker = output(worker_add, kPass, "bench-1 may play matches with this token");
  const auto parsed = board::WorkerToken::parse(worker.substr(0, worker.size() - 1));
  CHECK(parsed.text() + "\n" == worker);
  CHECK(output(user_add, kFailed, "refused: ") == "");  // the names are taken
  CHECK(output(worker_add, kFailed, "refused: ") == "");
}

TEST_CASE("user list says what everybody may submit and has submitted today") {
  Scene s;
  const std::string token = s.token("Ada");
  CHECK(print([&](auto* out) { return run_user_add({s.board, "Eve", 3}, out); }).status == kPass);
  s.submit(token, s.packed("base"), true), s.submit(token, s.packed("mlp", 2));
  const auto users = [&] { return print([&](auto* out) { return run_user_list({s.board}, out); }); };
  const auto line_of = [&](const std::string& name) {
    const std::string text = users().text;
    const size_t at = text.find("\n" + name);
    REQUIRE(at != std::string::npos);
    std::istringstream words(text.substr(at + 1, text.find('\n', at + 1) - at - 1));
    std::vector<std::string> out;
    for (std::string w; words >> w;) out.push_back(w);
    return out;
  };
  CHECK(line_of("Ada") == std::vector<std::string>{"Ada", "20", "2", "2"});
  CHECK(line_of("Eve") == std::vector<std::string>{"Eve", "3", "0", "0"});
  CHECK(print([&](auto* out) {
          return run_head_to_head({s.board, {token, {}}, 2, 1}, out);
        }).status == kPass);
  CHECK(line_of("Ada") == std::vector<std::string>{"Ada", "20", "3", "2"});
}

TEST_CASE("diff of folders, bundles and submissions") {
  Scene s;
  const fs::path a = s.packed("a"), b = s.packed("b");
  const auto diff = [&](const std::string& x, const std::string& y, const fs::path& board = {}) {
    return print([&](auto* out) { return run_diff({board, x, y}, out); });
  };
  CHECK(diff(a, a).status == kPass);
  CHECK(diff(a, s.folder.path() / "entries" / "a").status == kPass);
  const Printed p = diff(a, b);
  CHECK(p.status == kFailed);
  CHECK(p.holds("--- a/model.json\n+++ b/model.json\n"));
  CHECK(p.holds("- \"name\": \"a\""));
  CHECK(diff(a, "none").status == kSetUpProblem);
  const std::string token = s.token("Ada");
  s.submit(token, a, true), s.submit(token, b);
  CHECK(diff("1", "2", s.board).text == p.text);
  CHECK(diff("1", "7", s.board).status == kSetUpProblem);
}

TEST_CASE("boards, files and submissions that do not exist are refused with the reason") {
  Scene s;
  CHECK(s.show().status == kSetUpProblem);
  CHECK_FALSE(fs::exists(s.board));
  CHECK(s.submit("t", "none.tmlp").status == kSetUpProblem);
  CHECK(print([&](auto* out) { return run_show({"http://host/", 0}, out); }).status == kSetUpProblem);
  CHECK(print([&](auto* out) { return run_work({s.board, "ranked"}, out); }).status == kSetUpProblem);
  s.token("Ada");
  for (const char* name : {"huge", "quick", "race"})  // the latter are no matches for a board
    CHECK(print([&](auto* out) { return run_work({s.board, name}, out); }).status == kSetUpProblem);
  std::ofstream(s.folder.path() / "text.db")
      << "this is no database, but it is long enough to be looked at as one";
  CHECK(print([&](auto* out) {
          return run_show({s.folder.path() / "text.db", 0}, out);
        }).status == kSetUpProblem);
}

TEST_CASE("verify recomputes every derived number of a run.json") {
  Scene s;
  const fs::path file = s.folder.path() / "run.json";
  judge::RunDocument run = test::run_document({"base", ""}, {"mlp", ""}, {.speedup = 1.5});
  for (judge::ContenderRecord& c : run.contenders) {
    c.credit = std::string(950, '1') + std::string(50, '0');
    c.quality = tinymlperf::detail::quality_from_samples(c);
    test::add_evidence(c, run.scenario);
  }
  const Json sound = judge::to_json(run);
  const auto verify = [&](const std::function<void(Json&)>& change) {
    Json j = sound;
    change(j);
    std::ofstream(file) << j.dump(1) << '\n';
    return print([&](auto* out) { return run_verify_file(file, out); });
  };
  CHECK(verify([](Json&) {}).status == kPass);
  const Printed wrong = verify([](Json& j) { j["contenders"][1]["times_the_baseline"]["low"] = 1.9; });
  CHECK(wrong.status == kFailed);
  CHECK(wrong.holds("\"mlp\": times_the_baseline is "));
  CHECK(verify([](Json& j) { j["contenders"][1]["value"] = 1; }).holds("value is 1, the samples say"));
  CHECK(verify([](Json& j) { j["contenders"][0]["turns"][0]["latencies"][19] = 9; }).status == kFailed);
  CHECK(verify([](Json& j) { j["extra"] = 1; }).status == kFailed);
  CHECK(verify([](Json& j) { j.erase("seed"); }).status == kSetUpProblem);
}

TEST_CASE("the command line: every command's words reach its options") {
  Scene s;
  const auto call = [](std::vector<std::string> words) {
    static constexpr Command kCommands[] = {
        {"user", "", user_command},       {"submit", "", submit_command}, {"watch", "", watch_command},
        {"appeal", "", appeal_command},   {"check", "", check_command},   {"pack", "", pack_command},
        {"diff", "", diff_command},       {"show", "", show_command},     {"export", "", export_command},
        {"import", "", import_command},   {"job", "", job_command},       {"withdraw", "", withdraw_command},
        {"restore", "", restore_command}, {"course", "", course_command}};
    CLI::App app("test");
    const Action action = one_of(app, kCommands);
    std::reverse(words.begin(), words.end());
    try {
      app.parse(words);
    } catch (const CLI::ParseError&) {
      return -1;
    }
    return action();
  };
  const std::string board = s.board.string(), a = s.packed("a").string(),
                    out = (s.folder.path() / "x.tmlp").string();
  CHECK(call({"user", "add", "Ada", "--board", board, "--quota", "5"}) == kPass);
  CHECK(call({"user", "add", "Ada", "--board", board}) == kFailed);
  unsetenv("TINYMLPERF_TOKEN");
  CHECK(call({"submit", a, "--board", board}) == kSetUpProblem);
  CHECK(call({"submit", a, "--board", board, "--token", "x"}) == kFailed);
  const fs::path file = s.folder.path() / "token";
  std::ofstream(file) << s.token("Grace") << "\nand a line that is none\n";
  CHECK(call({"submit", a, "--board", board, "--token-file", file.string(), "--baseline"}) == kPass);
  CHECK(call({"submit", s.packed("b").string(), "--board", board, "--token", "x", "--token-file",
              file.string()}) == kPass);
  CHECK(call({"submit", a, "--board", board, "--token-file", (s.folder.path() / "none").string()}) ==
        kFailed);
  setenv("TINYMLPERF_TOKEN", "of nobody", 1);
  CHECK(call({"submit", a, "--board", board}) == kFailed);
  unsetenv("TINYMLPERF_TOKEN");
  CHECK(call({"user", "list", "--board", board}) == kPass);
  CHECK(call({"user"}) == -1);
  CHECK(call({"user", "add", "Hopper", "--instructor", "--board", board}) == kPass);
  const std::string csv = (s.folder.path() / "class.csv").string(),
                    tokens = (s.folder.path() / "tokens.csv").string();
  std::ofstream(csv) << "name,quota\nAlan,3\n";
  CHECK(call({"course", "roster", csv, "--board", board, "--tokens", tokens}) == kPass);
  CHECK(call({"course", "roster", csv, "--board", board, "--tokens", tokens}) == kSetUpProblem);
  CHECK(call({"course", "roster", csv, "--board", board}) == kPass);
  CHECK(call({"course", "renew", "Alan", "--board", board}) == kPass);
  CHECK(call({"course", "revoke", "Alan", "--board", board}) == kPass);
  CHECK(call({"course", "revoke", "Nobody", "--board", board}) == kFailed);
  CHECK(call({"course", "grades", "--latest", "--board", board, "--out", csv}) == kPass);
  CHECK(call({"course", "grades"}) == -1);
  CHECK(call({"course", "private", "--board", board}) == kPass);
  CHECK(call({"course", "public", "--board", board}) == kPass);
  CHECK(call({"course", "deadline", "tomorrow", "--board", board}) == kFailed);
  CHECK(call({"course", "deadline", "2999-12-24T23:59:59Z", "--board", board}) == kPass);
  CHECK(call({"course", "deadline", "none", "--board", board}) == kPass);
  CHECK((fs::status(tokens).permissions() & fs::perms::all) ==
        (fs::perms::owner_read | fs::perms::owner_write));
  CHECK(call({"job", "cancel", "1", "--board", board}) == kPass);
  CHECK(call({"job", "retry", "1", "--board", board}) == kPass);
  CHECK(call({"job", "retry", "1", "--board", board}) == kFailed);
  CHECK(call({"job", "cancel", "--board", board}) == -1);
  CHECK(call({"withdraw", "2", "Wrong file.", "--board", board, "--token-file", file.string()}) == kPass);
  CHECK(call({"restore", "2", "It was the right one.", "--board", board}) == kPass);
  CHECK(call({"withdraw", "2", "--board", board}) == -1);
  CHECK(call({"appeal", "list", "--board", board}) == kPass);
  CHECK(call({"appeal", "add", "1", "1", "why", "--board", board, "--token-file", file.string()}) == kFailed);
  CHECK(call({"appeal", "answer", "1", "so", "--board", board}) == kFailed);
  CHECK(call({"appeal", "add", "1", "1", "--board", board}) == -1);
  CHECK(call({"watch", "0", "--board", board}) == -1);
  CHECK(call({"watch", "9", "--board", board}) == kSetUpProblem);
  CHECK(call({"check", a}) == kPass);
  CHECK(call({"pack", (s.folder.path() / "entries" / "a").string(), "--out", out, "--author", "Eve",
              "--division", "closed", "--scenario", "offline,multi_stream", "--hardware", "cpu-1t"}) ==
        kPass);
  const auto m = bundle::read_bundle(tinymlperf::detail::read_bundle_file(out)).manifest;
  CHECK(m.author == "Eve");
  CHECK(m.division == "closed");
  CHECK(m.hardware == "cpu-1t");
  CHECK(m.scenarios == std::vector<std::string>{"offline", "multi_stream"});
  CHECK(call({"diff", a, a}) == kPass);
  CHECK(call({"show", "--board", board}) == kPass);
  CHECK(call({"show", "-1", "--board", board}) == -1);
  CHECK(call({"export", "--board", board, "--out", out}) == kPass);
  CHECK(call({"import", out, "--board", board}) == kPass);
  CHECK(call({"nothing"}) == -1);
}
