#include <tinytorch/serving/openai_error.hpp>

#include <support/errors.hpp>

using namespace tinytorch;
using namespace tinytorch::serving;

TEST_CASE("an error has OpenAI's form, with null for what is not known") {
  CHECK(to_json(bad_request("stop", "must be \"short\"", "too_long")) ==
        R"({"error":{"message":"stop: must be \"short\"","type":"invalid_request_error","param":"stop",)"
        R"("code":"too_long"}})");
  const ApiError error(429, "later", "rate_limit_error", "", "", 3);
  CHECK(to_json(error) ==
        R"({"error":{"message":"later","type":"rate_limit_error","param":null,"code":null}})");
  CHECK(error.retry_after == 3);
  CHECK(std::string(error.what()) == "later");
}

TEST_CASE("the text of a library error is one line without its code and without a line of the program") {
  try {
    fail("TT-IO-03", "cannot read it\n  expected: JSON\n  hint:     look at it");
  } catch (const Error& error) {
    CHECK(brief_text(error) == "cannot read it; expected: JSON; hint: look at it");
  }
}
