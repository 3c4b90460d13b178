// Similarity: common parts are counted between users alone and without the baselines, the earlier submission
// is named, and an equal rank goes to the earlier one.
#include <doctest/doctest.h>

#include <support/board.hpp>
#include <tinymlperf/board/store/queries.hpp>
#include <tinymlperf/board/store/verify.hpp>
#include <tinytorch/tinytorch.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;
using test::Board;

namespace {

std::string source(int functions, const std::string& ending = "") {
  std::string out = "#include <cstdint>\n";
  for (int i = 0; i < functions; ++i)
    out += "int step_" + std::to_string(i) + "(int x) { return x * " + std::to_string(i) + " + 1; }" +
           ending + "\n";
  return out;
}
std::string with_code(const std::string& name, uint64_t seed, const std::string& code) {
  auto files = test::entry_files(name, seed);
  files.push_back({"kernel.cpp", code});
  return bundle::pack(test::manifest(name), files);
}
bundle::Bundle read(const std::string& bytes) { return bundle::read_bundle(bytes); }

int64_t user(Board& b, const std::string& name) { return b.store.user_of(b.store.add_user(name)).value(); }

}  // namespace

TEST_CASE("shingles see tokens: neither blanks, comments nor the model's name") {
  const Hashes plain = code_hashes(read(with_code("a", 1, source(20))));
  CHECK(plain.size() > 100);
  CHECK(std::is_sorted(plain.begin(), plain.end()));
  CHECK(code_hashes(read(with_code("other", 2, source(20, "   // mine\n\n/* all of it */")))) == plain);
  const Hashes longer = code_hashes(read(with_code("a", 1, source(40))));
  const Common all = in_common(plain, longer, {}), half = in_common(longer, plain, {});
  CHECK(all.shared >= all.total - 8);  // the last function's end
  CHECK(half.total > 1.5 * static_cast<double>(half.shared));
  CHECK(in_common(plain, longer, plain).total == 0);
  CHECK(in_common(plain, {}, {}).shared == 0);
  for (const char* end : {"/", "//", "/*", "/* x", "\"", "", "\xff\xfe"})
    CHECK(code_hashes(read(with_code("a", 1, source(20) + end))).size() >= plain.size());
}

TEST_CASE("a set that is too large is a fair sample of itself") {
  Hashes a, b;
  for (int i = 0; i < 60000; ++i) {
    const uint64_t h = board::detail::mixed(static_cast<uint64_t>(i));
    a.push_back(h);
    if (i % 4 == 0) b.push_back(h);  // a quarter of it
  }
  a = board::detail::as_set(a), b = board::detail::as_set(b);
  CHECK(a.size() == kMostHashes);
  const Common c = in_common(a, b, {}), back = in_common(b, a, {});
  CHECK(static_cast<double>(c.shared) / static_cast<double>(c.total) == doctest::Approx(0.25).epsilon(0.05));
  CHECK(back.shared == back.total);
}

TEST_CASE("weights are compared tensor by tensor, and what holds one value throughout does not count") {
  CHECK(weight_hashes(read(test::bundle_bytes("a", 7))) == weight_hashes(read(test::bundle_bytes("b", 7))));
  CHECK(weight_hashes(read(test::bundle_bytes("a", 7))) != weight_hashes(read(test::bundle_bytes("a", 8))));
  bundle::Bundle b;
  const auto file = [](const tt::Tensor& values) {
    const auto bytes = tt::to_safetensors({{"x", values}});
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  b.files = {{kWeightsFile, file(tt::arange(0, 5, 1))}};
  CHECK(weight_hashes(b).size() == 1);
  b.files = {{kWeightsFile, file(tt::ones({5}))}};
  CHECK(weight_hashes(b).empty());
  b.files = {{kWeightsFile, "no weights"}};
  CHECK(weight_hashes(b).empty());
  CHECK(weight_hashes({}).empty());
}

TEST_CASE(
    "a near-clone of another user's submission is told of who came first; one's own and the baseline's are "
    "not") {
  Board b;
  Queries q(b.store);
  const int64_t eve = user(b, "Eve");
  const int64_t first = b.store.submit(b.user, with_code("first", 5, source(50))).submission;
  const int64_t again = b.store.submit(b.user, with_code("again", 5, source(50))).submission;
  const int64_t clone =
      b.store.submit(eve, with_code("clone", 5, source(48) + "int own(int x) { return x; }")).submission;
  CHECK(q.submission(first)->similarities.empty());
  CHECK(q.submission(again)->similarities.empty());
  const auto found = q.submission(clone)->similarities;
  REQUIRE(found.size() == 4);  // code and weights, of both
  CHECK(found[0].kind == "code");
  CHECK(found[0].submission == first);
  CHECK(found[0].author == "Ada");
  CHECK(found[0].name == "first");
  CHECK(found[0].shared < found[0].total);
  CHECK(static_cast<double>(found[0].shared) > 0.9 * static_cast<double>(found[0].total));
  CHECK(found[2].kind == "weights");
  CHECK(found[2].shared == found[2].total);
  const int64_t based =
      b.store.submit(eve, test::bundle_bytes("based", 1)).submission;  // weights of the baseline
  CHECK(q.submission(based)->similarities.empty());
  const int64_t own = b.store.submit(eve, with_code("own", 9, "float f(float x) { return x; }")).submission;
  CHECK(q.submission(own)->similarities.empty());
  CHECK(verify_board(b.store).empty());
  b.store.database().script(
      "DROP TRIGGER fingerprints_no_UPDATE; UPDATE fingerprints SET hashes = x'00' WHERE bundle = 2");
  const auto complaints = verify_board(b.store);
  CHECK(std::count_if(complaints.begin(), complaints.end(), [](const std::string& c) {
          return c.find("fingerprint of") != std::string::npos;
        }) == 2);
}

TEST_CASE("equal results stand in the order in which they came") {
  Board b;
  const int64_t eve = user(b, "Eve");
  const int64_t second_name = b.store.submit(eve, test::bundle_bytes("zz", 5)).submission;
  const int64_t clone = b.store.submit(b.user, test::bundle_bytes("aa", 5)).submission;
  while (const auto c = b.store.queue().claim("cpu-mt")) {
    RunDocument d = test::run_document(b.who(c->against), b.who(c->submission),
                                       {.scenario = c->scenario, .speedup = 2});  // the same samples for both
    b.store.queue().finish(*c, d);
  }
  const Table t = Queries(b.store).table({"dig", "open", "cpu-mt"}).value();
  REQUIRE(t.rows.size() == 3);
  CHECK(t.rows[0].score->low == t.rows[1].score->low);
  CHECK(t.rows[0].submission == second_name);
  CHECK(t.rows[1].submission == clone);
  CHECK(t.rows[0].rank == t.rows[1].rank);
}
