// ApiError: what the server answers to a request that it cannot serve, in the form of OpenAI's API.
//
//   throw bad_request("temperature", "must be a number from 0 to 2, not a string");
//   status 400, {"error":{"message":"...","type":"invalid_request_error","param":"temperature","code":null}}
//
// Source: OpenAI's API reference, "Error codes".
#pragma once

#include <exception>
#include <tinytorch/core/error.hpp>
#include <tinytorch/io/json.hpp>

namespace tinytorch::inline TT_BUILD::serving {

struct ApiError : std::exception {
  int status = 500;                        // of HTTP
  std::string message, type, param, code;  // param and code are null if they are empty
  int retry_after = 0;                     // seconds, for the header Retry-After; 0: none

  ApiError(int status_, std::string message_, std::string type_, std::string param_ = "",
           std::string code_ = "", int retry_after_ = 0)
      : status(status_),
        message(std::move(message_)),
        type(std::move(type_)),
        param(std::move(param_)),
        code(std::move(code_)),
        retry_after(retry_after_) {}
  const char* what() const noexcept override { return message.c_str(); }
};

// A field with a wrong value. The message begins with its name.
inline ApiError bad_request(const std::string& field, const std::string& why, const std::string& code = "") {
  return {400, (field.empty() ? "" : field + ": ") + why, "invalid_request_error", field, code};
}

// The text of an error of the library on one line, without its code and without the line of the program.
inline std::string brief_text(const Error& error) {
  std::string text = error.what();
  text.resize(std::min(text.size(), text.find("\n  at ")));
  if (text.starts_with(error.code() + ": ")) text.erase(0, error.code().size() + 2);
  for (size_t at = 0; (at = text.find('\n')) != std::string::npos;)
    text.replace(at, text.find_first_not_of(" \n", at) - at, "; ");
  for (size_t at = 0; (at = text.find("  ")) != std::string::npos;) text.erase(at, 1);
  return text;
}

inline std::string to_json(const ApiError& error) {
  const auto or_null = [](const std::string& text) { return text.empty() ? "null" : to_json_string(text); };
  return "{\"error\":{\"message\":" + to_json_string(error.message) +
         ",\"type\":" + to_json_string(error.type) + ",\"param\":" + or_null(error.param) +
         ",\"code\":" + or_null(error.code) + "}}";
}

}  // namespace tinytorch::inline TT_BUILD::serving
