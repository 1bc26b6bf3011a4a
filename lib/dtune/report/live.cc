#include "dtune/report/live.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "dtune/report/facts.h"
#include "dtune/report/table.h"
#include "dtune/report/trial_table.h"

namespace dtune {
namespace {

using Lines = std::vector<std::string>;

Color color_of(StudyState state) {
  switch (state) {
    case StudyState::running:
      return Color::cyan;
    case StudyState::finished:
      return Color::green;
    case StudyState::interrupted:
      return Color::yellow;
    case StudyState::failed:
      return Color::red;
  }
  return Color::none;
}

// The texts with two spaces between them, cut at the end of the line.
std::string join_pieces(const std::vector<TableCell>& pieces,
                        const TextStyle& style) {
  std::string line;
  int left = style.columns;
  for (const TableCell& piece : pieces) {
    if (!line.empty() && left > 2) {
      line += "  ";
      left -= 2;
    }
    const std::string text = fit(piece.text, left, style.unicode);
    line += paint(style, piece.color, text);
    left -= display_width(text);
  }
  return line;
}

// "about 40s to 3m left"; "": unknown.
std::string time_left(const ClusterStatus& status) {
  constexpr double kSame = 1.2;
  const double low = status.remaining_low;
  const double high = status.remaining_high;
  if (low < 0) return "";
  if (high <= kSame * low || format_seconds(low) == format_seconds(high)) {
    return ", about " + format_seconds((low + high) / 2) + " left";
  }
  if (low < 1) return ", up to " + format_seconds(high) + " left";
  return fmt::format(", about {} to {} left", format_seconds(low),
                     format_seconds(high));
}

// "fashion  running  1m23s, about 8m left".
std::string title_line(const Study& study, const ClusterStatus& status,
                       const TextStyle& style) {
  std::string times = format_seconds(status.elapsed_seconds);
  if (study.state == StudyState::running) times += time_left(status);
  constexpr int kShortestName = 8;
  const std::string state = to_string(study.state);
  const int room = style.columns - 4 - display_width(state + times);
  const std::string name = fit(printable(study.recipe.study),
                               std::max(kShortestName, room), style.unicode);
  return join_pieces({{name, Color::bold},
                      {state, color_of(study.state)},
                      {times, Color::none}},
                     style);
}

// "████░░░░  27%  12 of 40 trials: 2 running, ...".
std::string progress_line(const Study& study, const ClusterStatus& status,
                          const TextStyle& style) {
  const int width = std::clamp(style.columns / 4, 8, 30);
  const double done = std::clamp(status.done_fraction, 0.0, 1.0);
  const std::string percent = fmt::format(" {:3.0f}%  ", 100 * done);
  const int room = style.columns - width - display_width(percent);
  return paint(style, Color::green, progress_bar(done, width, style.unicode)) +
         percent + fit(describe_states(study), room, style.unicode);
}

// "best   0.9123 val_accuracy  trial 7 step 9/12  lr=0.031 ...".
std::string best_line(const Study& study, const TextStyle& style) {
  const Trial* best = incumbent(study);
  const std::string metric = printable(study.recipe.objective.metric);
  if (best == nullptr) {
    return fit("no " + metric + " yet", style.columns, style.unicode);
  }
  const ObjectiveSpec& objective = study.recipe.objective;
  const std::string value = format_metric(
      metric_of(objective, best_value(objective, *best).value_or(0)));
  const std::string rest = fmt::format(
      " {}  trial {} step {}  {}", metric, best->id,
      format_step(best_report(objective, *best)->step, study.horizon),
      describe_point(study, best->point));
  const int room = style.columns - 5 - display_width(value);
  return "best " + paint(style, Color::bold, value) +
         fit(rest, room, style.unicode);
}

std::string rate_text(double samples_per_second) {
  return samples_per_second > 0
             ? format_count(std::llround(samples_per_second)) + " img/s"
             : "";
}

// "node-a 0: trial 7 43% 1,234 img/s".
std::string slot_text(const SlotStatus& slot, bool with_node) {
  std::string text = with_node && !slot.node.empty()
                         ? printable(slot.node) + " "
                         : std::string();
  text += fmt::format("{}: ", slot.slot);
  if (slot.trial == 0) return text + printable(slot.phase);
  text += fmt::format("trial {}", slot.trial);
  if (slot.phase != "training") return text + " " + printable(slot.phase);
  if (slot.progress > 0) text += fmt::format(" {:.0f}%", 100 * slot.progress);
  if (slot.together > 1) text += fmt::format(" fused {}", slot.together);
  const std::string rate = rate_text(slot.samples_per_second);
  return rate.empty() ? text : text + " " + rate;
}

std::string slot_totals(const ClusterStatus& status) {
  double rate = 0;
  int busy = 0;
  int lost = 0;
  int together = 1;
  for (const SlotStatus& slot : status.slots) {
    rate += slot.samples_per_second;
    together = std::max(together, slot.together);
    busy += slot.trial != 0 ? 1 : 0;
    lost += slot.phase == "lost" ? 1 : 0;
  }
  std::string text =
      fmt::format("slots  {} of {} busy", busy, status.slots.size());
  if (lost > 0) text += fmt::format(", {} lost", lost);
  if (together > 1) text += fmt::format(", fused {}", together);
  if (rate > 0) text += ", " + rate_text(rate);
  return text;
}

// One line for all slots if they fit, else their totals.
std::string slots_line(const ClusterStatus& status, const TextStyle& style) {
  const bool one_node = std::all_of(
      status.slots.begin(), status.slots.end(), [&](const SlotStatus& slot) {
        return slot.node == status.slots.front().node;
      });
  std::string text = "slots";
  for (const SlotStatus& slot : status.slots) {
    text += "  " + slot_text(slot, !one_node);
  }
  if (display_width(text) > style.columns) text = slot_totals(status);
  return paint(style, Color::dim, fit(text, style.columns, style.unicode));
}

// "trial 7  rank 2 on node-b 1   12% of the batch, waits 3%, late 4 times".
std::string rank_text(const SlotStatus& slot) {
  std::string text = fmt::format("  trial {}  rank {} on {} {}", slot.trial,
                                 slot.member, printable(slot.node), slot.slot);
  if (!slot.present) return text + "  lost; the others continue";
  std::vector<std::string> facts;
  if (slot.share > 0) {
    facts.push_back(fmt::format("{:.0f}% of the batch", 100 * slot.share));
  }
  if (slot.wait_share >= 0.005) {
    facts.push_back(fmt::format("waits {:.0f}%", 100 * slot.wait_share));
  }
  if (slot.late > 0) facts.push_back(fmt::format("late {} times", slot.late));
  if (slot.staleness >= 0) {
    facts.push_back(fmt::format("staleness {:.1f}", slot.staleness));
  }
  const char* between = "   ";
  for (const std::string& fact : facts) {
    text += between + fact;
    between = ", ";
  }
  return text;
}

// A line for each rank of trials that take several slots.
Lines rank_lines(const ClusterStatus& status, int room,
                 const TextStyle& style) {
  std::vector<const SlotStatus*> ranks;
  for (const SlotStatus& slot : status.slots) {
    if (slot.member >= 0 && slot.trial != 0) ranks.push_back(&slot);
  }
  std::stable_sort(
      ranks.begin(), ranks.end(), [](const SlotStatus* a, const SlotStatus* b) {
        return std::pair(a->trial, a->member) < std::pair(b->trial, b->member);
      });
  Lines lines;
  for (const SlotStatus* rank : ranks) {
    if (static_cast<int>(lines.size()) >= room) break;
    lines.push_back(paint(style, Color::dim,
                          fit(rank_text(*rank), style.columns, style.unicode)));
  }
  return lines;
}

// The slot that has said nothing for the longest time, where that is long.
std::string silence_line(const ClusterStatus& status, const TextStyle& style) {
  constexpr double kLong = 60;  // seconds
  const auto silent =
      std::max_element(status.slots.begin(), status.slots.end(),
                       [](const SlotStatus& a, const SlotStatus& b) {
                         return a.seconds_since_report < b.seconds_since_report;
                       });
  if (silent == status.slots.end() || silent->seconds_since_report < kLong) {
    return "";
  }
  return paint(
      style, Color::dim,
      fit(fmt::format("quiet  trial {} on {} {}: {} since its last report",
                      silent->trial, printable(silent->node), silent->slot,
                      format_seconds(silent->seconds_since_report)),
          style.columns, style.unicode));
}

// As many trials as there are lines for, and how many are left out.
Lines trial_lines(const Study& study, int room, const TextStyle& style) {
  std::vector<const Trial*> trials = order_for_display(study);
  if (trials.empty() || room < 2) return {};
  const size_t all = trials.size();
  size_t shown = std::min(all, static_cast<size_t>(room - 1));
  if (shown < all && room >= 3) --shown;  // for the line that says so
  trials.resize(shown);
  Lines lines = trial_table(study, trials, incumbent(study), style);
  if (shown < all && room >= 3) {
    lines.push_back(paint(style, Color::dim,
                          fit(fmt::format("  and {} more", all - shown),
                              style.columns, style.unicode)));
  }
  return lines;
}

}  // namespace

std::string render_live(const Study& study, const ClusterStatus& status,
                        const FrameSize& size, bool color, bool unicode) {
  const TextStyle style{color, unicode, std::max(20, size.columns)};
  const int height = std::max(1, size.rows - 1);
  Lines lines = {title_line(study, status, style),
                 progress_line(study, status, style), best_line(study, style)};
  Lines tail;
  if (!status.slots.empty()) tail.push_back(slots_line(status, style));
  const Lines ranks = rank_lines(status, height / 3, style);
  tail.insert(tail.end(), ranks.begin(), ranks.end());
  const std::string silence = silence_line(status, style);
  if (!silence.empty()) tail.push_back(silence);

  constexpr int kBlank = 2;  // around the table
  const int room = height - static_cast<int>(lines.size() + tail.size());
  const Lines table = trial_lines(study, room - kBlank, style);
  if (!table.empty()) {
    lines.emplace_back();
    lines.insert(lines.end(), table.begin(), table.end());
    lines.emplace_back();
  }
  lines.insert(lines.end(), tail.begin(), tail.end());
  lines.resize(std::min(lines.size(), static_cast<size_t>(height)));

  std::string frame;
  for (const std::string& line : lines) frame += line + '\n';
  return frame;
}

}  // namespace dtune
