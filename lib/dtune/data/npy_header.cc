#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "dtune/base/text.h"
#include "dtune/data/npy.h"
#include "dtune/data/source_error.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxHeader = 65'536;
constexpr std::array<uint8_t, 6> kMagic = {0x93, 'N', 'U', 'M', 'P', 'Y'};

// Reads {'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }.
class DictParser {
 public:
  DictParser(std::string_view text, const fs::path& where)
      : text_(text), where_(where) {}

  NpyHeader parse() {
    expect('{');
    while (!accept('}')) {
      parse_entry();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!text_.empty() || seen_ != kAll) fail("is not what NumPy writes");
    return header_;
  }

 private:
  enum Seen : unsigned { descr = 1, order = 2, shape = 4 };
  static constexpr unsigned kAll = descr | order | shape;

  [[noreturn]] void fail(const std::string& what) const {
    fail_data(where_, "the .npy header " + what);
  }

  void skip_space() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) {
      text_.remove_prefix(1);
    }
  }

  bool accept(char c) {
    skip_space();
    if (text_.empty() || text_[0] != c) return false;
    text_.remove_prefix(1);
    return true;
  }

  void expect(char c) {
    if (!accept(c)) fail(fmt::format("lacks a '{}'", c));
  }

  bool accept_word(std::string_view word) {
    skip_space();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }

  std::string_view parse_string() {
    skip_space();
    if (text_.empty() || (text_[0] != '\'' && text_[0] != '"')) {
      fail("lacks a string (structured types are not read)");
    }
    const size_t end = text_.find(text_[0], 1);
    if (end == std::string_view::npos) fail("has a string without end");
    const std::string_view value = text_.substr(1, end - 1);
    text_.remove_prefix(end + 1);
    return value;
  }

  void parse_entry() {
    const std::string_view key = parse_string();
    expect(':');
    if (key == "descr") {
      mark(descr);
      parse_type(parse_string());
    } else if (key == "fortran_order") {
      mark(order);
      header_.fortran_order = accept_word("True");
      if (!header_.fortran_order && !accept_word("False")) {
        fail("has a fortran_order that is neither True nor False");
      }
    } else if (key == "shape") {
      mark(shape);
      parse_shape();
    } else {
      fail(fmt::format("has an unknown key '{}'", key.substr(0, 40)));
    }
  }

  void mark(Seen part) {
    if ((seen_ & part) != 0) fail("names a key twice");
    seen_ |= part;
  }

  void parse_type(std::string_view type) {
    const std::string shown(type.substr(0, 16));
    char byte_order = '|';
    if (!type.empty() &&
        std::string_view("<>|=").find(type[0]) != std::string_view::npos) {
      byte_order = type[0];
      type.remove_prefix(1);
    }
    if (!parse_kind(type)) {
      fail_data(where_, fmt::format("holds values of type '{}'; numbers and "
                                    "words are read (convert them with "
                                    ".astype)",
                                    shown));
    }
    header_.big_endian = byte_order == '>';
  }

  // "u1", "f8", "U12", ...: what is left of a type without its byte order.
  bool parse_kind(std::string_view type) {
    constexpr int kLongestWord = 1024;
    if (type.size() < 2) return false;
    const auto read = parse_number<int>(type.substr(1));
    if (!read) return false;
    const int size = *read;
    const bool power = size == 1 || size == 2 || size == 4 || size == 8;
    header_.kind = type[0];
    header_.item_bytes = type[0] == 'U' ? 4 * size : size;
    switch (type[0]) {
      case 'u':
      case 'i':
        return power;
      case 'f':
        return power && size > 1;
      case 'b':
        return size == 1;
      case 'S':
      case 'U':
        return size > 0 && size <= kLongestWord;
      default:
        return false;
    }
  }

  void parse_shape() {
    constexpr size_t kMaxDimensions = 8;
    expect('(');
    while (!accept(')')) {
      header_.shape.push_back(parse_size());
      if (header_.shape.size() > kMaxDimensions) fail("has a shape too long");
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    const auto items = checked_product(header_.shape);
    constexpr uint64_t kMaxItems = uint64_t{1} << 50;  // of 4 KiB at most
    if (!items || *items > kMaxItems) fail("claims an impossible shape");
    header_.items = *items;
  }

  int64_t parse_size() {
    skip_space();
    int64_t value = -1;
    const auto [end, code] =
        std::from_chars(text_.data(), text_.data() + text_.size(), value);
    if (code != std::errc() || value < 0)
      fail("has a shape that is not a list of sizes");
    text_.remove_prefix(static_cast<size_t>(end - text_.data()));
    accept('L');  // Python 2 wrote long integers so
    return value;
  }

  std::string_view text_;
  const fs::path& where_;
  NpyHeader header_;
  unsigned seen_ = 0;
};

}  // namespace

size_t npy_data_offset(std::span<const uint8_t> prefix, const fs::path& where) {
  if (prefix.size() < kNpyPrefix ||
      !std::equal(kMagic.begin(), kMagic.end(), prefix.begin())) {
    fail_data(where, "is not an .npy array (its magic is missing)");
  }
  const int version = prefix[6];
  if (version < 1 || version > 3) {
    fail_data(where, fmt::format("is of .npy version {}.{}; 1 to 3 are read",
                                 version, prefix[7]));
  }
  size_t length = prefix[8] | size_t{prefix[9]} << 8;
  if (version > 1)
    length |= size_t{prefix[10]} << 16 | size_t{prefix[11]} << 24;
  if (length > kMaxHeader) {
    fail_data(where, fmt::format("claims a .npy header of {} bytes; at most {} "
                                 "are read",
                                 length, kMaxHeader));
  }
  return (version > 1 ? 12 : 10) + length;
}

NpyHeader parse_npy_header(std::span<const uint8_t> header,
                           const fs::path& where) {
  const size_t offset = npy_data_offset(header, where);
  if (header.size() < offset) fail_data(where, "ends inside its .npy header");
  const size_t start = header[6] > 1 ? 12 : 10;
  const std::string_view text(
      reinterpret_cast<const char*>(header.data()) + start, offset - start);
  return DictParser(text, where).parse();
}

}  // namespace dtune
