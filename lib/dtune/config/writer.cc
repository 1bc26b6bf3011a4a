#include "dtune/config/writer.h"

#include <fmt/format.h>

namespace dtune {
namespace {

// "90s", "0.25s": exact for whole milliseconds.
std::string seconds_text(Duration value) {
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(value).count();
  std::string text = fmt::format("{}", ms / 1000);
  if (ms % 1000 != 0) {
    text += fmt::format(".{:03}", ms % 1000);
    while (text.ends_with('0')) text.pop_back();
  }
  return text + "s";
}

}  // namespace

Writer::Writer(YamlNode& node, std::string path,
               const std::set<std::string>& left_out)
    : node_(node), path_(std::move(path)), left_out_(left_out) {
  node_.kind = YamlNode::Kind::map;
}

std::string Writer::full(const std::string& key) const {
  return path_.empty() ? key : path_ + "." + key;
}

void Writer::put(const std::string& key, const YamlNode& value) {
  if (left_out_.contains(full(key))) return;
  node_.entry(key).set_value(value);
}

void Writer::real(const std::string& key, double& value, const Range&) {
  put(key, YamlNode::scalar(to_string(Value(value))));
}

void Writer::whole(const std::string& key, int64_t& value, const Range&) {
  put(key, scalar_of(value));
}

void Writer::flag(const std::string& key, bool& value) {
  put(key, scalar_of(value));
}

void Writer::text(const std::string& key, std::string& value) {
  if (!value.empty()) put(key, YamlNode::word(value));
}

void Writer::word(const std::string& key, size_t& index,
                  const std::vector<std::string>& words) {
  put(key, YamlNode::word(words.at(index)));
}

void Writer::duration(const std::string& key, Duration& value) {
  put(key, YamlNode::scalar(seconds_text(value)));
}

void Writer::memory(const std::string& key, int64_t& megabytes) {
  put(key, YamlNode::scalar(fmt::format("{}m", megabytes)));
}

void Writer::pair(const std::string& key, double& first, double& second,
                  const Range& range) {
  std::vector<double> both = {first, second};
  reals(key, both, range);
}

void Writer::reals(const std::string& key, std::vector<double>& values,
                   const Range&) {
  if (values.empty()) return;
  YamlNode list = YamlNode::list();
  for (const double value : values) {
    list.items.push_back(YamlNode::scalar(to_string(Value(value))));
  }
  put(key, list);
}

void Writer::texts(const std::string& key, std::vector<std::string>& values) {
  YamlNode list = YamlNode::list();
  for (const std::string& value : values) {
    list.items.push_back(YamlNode::word(value));
  }
  put(key, list);
}

void Writer::text_map(const std::string& key,
                      std::map<std::string, std::string>& values) {
  if (values.empty()) return;
  YamlNode map = YamlNode::map();
  for (const auto& [name, value] : values) {
    map.entry(name).set_value(YamlNode::word(value));
  }
  put(key, map);
}

void Writer::options(std::map<std::string, Value>& values) {
  for (const auto& [name, value] : values) put(name, scalar_of(value));
}

void Writer::section(const std::string& key,
                     const std::function<void(Fields&)>& describe) {
  if (left_out_.contains(full(key))) return;
  YamlNode inside = YamlNode::map();
  Writer writer(inside, full(key), left_out_);
  describe(writer);
  if (!inside.items.empty()) put(key, inside);
}

void Writer::kinds(const std::string& key, size_t count,
                   const std::vector<std::string>& words,
                   const DescribeItem& describe) {
  if (count == 0) return;
  YamlNode list = YamlNode::list();
  for (size_t i = 0; i < count; ++i) {
    YamlNode inside = YamlNode::map();
    Writer writer(inside, full(key), left_out_);
    size_t kind = 0;
    describe(i, kind, "", writer);
    YamlNode item = YamlNode::map();
    item.entry(words.at(kind)).set_value(inside);
    list.items.push_back(std::move(item));
  }
  put(key, list);
}

std::vector<std::string> leaf_keys(const YamlNode& node,
                                   const std::string& path) {
  std::vector<std::string> keys;
  for (const YamlNode& item : node.items) {
    const std::string key = path.empty() ? item.key : path + "." + item.key;
    if (!item.is_map()) {
      keys.push_back(key);
      continue;
    }
    for (std::string& inner : leaf_keys(item, key)) {
      keys.push_back(std::move(inner));
    }
  }
  return keys;
}

}  // namespace dtune
