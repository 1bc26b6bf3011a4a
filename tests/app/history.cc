#include "app/history.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sqlite3.h>

namespace dtune {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Columns = std::vector<std::string>;

class History {
 public:
  explicit History(const fs::path& database) {
    if (sqlite3_open_v2(database.c_str(), &handle_, SQLITE_OPEN_READONLY,
                        nullptr) != SQLITE_OK) {
      throw std::runtime_error(database.string());
    }
  }
  ~History() { sqlite3_close(handle_); }
  History(const History&) = delete;
  History& operator=(const History&) = delete;

  void each(const std::string& sql,
            const std::function<void(const Columns&)>& take) {
    sqlite3_stmt* rows = nullptr;
    if (sqlite3_prepare_v2(handle_, sql.c_str(), -1, &rows, nullptr) !=
        SQLITE_OK) {
      throw std::runtime_error(sqlite3_errmsg(handle_));
    }
    while (sqlite3_step(rows) == SQLITE_ROW) {
      Columns columns;
      for (int i = 0; i < sqlite3_column_count(rows); ++i) {
        const auto* text = sqlite3_column_text(rows, i);
        columns.emplace_back(
            text == nullptr ? "" : reinterpret_cast<const char*>(text));
      }
      take(columns);
    }
    sqlite3_finalize(rows);
  }

  int64_t number(const std::string& sql) {
    int64_t value = 0;
    each(sql, [&](const Columns& row) { value = std::stoll("0" + row[0]); });
    return value;
  }

 private:
  sqlite3* handle_ = nullptr;
};

class Checker {
 public:
  explicit Checker(const fs::path& database) : history_(database) {}

  std::vector<std::string> run(const fs::path& events) {
    read_reports();
    check_steps();
    check_numbers("decision");
    check_numbers("session");
    check_events();
    check_budgets();
    check_log(events);
    return std::move(problems_);
  }

 private:
  using Step = std::pair<int64_t, int64_t>;  // trial, step

  template <typename... Args>
  void problem(fmt::format_string<Args...> format, Args&&... args) {
    problems_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void read_reports() {
    std::set<int64_t> places;
    history_.each(
        "SELECT trial, step, sequence, metrics FROM report "
        "ORDER BY trial, step, attempt",
        [&](const Columns& row) {
          const Step step{std::stoll(row[0]), std::stoll(row[1])};
          metrics_[step].push_back(Json::parse(row[3]));
          if (!places.insert(std::stoll(row[2])).second) {
            problem("two reports have the place {}", row[2]);
          }
        });
  }

  void check_steps() {
    const int64_t horizon = history_.number("SELECT horizon FROM study");
    std::map<int64_t, int64_t> last;
    for (const auto& [step, metrics] : metrics_) {
      int64_t& before = last[step.first];
      if (step.second != before + 1) {
        problem("trial {} has step {} after step {}", step.first, step.second,
                before);
      }
      before = step.second;
      if (before > horizon)
        problem("trial {} goes on to {}", step.first, before);
    }
  }

  void check_numbers(const std::string& table) {
    int64_t before = 0;
    history_.each(fmt::format("SELECT number FROM {} ORDER BY number", table),
                  [&](const Columns& row) {
                    if (std::stoll(row[0]) != ++before) {
                      problem("{} {} is missing", table, before);
                      before = std::stoll(row[0]);
                    }
                  });
  }

  // A trial's events, in order. Two are no steps forward: a final training that
  // is complete is run once more, to be tested; a gang that goes on without a
  // rank says so.
  void check_events() {
    static const std::set<std::string> kEnds = {"complete", "cut", "failed",
                                                "timed_out", "invalid"};
    static const std::set<std::string> kBegins = {"assigned", "resumed",
                                                  "promoted"};
    std::map<int64_t, int64_t> attempts;
    std::map<int64_t, std::string> ended;
    history_.each(
        "SELECT trial, event.attempt, event.state, event.reason, kind "
        "FROM event JOIN trial ON trial.id = trial ORDER BY number",
        [&](const Columns& row) {
          const int64_t trial = std::stoll(row[0]);
          const int64_t attempt = std::stoll(row[1]);
          int64_t& before = attempts[trial];
          const bool tested = row[4] == "final" && ended[trial] == "complete";
          if (!ended[trial].empty() && !tested) {
            problem("trial {} is {} after it was {}", trial, row[2],
                    ended[trial]);
          }
          if (attempt < before) {
            problem("trial {}: attempt {} after {}", trial, attempt, before);
          }
          if (row[2] == "running" && attempt == before &&
              kBegins.contains(row[3])) {
            problem("trial {}: attempt {} begins twice", trial, attempt);
          }
          before = attempt;
          if (kEnds.contains(row[2])) ended[trial] = row[2];
        });
  }

  void check_budgets() {
    const int64_t trials = history_.number("SELECT budget_trials FROM study");
    const int64_t steps = history_.number("SELECT budget_steps FROM study");
    const int64_t started = history_.number(
        "SELECT count(*) FROM trial WHERE kind = 'search' AND state <> "
        "'invalid'");
    const int64_t trained = history_.number(
        "SELECT sum(last_step) FROM trial WHERE kind = 'search'");
    if (trials > 0 && started > trials) {
      problem("{} trials, {} were granted", started, trials);
    }
    if (steps > 0 && trained > steps) {
      problem("{} steps, {} were granted", trained, steps);
    }
  }

  // A process that was killed may leave half a line at the end.
  void check_log(const fs::path& events) {
    std::ifstream file(events);
    for (std::string line; std::getline(file, line);) {
      const Json event = Json::parse(line, nullptr, false);
      if (event.is_discarded() || event.value("event", "") != "report")
        continue;
      const Step step{event["trial"], event["step"]};
      const auto stored = metrics_.find(step);
      const bool same =
          stored != metrics_.end() &&
          std::any_of(stored->second.begin(), stored->second.end(),
                      [&](const Json& one) { return one == event["metrics"]; });
      if (!same) {
        problem("step {} of trial {} was shown, but is not stored", step.second,
                step.first);
      }
    }
  }

  History history_;
  std::map<Step, std::vector<Json>> metrics_;
  std::vector<std::string> problems_;
};

}  // namespace

void edit_database(const fs::path& database, const std::string& sql) {
  sqlite3* handle = nullptr;
  const bool done =
      sqlite3_open(database.c_str(), &handle) == SQLITE_OK &&
      sqlite3_exec(handle, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
  sqlite3_close(handle);
  if (!done) throw std::runtime_error(sql);
}

std::vector<std::string> contradictions(const fs::path& database,
                                        const fs::path& events) {
  return Checker(database).run(events);
}

}  // namespace dtune
