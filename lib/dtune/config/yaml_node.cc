#include "dtune/config/yaml_node.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

namespace dtune {

const YamlNode* YamlNode::find(const std::string& name) const {
  if (!is_map()) return nullptr;
  const auto found =
      std::find_if(items.begin(), items.end(),
                   [&](const YamlNode& item) { return item.key == name; });
  return found == items.end() ? nullptr : &*found;
}

YamlNode* YamlNode::find(const std::string& name) {
  return const_cast<YamlNode*>(std::as_const(*this).find(name));
}

YamlNode& YamlNode::entry(const std::string& name, const Mark& at) {
  kind = Kind::map;
  if (YamlNode* found = find(name)) return *found;
  YamlNode added;
  added.key = name;
  added.key_mark = at;
  added.mark = at;
  items.push_back(std::move(added));
  return items.back();
}

void YamlNode::erase(const std::string& name) {
  std::erase_if(items, [&](const YamlNode& item) { return item.key == name; });
}

void YamlNode::set_value(const YamlNode& other) {
  YamlNode copy = other;  // other may be a part of this
  copy.key = std::move(key);
  copy.key_mark = key_mark;
  *this = std::move(copy);
}

YamlNode YamlNode::scalar(std::string text, const Mark& at) {
  YamlNode node;
  node.kind = Kind::scalar;
  node.text = std::move(text);
  node.mark = at;
  return node;
}

YamlNode YamlNode::word(std::string text, const Mark& at) {
  YamlNode node = scalar(std::move(text), at);
  node.quoted = true;
  return node;
}

YamlNode YamlNode::list(const Mark& at) {
  YamlNode node;
  node.kind = Kind::list;
  node.mark = at;
  return node;
}

YamlNode YamlNode::map(const Mark& at) {
  YamlNode node = list(at);
  node.kind = Kind::map;
  return node;
}

std::string describe_node(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "nothing";
    case YamlNode::Kind::list:
      return "a list";
    case YamlNode::Kind::map:
      return "a section";
    case YamlNode::Kind::scalar:
      break;
  }
  constexpr size_t kShown = 40;
  if (node.text.size() <= kShown) return "'" + node.text + "'";
  size_t cut = kShown;  // not inside a UTF-8 character
  while (cut > 0 && (node.text[cut] & 0xc0) == 0x80) --cut;
  return "'" + node.text.substr(0, cut) + "...'";
}

Value scalar_value(const YamlNode& node) {
  const std::string& text = node.text;
  if (node.quoted) return text;
  if (text == "true") return true;
  if (text == "false") return false;
  // from_chars knows no '+', but reads "inf" and "nan", which stay words here.
  const size_t start = text.starts_with('+') ? 1 : 0;
  const char* first = text.data() + start;
  const char* last = text.data() + text.size();
  const bool numeric =
      first != last &&
      text.find_first_not_of("+-.0123456789eE") == std::string::npos &&
      !(start == 1 && *first == '-');
  if (!numeric) return text;
  int64_t integer = 0;
  auto [end, error] = std::from_chars(first, last, integer);
  if (error == std::errc() && end == last) return integer;
  double real = 0;
  const auto parsed = std::from_chars(first, last, real);
  if (parsed.ec == std::errc() && parsed.ptr == last && std::isfinite(real)) {
    return real;
  }
  return text;
}

YamlNode scalar_of(const Value& value, const Mark& at) {
  if (const auto* word = std::get_if<std::string>(&value)) {
    return YamlNode::word(*word, at);
  }
  std::string text = to_string(value);
  const bool looks_whole = std::holds_alternative<double>(value) &&
                           text.find_first_of(".eE") == std::string::npos;
  if (looks_whole) text += ".0";  // stays a real
  return YamlNode::scalar(std::move(text), at);
}

}  // namespace dtune
