// The options of a sampler or scheduler, whose values are checked once, when it
// is made. factory.cc has the list of each kind's options.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "dtune/space/value.h"

namespace dtune {

// Reads `options` of `where` ("sampler" or "scheduler"); every error is
// Error(config) that begins with "<where>.<option>: ". Keeps a reference.
class OptionReader {
 public:
  OptionReader(std::string where, const std::map<std::string, Value>& options)
      : where_(std::move(where)), options_(options) {}

  bool has(const std::string& name) const { return options_.contains(name); }
  // Empty where the option is not given.
  std::optional<int> integer(const std::string& name, int low, int high) const;
  // A number, bounds included.
  std::optional<double> number(const std::string& name, double low,
                               double high) const;
  // One of `words`, the first where the option is not given.
  std::string word(const std::string& name,
                   std::initializer_list<const char*> words) const;

 private:
  std::string where_;
  const std::map<std::string, Value>& options_;
};

}  // namespace dtune
