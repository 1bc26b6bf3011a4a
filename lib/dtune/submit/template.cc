#include "dtune/submit/template.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/json.h"
#include "dtune/base/suggest.h"
#include "dtune/base/text.h"

namespace dtune {
namespace {

constexpr std::string_view kOpen = "{{";
constexpr std::string_view kClose = "}}";

std::string in_json(const std::string& text) {
  return json_text(nlohmann::json(text));
}

// One line after the other; knows which blocks are left out.
class Renderer {
 public:
  Renderer(const Template& source, const TemplateValues& values)
      : source_(source), values_(values) {}

  std::string run() {
    std::istringstream lines(source_.text);
    for (std::string line; std::getline(lines, line);) {
      ++number_;
      take(line);
    }
    if (!shown_.empty()) refuse(0, "{{if}} has no {{end}}", "");
    return std::move(out_);
  }

 private:
  void take(const std::string& line) {
    const std::string_view word = trim(line);
    if (word.starts_with("{{if ") && word.ends_with(kClose)) {
      const std::string name(trim(word.substr(5, word.size() - 7)));
      check_name(name, line.find(kOpen) + 5);
      shown_.push_back(is_shown() && values_.has(name));
    } else if (word == "{{end}}") {
      if (shown_.empty()) refuse(line.find(kOpen), "{{end}} has no {{if}}", "");
      shown_.pop_back();
    } else if (!is_shown()) {
      return;
    } else if (word == "{{raw}}") {
      for (const std::string& raw : values_.raw) {
        out_ += line.substr(0, line.find(kOpen)) + raw + '\n';
      }
    } else {
      out_ += filled(line) + '\n';
    }
  }

  bool is_shown() const {
    return std::ranges::all_of(shown_, [](bool shown) { return shown; });
  }

  std::string filled(const std::string& line) {
    const bool comment = trim(line).starts_with('#');
    std::string text;
    size_t at = 0;
    while (true) {
      const size_t open = line.find(kOpen, at);
      if (open == std::string::npos) return text + line.substr(at);
      const size_t close = line.find(kClose, open);
      if (close == std::string::npos) refuse(open, "'{{' has no '}}'", "");
      text += line.substr(at, open - at);
      text += value(line.substr(open + 2, close - open - 2), open + 2, comment);
      at = close + 2;
    }
  }

  std::string value(std::string name, size_t column, bool comment) {
    const char kind = name.empty() ? '\0' : name.back();
    const bool marked = kind == '!' || kind == '*';
    if (marked) name.pop_back();
    check_name(name, column);
    if (kind == '*') return list(values_.lists.at(name));
    const std::string& text = values_.texts.at(name);
    if (kind == '!' || comment) return text;
    return source_.language == TemplateLanguage::shell ? shell_word(text)
                                                       : in_json(text);
  }

  std::string list(const std::vector<std::string>& words) const {
    const bool shell = source_.language == TemplateLanguage::shell;
    std::string text;
    for (const std::string& word : words) {
      if (!text.empty()) text += shell ? " " : ", ";
      text += shell ? shell_word(word) : in_json(word);
    }
    return shell ? text : "[" + text + "]";
  }

  void check_name(const std::string& name, size_t column) {
    if (values_.texts.contains(name) || values_.lists.contains(name)) return;
    std::vector<std::string> names;
    for (const auto& [one, text] : values_.texts) names.push_back(one);
    for (const auto& [one, list] : values_.lists) names.push_back(one);
    refuse(column,
           fmt::format("there is no value '{}'{}", name,
                       did_you_mean(name, names)),
           fmt::format("{}", fmt::join(names, ", ")));
  }

  [[noreturn]] void refuse(size_t column, const std::string& what,
                           const std::string& remedy) const {
    throw Error(ErrorKind::config,
                fmt::format("{}:{}:{}: {}{}", source_.name, number_, column + 1,
                            what, remedy.empty() ? "" : " (" + remedy + ")"));
  }

  const Template& source_;
  const TemplateValues& values_;
  std::vector<bool> shown_;
  int number_ = 0;
  std::string out_;
};

}  // namespace

bool TemplateValues::has(const std::string& name) const {
  const auto text = texts.find(name);
  if (text != texts.end()) return !text->second.empty();
  const auto list = lists.find(name);
  return list != lists.end() && !list->second.empty();
}

std::string render_template(const Template& source,
                            const TemplateValues& values) {
  return Renderer(source, values).run();
}

}  // namespace dtune
