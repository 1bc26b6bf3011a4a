// YamlNode -> text.
#include <algorithm>
#include <cctype>

#include "dtune/base/text.h"
#include "dtune/config/yaml_node.h"

namespace dtune {
namespace {

// Plain text that needs no quotes wherever it stands.
bool needs_no_quotes(const std::string& text) {
  if (text.empty() || text == "~" || text == "null") return false;
  const unsigned char first = static_cast<unsigned char>(text[0]);
  const bool starts_well =
      std::isalnum(first) != 0 || first == '_' || first == '/' ||
      ((first == '-' || first == '+' || first == '.') && text.size() > 1 &&
       std::isdigit(static_cast<unsigned char>(text[1])) != 0);
  return starts_well && is_plain(text, "_./-+");
}

// A word that, unquoted, would read as a number or truth.
bool reads_as_other(const YamlNode& node) {
  YamlNode plain = node;
  plain.quoted = false;
  return !std::holds_alternative<std::string>(scalar_value(plain));
}

std::string quote(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        quoted += "\\\"";
        break;
      case '\\':
        quoted += "\\\\";
        break;
      case '\n':
        quoted += "\\n";
        break;
      case '\r':
        quoted += "\\r";
        break;
      case '\t':
        quoted += "\\t";
        break;
      default:
        quoted += c;
    }
  }
  return quoted + "\"";
}

std::string scalar_text(const YamlNode& node) {
  const bool quotes =
      !needs_no_quotes(node.text) || (node.quoted && reads_as_other(node));
  return quotes ? quote(node.text) : node.text;
}

std::string key_text(const YamlNode& node) {
  return needs_no_quotes(node.key) ? node.key : quote(node.key);
}

bool is_leaf(const YamlNode& node) { return node.items.empty(); }

std::string leaf_text(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "~";
    case YamlNode::Kind::list:
      return "[]";
    case YamlNode::Kind::map:
      return "{}";
    case YamlNode::Kind::scalar:
      return scalar_text(node);
  }
  return "~";
}

bool fits_in_brackets(const YamlNode& node) {
  return node.is_list() &&
         std::all_of(node.items.begin(), node.items.end(), is_leaf);
}

std::string in_brackets(const YamlNode& node) {
  std::string text = "[";
  for (const YamlNode& item : node.items) {
    if (text.size() > 1) text += ", ";
    text += leaf_text(item);
  }
  return text + "]";
}

void emit(const YamlNode& node, const std::string& indent, std::string& out) {
  for (const YamlNode& item : node.items) {
    out += indent + (node.is_list() ? "-" : key_text(item) + ":");
    if (is_leaf(item)) {
      out += " " + leaf_text(item) + "\n";
    } else if (fits_in_brackets(item)) {
      out += " " + in_brackets(item) + "\n";
    } else {
      out += "\n";
      emit(item, indent + "  ", out);
    }
  }
}

}  // namespace

std::string emit_yaml(const YamlNode& node) {
  if (is_leaf(node)) return leaf_text(node) + "\n";
  std::string out;
  emit(node, "", out);
  return out;
}

}  // namespace dtune
