// All problems of a file are in one error; a malformed setting decides its code.
#include <tinytorch/transformer/model_problems.hpp>

#include <io/files.hpp>
#include <tinytorch/tinytorch.hpp>

namespace tt = tinytorch;

TEST_CASE("one error lists all problems, the malformed ones first") {
  tt::ModelProblems problems("x.json", tt::Loc::current());
  CHECK(files::refusal_of([&] { problems.finish(); }).code == "");
  problems.require(true, "a", "1", "1");
  CHECK(files::refusal_of([&] { problems.finish(); }).code == "");
  problems.require(false, "a", "1", "2 or 3");
  const auto one = files::refusal_of([&] { problems.finish(); });
  CHECK(one.code == "TT-IO-04");
  CHECK(files::contains(one.text, "'x.json' describes\n  a is 1, supported: 2 or 3"));
  problems.malformed("b is missing");
  const auto both = files::refusal_of([&] { problems.finish(); });
  CHECK(both.code == "TT-IO-03");
  CHECK(files::contains(both.text, "describes\n  b is missing\n  a is 1"));
}
