#include "dtune/config/reader.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include <fmt/format.h>

#include "dtune/base/suggest.h"
#include "dtune/base/text.h"

namespace dtune {
namespace {

// YAML 1.1's truths, which people still write.
bool parse_flag(const YamlNode& node, bool& value) {
  static const std::vector<std::string> yes = {"true", "True", "TRUE", "yes",
                                               "on"};
  static const std::vector<std::string> no = {"false", "False", "FALSE", "no",
                                              "off"};
  if (node.quoted) return false;
  value = std::find(yes.begin(), yes.end(), node.text) != yes.end();
  return value || std::find(no.begin(), no.end(), node.text) != no.end();
}

// 'a-b' and 'a_b' are the same word.
std::string fold(std::string word) {
  std::replace(word.begin(), word.end(), '-', '_');
  return word;
}

// Where a range was meant to be tuned.
bool is_tunable(const std::string& path, const std::string& key) {
  return (path == "train" || path == "model") && key != "epochs";
}

std::string list_words(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ", ";
    text += word;
  }
  return text;
}

}  // namespace

bool Range::holds(double value) const {
  if (!std::isfinite(value)) return false;
  const bool high_enough = above ? value > low : value >= low;
  const bool low_enough = below ? value < high : value <= high;
  return high_enough && low_enough;
}

std::string Range::text() const {
  const bool bounded = std::isfinite(high) && high < 2147483647;
  if (!std::isfinite(low)) return "must be finite";
  if (!bounded) {
    return fmt::format("must be {} {}", above ? "more than" : "at least", low);
  }
  if (above || below) {
    return fmt::format("must be {} {} and {} {}",
                       above ? "more than" : "at least", low,
                       below ? "less than" : "at most", high);
  }
  return fmt::format("must be between {} and {}", low, high);
}

Reader::Reader(const YamlNode& node, std::string path, Diagnostics& diagnostics,
               const std::vector<std::string>& all_keys)
    : node_(node),
      path_(std::move(path)),
      diagnostics_(diagnostics),
      all_keys_(all_keys) {}

std::string Reader::full(const std::string& key) const {
  return path_.empty() ? key : path_ + "." + key;
}

void Reader::wrong(const YamlNode& node, const std::string& key,
                   const std::string& expected, const std::string& advice) {
  diagnostics_.add(node.mark,
                   fmt::format("'{}' must be {}, but is {}{}", full(key),
                               expected, describe_node(node), advice));
}

const YamlNode* Reader::take(const std::string& key) {
  known_.push_back(key);
  return node_.find(key);
}

const YamlNode* Reader::scalar(const std::string& key,
                               const std::string& expected) {
  const YamlNode* found = take(key);
  if (found == nullptr || found->is_scalar()) return found;
  std::string advice;
  if (is_tunable(path_, key) && !found->is_null()) {
    const bool number = expected.ends_with("number");
    advice = fmt::format(
        " (what is tuned goes to space:, as {}: {})",
        full(key) == "train.lr" ? key : full(key),
        number ? "{log: [a, b]} or {linear: [a, b]}" : "{choice: [x, y]}");
  }
  diagnostics_.add(found->mark,
                   fmt::format("'{}' must be {}, but is {}{}", full(key),
                               expected, describe_node(*found), advice));
  return nullptr;
}

bool Reader::number(const YamlNode& node, const std::string& key,
                    const Range& range, double& value) {
  const Value meant =
      node.is_scalar() ? scalar_value(node) : Value(std::string());
  const bool numeric = std::holds_alternative<int64_t>(meant) ||
                       std::holds_alternative<double>(meant);
  if (!numeric) {
    wrong(node, key, "a finite number");
    return false;
  }
  const double read = *as_number(meant);
  if (!range.holds(read)) {
    if (read > range.high && range.high >= 2147483647) {
      wrong(node, key, "a smaller number");
      return false;
    }
    diagnostics_.add(node.mark, fmt::format("'{}' {}, but is {}", full(key),
                                            range.text(), node.text));
    return false;
  }
  value = read;
  return true;
}

void Reader::real(const std::string& key, double& value, const Range& range) {
  const YamlNode* found = scalar(key, "a number");
  if (found != nullptr) number(*found, key, range, value);
}

void Reader::whole(const std::string& key, int64_t& value, const Range& range) {
  const YamlNode* found = scalar(key, "a whole number");
  if (found == nullptr) return;
  double read = 0;
  const Value meant = scalar_value(*found);
  if (!std::holds_alternative<int64_t>(meant) &&
      !std::holds_alternative<double>(meant)) {
    wrong(*found, key, "a whole number", range.advice);
    return;
  }
  if (!number(*found, key, range, read)) return;
  if (const auto* exact = std::get_if<int64_t>(&meant)) {
    value = *exact;
  } else if (read == std::floor(read) && std::abs(read) < 9e15) {
    value = static_cast<int64_t>(read);  // 1e5
  } else {
    const bool large = read == std::floor(read);
    wrong(*found, key, large ? "a smaller number" : "a whole number");
  }
}

void Reader::flag(const std::string& key, bool& value) {
  const YamlNode* found = scalar(key, "true or false");
  if (found == nullptr) return;
  bool read = false;
  if (parse_flag(*found, read)) {
    value = read;
  } else {
    wrong(*found, key, "true or false");
  }
}

void Reader::text(const std::string& key, std::string& value) {
  const YamlNode* found = scalar(key, "a word");
  if (found != nullptr) value = found->text;
}

void Reader::word(const std::string& key, size_t& index,
                  const std::vector<std::string>& words) {
  const std::string expected = "one of " + list_words(words);
  const YamlNode* found = scalar(key, expected);
  if (found == nullptr) return;
  for (size_t i = 0; i < words.size(); ++i) {
    if (fold(words[i]) == fold(found->text)) {
      index = i;
      return;
    }
  }
  diagnostics_.add(
      found->mark,
      fmt::format("'{}' must be {}, but is {}{}", full(key), expected,
                  describe_node(*found), did_you_mean(found->text, words)));
}

void Reader::duration(const std::string& key, Duration& value) {
  const YamlNode* found = scalar(key, "a duration such as 90s or 10m");
  if (found == nullptr) return;
  try {
    // Whole milliseconds, so that writing and reading again change nothing.
    const double seconds = to_seconds(parse_duration(found->text));
    value = std::chrono::milliseconds(std::llround(seconds * 1000));
  } catch (const Error& error) {
    diagnostics_.add(found->mark,
                     fmt::format("'{}': {}", full(key), error.what()));
  }
}

void Reader::memory(const std::string& key, int64_t& megabytes) {
  const std::string expected = "a size such as 512m or 4g";
  const YamlNode* found = scalar(key, expected);
  if (found == nullptr) return;
  double number = 0;
  const char* first = found->text.data();
  const char* last = first + found->text.size();
  const auto [end, error] = std::from_chars(first, last, number);
  std::string unit = lower_case({end, last});
  if (unit.ends_with('b')) unit.pop_back();
  const double factor = unit == "g"                   ? 1024
                        : unit == "m" || unit.empty() ? 1
                                                      : 0;
  const double read = number * factor;
  const bool good = error == std::errc() && factor > 0 && read < 1e12 &&
                    (read == 0 || read >= 1);
  if (!good) {
    wrong(*found, key, expected);
    return;
  }
  megabytes = std::llround(read);
}

void Reader::pair(const std::string& key, double& first, double& second,
                  const Range& range) {
  const YamlNode* found = take(key);
  if (found == nullptr) return;
  if (!found->is_list() || found->items.size() != 2) {
    wrong(*found, key, "a list of two numbers");
    return;
  }
  number(found->items[0], key, range, first);
  number(found->items[1], key, range, second);
}

void Reader::reals(const std::string& key, std::vector<double>& values,
                   const Range& range) {
  const YamlNode* found = take(key);
  if (found == nullptr) return;
  if (!found->is_list()) {
    wrong(*found, key, "a list of numbers");
    return;
  }
  values.clear();
  for (const YamlNode& item : found->items) {
    double value = 0;
    if (number(item, key, range, value)) values.push_back(value);
  }
}

void Reader::texts(const std::string& key, std::vector<std::string>& values) {
  const YamlNode* found = take(key);
  if (found == nullptr) return;
  if (!found->is_list()) {
    wrong(*found, key,
          found->is_scalar()
              ? fmt::format("a list of words such as [{}]", found->text)
              : "a list of words");
    return;
  }
  values.clear();
  for (const YamlNode& item : found->items) {
    if (item.is_scalar()) {
      values.push_back(item.text);
    } else {
      wrong(item, key, "a list of words");
    }
  }
}

void Reader::text_map(const std::string& key,
                      std::map<std::string, std::string>& values) {
  const YamlNode* found = take(key);
  if (found == nullptr || found->is_null()) return;
  if (!found->is_map()) {
    wrong(*found, key, "a section of words");
    return;
  }
  for (const YamlNode& item : found->items) {
    if (item.is_scalar()) {
      values[item.key] = item.text;
    } else {
      wrong(item, key + "." + item.key, "a word");
    }
  }
}

void Reader::options(std::map<std::string, Value>& values) {
  takes_rest_ = true;
  for (const YamlNode& item : node_.items) {
    if (std::find(known_.begin(), known_.end(), item.key) != known_.end()) {
      continue;
    }
    if (item.is_scalar()) {
      values[item.key] = scalar_value(item);
    } else {
      wrong(item, item.key, "a number or a word");
    }
  }
}

void Reader::section(const std::string& key,
                     const std::function<void(Fields&)>& describe) {
  static const YamlNode nothing = YamlNode::map();
  const YamlNode* found = take(key);
  const bool readable = found == nullptr || found->is_map() || found->is_null();
  Reader inside(found != nullptr && readable ? *found : nothing, full(key),
                diagnostics_, all_keys_);
  describe(inside);
  if (!readable) {
    constexpr size_t kShown = 3;
    std::vector<std::string> keys = inside.known_;
    const bool all = keys.size() <= kShown;
    if (!all) keys.resize(kShown);
    wrong(*found, key,
          fmt::format("a section of keys ({}{})", list_words(keys),
                      all ? "" : ", ..."));
  }
  inside.finish();
}

void Reader::kinds(const std::string& key, size_t /*count*/,
                   const std::vector<std::string>& words,
                   const DescribeItem& describe) {
  const YamlNode* found = take(key);
  if (found == nullptr || found->is_null()) return;
  if (!found->is_list()) {
    wrong(*found, key, "a list such as [conv: 32, relu]");
    return;
  }
  size_t index = 0;
  for (const YamlNode& item : found->items) {
    if (!item.is_map() || item.items.size() != 1) {
      wrong(item, key, "a list such as [conv: 32, relu]");
      continue;
    }
    if (!item.items[0].is_map()) {
      diagnostics_.add(item.items[0].mark,
                       fmt::format("'{}' in {} takes no such value (only its "
                                   "name, or {{its fields}})",
                                   item.items[0].key, full(key)));
      continue;
    }
    const YamlNode& entry = item.items[0];
    const auto word = std::find(words.begin(), words.end(), entry.key);
    if (word == words.end()) {
      const std::string near = did_you_mean(entry.key, words);
      diagnostics_.add(
          entry.key_mark,
          fmt::format("unknown entry '{}' in {}{}", entry.key, full(key),
                      near.empty()
                          ? fmt::format(" (known: {})", list_words(words))
                          : near));
      continue;
    }
    auto kind = static_cast<size_t>(word - words.begin());
    const YamlNode* name = entry.find("name");
    Reader inside(
        entry,
        full(key) + "." +
            (name != nullptr && name->is_scalar() ? name->text : entry.key),
        diagnostics_, all_keys_);
    describe(index++, kind, diagnostics_.sources().where(entry.key_mark),
             inside);
    inside.finish();
  }
}

void Reader::finish() {
  if (takes_rest_) return;
  for (const YamlNode& item : node_.items) {
    if (std::find(known_.begin(), known_.end(), item.key) != known_.end()) {
      continue;
    }
    const std::string in = path_.empty() ? "" : " in " + path_;
    diagnostics_.add(item.key_mark,
                     fmt::format("unknown key '{}'{}{}", item.key, in,
                                 key_hint(item.key, known_, path_, all_keys_)));
  }
}

}  // namespace dtune
