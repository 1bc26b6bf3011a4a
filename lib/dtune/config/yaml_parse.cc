// yaml-cpp's events -> YamlNode, with limits on everything that can explode.
#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include "dtune/config/yaml_node.h"
#include "dtune/config/yaml_quotes.h"

namespace dtune {
namespace {

constexpr size_t kMaxBytes = size_t{256} << 10;
constexpr size_t kMaxDepth = 32;
constexpr size_t kMaxNodes = 20000;
constexpr size_t kMaxExpanded = 4 * kMaxBytes;  // of texts, copies included

Mark mark_of(const YAML::Mark& mark, int source) {
  if (mark.is_null()) return {.line = 1, .column = 1, .source = source};
  return {.line = mark.line + 1, .column = mark.column + 1, .source = source};
}

// What a node takes, with all that is in it.
struct Extent {
  size_t nodes = 1;
  size_t bytes = 0;  // of texts and keys
};

Extent extent_of(const YamlNode& node) {
  Extent sum{1, node.key.size() + node.text.size()};
  for (const YamlNode& item : node.items) {
    const Extent own = extent_of(item);
    sum.nodes += own.nodes;
    sum.bytes += own.bytes;
  }
  return sum;
}

size_t depth_of(const YamlNode& node) {
  size_t deepest = 0;
  for (const YamlNode& item : node.items) {
    deepest = std::max(deepest, depth_of(item));
  }
  return deepest + 1;
}

class TreeBuilder final : public YAML::EventHandler {
 public:
  explicit TreeBuilder(int source) : source_(source) {}

  YamlNode take() { return std::move(root_); }
  // Where the last scalar that is not plain begins.
  const Mark& last_quoted() const { return last_quoted_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlNode node;
    node.mark = mark_of(mark, source_);
    add(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const Mark at = mark_of(mark, source_);
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      throw YamlProblem{at, "an alias refers to a node that contains it"};
    }
    YamlNode copy = found->second;
    if (frames_.size() + depth_of(copy) > kMaxDepth) too_deep(at);
    charge(extent_of(copy), at);
    copy.mark = at;
    add(std::move(copy), 0);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag,
                YAML::anchor_t anchor, const std::string& value) override {
    const Mark at = mark_of(mark, source_);
    check_tag(tag, at);
    YamlNode node = YamlNode::scalar(value, at);
    node.quoted = tag == "!";
    if (node.quoted) last_quoted_ = at;
    const bool plain_null = !node.quoted && (value == "~" || value == "null");
    if (plain_null) node.kind = YamlNode::Kind::null;
    add(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag,
                       YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(YamlNode::list(mark_of(mark, source_)), tag, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag,
                  YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    open(YamlNode::map(mark_of(mark, source_)), tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    YamlNode node;
    YAML::anchor_t anchor = 0;
    bool has_key = false;  // a map whose next node is a value
    std::string key;
    Mark key_mark;
  };

  [[noreturn]] static void too_deep(const Mark& at) {
    throw YamlProblem{
        at, fmt::format("nested more than {} levels deep", kMaxDepth)};
  }

  static void check_tag(const std::string& tag, const Mark& at) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    throw YamlProblem{at, fmt::format("a recipe has no tags such as '{}' "
                                      "(leave it out)",
                                      tag)};
  }

  void charge(const Extent& more, const Mark& at) {
    charged_.nodes += more.nodes;
    charged_.bytes += more.bytes;
    if (charged_.bytes > kMaxExpanded) {
      throw YamlProblem{at, fmt::format("more than {} KiB of text, aliases "
                                        "expanded (is this a recipe?)",
                                        kMaxExpanded >> 10)};
    }
    if (charged_.nodes > kMaxNodes) {
      throw YamlProblem{at, fmt::format("more than {} values, aliases expanded "
                                        "(is this a recipe?)",
                                        kMaxNodes)};
    }
  }

  void open(YamlNode node, const std::string& tag, YAML::anchor_t anchor) {
    check_tag(tag, node.mark);
    if (frames_.size() + 1 >= kMaxDepth) too_deep(node.mark);
    check_key_position(node);
    frames_.push_back({.node = std::move(node),
                       .anchor = anchor,
                       .has_key = false,
                       .key = {},
                       .key_mark = {}});
  }

  void close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    add(std::move(frame.node), frame.anchor);
  }

  // A list or map in the place of a key.
  void check_key_position(const YamlNode& node) const {
    if (frames_.empty() || !frames_.back().node.is_map()) return;
    if (!frames_.back().has_key) {
      throw YamlProblem{
          node.mark,
          fmt::format("a key must be a word, not {}; is its '{}' missing?",
                      describe_node(node), node.is_list() ? ']' : '}')};
    }
  }

  void add(YamlNode node, YAML::anchor_t anchor) {
    charge({1, node.text.size()}, node.mark);
    if (anchor != 0) {
      charge(extent_of(node), node.mark);
      anchors_[anchor] = node;
    }
    if (frames_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = frames_.back();
    if (!frame.node.is_map()) {
      frame.node.items.push_back(std::move(node));
    } else if (frame.has_key) {
      node.key = std::move(frame.key);
      node.key_mark = frame.key_mark;
      frame.node.items.push_back(std::move(node));
      frame.has_key = false;
    } else {
      take_key(frame, node);
    }
  }

  static void take_key(Frame& frame, const YamlNode& node) {
    if (!node.is_scalar() || node.text.empty()) {
      throw YamlProblem{node.mark, fmt::format("a key must be a word, not {}",
                                               describe_node(node))};
    }
    if (const YamlNode* twin = frame.node.find(node.text)) {
      throw YamlProblem{node.mark,
                        fmt::format("key '{}' occurs twice (first on line {}; "
                                    "keep one)",
                                    node.text, twin->key_mark.line)};
    }
    frame.key = node.text;
    frame.key_mark = node.mark;
    frame.has_key = true;
  }

  int source_;
  YamlNode root_;
  Mark last_quoted_;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, YamlNode> anchors_;
  Extent charged_{0, 0};
};

// Length of the UTF-8 character that starts here (Unicode 15, table 3-7), or 0.
size_t character_length(const unsigned char* at, size_t left) {
  const auto continues = [&](size_t i, unsigned low, unsigned high) {
    return i < left && at[i] >= low && at[i] <= high;
  };
  const unsigned char c = at[0];
  if (c < 0x80) return 1;
  if (c >= 0xc2 && c <= 0xdf) return continues(1, 0x80, 0xbf) ? 2 : 0;
  if (c >= 0xe0 && c <= 0xef) {
    const unsigned low = c == 0xe0 ? 0xa0 : 0x80;
    const unsigned high = c == 0xed ? 0x9f : 0xbf;
    return continues(1, low, high) && continues(2, 0x80, 0xbf) ? 3 : 0;
  }
  if (c >= 0xf0 && c <= 0xf4) {
    const unsigned low = c == 0xf0 ? 0x90 : 0x80;
    const unsigned high = c == 0xf4 ? 0x8f : 0xbf;
    const bool whole = continues(1, low, high) && continues(2, 0x80, 0xbf) &&
                       continues(3, 0x80, 0xbf);
    return whole ? 4 : 0;
  }
  return 0;
}

// The column of a tab among the blanks that a line begins with; 0: none.
int column_of_tab_indent(const std::string& text, int line) {
  size_t begin = 0;
  for (int i = 1; i < line; ++i) {
    begin = text.find('\n', begin);
    if (begin == std::string::npos) return 0;
    ++begin;
  }
  const size_t end = text.find_first_not_of(" \t", begin);
  const size_t tab = text.find('\t', begin);
  const bool indents = tab != std::string::npos && tab < end;
  return indents ? static_cast<int>(tab - begin) + 1 : 0;
}

// How to mend what the parser complains of.
std::string remedy_of(const std::string& message) {
  if (message == "end of map flow not found") {
    return " (a '{' or its '}' is missing)";
  }
  if (message == "end of sequence flow not found") {
    return " (a '[' or its ']' is missing)";
  }
  if (message == "illegal map value") {
    return " (indent the keys of a section alike, and quote a text that has "
           "': ' in it)";
  }
  if (message == "end of map not found") {
    return " (what stands here belongs to no key: quote a text as a whole, and "
           "indent a section's lines alike)";
  }
  return "";
}

[[noreturn]] void fail_quote(Mark opening, int source,
                             const std::string& what) {
  opening.source = source;
  throw YamlProblem{
      opening,
      fmt::format("the quote that opens here {} (write a second one where the "
                  "text ends; within '...' a quote is written '', within "
                  "\"...\" it is \\\")",
                  what)};
}

// Whether the parser stumbles at `at` over what follows a text in quotes: its
// own second quote, or the opening one of another text on a later line.
bool stumbles_behind(const QuotedText& quoted, const Mark& at) {
  const Mark& end = *quoted.end;
  if (end.line != at.line || end.column >= at.column) return false;
  return quoted.begin.line < end.line || end.column + 1 == at.column;
}

void check_quotes(const std::string& text, const Mark& at, int source) {
  for (const QuotedText& quoted : quoted_texts(text)) {
    if (!quoted.end) fail_quote(quoted.begin, source, "is never closed");
    if (!stumbles_behind(quoted, at)) continue;
    fail_quote(quoted.begin, source,
               fmt::format("is closed on line {}, column {}, and what follows "
                           "there is not YAML",
                           quoted.end->line, quoted.end->column));
  }
}

// The parser closes the last quote at the end of the text.
void check_last_quote(const std::string& text, const Mark& last) {
  const std::vector<QuotedText> quoted = quoted_texts(text);
  if (quoted.empty() || quoted.back().end) return;
  const Mark& opening = quoted.back().begin;
  const bool same = opening.line == last.line && opening.column == last.column;
  if (same) fail_quote(opening, last.source, "is never closed");
}

[[noreturn]] void fail_syntax(const YAML::Exception& error,
                              const std::string& text, int source) {
  Mark at = mark_of(error.mark, source);
  if (const int column = column_of_tab_indent(text, at.line); column > 0) {
    at.column = column;
    throw YamlProblem{at,
                      "the line is indented with a tab (YAML indents with "
                      "spaces only: replace the tab with spaces)"};
  }
  check_quotes(text, at, source);
  throw YamlProblem{at, "not YAML: " + error.msg + remedy_of(error.msg)};
}

void check_text(const std::string& text, int source) {
  if (text.size() > kMaxBytes) {
    throw YamlProblem{{.line = 1, .column = 1, .source = source},
                      fmt::format("{} bytes long, but a recipe has at most {} "
                                  "(is this a recipe?)",
                                  text.size(), kMaxBytes)};
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  Mark at{.line = 1, .column = 1, .source = source};
  for (size_t i = 0; i < text.size();) {
    const size_t length = character_length(bytes + i, text.size() - i);
    if (length == 0) {
      throw YamlProblem{at, fmt::format("byte 0x{:02x} is not UTF-8 (save the "
                                        "file as UTF-8)",
                                        bytes[i])};
    }
    const unsigned char c = bytes[i];
    if ((c < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7f) {
      throw YamlProblem{at, fmt::format("control character 0x{:02x} (is this a "
                                        "recipe?)",
                                        c)};
    }
    at.column = c == '\n' ? 1 : at.column + static_cast<int>(length);
    if (c == '\n') ++at.line;
    i += length;
  }
}

}  // namespace

YamlNode parse_yaml(const std::string& text, int source) {
  check_text(text, source);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    TreeBuilder builder(source);
    if (!parser.HandleNextDocument(builder)) return {};
    check_last_quote(text, builder.last_quoted());
    YamlNode root = builder.take();
    TreeBuilder rest(source);
    if (parser.HandleNextDocument(rest)) {
      throw YamlProblem{rest.take().mark,
                        "a second document starts here (a recipe is one: "
                        "remove the '---')"};
    }
    return root;
  } catch (const YAML::Exception& error) {
    fail_syntax(error, text, source);
  } catch (const std::exception& error) {
    throw YamlProblem{{.line = 1, .column = 1, .source = source},
                      std::string("not YAML: ") + error.what()};
  }
}

}  // namespace dtune
