// Recorded traces: text, one speed a line.

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/base/text.h"
#include "dtune/speed/speed_predictor.h"
#include "dtune/speed/speed_traces.h"

namespace dtune {
namespace {

// 0 where it is no speed.
double parse(std::string_view word) {
  const double value = parse_number<double>(word).value_or(0);
  return is_speed(value) ? value : 0;
}

bool is_heading(std::string_view word) {
  const char c = word.front();
  return c == '"' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

}  // namespace

std::vector<double> read_speed_trace(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  std::vector<double> speeds;
  int number = 0;
  bool first = true;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line =
        std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++number;
    const std::string_view word =
        trim(std::string_view(line).substr(0, line.find('#')), " \t\r,;");
    if (word.empty()) continue;
    const double speed = parse(word);
    if (speed > 0) speeds.push_back(speed);
    if (speed == 0 && !(first && is_heading(word))) {
      throw Error(
          ErrorKind::data,
          fmt::format("{}:{}: '{}' is not a speed (a trace has one number "
                      "above 0 a line: samples a second)",
                      path.string(), number, word.substr(0, 40)));
    }
    first = false;
  }
  if (speeds.size() < 2) {
    throw Error(ErrorKind::data,
                fmt::format("{}: holds {} speeds (a trace needs two or more)",
                            path.string(), speeds.size()));
  }
  return speeds;
}

}  // namespace dtune
