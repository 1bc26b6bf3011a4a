// Fields that go to a YAML tree, and Fields that only list their keys.
#pragma once

#include <set>
#include <string>

#include "dtune/config/fields.h"

namespace dtune {

// Writes every key to `node`, which it makes a map and which outlives it, save
// the dotted keys of `left_out`.
class Writer final : public Fields {
 public:
  Writer(YamlNode& node, std::string path,
         const std::set<std::string>& left_out);

  void real(const std::string& key, double& value, const Range&) override;
  void whole(const std::string& key, int64_t& value, const Range&) override;
  void flag(const std::string& key, bool& value) override;
  void text(const std::string& key, std::string& value) override;
  void word(const std::string& key, size_t& index,
            const std::vector<std::string>& words) override;
  void duration(const std::string& key, Duration& value) override;
  void memory(const std::string& key, int64_t& megabytes) override;
  void pair(const std::string& key, double& first, double& second,
            const Range&) override;
  void reals(const std::string& key, std::vector<double>& values,
             const Range&) override;
  void texts(const std::string& key, std::vector<std::string>& values) override;
  void text_map(const std::string& key,
                std::map<std::string, std::string>& values) override;
  void options(std::map<std::string, Value>& values) override;
  void section(const std::string& key,
               const std::function<void(Fields&)>& describe) override;
  void kinds(const std::string& key, size_t count,
             const std::vector<std::string>& words,
             const DescribeItem& describe) override;
  bool reading() const override { return false; }
  bool has(const std::string&) const override { return false; }

 private:
  std::string full(const std::string& key) const;
  void put(const std::string& key, const YamlNode& value);

  YamlNode& node_;
  std::string path_;
  const std::set<std::string>& left_out_;
};

// The dotted keys of a tree's scalars and lists of scalars, in order.
std::vector<std::string> leaf_keys(const YamlNode& node,
                                   const std::string& path = "");

}  // namespace dtune
