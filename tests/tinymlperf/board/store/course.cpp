// A class: its roster from CSV with complaints by line, tokens that are renewed and revoked, and its grades.
#include <doctest/doctest.h>

#include <support/board.hpp>
#include <tinymlperf/board/store/course.hpp>
#include <tinymlperf/board/store/grades.hpp>
#include <tinymlperf/board/store/verify.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;
using test::Board;

namespace {

template <class F>
std::string complaint(F&& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

Enrolled take(Store& store, const std::string& csv) {
  return Course(store).enroll(parse_roster(csv, "class.csv"), "class.csv", [](const Enrolled&) {});
}
std::string wrong(Store& store, const std::string& csv) {
  return complaint([&] { take(store, csv); });
}

}  // namespace

TEST_CASE("a roster is read with quotes, blanks, empty lines, any order of columns and any line ends") {
  Board b;
  const Enrolled done = take(b.store,
                             "\xEF\xBB\xBFquota,name,team,token\r\n"
                             "7,\"Hopper, Grace\",Compilers,\r\n"
                             ",,,\r\n"
                             "\r\n"
                             ",  Alan , ,token-of-alan-123456\n"
                             "3,Ada,Engines,");
  CHECK(done.added == 2);
  CHECK(done.changed == 1);
  REQUIRE(done.tokens.size() == 1);  // Alan has his own, and Ada keeps hers
  CHECK(done.tokens[0].first == "Hopper, Grace");
  CHECK(b.store.user_of(done.tokens[0].second));
  CHECK(b.store.user_of("token-of-alan-123456"));
  CHECK(b.store.user_of(b.token) == b.user);
  const auto users = b.store.users();
  REQUIRE(users.size() == 3);
  CHECK(users[0].team == "Engines");
  CHECK(users[0].quota == 3);
  CHECK(users[1].team == "Compilers");
  CHECK(users[1].quota == 7);
  CHECK(users[2].name == "Alan");
  CHECK(users[2].quota == StoreOptions{}.quota);
  // The same roster again changes nothing, and a column that is missing changes nothing either.
  const Enrolled again = take(b.store, "name\nAda\nAlan\n");
  CHECK(again.added == 0);
  CHECK(again.changed == 2);
  CHECK(again.tokens.empty());
  CHECK(b.store.users()[0].quota == 3);
  CHECK(b.store.users()[0].team == "Engines");
  CHECK(verify_board(b.store).empty());
}

TEST_CASE("every wrong line of a roster is named, and then none is taken") {
  Board b;
  const std::string text = wrong(b.store,
                                 "name,team,token,quota\n"
                                 "Grace,Compilers,,20\n"
                                 "Alan,,short,20\n"
                                 "Eve,,,many\n"
                                 "Eve,,,-1\n"
                                 "\n"
                                 "Bob,,\n"
                                 "\"Mallory,,,\n"
                                 ",,,5\n"
                                 "Pete\xD0\xB3,,,1\n");
  CHECK(text ==
        "class.csv:4: quota: expected a whole number from 0 to 100000, found \"many\"\n"
        "class.csv:5: quota: expected a whole number from 0 to 100000, found \"-1\"\n"
        "class.csv:5: name: it stands in line 4 already\n"
        "class.csv:7: expected 4 fields as in the first line, found 3\n"
        "class.csv:8: a quotation mark is not closed, or stands inside a field\n"
        "class.csv:9: name: expected a name, found none\n"
        "nothing was changed");
  // Complaints of the board itself come with their lines, too.
  const std::string board_says = wrong(b.store,
                                       "name,token\nGrace,\nAlan,short\nBob,same-token-as-eve-1\n"
                                       "Eve,same-token-as-eve-1\nPete\xD0\xB3,\n");
  CHECK(board_says.find("class.csv:3: token: expected 16 to 200 bytes without blanks") == 0);
  CHECK(board_says.find("\nclass.csv:5: token: expected one that nobody has") != std::string::npos);
  CHECK(board_says.find("\nclass.csv:6: name: expected a name in one script") != std::string::npos);
  CHECK(board_says.find("class.csv:2:") == std::string::npos);
  CHECK(b.store.users().size() == 1);
  CHECK(wrong(b.store, "").find("class.csv: expected a first line") == 0);
  CHECK(wrong(b.store, "team\nx\n") == "class.csv:1: expected a column name");
  CHECK(wrong(b.store, "name,name\nx,y\n").find("class.csv:1: expected the columns") == 0);
  CHECK(wrong(b.store, "name,e-mail\nx,y\n").find("found \"e-mail\"") != std::string::npos);
  std::string many = "name,quota\n";
  for (int i = 0; i < 100; ++i) many += "n" + std::to_string(i) + ",x\n";
  CHECK(wrong(b.store, many).find("(more lines are wrong, too)") != std::string::npos);
  CHECK(wrong(b.store, many).size() < 4000);
}

TEST_CASE("a class of a hundred is enrolled, and tokens are kept before anything counts") {
  Board b;
  std::string csv = "name,quota\n";
  for (int i = 0; i < 100; ++i) csv += "student " + std::to_string(i) + ",5\n";
  const auto roster = parse_roster(csv, "class.csv");
  CHECK(complaint([&] {
          Course(b.store).enroll(roster, "class.csv",
                                 [](const Enrolled&) { throw std::runtime_error("disk full"); });
        }) == "disk full");
  CHECK(b.store.users().size() == 1);
  CHECK(take(b.store, csv).tokens.size() == 100);
  CHECK(b.store.users().size() == 101);
}

TEST_CASE("a renewed token voids the old one, and a revoked user has none until it is renewed") {
  Board b;
  Course course(b.store);
  const std::string second = course.renew_token("Ada");
  CHECK_FALSE(b.store.user_of(b.token));
  CHECK(b.store.user_of(second) == b.user);
  course.revoke_token("Ada");
  CHECK_FALSE(b.store.user_of(second));
  CHECK_FALSE(b.store.user_of(""));
  CHECK_FALSE(b.store.user_of("revoked 1"));
  CHECK_FALSE(b.store.users()[0].has_token);
  CHECK(b.store.user_of(course.renew_token("Ada")) == b.user);
  CHECK(b.store.users()[0].has_token);
  CHECK(complaint([&] { course.renew_token("Eve"); }) ==
        "user: name: expected a user of this board, found \"Eve\"");
  CHECK(verify_board(b.store).empty());
}

TEST_CASE("grades: the best or the latest submission of everybody, and a line for who has none") {
  Board b;
  const auto eve = b.store.user_of(b.store.add_user("Eve")).value();
  b.store.add_user("=cmd, \"x\"");
  const int64_t fast = b.submit("fast", 2);
  b.work_off({.speedup = 2});
  const int64_t slow = b.submit("slow", 3);
  b.work_off({.speedup = 0.5});
  const int64_t hers = b.store.submit(eve, test::bundle_bytes("hers", 4)).submission;
  const std::string best = grades_csv(b.store, Graded::best), latest = grades_csv(b.store, Graded::latest);
  CHECK(best.starts_with("user,team,submissions,benchmark,"));
  CHECK(best.find("\nAda,,3,dig,open,cpu-mt,T0," + std::to_string(fast) + ",fast,1,") != std::string::npos);
  CHECK(latest.find("\nAda,,3,dig,open,cpu-mt,T0," + std::to_string(slow) + ",slow,") != std::string::npos);
  CHECK(best.find("slow") == std::string::npos);
  CHECK(best.find("\nEve,,1,dig,open,cpu-mt,T0," + std::to_string(hers) + ",hers,,,,,not measured yet,") !=
        std::string::npos);
  CHECK(best.find("\n\"'=cmd, \"\"x\"\"\",,0,,,,,,,,,,,,\n") != std::string::npos);
  b.store.withdraw({}, fast, "It was copied.");
  CHECK(grades_csv(b.store, Graded::best).find("fast") == std::string::npos);
}

TEST_CASE("users take turns in the queue, however many jobs each has, and it shows in that order") {
  Board b({.quota = 100});
  const auto eve = b.store.user_of(b.store.add_user("Eve")).value();
  for (int i = 0; i < 5; ++i) b.submit("ada" + std::to_string(i), 10 + static_cast<uint64_t>(i));
  test::clock_now += 5;
  for (int i = 0; i < 2; ++i)
    b.store.submit(eve, test::bundle_bytes("eve" + std::to_string(i), 20 + static_cast<uint64_t>(i)));
  Queries queries(b.store);
  std::vector<int64_t> shown, played;
  for (const Job& job : queries.queue()) shown.push_back(job.id);
  CHECK(queries.job(11)->ahead == 1);  // hers is the second of all, not the eleventh
  std::string order;
  while (const auto claim = b.store.queue().claim("cpu-mt")) {
    test::clock_now += 60;
    played.push_back(claim->job);
    order += claim->job > 10 ? 'e' : 'a';
    b.store.queue().finish(*claim, b.result(*claim));
  }
  CHECK(order == "aeaeaeaeaaaaaa");
  CHECK(played == shown);
  CHECK(verify_board(b.store).empty());
}

TEST_CASE("a job that waits knows how many are before it, and how long that may take") {
  Board b;
  b.submit("one", 2);
  Queries queries(b.store);
  CHECK(queries.job(1)->ahead == 0);
  CHECK_FALSE(queries.job(1)->wait);  // nobody knows before the first match
  CHECK(wait_text(*queries.job(1)) == "it is the next");
  const auto first = b.store.queue().claim("cpu-mt").value();
  CHECK(wait_text(*queries.job(2)) == "1 job is before it");
  CHECK(wait_text(*queries.job(1)).empty());
  test::clock_now += 600;
  b.store.queue().finish(first, b.result(first));
  b.submit("two", 3);
  CHECK(queries.job(4)->ahead == 2);
  CHECK(queries.job(4)->wait == 1200);
  const auto second = b.store.queue().claim("cpu-mt").value();
  CHECK(second.job == 2);
  CHECK(queries.job(4)->ahead == 2);
  CHECK(queries.job(4)->wait == 900);
  CHECK(wait_text(*queries.job(4)) == "2 jobs are before it, about 16 min");
}

TEST_CASE("after the deadline nobody submits or asks for a match, and what waits is still played") {
  Board b;
  Course course(b.store);
  const int64_t mlp = b.submit("mlp", 2);
  for (const char* bad : {"soon", "2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-12-24 23:59:59Z",
                          "2026-12-24T23:59:59+01"})
    CHECK(complaint([&] { course.set_deadline(bad); }).find("a moment such as 2026-12-24T23:59:59Z") !=
          std::string::npos);
  const std::string moment = b.store.queue().now();
  course.set_deadline(moment);
  const int64_t other = b.submit("other", 3);  // the last second counts
  test::clock_now += 1;
  CHECK(complaint([&] { b.submit("late", 4); }) == "board: expected a request before the deadline, " +
                                                       moment + ", found one at " + b.store.queue().now());
  CHECK(complaint([&] { b.store.request_head_to_head(b.user, mlp, other); }).find("deadline") !=
        std::string::npos);
  b.submit("mlp", 2);  // which is there already
  b.work_off({.speedup = 2});
  CHECK(Queries(b.store).table({"dig", "open", "cpu-mt"})->rows[0].rank == 1);
  course.set_deadline("");
  b.submit("late", 4);
  CHECK(verify_board(b.store).empty());
}

TEST_CASE("a private board shows no source until its deadline is over") {
  Board b;
  Course course(b.store);
  const int64_t mlp = b.submit("mlp", 2);
  Queries queries(b.store);
  const auto source = [&] {
    const Submission s = queries.submission(mlp).value();
    std::string out = s.difference + s.note;
    for (const File& f : s.files) out += f.text;
    return out;
  };
  const std::string open = source();
  CHECK_FALSE(open.empty());
  const std::string before = queries.revision(mlp);
  course.set_private(true);
  CHECK(queries.revision(mlp) != before);
  CHECK(source().empty());
  CHECK(queries.submission(mlp)->files.size() == 2);
  CHECK(queries.submission(mlp)->sealed_until == "");
  course.set_deadline(b.store.queue().now());
  CHECK(queries.submission(mlp)->sealed_until == b.store.queue().now());
  CHECK(source().empty());
  test::clock_now += 1;
  CHECK(queries.revision(mlp) == before);
  CHECK(source() == open);
  CHECK_FALSE(queries.submission(mlp)->sealed_until);
  course.set_deadline("");
  CHECK(source().empty());
  course.set_private(false);
  CHECK(source() == open);
}
