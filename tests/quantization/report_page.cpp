#include <tinytorch/quantization/report_page.hpp>

#include <doctest/doctest.h>

namespace tt = tinytorch;

namespace {

bool has(const std::string& page, const std::string& text) { return page.find(text) != std::string::npos; }
tt::QuantizationReport report() {
  tt::QuantizationReport r;
  r.method = "awq<gptq>";
  r.bytes_before = 4000, r.bytes = 1000;
  r.layers.push_back({.path = "blocks.0.<up>",
                      .format = "Q4_0",
                      .shape = {64, 32},
                      .bytes_before = 2048,
                      .bytes = 1152,
                      .sqnr = 21.25,
                      .clipped = 0.0125,
                      .inputs = "scaled"});
  r.layers.push_back({.path = "last",
                      .format = "",
                      .why = "the configuration keeps it",
                      .shape = {5, 40},
                      .bytes_before = 800,
                      .bytes = 800});
  return r;
}

}  // namespace

TEST_CASE("the page is complete, escaped and loads nothing") {
  const std::string page = tt::html_report(report(), "Weights & bytes");
  CHECK(page.rfind("<!doctype html>", 0) == 0);
  CHECK(has(page, "</html>"));
  CHECK(has(page, "Weights &amp; bytes"));
  CHECK(has(page, "blocks.0.&lt;up&gt;"));
  CHECK(has(page, "awq&lt;gptq&gt;"));
  CHECK(has(page, "21.2"));
  CHECK(has(page, "1.25 %"));
  CHECK(has(page, "the configuration keeps it"));
  for (const char* const loaded : {"<script", "src=", "href=", "http://"}) {
    CAPTURE(loaded);
    CHECK_FALSE(has(page.substr(0, page.find("<svg")), loaded));
  }
  CHECK_FALSE(has(page, "KL"));
  CHECK_FALSE(has(page, "nan"));
}

TEST_CASE("measured layers are drawn by sensitivity, and kept ones have no figures") {
  tt::QuantizationReport r = report();
  r.output_error = 0.01, r.divergence = 0.002;
  for (double tt::QuantizedLayer::*const field :
       {&tt::QuantizedLayer::output_error, &tt::QuantizedLayer::divergence, &tt::QuantizedLayer::seconds,
        &tt::QuantizedLayer::seconds_before})
    r.layers[0].*field = 1e-3;
  const std::string page = tt::html_report(r);
  CHECK(has(page, "<svg"));
  CHECK(has(page, "KL, nats"));
  CHECK(has(page, "1.00e-03"));
  CHECK(has(page, "1.00 ms"));
  CHECK_FALSE(has(page, "nan"));
  r.layers.erase(r.layers.begin());
  CHECK_FALSE(has(tt::html_report(r), "<svg"));  // nothing to draw
}
