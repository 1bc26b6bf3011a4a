#include "dtune/study/engine_address.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dtune/base/error.h"
#include "dtune/base/suggest.h"
#include "dtune/base/text.h"

namespace dtune {
namespace {

[[noreturn]] void refuse_engine(const EngineAddress& address,
                                const std::string& what,
                                const std::string& remedy) {
  throw Error(ErrorKind::config,
              fmt::format("'{}': {} ({})", address.text, what, remedy));
}

// "" where `two` is not two hexadecimal digits.
std::string byte_of(std::string_view two) {
  int code = 0;
  const char* end = two.data() + two.size();
  const auto [stop, error] = std::from_chars(two.data(), end, code, 16);
  if (two.size() != 2 || error != std::errc() || stop != end) return "";
  return std::string(1, static_cast<char>(code));
}

std::string decode_percent(const EngineAddress& address,
                           std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    const std::string byte = byte_of(text.substr(i + 1, 2));
    if (byte.empty()) {
      refuse_engine(address, "'%' is not followed by two hexadecimal digits",
                    "write %25 for a percent sign");
    }
    out += byte;
    i += 2;
  }
  const bool control = std::ranges::any_of(out, [](char c) {
    return std::iscntrl(static_cast<unsigned char>(c)) != 0;
  });
  if (control) {
    refuse_engine(address, "holds a control character",
                  "an address is one line of plain text");
  }
  return out;
}

void take_pair(EngineAddress& address, std::string_view pair) {
  const size_t equals = pair.find('=');
  if (equals == 0 || equals == std::string_view::npos ||
      equals + 1 == pair.size()) {
    refuse_engine(address, fmt::format("'{}' is not KEY=VALUE", pair),
                  "as in slurm://gpu?max=8&time=4h");
  }
  const std::string key(pair.substr(0, equals));
  const std::string value = decode_percent(address, pair.substr(equals + 1));
  if (!address.values.emplace(key, value).second) {
    refuse_engine(address, fmt::format("has '{}' twice", key), "keep one");
  }
}

constexpr std::string_view kAfterEngine = "://";

}  // namespace

std::string EngineAddress::value(const std::string& key) const {
  const auto found = values.find(key);
  return found == values.end() ? "" : found->second;
}

bool is_engine_address(const std::string& text) {
  const size_t end = text.find(kAfterEngine);
  return end != std::string::npos && end > 0 &&
         is_plain(text.substr(0, end), "");
}

EngineAddress parse_engine_address(const std::string& text) {
  EngineAddress address;
  address.text = text;
  if (!is_engine_address(text)) {
    refuse_engine(address, "is not the address of an engine",
                  "as slurm://PARTITION or k8s://NAMESPACE?KEY=VALUE");
  }
  std::string_view rest = text;
  const size_t end = rest.find(kAfterEngine);
  address.engine = rest.substr(0, end);
  rest.remove_prefix(end + kAfterEngine.size());
  const size_t question = std::min(rest.find('?'), rest.size());
  address.place = decode_percent(address, rest.substr(0, question));
  rest.remove_prefix(question);
  while (!rest.empty()) {
    rest.remove_prefix(1);  // '?' or '&'
    const size_t next = std::min(rest.find('&'), rest.size());
    take_pair(address, rest.substr(0, next));
    rest.remove_prefix(next);
  }
  return address;
}

void check_engine(const EngineAddress& address,
                  std::span<const std::string> engines) {
  if (std::ranges::find(engines, address.engine) != engines.end()) return;
  refuse_engine(address,
                fmt::format("there is no engine '{}'{}", address.engine,
                            did_you_mean(address.engine, engines)),
                fmt::format("{}", fmt::join(engines, ", ")));
}

void check_engine_keys(const EngineAddress& address,
                       std::span<const std::string> keys) {
  for (const auto& [key, value] : address.values) {
    if (std::ranges::find(keys, key) != keys.end()) continue;
    refuse_engine(
        address,
        fmt::format("unknown key '{}'{}", key, did_you_mean(key, keys)),
        fmt::format("{} has {}", address.engine, fmt::join(keys, ", ")));
  }
}

int engine_number(const EngineAddress& address, const std::string& key,
                  int otherwise, int least, int most) {
  const std::string text = address.value(key);
  if (text.empty()) return otherwise;
  const auto number = parse_number<int>(text);
  if (!number || *number < least || *number > most) {
    refuse_engine(address, fmt::format("{} is '{}'", key, text),
                  fmt::format("a number from {} to {}", least, most));
  }
  return *number;
}

Duration engine_duration(const EngineAddress& address, const std::string& key,
                         const std::string& otherwise) {
  const std::string text = address.value(key);
  try {
    return parse_duration(text.empty() ? otherwise : text);
  } catch (const Error& e) {
    throw Error(ErrorKind::config,
                fmt::format("'{}': {}: {}", address.text, key, e.what()));
  }
}

}  // namespace dtune
