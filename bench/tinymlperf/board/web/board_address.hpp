// The address of a board that is served somewhere: its form, and why a request to it has no answer.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <tinymlperf/board/store/text.hpp>
#include <tinymlperf/board/web/http_library.hpp>
#include <tinymlperf/support/json_fields.hpp>

namespace tinymlperf::board {

class RefusedByBoard : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline bool is_address(std::string_view board) { return board.find("://") != std::string_view::npos; }

// The address without a slash at its end. `option`: where it was given. Throws std::invalid_argument.
inline std::string checked_address(std::string address, const std::string& option) {
  while (address.ends_with('/')) address.pop_back();
  const size_t mark = address.find("://");
  const std::string scheme = address.substr(0, mark),
                    host = mark == std::string::npos ? "" : address.substr(mark + 3);
  const size_t colon = host.find(':', host.starts_with('[') ? host.find(']') : 0);
  const std::string port = colon == std::string::npos ? "80" : host.substr(colon + 1);
  const bool number = !port.empty() && port.size() <= 5 &&
                      port.find_first_not_of("0123456789") == std::string::npos && std::stoi(port) <= 65535;
  if ((scheme != "http" && scheme != "https") || host.empty() || colon == 0 || !number ||
      host.find_first_of("/?#@ ") != std::string::npos)
    throw std::invalid_argument(option + " " + address +
                                ": expected http://HOST:PORT or https://HOST, without a path");
  return address;
}

inline std::string why_no_answer(const std::string& address, httplib::Error error) {
  switch (error) {
    case httplib::Error::Connection:
      return "cannot connect to " + address +
             ": nobody listens there, or the host is not known; is `tinymlperf serve` running, and the "
             "port its own?";
    case httplib::Error::ConnectionTimeout:
      return address + " does not answer: no connection within 10 s";
    case httplib::Error::SSLConnection:
    case httplib::Error::SSLLoadingCerts:
    case httplib::Error::SSLServerVerification:
      return address + ": no secure connection (" + httplib::to_string(error) +
             "); a board without a certificate is reached by http://";
    default:
      return "the connection to " + address + " broke while we were asking (" + httplib::to_string(error) +
             "); ask again";
  }
}

// The reason in an answer that is an error, without control characters; empty: it has none.
inline std::string reason_of(const Json& answer) {
  if (!answer.is_object() || !answer.contains("error")) return "";
  const Json& error = answer.at("error");
  if (!error.is_object() || !error.contains("reason") || !error.at("reason").is_string()) return "";
  return clean(error.at("reason").get<std::string>(), 2000);
}

}  // namespace tinymlperf::board
