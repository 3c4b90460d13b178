// A board with pseudonyms: no surface that everybody sees shows the name of a user, and instructors see
// names.
#include <tinymlperf/board/store/pseudonyms.hpp>

#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <support/printed.hpp>
#include <support/refusals.hpp>
#include <tinymlperf/board/pages/export.hpp>
#include <tinymlperf/board/store/course.hpp>
#include <tinymlperf/board/store/grades.hpp>
#include <tinymlperf/board/store/verify.hpp>
#include <tinymlperf/commands/board.hpp>
#include <tinymlperf/commands/course.hpp>
#include <tinymlperf/commands/show.hpp>
#include <tinymlperf/commands/watch.hpp>
#include <tinytorch/tinytorch.hpp>

#include <tinymlperf/board/served_board.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;
using test::holds;

namespace pseudonyms {

const std::string kName = "Ottoline Quarrington";

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}
// The words of the name that stand in a text, in any case.
std::string names_in(const std::string& text) {
  std::string out;
  for (const char* word : {"ottoline", "quarrington"})
    if (const size_t at = lower(text).find(word); at != std::string::npos)
      out += text.substr(at < 60 ? 0 : at - 60, 120) + "\n";
  return out;
}

// Wherever a user can write her name, she did.
std::string signed_bundle(const std::string& name, uint64_t seed) {
  bundle::Manifest m = test::manifest(name, kName);
  m.team = "Quarrington Compilers", m.notes = "By Ottoline Quarrington.", m.licence = "(c) " + kName;
  m.claims.push_back({"accuracy by " + kName, 0.9});
  return bundle::pack(m, test::entry_files(name, seed));
}

// A board where she has an entry that was thrown out, with an appeal, one that failed, one that was
// withdrawn, one that waits, and one that meets another student's.
struct Class : testing::ServedBoard {
  std::string hers = store.add_user(kName), bobs = store.add_user("Bob"),
              graces = store.add_user("Grace", {}, true);
  int64_t she = store.user_of(hers).value(), bob = store.user_of(bobs).value();
  int64_t out = submit_as(she, "ottoline-mlp", 2), failed = submit_as(she, "QUARRINGTON.2", 3),
          withdrawn = submit_as(she, "third_ottoline_quarrington", 4), ranked = submit_as(she, "ranked", 5);
  int64_t other = store.submit(bob, test::bundle_bytes("other", 6, "Bob")).submission;
  int64_t direct = store.request_head_to_head(bob, other, out), waits = 0;

  Class() : ServedBoard(without_age()) {
    while (const auto claim = store.queue().claim("cpu-mt")) {
      RunDocument d = result(*claim);
      for (judge::ContenderRecord& c : d.contenders)
        c.audits.push_back({"C1", "source", true, "look at ottoline.hpp by " + kName});
      if (claim->submission == out && claim->kind == "run") {
        d.contenders[1].out = "QUARRINGTON: a message of Ottoline Quarrington's entry";
        d.contenders[1].turns.clear();
      }
      if (claim->submission == failed)
        store.queue().fail(*claim, "failed for " + kName, Fault::entry);
      else
        store.queue().finish(*claim, d);
    }
    const int64_t run = store.database()
                            .integer(
                                "SELECT max(c.run) FROM contenders c JOIN bundles b ON b.sha256 = "
                                "c.bundle WHERE b.id = ? AND c.out <> ''",
                                out)
                            .value();
    store.answer_appeal(store.appeal(she, out, run, "I am ottoline quarrington."),
                        "Dear Ottoline  Quarrington, no.");
    store.withdraw(she, withdrawn, "Ottoline Quarrington withdrew it.");
    waits = store.request_head_to_head(bob, other, ranked);
  }
  // Tables and the queue are formed for every request, so that a change is seen at once.
  static ServerOptions without_age() {
    ServerOptions options;
    options.page_age = {};
    return options;
  }
  int64_t submit_as(int64_t user, const std::string& name, uint64_t seed) {
    return store.submit(user, signed_bundle(name, seed)).submission;
  }

  // Every page and document, and pages that do not exist. `headers`: of the visitor.
  std::string everything(const std::string& headers = "") const {
    std::string text;
    std::vector<std::string> targets{"/",
                                     "/queue",
                                     "/tables/dig/open/cpu-mt",
                                     "/submit",
                                     "/nothing",
                                     "/tables/dig/open/cpu-mt/history",
                                     "/queue?page=99",
                                     "/tables/dig/open/cpu-mt/pareto"};
    for (int64_t id = 1; id <= other + 1; ++id) targets.push_back("/submissions/" + std::to_string(id));
    for (int64_t id = 1; id <= waits + 1; ++id) {
      targets.push_back("/jobs/" + std::to_string(id));
      if (id != waits) text += server.get("/jobs/" + std::to_string(id) + "/events").body;
    }
    for (const std::string& target : targets)
      for (const char* accept : {"", "Accept: application/json\r\n"})
        text += server.get(target, headers + accept).body;
    return text;
  }
  // The server's answers to forms of another student, most of which it refuses.
  std::string refusals() const {
    std::string text;
    for (const char* accept : {"", "Accept: application/json\r\n"}) {
      const std::string headers = std::string("Authorization: Bearer ") + bobs + "\r\n" + accept;
      const auto form = [&](const std::string& address, const std::string& fields) {
        text += server.post(address, "application/x-www-form-urlencoded", fields, headers).body;
      };
      for (const int64_t id : {out, failed, withdrawn, ranked}) {
        const std::string number = std::to_string(id);
        form("/withdraw", "submission=" + number + "&note=x");
        form("/appeal", "submission=" + number + "&run=1&note=x");
        form("/head-to-head", "submission=" + number + "&against=" + number);
        form("/head-to-head", "submission=" + number + "&against=" + std::to_string(other));
        form("/cancel", "job=" + number), form("/retry", "job=" + number);
        text += server.submit(bobs, store_copy(id), headers).body;
      }
    }
    return text;
  }
  std::string store_copy(int64_t id) const { return reader().bundle_bytes(id).value(); }
  Store& reader() const { return const_cast<Store&>(reading); }
  std::string exported() {
    const TemporaryFolder to;
    export_site(queries, to.path());
    std::ostringstream text;
    for (const auto& file : std::filesystem::recursive_directory_iterator(to.path()))
      text << file.path().filename().string() << "\n" << std::ifstream(file.path()).rdbuf();
    return text.str();
  }
  std::string pseudonym_of(const std::string& name) {
    for (const UserRow& u : store.users())
      if (u.name == name) return u.pseudonym;
    throw std::out_of_range("no such user");
  }
};

}  // namespace pseudonyms

TEST_CASE(
    "no surface that everybody sees shows a name while pseudonyms are on, and all do before and after") {
  pseudonyms::Class c;
  CHECK_FALSE(pseudonyms::names_in(c.everything()).empty());
  CHECK_FALSE(pseudonyms::names_in(c.exported()).empty());
  Course(c.store).set_pseudonyms(true);
  const std::string pseudonym = c.pseudonym_of(pseudonyms::kName);
  CHECK_FALSE(pseudonym.empty());
  const auto clean = [&](const std::string& text) {
    CHECK(pseudonyms::names_in(text) == "");
    CHECK(holds(text, pseudonym));
  };
  clean(c.everything());
  clean(c.everything("Authorization: Bearer " + c.bobs + "\r\n"));
  clean(c.exported());
  for (const int64_t id : {c.out, c.failed}) {  // their jobs have ended
    const test::Printed seen = test::print([&](auto* to) {
      return run_watch({c.address(), id, std::chrono::milliseconds(5), {c.bobs, {}}}, to);
    });
    CHECK(pseudonyms::names_in(seen.text) == "");
    CHECK_FALSE(seen.text.empty());
  }
  CHECK(pseudonyms::names_in(c.refusals()) == "");  // some of them ask for matches
  clean(c.everything());
  Course(c.store).set_pseudonyms(false);
  CHECK(holds(c.everything(), pseudonyms::kName));  // what was shown is not kept
  CHECK(holds(c.exported(), pseudonyms::kName));
}

TEST_CASE("instructors see names, and grades have them") {
  pseudonyms::Class c;
  Course(c.store).set_pseudonyms(true);
  const std::string target = "/submissions/" + std::to_string(c.ranked) + ".json";
  CHECK(holds(c.server.get(target, "Authorization: Bearer " + c.graces + "\r\n").body, pseudonyms::kName));
  CHECK_FALSE(holds(c.server.get(target).body, pseudonyms::kName));  // what she read was not kept
  CHECK(holds(grades_csv(c.store, Graded::best), pseudonyms::kName));
  CHECK_FALSE(holds(grades_csv(c.store, Graded::best), c.pseudonym_of(pseudonyms::kName)));
  const auto shown = test::print([&](auto* to) { return run_show({c.path, c.ranked}, to); });
  CHECK(shown.holds(pseudonyms::kName));
  CHECK(test::print([&](auto* to) {
          return run_user_list({c.path}, to);
        }).holds(c.pseudonym_of(pseudonyms::kName)));
}

TEST_CASE("a roster gives pseudonyms, which are then on; everybody else has a random one") {
  test::Board b;
  const auto take = [&](const std::string& csv) {
    try {
      Course(b.store).enroll(parse_roster(csv, "class.csv"), "class.csv", [](const Enrolled&) {});
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK(take("name,pseudonym\nGrace,\nAlan,\n") == "");
  CHECK_FALSE(Settings(b.store.database()).has_pseudonyms());
  CHECK(take("name,pseudonym\nGrace,Debugger\nEve,\nAda,Engine\n") == "");
  CHECK(Settings(b.store.database()).has_pseudonyms());
  std::set<std::string> all;
  for (const UserRow& u : b.store.users()) {
    CHECK(all.insert(u.pseudonym).second);
    CHECK(u.pseudonym != u.name);
    if (u.name == "Grace") CHECK(u.pseudonym == "Debugger");
    if (u.name == "Ada") CHECK(u.pseudonym == "Engine");
    if (u.name == "Eve" || u.name == "Alan") CHECK(u.pseudonym.find('-') != std::string::npos);
  }
  CHECK(
      holds(take("name,pseudonym\nBob,Debugger\n"), "class.csv:2: pseudonym: expected one that nobody has"));
  CHECK(holds(take("name,pseudonym\nBob,Ada\n"), "and nobody's name"));
  CHECK(holds(take("name,pseudonym\nBob,x\nPete,x\n"), "class.csv:3: pseudonym: expected one"));
  CHECK(holds(take("name,pseudonym\nBob,Pete\xD0\xB3\n"), "class.csv:2: pseudonym: expected a name in one"));
  CHECK(take("name,pseudonym\nGrace,Debugger\n") == "");  // she has it already
  CHECK(b.store.users().size() == 4);
  CHECK(Queries(b.store).submission(b.baseline)->author == "Engine");
}

TEST_CASE("a thousand users have different pseudonyms, of two words and a number where these are taken") {
  test::Board b;
  std::set<std::string> all;
  for (int i = 0; i < 1000; ++i) b.store.add_user("u" + std::to_string(i));
  for (const UserRow& u : b.store.users()) all.insert(u.pseudonym);
  CHECK(all.size() == 1001);
}

TEST_CASE("names are found as whole words in any case and with any separators, and nothing else is changed") {
  test::Board b;
  b.store.add_user("Mei-Ling O'Brien");
  b.store.add_user("Mei");
  Course(b.store).set_pseudonyms(true);
  std::map<std::string, std::string> of;
  for (const UserRow& u : b.store.users()) of[u.name] = u.pseudonym;
  const Mask m(b.store.database(), {});
  const std::string her = of.at("Mei-Ling O'Brien"), mei = of.at("Mei");
  CHECK(m.text("MEI_LING  o'brien's entry") == her + "'s entry");
  CHECK(m.text("by Mei") == "by " + mei);
  CHECK(m.text("Meiling, meis and xmei; brien") == "Meiling, meis and xmei; brien");
  CHECK(m.entry("obrien-brien.net") == "obrien-" + her + ".net");
  CHECK(m.text("") == "");
  CHECK(m.text("Mei-Ling") == mei + "-Ling");
  CHECK(m.text("Mei\xC3\xA9 Mei") == "Mei\xC3\xA9 " + mei);
  CHECK(Mask(b.store.database(), {.has_file = true}).text("by Mei") == "by Mei");
  Course(b.store).set_pseudonyms(false);
  CHECK(Mask(b.store.database(), {}).text("by Mei") == "by Mei");
}

TEST_CASE("a board of schema 5 gets pseudonyms for its users when they are turned on") {
  const test::BoardFolder f;
  {
    Store store(f.path, test::Board::with_clock({}));
    store.add_user("Ada"), store.add_user("Grace");
    store.database().script("DROP TABLE pseudonyms; PRAGMA user_version = 5");
  }
  CHECK(run_course_pseudonyms({f.path, "maybe"}, stderr) != 0);
  const auto on = test::print([&](auto* to) { return run_course_pseudonyms({f.path, "on"}, to); });
  CHECK(on.status == 0);
  CHECK(on.holds("sees pseudonyms"));
  Store store(f.path, test::Board::with_clock({}));
  CHECK(store.users().at(0).pseudonym != "");
  CHECK(store.users().at(1).pseudonym != "");
  CHECK(verify_board(store).empty());
  CHECK(test::print([&](auto* to) { return run_course_pseudonyms({f.path, "off"}, to); }).holds("names"));
}
