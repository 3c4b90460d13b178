// The messages between a worker on another machine and the board's server.
//
//   POST /worker/waiting     {"hardware"}                        {"waiting": true}
//   POST /worker/claim       {"hardware"}                        {"job": null or an assignment}
//   POST /worker/uncompiled  {"hardware"}                        {"submissions": [{"submission", "bundle"}]}
//   POST /worker/compiled    {"submission", "why_not"}           {}
//   POST /worker/report      {"job", "owner", "progress", "message"}   {}
//   POST /worker/finish      {"job", "owner", "run": run.json}   {"run": its number}
//   POST /worker/fail        {"job", "owner", "why", "fault"}    {"again": true if it waits again}
//   GET  /worker/bundles/DIGEST                                  the bytes of the bundle
//
// Every request names the worker ("Authorization: Bearer IDENTITY") and is signed (kSignatureHeader,
// store/workers.hpp). A body has one form, canonical_text, so that the same content has the same signature.
// `owner` is the secret of the claim, as in the store. Answers: 200; 400 the body is malformed; 401 nobody
// has this identity; 403 the signature is wrong; 409 the job is not this worker's any more; 413 too large;
// 422 the board refuses the content, and says why; 429 and 5xx: ask again.
#pragma once

#include <string>
#include <tinymlperf/board/store/job_source.hpp>
#include <tinymlperf/support/json_fields.hpp>

namespace tinymlperf::board {

inline constexpr const char* kSignatureHeader = "X-Work-Signature";

// Keys in the order of their bytes, no blanks, and other characters than ASCII as \uXXXX.
inline std::string canonical_text(const Json& j) { return j.dump(-1, ' ', true); }

inline Json assignment_to_json(const Assignment& a) {
  return {{"job", a.claim.job},
          {"owner", a.claim.owner},
          {"kind", a.claim.kind},
          {"submission", a.claim.submission},
          {"against", a.claim.against},
          {"benchmark", a.claim.benchmark},
          {"scenario", a.claim.scenario},
          {"hardware", a.claim.hardware},
          {"opponent", a.opponent},
          {"bundle", a.submission},
          {"bundle_against", a.against},
          {"bundle_of_baseline", a.base},
          {"best", a.best},
          {"lease_seconds", a.lease}};
}

// Throws Json::exception.
inline Assignment assignment_from_json(const Json& j) {
  const auto text = [&](const char* key) { return j.at(key).get<std::string>(); };
  const auto number = [&](const char* key) { return j.at(key).get<int64_t>(); };
  return {{number("job"), text("owner"), text("kind"), number("submission"), number("against"),
           text("benchmark"), text("scenario"), text("hardware")},
          text("opponent"),
          text("bundle"),
          text("bundle_against"),
          text("bundle_of_baseline"),
          j.at("best").get<double>(),
          j.at("lease_seconds").get<double>()};
}

}  // namespace tinymlperf::board
