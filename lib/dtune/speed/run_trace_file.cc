// What `--trace` wrote of a gang (Chrome's trace format): how fast each rank
// was in each round.

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/base/json.h"
#include "dtune/base/text.h"
#include "dtune/speed/speed_predictor.h"
#include "dtune/speed/speed_traces.h"

namespace dtune {
namespace {

using nlohmann::json;

// Times in microseconds.
struct Span {
  double begin = 0;
  double seconds = 0;
  bool forward = false;  // else backward
};

// Samples of the global batch that each rank has from then on.
struct ShareChange {
  double begin = 0;
  std::map<std::string, double> of;  // "rank 0"
};

class RunTrace {
 public:
  void add(const json& event) {
    const std::string name = event.value("name", "");
    const std::string phase = event.value("ph", "");
    if (phase == "C" && name == "batch share") {
      shares_.push_back({event.at("ts"), event.at("args")});
    } else if (phase == "X" && (name == "forward" || name == "backward")) {
      spans_[event.at("pid")].push_back({event.at("ts"),
                                         event.at("dur").get<double>() / 1e6,
                                         name == "forward"});
    }
  }

  std::vector<std::vector<double>> speeds() {
    const auto earlier = [](const auto& a, const auto& b) {
      return a.begin < b.begin;
    };
    std::stable_sort(shares_.begin(), shares_.end(), earlier);
    std::vector<std::vector<double>> result;
    for (auto& [process, spans] : spans_) {
      std::stable_sort(spans.begin(), spans.end(), earlier);
      // Process 0 is the coordinator.
      const std::string rank = fmt::format("rank {}", process - 1);
      std::vector<double> own = speeds_of(spans, rank);
      if (own.size() > 1) result.push_back(std::move(own));
    }
    return result;
  }

 private:
  double share_at(double time, const std::string& rank) const {
    const auto after = std::upper_bound(
        shares_.begin(), shares_.end(), time,
        [](double t, const ShareChange& shares) { return t < shares.begin; });
    if (after == shares_.begin()) return 0;
    const auto found = std::prev(after)->of.find(rank);
    return found == std::prev(after)->of.end() ? 0 : found->second;
  }

  std::vector<double> speeds_of(const std::vector<Span>& spans,
                                const std::string& rank) const {
    std::vector<double> speeds;
    for (size_t i = 0; i + 1 < spans.size(); ++i) {
      if (!spans[i].forward || spans[i + 1].forward) continue;
      const double seconds = spans[i].seconds + spans[i + 1].seconds;
      const double speed = share_at(spans[i].begin, rank) / seconds;
      if (is_speed(speed)) speeds.push_back(speed);
    }
    return speeds;
  }

  std::vector<ShareChange> shares_;
  std::map<int, std::vector<Span>> spans_;  // by process
};

// One event a line; the last one may be cut off where the run was killed.
RunTrace read_events(const std::string& text, const std::string& path) {
  RunTrace trace;
  int number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    const std::string_view line =
        trim(std::string_view(text).substr(begin, end - begin), "[], \t\r");
    begin = end == std::string::npos ? text.size() : end + 1;
    ++number;
    if (line.empty()) continue;
    try {
      trace.add(parse_json(line));
    } catch (const json::exception&) {
      if (end == std::string::npos) break;
      throw Error(
          ErrorKind::data,
          fmt::format("{}:{}: is not an event of a trace", path, number));
    }
  }
  return trace;
}

}  // namespace

std::vector<std::vector<double>> read_speed_traces(
    const std::filesystem::path& path) {
  const std::string text = read_file(path);
  if (!text.starts_with('[')) return {read_speed_trace(path)};
  auto speeds = read_events(text, path.string()).speeds();
  if (!speeds.empty()) return speeds;
  throw Error(
      ErrorKind::data,
      fmt::format("{}: has no rank that trained two batches with others "
                  "(dtune bench train --strategy allreduce --trace)",
                  path.string()));
}

}  // namespace dtune
