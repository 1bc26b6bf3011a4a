// One description of a recipe's keys serves reading, writing and listing them:
// schema.h calls a Fields for every key, and what that does is the Fields'.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/config/yaml_node.h"
#include "dtune/space/value.h"

namespace dtune {

// Numbers that a key takes. `above` and `below` are bounds not reached.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above = false;
  bool below = false;
  const char* advice = "";  // behind the error of a text for a whole number

  bool holds(double value) const;
  std::string text() const;  // "must be more than 0"
};

inline Range at_least(double low) { return {.low = low}; }
inline Range more_than(double low) { return {.low = low, .above = true}; }
inline Range between(double low, double high) {
  return {.low = low, .high = high};
}
inline Range up_to_below(double low, double high) {
  return {.low = low, .high = high, .below = true};
}

class Fields {
 public:
  virtual ~Fields() = default;

  // A reader leaves the value as it is where the key is absent.
  virtual void real(const std::string& key, double& value, const Range&) = 0;
  virtual void whole(const std::string& key, int64_t& value, const Range&) = 0;
  virtual void flag(const std::string& key, bool& value) = 0;
  virtual void text(const std::string& key, std::string& value) = 0;
  // `index` into `words`.
  virtual void word(const std::string& key, size_t& index,
                    const std::vector<std::string>& words) = 0;
  virtual void duration(const std::string& key, Duration& value) = 0;
  virtual void memory(const std::string& key, int64_t& megabytes) = 0;
  // A list of exactly two numbers.
  virtual void pair(const std::string& key, double& first, double& second,
                    const Range&) = 0;
  virtual void reals(const std::string& key, std::vector<double>& values,
                     const Range&) = 0;
  virtual void texts(const std::string& key,
                     std::vector<std::string>& values) = 0;
  virtual void text_map(const std::string& key,
                        std::map<std::string, std::string>& values) = 0;
  // Every key of this section that no other call names.
  virtual void options(std::map<std::string, Value>& values) = 0;
  virtual void section(const std::string& key,
                       const std::function<void(Fields&)>& describe) = 0;
  // A list of one-key maps, {kind: {...}}. `describe` is called with the index,
  // the kind (index into `words`; a reader sets it, a writer asks for it), the
  // place ("recipe.yaml:12:5" or "") and the fields of each.
  using DescribeItem = std::function<void(
      size_t index, size_t& kind, const std::string& where, Fields& fields)>;
  virtual void kinds(const std::string& key, size_t count,
                     const std::vector<std::string>& words,
                     const DescribeItem& describe) = 0;
  // Whether values come from a text (else they go to one).
  virtual bool reading() const = 0;
  virtual bool has(const std::string& key) const = 0;

  template <typename Integer>
  void integer(const std::string& key, Integer& value, Range range) {
    auto wide = static_cast<int64_t>(value);
    const auto limit = static_cast<double>(std::numeric_limits<Integer>::max());
    if (range.high > limit) range.high = limit;
    whole(key, wide, range);
    value = static_cast<Integer>(wide);
  }

  // An enum of 0, 1, ... `last` whose words its to_string gives.
  template <typename Enum>
  void choice(const std::string& key, Enum& value, Enum last) {
    std::vector<std::string> words;
    for (size_t i = 0; i <= static_cast<size_t>(last); ++i) {
      words.emplace_back(to_string(static_cast<Enum>(i)));
    }
    auto index = static_cast<size_t>(value);
    word(key, index, words);
    value = static_cast<Enum>(index);
  }
};

}  // namespace dtune
