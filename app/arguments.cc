#include "app/arguments.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/suggest.h"
#include "dtune/base/text.h"

namespace dtune {
namespace {

constexpr size_t kColumns = 80;
constexpr size_t kIndent = 26;  // of the second column

// What other commands and programs call an option.
constexpr std::pair<const char*, const char*> kOtherNames[] = {
    {"--output", "--db"},     {"-o", "--output"},      {"-o", "--db"},
    {"--workers", "--slots"}, {"--jobs", "--slots"},   {"-j", "--slots"},
    {"-v", "--verbose"},      {"-q", "--quiet"},       {"--force", "--fresh"},
    {"--fresh", "--force"},   {"--timeout", "--time"}, {"-s", "--set"},
    {"--format", "--json"}};

[[noreturn]] void fail(const std::string& command, const std::string& what) {
  throw Error(ErrorKind::config,
              fmt::format("{0}: {1} (see {0} --help)", command, what));
}

uint64_t whole_number(const std::string& option, const std::string& text,
                      NumberRange range) {
  const auto number = parse_number<uint64_t>(text);
  if (!number) {
    throw Error(ErrorKind::config,
                fmt::format("{}: '{}' is not a whole number of 0 or more",
                            option, text));
  }
  if (*number < range.least || *number > range.most) {
    throw Error(ErrorKind::config,
                fmt::format("{}: {} is out of range ({} to {})", option,
                            *number, range.least, range.most));
  }
  return *number;
}

// Breaks `text` into lines of at most `width` columns; keeps its own breaks.
std::vector<std::string> wrap(const std::string& text, size_t width) {
  std::vector<std::string> lines;
  std::string line;
  const auto flush = [&] { lines.push_back(std::exchange(line, {})); };
  size_t at = 0;
  while (at < text.size()) {
    if (text[at] == '\n') {
      flush();
      ++at;
      continue;
    }
    const size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const std::string word = text.substr(at, end - at);
    if (!line.empty() && line.size() + 1 + word.size() > width) flush();
    if (!line.empty()) line += ' ';
    line += word;
    at = end < text.size() && text[end] == ' ' ? end + 1 : end;
  }
  if (!line.empty()) flush();
  return lines;
}

std::string table_row(const std::string& left, const std::string& help,
                      size_t indent) {
  std::string text = fmt::format("  {:<{}}", left, indent - 2);
  bool first = left.size() + 3 <= indent;
  if (!first) text += '\n';
  for (const std::string& line : wrap(help, kColumns - indent)) {
    text += first ? line : fmt::format("{:{}}{}", "", indent, line);
    text += '\n';
    first = false;
  }
  return text;
}

}  // namespace

struct Arguments::Reader {
  CLI::App app;
  bool help = false;
};

Arguments::Arguments(std::string command, std::string summary)
    : command_(std::move(command)),
      summary_(std::move(summary)),
      reader_(std::make_unique<Reader>()) {
  reader_->app.set_help_flag("");
  reader_->app.allow_extras();
  reader_->app.add_flag("-h,--help", reader_->help);
}

Arguments::~Arguments() = default;

void Arguments::flag(const std::string& name, bool& into,
                     const std::string& help) {
  reader_->app.add_flag(name, into)->disable_flag_override();
  infos_.push_back({.name = name, .help = help});
}

void Arguments::option(const std::string& name, std::string& into,
                       const std::string& value, const std::string& help,
                       Complete complete, std::vector<std::string> words) {
  reader_->app.add_option(name, into)->allow_extra_args(false);
  infos_.push_back({.name = name,
                    .value = value,
                    .help = help,
                    .complete = complete,
                    .words = std::move(words)});
}

void Arguments::option(const std::string& name, std::optional<uint64_t>& into,
                       const std::string& value, const std::string& help,
                       NumberRange range) {
  reader_->app
      .add_option_function<std::string>(
          name,
          [&into, name, range](const std::string& text) {
            into = whole_number(name, text, range);
          })
      ->allow_extra_args(false);
  infos_.push_back({.name = name, .value = value, .help = help});
}

void Arguments::option(const std::string& name, std::vector<std::string>& into,
                       const std::string& value, const std::string& help) {
  reader_->app.add_option(name, into)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  infos_.push_back({.name = name, .value = value, .help = help});
}

void Arguments::positional(const std::string& name, std::string& into,
                           const std::string& help, Complete complete,
                           bool required, std::vector<std::string> words) {
  reader_->app.add_option(name, into);
  if (required) required_.push_back({name, &into});
  infos_.push_back({.name = name,
                    .help = help,
                    .complete = complete,
                    .words = std::move(words),
                    .positional = true,
                    .required = required});
}

void Arguments::positionals(const std::string& name,
                            std::vector<std::string>& into,
                            const std::string& help, Complete complete) {
  reader_->app.add_option(name, into);
  rest_name_ = name;
  rest_ = &into;
  infos_.push_back({.name = name,
                    .help = help,
                    .complete = complete,
                    .positional = true,
                    .required = true});
}

void Arguments::json(const std::string& help) { flag("--json", json_, help); }

void Arguments::study(std::string& into) {
  positional("STUDY", into, "The database, or its recipe.", Complete::study,
             true);
}

bool Arguments::parse(std::span<const std::string> words) {
  try {
    // CLI11 reads from the back.
    reader_->app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ArgumentMismatch& error) {
    fail(command_, describe_mismatch(error.what()));
  } catch (const CLI::ParseError& error) {
    fail(command_, error.what());
  }
  if (reader_->help) return false;
  check_rest(reader_->app.remaining());
  for (const Required& required : required_) {
    if (required.value->empty()) {
      fail(command_, fmt::format("{} is missing", required.name));
    }
  }
  if (rest_ != nullptr && rest_->empty()) {
    fail(command_, fmt::format("{} is missing", rest_name_));
  }
  return true;
}

std::string Arguments::describe_mismatch(
    const std::string& library_text) const {
  const std::string name =
      library_text.substr(0, library_text.find_first_of(": "));
  for (const ArgumentInfo& info : infos_) {
    if (info.name != name && info.name != "--" + name) continue;
    if (reader_->app.get_option(info.name)->count() > 1) {
      return fmt::format("{} is given twice", info.name);
    }
    return info.value.empty() ? fmt::format("{} takes no value", info.name)
                              : fmt::format("{0} needs a value ({0} {1})",
                                            info.name, info.value);
  }
  return library_text;
}

void Arguments::check_rest(const std::vector<std::string>& rest) const {
  if (rest.empty()) return;
  // What follows "--" is no option, whatever it begins with.
  const bool marked = rest.front() == "--";
  if (marked && rest.size() == 1) return;
  const std::string& word = rest[marked ? 1 : 0];
  if (marked || word.size() < 2 || word[0] != '-') {
    fail(command_, fmt::format("'{}' is one argument too many", word));
  }
  // "-j2" is -j with its value.
  const bool joined =
      word[1] != '-' && word.size() > 2 && std::isdigit(word[2] & 0x7f) != 0;
  const std::string name = word.substr(0, joined ? 2 : word.find('='));
  fail(command_, fmt::format("unknown option '{}'{}", name, hint_for(name)));
}

bool Arguments::has(const std::string& name) const {
  return std::any_of(
      infos_.begin(), infos_.end(),
      [&name](const ArgumentInfo& info) { return info.name == name; });
}

std::string Arguments::hint_for(const std::string& option) const {
  std::vector<std::string> names{"--help"};
  for (const ArgumentInfo& info : infos_) {
    if (!info.positional) names.push_back(info.name);
  }
  std::string hint = did_you_mean(option, names);
  if (!hint.empty()) return hint;
  for (const auto& [meant, own] : kOtherNames) {
    if (option == meant && has(own)) {
      return fmt::format(", did you mean '{}'?", own);
    }
  }
  return hint_unknown_ ? hint_unknown_(option) : "";
}

std::string Arguments::usage() const {
  std::string text = command_;
  for (const ArgumentInfo& info : infos_) {
    if (!info.positional) continue;
    text += info.required ? " " + info.name : " [" + info.name + "]";
  }
  return text + " [options]";
}

std::string Arguments::help() const {
  std::string text = fmt::format("Usage: {}\n\n", usage());
  for (const std::string& line :
       wrap(description_.empty() ? summary_ + "." : description_, kColumns)) {
    text += line + '\n';
  }
  for (const bool positional : {true, false}) {
    std::string rows;
    for (const ArgumentInfo& info : infos_) {
      if (info.positional != positional) continue;
      const char* gap = info.value.empty() ? "" : " ";
      rows += table_row(info.name + gap + info.value, info.help, kIndent);
    }
    if (positional && rows.empty()) continue;
    if (!positional) rows += table_row("-h, --help", "Show this.", kIndent);
    text += (positional ? "\nArguments:\n" : "\nOptions:\n") + rows;
  }
  if (!examples_.empty()) text += "\nExamples:\n";
  for (const Example& example : examples_) {
    text += fmt::format("  {}\n      {}\n", example.line, example.what);
  }
  return text;
}

}  // namespace dtune
