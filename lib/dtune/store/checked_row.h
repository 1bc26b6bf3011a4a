// Values of a row of a table that any program may have written, checked.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "dtune/store/sqlite_database.h"
#include "dtune/study/study.h"

namespace dtune {

struct Range {
  int64_t least = 0;
  int64_t most = 0;
};

inline constexpr Range kNatural{0, std::numeric_limits<int>::max()};
inline constexpr Range kSteps{0, kOpenHorizon};
inline constexpr Range kStep{1, kOpenHorizon};
// Far beyond any study, far below overflow when a few are added.
inline constexpr Range kCount{0, int64_t{1} << 56};
inline constexpr Range kPlace{-1, kCount.most};
inline constexpr Range kWallTime{0, int64_t{1} << 53};
inline constexpr Range kSlot{-1, 1 << 20};
inline constexpr double kMostSeconds = 1e12;

// Throws Error(data), with the table and the column, on a value out of range.
class CheckedRow {
 public:
  // Both must outlive it; the row is the statement's current one.
  CheckedRow(const Statement& row, const char* table)
      : row_(row), table_(table) {}

  int64_t whole(int column, Range range) const;
  int natural(int column, Range range = kNatural) const {
    return static_cast<int>(whole(column, range));
  }
  double seconds(int column) const;

 private:
  [[noreturn]] void refuse(int column, const std::string& what) const;

  const Statement& row_;
  const char* table_;
};

}  // namespace dtune
