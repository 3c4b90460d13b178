// Appeals: made once by the owner of a refused run, answered once by the operator of the board, shown and
// never changed.
#include <doctest/doctest.h>

#include <support/board.hpp>
#include <support/refusals.hpp>
#include <tinymlperf/board/store/queries.hpp>
#include <tinymlperf/board/store/verify.hpp>
#include <tinymlperf/board/web/json.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;
using test::Board;
using test::holds, test::refusal;

namespace {

// One submission: its first run was thrown out, its second counts.
struct Refused : Board {
  int64_t mlp = submit("mlp"), out = 0, good = 0;
  Refused() {
    const auto first = store.queue().claim("cpu-mt").value(), second = store.queue().claim("cpu-mt").value();
    RunDocument d = result(first);
    d.contenders[1].out = "sample 3: it was answered differently before";
    out = store.queue().finish(first, d);
    good = store.queue().finish(second, result(second));
  }
  Run run(int64_t id) {
    const Submission s = Queries(store).submission(mlp).value();
    for (const Run& r : s.runs)
      if (r.id == id) return r;
    throw std::out_of_range("no such run");
  }
};

}  // namespace

TEST_CASE("the owner of a refused run appeals once, and it is answered once") {
  Refused b;
  CHECK(b.run(b.out).refused);
  CHECK_FALSE(b.run(b.good).refused);
  CHECK_FALSE(b.run(b.out).appeal);
  const std::string note = "'); DROP TABLE appeals; --\n<script>";
  const int64_t id = b.store.appeal(b.user, b.mlp, b.out, note);
  CHECK(b.run(b.out).appeal->note == note);
  CHECK(to_json(b.run(b.out)).at("appeal").at("answer").is_null());
  CHECK(holds(refusal([&] { b.store.appeal(b.user, b.mlp, b.out, "and again"); }), "at most one appeal"));
  b.store.answer_appeal(id, "It was asked twice, and said two things.");
  CHECK(holds(refusal([&] { b.store.answer_appeal(id, "and more"); }), "at most one answer"));
  CHECK(b.run(b.out).appeal->answer == "It was asked twice, and said two things.");
  CHECK(to_json(b.run(b.out)).at("appeal").at("answered") == b.run(b.out).appeal->answered);
  CHECK(b.store.database().integer("SELECT count(*) FROM events WHERE kind IN ('appeal', 'answer')") == 2);
  CHECK(verify_board(b.store).empty());
}

TEST_CASE("who may not appeal, against what, and how long") {
  Refused b;
  const int64_t eve = b.store.user_of(b.store.add_user("Eve")).value();
  const auto says = [&](int64_t user, int64_t submission, int64_t run, const std::string& note,
                        const char* what) {
    CHECK_MESSAGE(holds(refusal([&] { b.store.appeal(user, submission, run, note); }), what), what);
  };
  says(eve, b.mlp, b.out, "mine", "whose token this is");
  says(b.user, 99, b.out, "none", "whose token this is");
  says(b.user, b.mlp, b.good, "it counts", "one that was refused");
  says(b.user, b.mlp, 99, "no run", "a run of submission 2");
  says(b.user, b.baseline, b.out, "only a baseline there", "a run of submission 1");
  for (const std::string& note : {std::string(), std::string(" \n\t "), std::string(kNoteBytes + 1, 'x')})
    says(b.user, b.mlp, b.out, note, "1 to 2000 bytes");
  for (const char* note : {"\x1b[31m", "\xff", "a\rb"}) says(b.user, b.mlp, b.out, note, "UTF-8 text");
  CHECK(holds(refusal([&] { b.store.answer_appeal(7, "x"); }), "no number 7"));
  CHECK(b.store.database().integer("SELECT count(*) FROM appeals") == 0);
  CHECK_NOTHROW(b.store.appeal(b.user, b.mlp, b.out, std::string(kNoteBytes, 'x')));
}

TEST_CASE(
    "below the floor or with a failed audit is refused as well; a baseline that is out refuses nobody") {
  Board b;
  const int64_t mlp = b.submit("mlp");
  const auto first = b.store.queue().claim("cpu-mt").value(),
             second = b.store.queue().claim("cpu-mt").value();
  const int64_t low = b.store.queue().finish(first, b.result(first, {.quality = {0.7, 0.6, 0.75}}));
  const int64_t audited =
      b.store.queue().finish(second, b.result(second, {.audits = {{"A7", "clock", false, "slow"}}}));
  CHECK_NOTHROW(b.store.appeal(b.user, mlp, low, "why"));
  CHECK_NOTHROW(b.store.appeal(b.user, mlp, audited, "why"));
  b.store.request_head_to_head(b.user, mlp, b.baseline);
  const auto third = b.store.queue().claim("cpu-mt").value();
  RunDocument d = b.result(third);
  d.contenders[0].out = d.contenders[1].out = "the machine fell over";
  const int64_t nobody = b.store.queue().finish(third, d);
  CHECK(holds(refusal([&] { b.store.appeal(b.user, mlp, nobody, "why"); }), "one that was refused"));
  CHECK(Appeals(b.store.database()).all().size() == 2);
  b.store.answer_appeal(1, "because");
  CHECK(Appeals(b.store.database()).all()[0].id == 2);  // what waits for an answer comes first
}
