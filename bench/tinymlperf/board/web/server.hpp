// The leaderboard's web server: pages and JSON for everybody, uploads and matches for users with a token.
//
//   request.hpp     strict parsing of addresses and forms
//   reply.hpp       from an address to a page
//   connection.hpp  timeouts and size limits
//   limits.hpp      limits for one visitor
//   upload_form.hpp what an upload sends, and how many are read at once
//   forms.hpp       what else changes something
//   work_desk.hpp   workers on other machines
//   here            the order of checks: refuse early, before a body is read; then answer
//
// There are no cookies: a request that changes something has a token in its form or, for a program, in its
// header, so no other site can send one in a visitor's name. A thread serves one connection. Followers of
// jobs are fewer than the threads, so that readers always find a thread.
#pragma once

#include <csignal>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <tinymlperf/board/web/connection.hpp>
#include <tinymlperf/board/web/job_events.hpp>
#include <tinymlperf/board/web/limits.hpp>
#include <tinymlperf/board/web/reply.hpp>
#include <tinymlperf/board/web/server_options.hpp>
#include <tinymlperf/board/web/upload_form.hpp>
#include <tinymlperf/board/web/work_desk.hpp>

namespace tinymlperf::board {

class Server : private httplib::Server {
 public:
  // `desk`: for workers on other machines; null: there are none.
  Server(Source& source, Uploads& uploads, ServerOptions options, WorkDesk* desk = nullptr)
      : source_(source),
        uploads_(uploads),
        options_(std::move(options)),
        pages_(source, options_.most_bytes, options_.page_age),
        asks_(options_.asks_per_minute),
        watcher_places_(options_.watchers),
        upload_places_(options_.uploads, options_.upload_forms, options_.uploads_each),
        unhurried_places_(options_.readers / 2),
        work_places_(options_.work_bodies),
        desk_(desk) {
    new_task_queue = [this] {
      return new httplib::ThreadPool(static_cast<size_t>(options_.readers + options_.watchers));
    };
    // No SO_REUSEPORT: a second server on one port is a mistake, which must be visible.
    set_socket_options([](socket_t s) {
      const int yes = 1;
      setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    set_tcp_nodelay(true);
    set_keep_alive_max_count(1'000'000);  // the value of the header; this class counts no requests
    set_payload_max_length(static_cast<size_t>(
        std::max(options_.most_bytes + static_cast<int64_t>(kFormBytes), desk_ ? desk_->most_bytes() : 0)));
    set_default_headers(
        {{"Content-Security-Policy",
          "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
          "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"},
         {"X-Content-Type-Options", "nosniff"},
         {"Referrer-Policy", "no-referrer"},
         {"Cross-Origin-Opener-Policy", "same-origin"},
         {"Cross-Origin-Resource-Policy", "same-origin"}});
    set_handlers();
  }

  // Returns the port. Throws if it is not available.
  int bind() {
    const int port = options_.port == 0                           ? bind_to_any_port(options_.host)
                     : bind_to_port(options_.host, options_.port) ? options_.port
                                                                  : -1;
    if (port <= 0)
      throw std::runtime_error(fmt::format(
          "cannot listen at {} port {}: it is in use, or not an address of this machine; choose another "
          "with --host and --port",
          options_.host, options_.port));
    ::listen(svr_sock_, 512);  // the library's own queue holds five visitors
    return port;
  }
  // Runs until stop(), which may have been called before.
  void run() {
    listen_after_bind();
    const std::lock_guard lock(stopping_);
    over_ = true;
  }
  // May be called by any thread at any time after bind(). Answers that have begun are finished. Shutting the
  // socket down ends the library's loop; the library's own stop() does nothing before that loop has begun.
  void stop() {
    const std::lock_guard lock(stopping_);
    if (!over_) shutdown(svr_sock_, SHUT_RDWR);
    over_ = true;
    stop_.raise();
  }
  using httplib::Server::is_running;

 private:
  static constexpr size_t kFormBytes = 8192;
  using Request = httplib::Request;
  using Response = httplib::Response;

  // ---- connections

  bool process_and_close_socket(socket_t socket) override {
    Connection connection(socket, stop_, options_.connection);
    bool last = false;
    const Places::Place unhurried(unhurried_places_);
    while (!last && connection.wait_for_request(!unhurried)) {
      bool understood = false;
      const bool good = process_request(connection, false, last, [&](Request& request) {
        understood = true;
        connection.head_is_there();
        request.ranges.clear();  // pages are short; a part of one is of no use
        // Bytes behind a refused body must not be read as a request.
        const bool has_body =
            request.has_header("Transfer-Encoding") ||
            (request.has_header("Content-Length") && request.get_header_value("Content-Length") != "0");
        if (!has_body) return;
        last = true;
        request.headers.erase("Connection");
        request.headers.emplace("Connection", "close");
      });
      if (!understood) answer_unread(connection);
      last = last || !good || !understood;
    }
    connection.finish();
    return true;
  }

  // The head was too large or did not arrive.
  static void answer_unread(Connection& connection) {
    if (connection.answered() || !(connection.too_large() || connection.too_slow())) return;
    const int status = connection.too_large() ? 431 : 408;
    connection.httplib::Stream::write(fmt::format(
        "HTTP/1.1 {} {}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status, status_title(status)));
  }

  // ---- order of checks

  void set_handlers() {
    set_pre_routing_handler(
        [this](const Request& request, Response& response) { return route(request, response); });
    set_expect_100_continue_handler([this](const Request& request, Response& response) {
      const std::optional<Problem> problem = problem_of_body(request);
      if (!problem) return 100;
      send(request, response, problem_reply(*problem, wants_json(request)));
      return problem->status;
    });
    Post("/submit", [this](const Request& q, Response& r, const httplib::ContentReader& reader) {
      submit(q, r, reader);
    });
    if (desk_)
      Post("/worker/([a-z]+)", [this](const Request& q, Response& r, const httplib::ContentReader& reader) {
        take_work(q, r, reader);
      });
    for (const Form& form : forms())
      Post(std::string("/") + form.address,
           [this, &form](const Request& q, Response& r) { take_form(q, r, form); });
    set_error_handler([](const Request& request, Response& response) {
      if (!response.body.empty() || request.method == "HEAD") return;
      // Errors that the library itself reports: an invalid request line, header or form.
      const Reply reply = problem_reply(
          {response.status, "The request is not valid HTTP, or larger than allowed."}, wants_json(request));
      response.set_content(reply.body, reply.type);
    });
    set_exception_handler([](const Request& request, Response& response, std::exception_ptr thrown) {
      try {
        std::rethrow_exception(std::move(thrown));
      } catch (const std::exception& e) {
        fmt::print(stderr, "tinymlperf: {} {}: {}\n", clean(request.method, 10), clean(request.target, 200),
                   e.what());
      } catch (...) {
        fmt::print(stderr, "tinymlperf: {}: an unknown error\n", clean(request.target, 200));
      }
      send(request, response,
           problem_reply({500, "The board could not answer. The reason is in the server's log."},
                         wants_json(request)));
    });
  }

  HandlerResponse route(const Request& request, Response& response) {
    Problem problem;
    const auto address = parse_address(request.target, problem);
    const bool json = wants_json(request) || (address && address->json);
    const auto refuse = [&](const Problem& p) {
      send(request, response, problem_reply(p, json));
      return HandlerResponse::Handled;
    };
    if (!address) return refuse(problem);
    if (desk_ && WorkDesk::is_work(*address)) return route_work(request, response, *address);
    const std::string methods = methods_of(*address);
    const bool reading = request.method == "GET" || request.method == "HEAD";
    if (methods.find(reading ? "GET" : request.method) == std::string::npos) {
      response.set_header("Allow", methods);
      return refuse({405, "This address answers to " + methods + "."});
    }
    if (reading) {
      if (address->parts.size() == 3 && address->parts[0] == "jobs" && address->parts[2] == "events")
        watch(request, response, address->parts[1]);
      else
        read(request, response, *address, json);
      return HandlerResponse::Handled;
    }
    if (const auto bad = problem_of_body(request)) return refuse(*bad);
    if (const int64_t seconds = asks_.take(request.remote_addr)) {
      response.set_header("Retry-After", std::to_string(seconds));
      return refuse(
          {429, fmt::format("Too many uploads and forms from your address; ask again in {} s.", seconds)});
    }
    return HandlerResponse::Unhandled;
  }

  std::optional<Problem> problem_of_body(const Request& request) const {
    if (desk_ && request.path.starts_with("/worker/"))
      return board::problem_of_body(request, desk_->rule(request.path));
    constexpr auto kForm = static_cast<int64_t>(kFormBytes);
    if (request.path == "/submit")
      return board::problem_of_body(request, {kForm + options_.most_bytes, "multipart/form-data"});
    return board::problem_of_body(request, {kForm, "application/x-www-form-urlencoded"});
  }

  // A worker is known before its body is read. Whoever has no worker's token is slowed down like other
  // visitors who ask for something.
  HandlerResponse route_work(const Request& request, Response& response, const Address& address) {
    const auto refuse = [&](const Problem& p) {
      send_to_one(response, problem_reply(p, true));
      return HandlerResponse::Handled;
    };
    if (WorkDesk::method_of(address) != request.method)
      return refuse({404, "There is no such address for workers, or it has another method."});
    const auto worker = desk_->worker_of(bearer_of(request));
    if (!worker) {
      const int64_t seconds = asks_.take(request.remote_addr);
      if (seconds) response.set_header("Retry-After", std::to_string(seconds));
      return refuse(
          seconds
              ? Problem{429, "Too many requests without a worker's token."}
              : Problem{401, "No worker has this token. `tinymlperf course worker add` gives out tokens."});
    }
    if (request.method == "POST") {
      const auto bad = problem_of_body(request);
      return bad ? refuse(*bad) : HandlerResponse::Unhandled;
    }
    send_to_one(response,
                desk_->answer(*worker, request.path, "", request.get_header_value(kSignatureHeader)));
    return HandlerResponse::Handled;
  }

  // ---- answers

  static bool wants_json(const Request& request) { return accepts_json(request.get_header_value("Accept")); }

  static void send(const Request& request, Response& response, const Reply& reply) {
    response.status = reply.status;
    response.set_header("Vary", "Accept, Accept-Encoding, Authorization");
    if (!reply.location.empty()) response.set_header("Location", reply.location);
    if (reply.status != 200) {
      response.set_header("Cache-Control", "no-store");
      return response.set_content(reply.body, reply.type);
    }
    const std::string etag = reply.etag.empty() ? etag_of(reply.body) : reply.etag;
    response.set_header("ETag", etag);
    response.set_header("Cache-Control", "no-cache");
    if (has_version(request.get_header_value("If-None-Match"), etag)) {
      response.status = 304;
      return;
    }
    response.set_content(reply.body, reply.type);
  }

  // A page, as everybody or as the user with the token of the header sees it. What a user sees is for no
  // cache.
  void read(const Request& request, Response& response, const Address& address, bool json) {
    const std::string bearer = bearer_of(request);
    if (bearer.empty()) return send(request, response, pages_(address, json));
    const Viewer viewer{.user = uploads_.user_of(bearer)};
    if (!viewer.user) return refuse_token(request, response);
    send_to_one(response, pages_(address, json, viewer));
  }
  static void send_to_one(Response& response, const Reply& reply) {
    response.status = reply.status;
    response.set_header("Cache-Control", "no-store");
    response.set_content(reply.body, reply.type);
  }

  // A job as a stream of events: `progress` when something changed, `end` when it is done or failed.
  void watch(const Request& request, Response& response, const std::string& number) {
    const auto id = parse_id(number);
    if (!id || !source_.job(*id))
      return send(request, response, problem_reply({404, "There is no such job."}, wants_json(request)));
    const auto place = std::make_shared<Places::Place>(watcher_places_);
    if (!*place) {
      response.set_header("Retry-After", "30");
      return send(request, response,
                  problem_reply({429, "Too many follow jobs now; load the job's page again instead."},
                                wants_json(request)));
    }
    send_job_events(response, source_, *id, place, options_, stop_);
  }

  // ---- requests with a token

  void submit(const Request& request, Response& response, const httplib::ContentReader& reader) {
    const auto answer = [&](const Reply& reply) { send(request, response, reply); };
    const bool json = wants_json(request);
    const std::string bearer = bearer_of(request);
    std::optional<int64_t> user;
    if (!bearer.empty()) user = uploads_.user_of(bearer);
    if (!bearer.empty() && !user) return refuse_token(request, response);
    const UploadPlaces::Ticket place(upload_places_, user);
    if (!place) {
      response.set_header("Retry-After", "10");
      return answer(problem_reply({429, "Too many uploads at once; ask again in 10 s."}, json));
    }
    std::optional<UploadForm> form = read_upload(reader);
    if (!form || (!user && form->token.empty()) || form->bundle.empty())
      return answer(problem_reply(
          {400, "The form must hold the fields token (at most 200 bytes) and bundle, each once."}, json));
    if (!user) user = uploads_.user_of(form->token);
    if (!user) return refuse_token(request, response);
    try {
      const Accepted accepted = uploads_.submit(*user, std::move(form->bundle));
      const std::string where =
          accepted.job ? Site().job(accepted.job) : Site().submission(accepted.submission);
      Reply reply = json ? json_reply(to_json(accepted), accepted.known_before ? 200 : 201) : see(where);
      if (json) reply.location = where;
      answer(reply);
    } catch (const Refusal& refusal) {
      answer(problem_reply({422, refusal.what()}, json));
    }
  }

  void take_work(const Request& request, Response& response, const httplib::ContentReader& reader) {
    const Places::Place place(work_places_);
    const auto worker = desk_->worker_of(bearer_of(request));
    std::string body;
    const bool complete = worker && place && reader([&](const char* data, size_t size) {
                            body.append(data, size);
                            return true;
                          });
    if (!place) return send_to_one(response, problem_reply({429, "Too many workers ask at once."}, true));
    if (!worker) return refuse_token(request, response);
    if (!complete) return send_to_one(response, problem_reply({408, "The body did not arrive."}, true));
    send_to_one(response,
                desk_->answer(*worker, request.path, body, request.get_header_value(kSignatureHeader)));
  }

  void take_form(const Request& request, Response& response, const Form& form) {
    const bool json = wants_json(request);
    const auto answer = [&](const Reply& reply) { send(request, response, reply); };
    auto fields = parse_form(request.body, "note");
    FilledForm filled;
    for (const char* name : form.numbers)
      if (const auto number = fields ? parse_id((*fields)[name]) : std::nullopt)
        filled.numbers.push_back(*number);
    if (filled.numbers.size() != form.numbers.size())
      return answer(problem_reply({400, form.expectation()}, json));
    const std::string bearer = bearer_of(request);
    const auto user = uploads_.user_of(bearer.empty() ? (*fields)["token"] : bearer);
    if (!user) return refuse_token(request, response);
    filled.user = *user, filled.note = (*fields)["note"];
    try {
      const std::pair<Json, std::string> done = form.act(uploads_, filled);
      Reply reply = json ? json_reply(done.first, 201) : see(done.second);
      reply.location = done.second;
      answer(reply);
    } catch (const Refusal& refusal) {
      answer(problem_reply({422, refusal.what()}, json));
    }
  }

  static void refuse_token(const Request& request, Response& response) {
    response.set_header("WWW-Authenticate", "Token");
    send(request, response,
         problem_reply({401, "Nobody has this token. Whoever runs the board gives out tokens."},
                       wants_json(request)));
  }
  static Reply see(const std::string& where) {
    return {303, "text/plain; charset=utf-8", "See " + where + "\n", where};
  }

  Source& source_;
  Uploads& uploads_;
  ServerOptions options_;
  Pages pages_;
  RateLimit asks_;
  Places watcher_places_;
  UploadPlaces upload_places_;
  // Places of connections that may be silent for long. Other connections close earlier, so that visitors who
  // wait get a thread.
  Places unhurried_places_;
  Places work_places_;
  WorkDesk* desk_;
  StopFlag stop_;
  std::mutex stopping_;
  bool over_ = false;
};

}  // namespace tinymlperf::board
