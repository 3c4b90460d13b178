// A strict HTML reader for tests. It treats what browsers tolerate as errors: a tag that is not closed, an
// attribute without quotes, an id used twice, a label or a reference without a target, a heading that skips a
// level.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tinymlperf/board/pages/html.hpp>
#include <vector>

namespace tinymlperf::board::testing {

struct Element {
  std::string name;
  std::map<std::string, std::string> attributes;
  std::vector<std::string> inside;  // names of the elements around it, outermost first
  std::string text;                 // directly in it, still escaped
  bool has(const std::string& key) const { return attributes.count(key) > 0; }
  std::string get(const std::string& key) const { return has(key) ? attributes.at(key) : ""; }
};

class HtmlChecker {
 public:
  explicit HtmlChecker(std::string_view html) : html_(html) { read(html); }

  std::vector<Element> elements;
  std::vector<std::string> complaints;

  std::vector<Element> all(const std::string& name) const {
    std::vector<Element> out;
    for (const Element& e : elements)
      if (e.name == name) out.push_back(e);
    return out;
  }

 private:
  void complain(const std::string& what) {
    if (complaints.size() < 20) complaints.push_back(what.substr(0, 300));
  }

  void read(std::string_view html) {
    check_bytes();
    if (!html.starts_with("<!doctype html>\n")) return complain("no doctype");
    size_t at = std::string_view("<!doctype html>\n").size();
    while (at < html_.size()) {
      const size_t tag = std::min(html_.find('<', at), html_.size());
      take_text(html_.substr(at, tag - at));
      if (tag == html_.size()) break;
      const size_t end = html_.find('>', tag);
      if (end == std::string_view::npos) return complain("a tag that does not end");
      take_tag(std::string(html_.substr(tag + 1, end - tag - 1)));
      at = end + 1;
    }
    if (!open_.empty()) complain("not closed: " + elements[open_.back()].name);
    check_structure();
  }

  void check_bytes() {
    for (size_t i = 0; i < html_.size();) {
      const size_t length = utf8_length(html_.substr(i));
      const auto c = static_cast<unsigned char>(html_[i]);
      if (length == 0) return complain("invalid UTF-8 at byte " + std::to_string(i));
      if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7F)
        complain("control character " + std::to_string(c));
      i += length;
    }
  }

  // In text and attribute values, every & must begin one of the five entities, and no quote or bracket is
  // bare.
  void check_escapes(std::string_view s) {
    for (size_t i = s.find('&'); i != std::string_view::npos; i = s.find('&', i + 1)) {
      const std::string_view rest = s.substr(i);
      const bool known = std::any_of(std::begin(kEntities), std::end(kEntities),
                                     [&](const char* entity) { return rest.starts_with(entity); });
      if (!known) complain("a bare &: " + std::string(rest.substr(0, 30)));
    }
  }

  void take_text(std::string_view s) {
    if (s.empty()) return;
    check_escapes(s);
    if (s.find('>') != std::string_view::npos) complain("a bare >: " + std::string(s));
    if (!open_.empty())
      elements[open_.back()].text += s;
    else if (s.find_first_not_of("\n ") != std::string_view::npos)
      complain("text outside of html");
  }

  void take_tag(std::string tag) {
    if (tag.starts_with("/")) {
      if (open_.empty() || elements[open_.back()].name != tag.substr(1))
        return complain("</" + tag.substr(1) + "> closes " +
                        (open_.empty() ? "nothing" : elements[open_.back()].name));
      open_.pop_back();
      return;
    }
    const bool closed = tag.ends_with("/");
    if (closed) tag.pop_back();
    Element e;
    size_t at = 0;
    while (at < tag.size() && (std::isalnum(static_cast<unsigned char>(tag[at])))) ++at;
    e.name = tag.substr(0, at);
    if (e.name.empty()) return complain("a bare <: " + tag);
    while (at < tag.size() && take_attribute(tag, at, e)) {
    }
    for (const size_t i : open_) e.inside.push_back(elements[i].name);
    const bool empty = kVoid.count(e.name) > 0;
    const bool may_close = empty || std::find(e.inside.begin(), e.inside.end(), "svg") != e.inside.end();
    if (empty != closed && !(closed && may_close))
      complain("<" + e.name + "> must " + (empty ? "" : "not ") + "close itself");
    check_nesting(e);
    elements.push_back(e);
    if (!closed) open_.push_back(elements.size() - 1);
  }

  bool take_attribute(const std::string& tag, size_t& at, Element& e) {
    while (at < tag.size() && (tag[at] == ' ' || tag[at] == '\n')) ++at;
    if (at == tag.size()) return false;
    const size_t equals = tag.find("=\"", at);
    const size_t end = equals == std::string::npos ? equals : tag.find('"', equals + 2);
    if (end == std::string::npos) {
      complain("an attribute without a quoted value: " + tag);
      at = tag.size();
      return false;
    }
    const std::string key = tag.substr(at, equals - at), value = tag.substr(equals + 2, end - equals - 2);
    const bool good = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == ':';
    });
    if (!good) complain("a strange attribute " + key);
    if (!e.attributes.emplace(key, value).second) complain("attribute twice: " + key);
    check_escapes(value);
    at = end + 1;
    if (at < tag.size() && tag[at] != ' ' && tag[at] != '\n') complain("no blank after an attribute: " + tag);
    return true;
  }

  void check_nesting(const Element& e) {
    const std::string parent = e.inside.empty() ? "" : e.inside.back();
    const auto within = [&](const char* name) {
      return std::find(e.inside.begin(), e.inside.end(), name) != e.inside.end();
    };
    if (kBlocks.count(e.name) && within("p")) complain("<" + e.name + "> in a paragraph");
    if ((e.name == "a" || e.name == "button" || e.name == "input") && (within("a") || within("button")))
      complain("<" + e.name + "> in a link or button");
    if (e.name == "li" && parent != "ul") complain("<li> in " + parent);
    if ((e.name == "td" || e.name == "th") && parent != "tr") complain("<" + e.name + "> in " + parent);
    if (e.name == "tr" && parent != "thead" && parent != "tbody") complain("<tr> in " + parent);
  }

  void check_structure() {
    std::set<std::string> ids, labelled;
    int level = 0, h1 = 0;
    for (const Element& e : elements) {
      if (e.has("id") && !ids.insert(e.get("id")).second) complain("id twice: " + e.get("id"));
      if (e.name == "label") labelled.insert(e.get("for"));
      if (e.name.size() == 2 && e.name[0] == 'h' && std::isdigit(static_cast<unsigned char>(e.name[1]))) {
        if (e.name[1] - '0' > level + 1) complain("<" + e.name + "> skips a level");
        level = e.name[1] - '0';
        h1 += level == 1;
      }
    }
    if (h1 != 1) complain(std::to_string(h1) + " h1");
    for (const char* landmark : {"header", "nav", "main", "footer", "title"})
      if (all(landmark).empty()) complain(std::string("no ") + landmark);
    for (const std::string& id : labelled)
      if (!ids.count(id)) complain("a label for nothing: " + id);
    for (const Element& e : elements) check_element(e, ids, labelled);
  }

  void check_element(const Element& e, const std::set<std::string>& ids,
                     const std::set<std::string>& labelled) {
    if (e.has("style") || e.name == "style" || e.name == "iframe" || e.name == "object")
      complain("style or frame inline");
    if (e.name == "script" && (!e.has("src") || !e.text.empty())) complain("script inline");
    for (const auto& [key, value] : e.attributes) {
      if (key.starts_with("on")) complain("handler inline: " + key);
      if (key != "xmlns" && (value.find("://") != std::string::npos || value.starts_with("//")))
        complain("external: " + value);
      if ((key == "href" || key == "src" || key == "action") && value.find(':') != std::string::npos)
        complain("scheme: " + value);
      if (key == "href" && value.starts_with("#") && !ids.count(value.substr(1)))
        complain("leads nowhere: " + value);
      if (key == "aria-labelledby" && !ids.count(value)) complain("labelled by nothing: " + value);
    }
    if (e.name == "th" && !e.has("scope")) complain("th without scope");
    const bool field = (e.name == "input" && e.get("type") != "hidden") || e.name == "textarea";
    if (field && !labelled.count(e.get("id"))) complain("input without label");
    if (e.name == "html" && e.get("lang").empty()) complain("html without lang");
    if (e.name == "svg" && !e.has("aria-hidden") && e.get("aria-label").empty())
      complain("svg without a name");
    if (e.name == "table") tables_ += 1;
    if (e.name == "caption") tables_ -= 1;
    if (&e == &elements.back() && tables_ != 0) complain("a table without caption");
  }

  static constexpr const char* kEntities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
  inline static const std::set<std::string> kVoid{"meta", "link", "input", "br", "hr", "img"};
  inline static const std::set<std::string> kBlocks{"div",     "table",  "ul",      "ol",      "dl",   "p",
                                                    "pre",     "figure", "section", "article", "form", "nav",
                                                    "details", "h1",     "h2",      "h3",      "h4"};
  std::string_view html_;
  std::vector<size_t> open_;
  int tables_ = 0;
};

}  // namespace tinymlperf::board::testing
