#include <algorithm>
#include <charconv>
#include <cmath>

#include "app/gang_bench.h"
#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune {
namespace {

constexpr double kMost = 1e6;  // ranks, times, seconds

const char* form_of(Disturbance::Kind kind) {
  switch (kind) {
    case Disturbance::Kind::slow:
      return "RANK:FACTOR, e.g. 3:4";
    case Disturbance::Kind::spike:
      return "RANK:EVERY:SECONDS, e.g. 1:5:0.5";
    case Disturbance::Kind::kill:
      break;
  }
  return "RANK:SECONDS, e.g. 2:10";
}

std::vector<double> numbers_of(const std::string& text) {
  std::vector<double> numbers;
  const char* at = text.data();
  const char* end = at + text.size();
  while (at <= end) {
    double number = 0;
    const auto [stop, error] = std::from_chars(at, end, number);
    if (error != std::errc() || !(number >= 0 && number <= kMost)) return {};
    numbers.push_back(number);
    if (stop == end) return numbers;
    if (*stop != ':') return {};
    at = stop + 1;
  }
  return {};
}

}  // namespace

Disturbance parse_disturbance(Disturbance::Kind kind, const std::string& text) {
  const std::vector<double> numbers = numbers_of(text);
  const size_t wanted = kind == Disturbance::Kind::spike ? 3 : 2;
  if (numbers.size() != wanted || numbers[0] != std::floor(numbers[0]) ||
      (kind == Disturbance::Kind::slow && numbers[1] < 1)) {
    throw Error(ErrorKind::config,
                fmt::format("'{}' does not name a rank and its disturbance "
                            "(write {})",
                            text, form_of(kind)));
  }
  Disturbance out;
  out.kind = kind;
  out.member = static_cast<int>(numbers[0]);
  if (kind == Disturbance::Kind::slow) out.factor = numbers[1];
  if (kind == Disturbance::Kind::kill) out.seconds = numbers[1];
  if (kind == Disturbance::Kind::spike) {
    out.every = std::max(numbers[1], 0.001);
    out.seconds = numbers[2];
  }
  return out;
}

}  // namespace dtune
