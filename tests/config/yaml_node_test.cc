#include "dtune/config/yaml_node.h"

#include <doctest/doctest.h>

#include "dtune/base/random.h"

namespace dtune {
namespace {

bool same(const YamlNode& a, const YamlNode& b) {
  if (a.kind != b.kind || a.key != b.key || a.items.size() != b.items.size()) {
    return false;
  }
  if (a.is_scalar() &&
      (a.text != b.text || scalar_value(a) != scalar_value(b))) {
    return false;
  }
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!same(a.items[i], b.items[i])) return false;
  }
  return true;
}

Value value(const std::string& text) {
  return scalar_value(YamlNode::scalar(text));
}

TEST_CASE("plain scalars are truths, numbers or words") {
  CHECK(value("true") == Value(true));
  CHECK(value("32") == Value(int64_t{32}));
  CHECK(value("-7") == Value(int64_t{-7}));
  CHECK(value("+7") == Value(int64_t{7}));
  CHECK(value("1e-4") == Value(1e-4));
  CHECK(value(".5") == Value(0.5));
  CHECK(value("99999999999999999999") == Value(1e20));
  for (const char* word : {"", "-", "+", "+-1", "1e", "1e999", "nan", "inf",
                           "0x10", "1_000", "1.2.3", "e5", "sgd"}) {
    CHECK_MESSAGE(value(word) == Value(word), word);
  }
  CHECK(scalar_value(YamlNode::word("32")) == Value("32"));
}

TEST_CASE("places are lines and columns of the text") {
  const YamlNode root = parse_yaml("a: 1\nbc:\n  - x\n  - {d: 'y'}\n");
  CHECK(root.find("a")->mark.line == 1);
  CHECK(root.find("a")->mark.column == 4);
  const YamlNode& list = *root.find("bc");
  CHECK(list.key_mark.line == 2);
  CHECK(list.items[1].find("d")->mark.line == 4);
  CHECK(list.items[1].find("d")->mark.column == 9);
  CHECK(list.items[1].find("d")->quoted);
}

TEST_CASE("words that look like something else are quoted") {
  YamlNode root = YamlNode::map();
  for (const char* word :
       {"32",      "true", "null", "~",   "",   " a",    "a: b", "#x",
        "-",       "- a",  "*a",   "&a",  "!t", "it's",  "\"",   "\\",
        "a\nb\tc", "ä",    "{a}",  "[",   "%x", "@",     "`",    "1e5",
        ".5",      "a b",  "yes",  "a,b", "<<", "0.1.2", "-x",   "..."}) {
    root.entry(std::string("k") + word).set_value(YamlNode::word(word));
  }
  const std::string text = emit_yaml(root);
  CHECK_MESSAGE(same(parse_yaml(text), root), text);
}

YamlNode random_node(Rng& rng, int depth) {
  static const std::vector<std::string> words = {
      "a", "1", "-2.5", "true", "null", "x: y", "- z", "\n", "'", "a b", ""};
  const uint64_t kind = rng.below(depth > 0 ? 5 : 2);
  if (kind < 2) {
    const std::string& word = words[rng.below(words.size())];
    return kind == 0 ? YamlNode::word(word) : YamlNode::scalar("3.25");
  }
  YamlNode node = kind == 2 ? YamlNode::list() : YamlNode::map();
  const uint64_t count = rng.below(4);
  for (uint64_t i = 0; i < count; ++i) {
    YamlNode item = random_node(rng, depth - 1);
    if (node.is_map()) item.key = "k" + std::to_string(i);
    node.items.push_back(std::move(item));
  }
  return node;
}

TEST_CASE("what is emitted reads back as the same tree") {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    const YamlNode node = random_node(rng, 4);
    const std::string text = emit_yaml(node);
    CHECK_MESSAGE(same(parse_yaml(text), node), text);
  }
}

TEST_CASE("values survive being written and read") {
  for (const Value& one :
       {Value(true), Value(int64_t{-3}), Value(1.0), Value(1e-300), Value(0.1),
        Value("sgd"), Value("1"), Value("")}) {
    YamlNode map = YamlNode::map();
    map.entry("v").set_value(scalar_of(one));
    CHECK(scalar_value(*parse_yaml(emit_yaml(map)).find("v")) == one);
  }
}

}  // namespace
}  // namespace dtune
