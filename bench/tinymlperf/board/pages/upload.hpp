// The form for a bundle.
#pragma once

#include <string>
#include <tinymlperf/board/pages/badges.hpp>

namespace tinymlperf::board {

inline std::string upload_page(const Site& site, int64_t most_bytes) {
  const std::string body = fmt::format(
      R"(<h1>Submit a bundle</h1>
<p class="lead">The judge runs what you send in a sandbox, in turns with the baseline, and publishes all of it: files, numbers and notes. Nothing can be taken back.</p>
<form method="post" action="/submit" enctype="multipart/form-data" class="card">
<p><label for="token">Your token</label> <input id="token" name="token" type="password" maxlength="200" required="required" autocomplete="off"/></p>
<p><label for="bundle">Bundle, a .tmlp file of at most {0}</label> <input id="bundle" name="bundle" type="file" required="required" accept=".tmlp"/></p>
<p><button type="submit">Submit</button></p>
</form>
<h2>From a terminal</h2>
<pre tabindex="0"><code>tinymlperf submit mine.tmlp --board http://HOST --token-file FILE --wait</code></pre>
<p>Or without this program:</p>
<pre tabindex="0"><code>curl -F token=TOKEN -F bundle=@mine.tmlp -H 'Accept: application/json' http://HOST/submit</code></pre>
)",
      document::show_bytes(most_bytes));
  return page(site, Here::upload, "Submit", body);
}

}  // namespace tinymlperf::board
