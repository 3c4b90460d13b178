// The elements of a chart, by a strict parser, for tests.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <regex>
#include <string>
#include <vector>

namespace svg_elements {

struct Element {
  std::string name;
  std::map<std::string, std::string> attributes;
  double at(const std::string& key) const { return std::stod(attributes.at(key)); }
};

// A strict parser of the XML subset of the charts: tags are closed in order, attributes are quoted, and no
// bare < or & occurs.
inline std::vector<Element> parse(const std::string& text) {
  static const std::regex attribute(R"re(\s+([A-Za-z0-9:-]+)="([^"<]*)")re");
  static const std::regex entity(R"(&(?!amp;|lt;|gt;|quot;|#39;))");
  std::vector<Element> elements;
  std::vector<std::string> open;
  REQUIRE_FALSE(std::regex_search(text, entity));
  for (size_t i = 0; (i = text.find('<', i)) != std::string::npos;) {
    const size_t end = text.find('>', i);
    REQUIRE(end != std::string::npos);
    std::string tag = text.substr(i + 1, end - i - 1);
    i = end;
    if (tag[0] == '/') {
      REQUIRE_FALSE(open.empty());
      REQUIRE(open.back() == tag.substr(1));
      open.pop_back();
      continue;
    }
    const bool closed = tag.back() == '/';
    if (closed) tag.pop_back();
    const size_t name_end = tag.find_first_of(" \n");
    Element e{tag.substr(0, name_end), {}};
    std::string rest = name_end == std::string::npos ? "" : tag.substr(name_end);
    for (std::smatch m; std::regex_search(rest, m, attribute, std::regex_constants::match_continuous);
         rest = m.suffix())
      e.attributes[m[1]] = m[2];
    REQUIRE_MESSAGE(rest.find_first_not_of(" \n") == std::string::npos, "left over in tag: ", rest);
    elements.push_back(e);
    if (!closed) open.push_back(e.name);
  }
  REQUIRE(open.empty());
  return elements;
}

}  // namespace svg_elements
