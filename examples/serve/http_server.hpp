// The HTTP side of examples/serve.cpp: connections, checks of a request before its body is read, routes.
//
// A thread serves one connection; there are more threads than texts, so that a refusal always finds one.
// Requests with a body must be JSON by their Content-Type: a page of another site cannot send such a request
// in a visitor's name without asking first, and this server allows no other site.
#pragma once

#include <serve/page.hpp>

#include <array>
#include <cstdio>
#include <exception>
#include <random>
#include <tinymlperf/board/web/connection.hpp>
#include <tinytorch/serving/engine.hpp>
#include <tinytorch/serving/openai.hpp>

namespace serve {

namespace tt = tinytorch;
using tt::serving::ApiError;
using Service = tt::serving::BasicService<tt::serving::Engine>;

struct HttpOptions {
  std::string host = "127.0.0.1", api_key;
  int port = 8080;                     // 0: a free port
  size_t most_body = size_t{1} << 20;  // bytes
  int threads = 96;
  std::chrono::milliseconds timeout{600'000};  // of a request, from its body to the end of its answer
};

class HttpServer : private httplib::Server {
 public:
  using Request = httplib::Request;
  using Response = httplib::Response;

  HttpServer(Service& service, const tt::serving::ServedModel& served, HttpOptions options)
      : service_(service), served_(served), options_(std::move(options)), started_(::time(nullptr)) {
    new_task_queue = [this] { return new httplib::ThreadPool(static_cast<size_t>(options_.threads)); };
    set_socket_options([](socket_t s) {  // no SO_REUSEPORT: a second server on one port is a mistake
      const int yes = 1;
      setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    set_tcp_nodelay(true);
    set_keep_alive_max_count(1'000'000);  // the value of the header; this class counts no requests
    set_payload_max_length(options_.most_body);
    set_default_headers({{"X-Content-Type-Options", "nosniff"}, {"Cache-Control", "no-store"}});
    set_handlers();
  }

  // Returns the port. Throws if it is not available.
  int bind() {
    const int port = options_.port == 0                           ? bind_to_any_port(options_.host)
                     : bind_to_port(options_.host, options_.port) ? options_.port
                                                                  : -1;
    if (port <= 0) {
      throw std::runtime_error("cannot listen at " + options_.host + " port " +
                               std::to_string(options_.port) +
                               ": it is in use, or not an address of this machine; choose another one with "
                               "--host and --port");
    }
    ::listen(svr_sock_, 512);  // the library's own queue holds five visitors
    return port;
  }
  // Runs until stop(), and until the answers that have begun are written.
  void run() { listen_after_bind(); }
  void stop() {
    shutdown(svr_sock_, SHUT_RDWR);
    stop_.raise();
  }

 private:
  // The connection that this thread serves.
  struct Visitor : tinymlperf::board::Connection {
    using Connection::Connection;
    bool close_after = false;
    // The client has closed its side. A full send buffer does not count: that client only reads slowly.
    bool gone() const {
      pollfd p{socket(), POLLRDHUP, 0};
      return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
    }
  };
  static Visitor*& visitor() {
    thread_local Visitor* current = nullptr;
    return current;
  }

  bool process_and_close_socket(socket_t socket) override {
    Visitor connection(socket, stop_, {.body = options_.timeout});
    visitor() = &connection;
    const bool hurried = ++connections_ > options_.threads / 2;
    for (bool last = false; !last && connection.wait_for_request(hurried);) {
      bool understood = false;
      const bool good = process_request(connection, false, last, [&](Request& request) {
        understood = true;
        connection.head_is_there();
        request.ranges.clear();
      });
      if (!understood && !connection.answered() && (connection.too_large() || connection.too_slow())) {
        const std::string status =
            connection.too_large() ? "431 Request Header Fields Too Large" : "408 Request Timeout";
        connection.httplib::Stream::write("HTTP/1.1 " + status +
                                          "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
      }
      last = last || !good || !understood || connection.close_after;
    }
    --connections_;
    visitor() = nullptr;
    connection.finish();
    return true;
  }

  void set_handlers() {
    set_pre_routing_handler([this](const Request& q, Response& r) { return route(q, r); });
    set_expect_100_continue_handler([this](const Request& q, Response& r) {
      try {
        check(q);
        return 100;
      } catch (const ApiError& error) {
        refuse(r, error);
        return error.status;
      }
    });
    Post("/v1/completions", [this](const Request& q, Response& r) { answer(q, r, false); });
    Post("/v1/chat/completions", [this](const Request& q, Response& r) { answer(q, r, true); });
    set_error_handler([this](const Request&, Response& r) {
      if (!r.body.empty()) return;  // refuse() has written it
      // The HTTP library refuses some requests by itself, such as an invalid header or a body that did not
      // arrive.
      const bool slow = visitor() && visitor()->too_slow();
      refuse(r, {slow ? 408 : r.status,
                 slow ? "the body did not arrive in time" : "the request is not valid HTTP",
                 "invalid_request_error"});
    });
    set_exception_handler([this](const Request& q, Response& r, std::exception_ptr thrown) {
      std::string why = "an unknown error";
      try {
        std::rethrow_exception(std::move(thrown));
      } catch (const std::exception& e) {
        why = e.what();
      } catch (...) {
      }
      std::fprintf(stderr, "serve: %s: %s\n", q.path.c_str(), why.c_str());
      refuse(r, {500, "the server could not answer; the reason is in its log", "server_error"});
    });
  }

  // An answer with an error. The body of the request may be unread, so the connection ends.
  void refuse(Response& response, const ApiError& error) {
    service_.metrics().refused(error.status);
    response.status = error.status;
    if (error.retry_after > 0) response.set_header("Retry-After", std::to_string(error.retry_after));
    if (error.status == 401) response.set_header("WWW-Authenticate", "Bearer");
    response.set_header("Connection", "close");
    if (visitor()) visitor()->close_after = true;
    response.set_content(to_json(error), "application/json");
  }

  HandlerResponse route(const Request& request, Response& response) {
    try {
      check(request);
      if (request.method == "POST") return HandlerResponse::Unhandled;  // the library reads the body first
      const auto send = [&](const std::string& text, const char* type) { response.set_content(text, type); };
      const std::string one = "/v1/models/" + served_.name();
      const tt::serving::ModelCard card = served_.card(started_);
      if (request.path == "/v1/models") send(models_reply(std::array{card}), "application/json");
      if (request.path == one) send(model_reply(card), "application/json");
      if (request.path == "/metrics") send(metrics(), "text/plain; version=0.0.4; charset=utf-8");
      if (request.path == "/health") {
        const bool draining = service_.refuses();
        response.status = draining ? 503 : 200;
        send(draining ? "{\"status\":\"draining\"}" : "{\"status\":\"ok\"}", "application/json");
      }
      if (request.path == "/") {
        response.set_header(
            "Content-Security-Policy",
            "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
            "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
        send(kPage, "text/html; charset=utf-8");
      }
    } catch (const ApiError& error) {
      refuse(response, error);
    }
    if (response.status <= 0) response.status = 200;
    return HandlerResponse::Handled;
  }

  // Throws ApiError for what the head of a request shows already.
  void check(const Request& request) const {
    const bool posts = request.path == "/v1/completions" || request.path == "/v1/chat/completions";
    const bool reads = request.path == "/" || request.path == "/health" || request.path == "/metrics" ||
                       request.path == "/v1/models" || request.path == "/v1/models/" + served_.name();
    if (!posts && !reads) {
      const bool model = request.path.starts_with("/v1/models/");
      throw ApiError(404, model ? "there is no such model" : "there is no such address",
                     "invalid_request_error", model ? "model" : "", model ? "model_not_found" : "");
    }
    const bool reading = request.method == "GET" || request.method == "HEAD";
    if (posts ? request.method != "POST" : !reading)
      throw ApiError(405, posts ? "this address takes POST" : "this address takes GET",
                     "invalid_request_error");
    if (request.path.starts_with("/v1/")) require_key(request);
    if (!posts) return;
    if (service_.refuses())
      throw ApiError(503, "the server is shutting down", "server_error", "", "shutting_down", 5);
    if (request.has_header("Transfer-Encoding") || request.get_header_value_count("Content-Length") != 1)
      throw ApiError(411, "say once, with Content-Length, how long the body is", "invalid_request_error");
    if (request.has_header("Content-Encoding"))
      throw ApiError(415, "send the body without Content-Encoding", "invalid_request_error");
    const std::string length = request.get_header_value("Content-Length");
    size_t bytes = 0;
    const auto [end, error] = std::from_chars(length.data(), length.data() + length.size(), bytes);
    if (error == std::errc::invalid_argument || end != length.data() + length.size())
      throw ApiError(400, "Content-Length must be a whole number", "invalid_request_error");
    if (error != std::errc() || bytes > options_.most_body) {
      throw ApiError(413,
                     "the body has " + length + " bytes; at most " + std::to_string(options_.most_body) +
                         " are taken (--max-body)",
                     "invalid_request_error");
    }
    if (!request.get_header_value("Content-Type").starts_with("application/json"))
      throw ApiError(415, "the body must be of the type application/json", "invalid_request_error");
  }

  void require_key(const Request& request) const {
    if (options_.api_key.empty()) return;
    const std::string given = request.get_header_value("Authorization"),
                      wanted = "Bearer " + options_.api_key;
    unsigned different = given.size() != wanted.size();
    for (size_t i = 0; i < std::min(given.size(), wanted.size()); ++i)  // in a time that does not tell where
      different |= static_cast<unsigned char>(given[i] ^ wanted[i]);
    if (different)
      throw ApiError(401, "the API key is missing or wrong", "invalid_request_error", "", "invalid_api_key");
  }

  std::string metrics() const {
    const auto c = service_.counts();
    const auto n = [](int64_t x) { return static_cast<double>(x); };
    return service_.metrics().text(
        served_.name(), {{"tinytorch_requests_running", "Texts that the engine computes.", n(c.running)},
                         {"tinytorch_requests_waiting", "Texts that wait for room.", n(c.waiting)},
                         {"tinytorch_kv_pages_held", "Pages of the cache that texts hold.", n(c.held_pages)},
                         {"tinytorch_kv_pages_free", "Pages of the cache that are free.", n(c.free_pages)},
                         {"tinytorch_connections", "Open connections.", n(connections_)},
                         {"tinytorch_steps_total", "Steps of the engine.", n(c.steps), "counter"},
                         {"tinytorch_preemptions_total", "Texts that lost their pages for a while.",
                          n(c.preemptions), "counter"}});
  }

  std::string new_id(bool chat) const {
    static std::atomic<uint64_t> next{0};
    static const uint64_t begin = std::random_device()() * uint64_t{1} << 32 | std::random_device()();
    char text[40];
    std::snprintf(text, sizeof text, "%s-%016llx%06llx", chat ? "chatcmpl" : "cmpl",
                  static_cast<unsigned long long>(begin), static_cast<unsigned long long>(++next));
    return text;
  }

  struct Exchange {
    tt::serving::Answer answer;
    tt::serving::Call call;
    std::chrono::steady_clock::time_point deadline;
    bool begun = false;

    // Throws ApiError if the client has left, or if the time is over.
    void check() {
      if (visitor() && visitor()->gone()) end("client_closed", 499, "the client is gone");
      if (std::chrono::steady_clock::now() > deadline)
        end("timeout", 504, "the answer took too long (--timeout)");
    }
    [[noreturn]] void end(const char* why, int status, const char* message) {
      call.leave(why);
      throw ApiError(status, message, "server_error", "", why);
    }
  };

  void answer(const Request& request, Response& response, bool chat) {
    try {
      tt::serving::ApiLimits limits = served_.limits();
      limits.bytes = options_.most_body;
      const auto asked = chat ? parse_chat(request.body, limits) : parse_completion(request.body, limits);
      auto texts = served_.texts(asked, std::random_device()());
      tt::serving::Answer answer(served_, asked, new_id(chat), ::time(nullptr), texts);
      auto call = service_.submit(std::move(texts),
                                  {.operation = chat ? "chat" : "text_completion", .streams = asked.stream});
      const auto exchange = std::make_shared<Exchange>(
          Exchange{std::move(answer), std::move(call), std::chrono::steady_clock::now() + options_.timeout});
      if (asked.stream) {
        response.set_chunked_content_provider(
            "text/event-stream",
            [exchange](size_t, httplib::DataSink& sink) { return write_events(*exchange, sink); });
        return;
      }
      while (!exchange->call.ended()) {
        for (const auto& news : exchange->call.wait(std::chrono::milliseconds(100)))
          exchange->answer.keep(news);
        exchange->check();
      }
      response.set_content(exchange->answer.whole(), "application/json");
    } catch (const ApiError& error) {
      refuse(response, error);
    }
  }

  // Some events of a stream. False: the client is gone.
  static bool write_events(Exchange& exchange, httplib::DataSink& sink) {
    const auto write = [&](const std::string& text) {
      return text.empty() || sink.write(text.data(), text.size());
    };
    try {
      if (!std::exchange(exchange.begun, true) && !write(exchange.answer.begin())) return false;
      std::string events;
      for (const auto& news : exchange.call.wait(std::chrono::milliseconds(100)))
        events += exchange.answer.add(news);
      const bool over = exchange.call.ended();
      if (over) events += exchange.answer.end();
      if (!write(events)) return false;
      if (over) {
        sink.done();
        return true;
      }
      exchange.check();
      return true;
    } catch (const ApiError& error) {
      if (error.status == 499 || !write(tt::serving::Answer::broken(error))) return false;
      if (visitor()) visitor()->close_after = true;
      sink.done();
      return true;
    }
  }

  Service& service_;
  const tt::serving::ServedModel& served_;
  const HttpOptions options_;
  const int64_t started_;
  tinymlperf::board::StopFlag stop_;
  std::atomic<int> connections_{0};
};

}  // namespace serve
