// Uploads that are sent slowly: without a token in the header they take few places, and so do those of one
// user, so they keep nobody else waiting. A token in the header is checked before the body is read.
#include <doctest/doctest.h>

#include <memory>
#include <tinytorch/tinytorch.hpp>
#include <vector>

#include <tinymlperf/board/http_client.hpp>

using namespace tinymlperf;
using namespace tinymlperf::board;
using namespace tinymlperf::board::testing;

namespace {

// A board of two users, "secret" and "other".
struct TwoUsers : MemoryBoard {
  std::optional<int64_t> user_of(const std::string& token) override {
    return token == "other" ? std::optional<int64_t>(2) : MemoryBoard::user_of(token);
  }
};

struct SlowSite {
  TwoUsers board;
  RunningServer server{board, board, options()};
  std::vector<std::unique_ptr<Client>> slow;

  static ServerOptions options() {
    ServerOptions o;
    o.asks_per_minute = 1'000'000, o.uploads = 6, o.upload_forms = 2, o.uploads_each = 2;
    return o;
  }
  static std::string bearer(const std::string& token) {
    return "Authorization: Bearer " + token + "\r\nAccept: application/json\r\n";
  }
  static std::string head(size_t bytes, const std::string& headers) {
    return "POST /submit HTTP/1.1\r\nHost: board\r\nContent-Type: multipart/form-data; "
           "boundary=xyz\r\nContent-Length: " +
           std::to_string(bytes) + "\r\n" + headers + "\r\n";
  }
  // Sends the begin of a body, and then nothing.
  void begin(const std::string& headers) {
    const std::string body = RunningServer::multipart("secret", "bundle " + std::string(500, 'x'));
    slow.push_back(std::make_unique<Client>(server.port));
    slow.back()->write(head(body.size(), headers) + body.substr(0, 200));
  }
  // The status of an upload once `status` is given, or after two seconds.
  int becomes(int status, const std::string& headers, const std::string& bundle) {
    int found = 0;
    for (int i = 0; i < 200 && found != status; ++i) {
      found = server.submit("secret", bundle, headers).status;
      if (found != status) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return found;
  }
};

}  // namespace

TEST_CASE("slow bodies of strangers take the places of forms alone") {
  SlowSite site;
  for (int i = 0; i < 20; ++i) site.begin("");
  CHECK(site.becomes(429, "", "bundle a") == 429);  // also for an honest form
  CHECK(site.server.submit("", "bundle b", SlowSite::bearer("secret")).status == 201);
  CHECK(site.server.submit("anything", "bundle c", SlowSite::bearer("other")).status == 201);
  site.slow.clear();  // their places are free again
  CHECK(site.becomes(303, "", "bundle d") == 303);
}

TEST_CASE("slow bodies of one user leave the places of the others") {
  SlowSite site;
  for (int i = 0; i < 20; ++i) site.begin(SlowSite::bearer("secret"));
  CHECK(site.becomes(429, SlowSite::bearer("secret"), "bundle a") == 429);
  CHECK(site.server.submit("", "bundle b", SlowSite::bearer("other")).status == 201);
  CHECK(site.server.submit("other", "bundle c").status == 303);
}

TEST_CASE("a token in the header that nobody has is refused before the body is sent") {
  SlowSite site;
  for (const char* wrong : {"wrong", "secret2", "Secret", "secret,other"}) {
    Client client(site.server.port);
    client.write(SlowSite::head(1000, SlowSite::bearer(wrong)));
    CHECK(client.read_answer().status == 401);
  }
  // A token in the form does not help.
  CHECK(site.server.submit("secret", "bundle a", SlowSite::bearer("wrong")).status == 401);
}

TEST_CASE("places are counted for each holder, and returned") {
  UploadPlaces places(3, 1, 2);
  const UploadPlaces::Ticket one(places, 1), two(places, 1), three(places, 1), form(places, {});
  CHECK(static_cast<bool>(one));
  CHECK(static_cast<bool>(two));
  CHECK_FALSE(static_cast<bool>(three));
  CHECK(static_cast<bool>(form));
  CHECK_FALSE(static_cast<bool>(UploadPlaces::Ticket(places, 2)));  // all are taken
  UploadPlaces few(2, 1, 1);
  { const UploadPlaces::Ticket ticket(few, 7); }
  CHECK(static_cast<bool>(UploadPlaces::Ticket(few, 7)));
  const UploadPlaces::Ticket held(few, 7);
  CHECK(static_cast<bool>(held));
  CHECK_FALSE(static_cast<bool>(UploadPlaces::Ticket(few, 7)));
  CHECK_FALSE(static_cast<bool>(UploadPlaces::Ticket(few, 7)));  // a refused one took nothing
  CHECK(static_cast<bool>(UploadPlaces::Ticket(few, 8)));
}
