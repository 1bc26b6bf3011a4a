// YAML as a plain tree that remembers where everything stood. Scalars stay
// text: what they mean depends on the key that reads them.
#pragma once

#include <string>
#include <vector>

#include "dtune/space/value.h"

namespace dtune {

// A place in a source. Source 0 is the recipe's file, source i the i-th
// `--set` (which has no lines worth naming).
struct Mark {
  int line = 0;    // 1, 2, ...
  int column = 0;  // 1, 2, ... in bytes
  int source = 0;
};

// Value type. An entry of a map carries its key itself.
struct YamlNode {
  enum class Kind { null, scalar, list, map };

  Kind kind = Kind::null;
  std::string key{};              // of an entry of a map
  Mark key_mark{};                // where the key stands
  std::string text{};             // scalar
  bool quoted = false;            // scalar in quotes or a block: a word, always
  Mark mark{};                    // where the value starts
  std::vector<YamlNode> items{};  // of a list, or entries of a map in order

  bool is_map() const { return kind == Kind::map; }
  bool is_list() const { return kind == Kind::list; }
  bool is_scalar() const { return kind == Kind::scalar; }
  bool is_null() const { return kind == Kind::null; }

  // The entry of a map, or null (also where this is no map).
  const YamlNode* find(const std::string& name) const;
  YamlNode* find(const std::string& name);
  // The entry of a map, added (as null, at the mark) where it is missing; this
  // becomes a map if it was null. REQUIRES: is_map() or is_null().
  YamlNode& entry(const std::string& name, const Mark& at = {});
  void erase(const std::string& name);
  // Takes the value of `other`, keeps the own key.
  void set_value(const YamlNode& other);

  static YamlNode scalar(std::string text, const Mark& at = {});
  static YamlNode word(std::string text, const Mark& at = {});  // quoted
  static YamlNode list(const Mark& at = {});
  static YamlNode map(const Mark& at = {});
};

// "a number", "a list", ...: for messages.
std::string describe_node(const YamlNode& node);

// What a plain scalar means: bool, integer, real or word; quoted: a word.
Value scalar_value(const YamlNode& node);
// A scalar that reads back as the value.
YamlNode scalar_of(const Value& value, const Mark& at = {});

// A YAML text that cannot be read, with the place.
struct YamlProblem {
  Mark mark;
  std::string message;
};

// Reads one document; throws YamlProblem: syntax, duplicate keys, not UTF-8,
// tags, too long (256 KiB), too deep (32) or too large once its aliases are
// expanded (20,000 nodes, 1 MiB of text). Nothing else is thrown.
YamlNode parse_yaml(const std::string& text, int source = 0);

// Block style, lists of scalars in brackets, two spaces a level; ends in a
// newline. parse_yaml gives the same tree back.
std::string emit_yaml(const YamlNode& node);

}  // namespace dtune
