// The forms that change something, beside the upload: their addresses, the numbers that they hold, and their
// effect. Each also holds a token, and may hold a note.
#pragma once

#include <functional>
#include <string>
#include <tinymlperf/board/pages/html.hpp>
#include <tinymlperf/board/store/source.hpp>
#include <tinymlperf/support/json_fields.hpp>
#include <utility>
#include <vector>

namespace tinymlperf::board {

// The values that a visitor entered in a form.
struct FilledForm {
  int64_t user = 0;
  std::vector<int64_t> numbers;  // in the order of Form::numbers
  std::string note;
};

struct Form {
  const char* address;  // without the slash
  std::vector<const char*> numbers;
  // Returns the result as JSON, and the page to show. Throws Refusal.
  std::function<std::pair<Json, std::string>(Uploads&, const FilledForm&)> act;

  // Returns a sentence for the visitor that names the fields of the form.
  std::string expectation() const {
    std::string names;
    for (const char* n : numbers) names += (names.empty() ? "" : " and ") + std::string(n);
    return "The form must hold the fields token" + (numbers.size() > 1 ? ", " + names : " and " + names) +
           "; " + names + (numbers.size() > 1 ? " are numbers." : " is a number.");
  }
};

inline const std::vector<Form>& forms() {
  static const std::vector<Form> all{
      {"head-to-head",
       {"submission", "against"},
       [](Uploads& to, const FilledForm& f) {
         const int64_t job = to.request_head_to_head(f.user, f.numbers[0], f.numbers[1]);
         return std::pair(Json{{"job", job}}, Site().job(job));
       }},
      {"appeal",
       {"submission", "run"},
       [](Uploads& to, const FilledForm& f) {
         const int64_t id = to.appeal(f.user, f.numbers[0], f.numbers[1], f.note);
         return std::pair(Json{{"appeal", id}}, Site().submission(f.numbers[0]));
       }},
      {"cancel",
       {"job"},
       [](Uploads& to, const FilledForm& f) {
         to.cancel(f.user, f.numbers[0]);
         return std::pair(Json{{"job", f.numbers[0]}}, Site().job(f.numbers[0]));
       }},
      {"retry",
       {"job"},
       [](Uploads& to, const FilledForm& f) {
         to.retry(f.user, f.numbers[0]);
         return std::pair(Json{{"job", f.numbers[0]}}, Site().job(f.numbers[0]));
       }},
      {"withdraw",
       {"submission"},
       [](Uploads& to, const FilledForm& f) {
         to.withdraw(f.user, f.numbers[0], f.note);
         return std::pair(Json{{"submission", f.numbers[0]}}, Site().submission(f.numbers[0]));
       }},
  };
  return all;
}

}  // namespace tinymlperf::board
