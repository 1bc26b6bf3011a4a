// Fields that come from a YAML tree.
#pragma once

#include <memory>
#include <string>

#include "dtune/config/diagnostics.h"
#include "dtune/config/fields.h"

namespace dtune {

// Reads the section `node`, called `path` in messages ("" for the recipe
// itself, "train", ...). `all_keys`: dotted keys of the whole recipe, for "did
// you mean"; may be empty. All of these outlive it. finish() reports the keys
// that nothing asked for.
class Reader final : public Fields {
 public:
  Reader(const YamlNode& node, std::string path, Diagnostics& diagnostics,
         const std::vector<std::string>& all_keys);

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
  bool reading() const override { return true; }
  bool has(const std::string& key) const override {
    return node_.find(key) != nullptr;
  }

  // The value of a key that is read elsewhere, or null.
  const YamlNode* take(const std::string& key);
  void finish();

 private:
  std::string full(const std::string& key) const;
  void wrong(const YamlNode& node, const std::string& key,
             const std::string& expected, const std::string& advice = "");
  const YamlNode* scalar(const std::string& key, const std::string& expected);
  bool number(const YamlNode& node, const std::string& key, const Range& range,
              double& value);

  const YamlNode& node_;
  std::string path_;
  Diagnostics& diagnostics_;
  const std::vector<std::string>& all_keys_;
  std::vector<std::string> known_;
  bool takes_rest_ = false;
};

// The key that other programs call so; "" where none is known.
std::string key_elsewhere(const std::string& name);

// What to say after "unknown key 'x'": a near key of this section, what other
// programs' names for it are called here, the section where it belongs, or "".
std::string key_hint(const std::string& key,
                     const std::vector<std::string>& known,
                     const std::string& path,
                     const std::vector<std::string>& all_keys);

}  // namespace dtune
