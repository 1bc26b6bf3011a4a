#include "dtune/review/rank_history.h"

#include <utility>

#include "dtune/base/order_statistic.h"

namespace dtune {
namespace {

constexpr double kSlow = 0.7;

RankCell cell_between(const RankRound& before, const RankRound& now) {
  const double compute = now.compute_seconds - before.compute_seconds;
  const double wait = now.wait_seconds - before.wait_seconds;
  RankCell cell{.share = now.share,
                .late = now.late - before.late,
                .present = now.present};
  if (compute > 0) cell.speed = double(now.samples - before.samples) / compute;
  if (compute + wait > 0) cell.wait = wait / (compute + wait);
  return cell;
}

void add_round(const RankRound& now, std::vector<RankRound>& before,
               RankHistory& history) {
  const auto rank = static_cast<size_t>(now.rank);
  if (rank >= history.cells.size()) {
    before.resize(rank + 1);
    history.nodes.resize(rank + 1);
    history.cells.resize(rank + 1);
  }
  if (history.rounds.empty() || history.rounds.back() != now.round) {
    history.rounds.push_back(now.round);
  }
  // A rank that came later has nothing in the rounds before.
  history.cells[rank].resize(history.rounds.size() - 1, {.present = false});
  history.cells[rank].push_back(cell_between(before[rank], now));
  history.nodes[rank] = now.node;
  before[rank] = now;
}

// Empty where the rank computed nothing.
std::optional<double> usual_speed(const std::vector<RankCell>& cells) {
  std::vector<double> speeds;
  for (const RankCell& cell : cells) {
    if (cell.present && cell.speed > 0) speeds.push_back(cell.speed);
  }
  if (speeds.empty()) return std::nullopt;
  return upper_median(std::move(speeds));
}

}  // namespace

std::vector<RankHistory> rank_histories(const std::vector<RankRound>& ranks) {
  std::vector<RankHistory> histories;
  std::vector<RankRound> before;
  for (const RankRound& now : ranks) {
    if (histories.empty() || histories.back().trial != now.trial ||
        histories.back().attempt != now.attempt) {
      histories.push_back({.trial = now.trial, .attempt = now.attempt});
      before.clear();
    }
    add_round(now, before, histories.back());
  }
  for (RankHistory& history : histories) {
    for (auto& cells : history.cells) {
      cells.resize(history.rounds.size(), {.present = false});
    }
  }
  return histories;
}

std::optional<SlowRank> slowest_rank(
    const std::vector<RankHistory>& histories) {
  std::optional<SlowRank> slowest;
  for (const RankHistory& history : histories) {
    std::vector<std::optional<double>> speeds;
    std::vector<double> known;
    for (const auto& cells : history.cells) {
      speeds.push_back(usual_speed(cells));
      if (speeds.back()) known.push_back(*speeds.back());
    }
    if (known.size() < 2) continue;
    const double usual = upper_median(known);
    for (size_t rank = 0; rank < speeds.size(); ++rank) {
      const double part = speeds[rank].value_or(usual) / usual;
      if (part >= (slowest ? slowest->part : kSlow)) continue;
      slowest = {history.trial, static_cast<int>(rank), history.nodes[rank],
                 part};
    }
  }
  return slowest;
}

}  // namespace dtune
