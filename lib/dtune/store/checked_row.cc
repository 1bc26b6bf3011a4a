#include "dtune/store/checked_row.h"

#include <fmt/format.h>

#include "dtune/base/error.h"

namespace dtune {

int64_t CheckedRow::whole(int column, Range range) const {
  const int64_t value = row_.integer(column);
  if (value >= range.least && value <= range.most) return value;
  refuse(column, fmt::format("{} ({} to {} are possible)", value, range.least,
                             range.most));
}

double CheckedRow::seconds(int column) const {
  const double value = row_.real(column);
  if (value >= 0 && value <= kMostSeconds) return value;
  refuse(column,
         fmt::format("{} (0 to {} s are possible)", value, kMostSeconds));
}

void CheckedRow::refuse(int column, const std::string& what) const {
  throw Error(ErrorKind::data,
              fmt::format("{}.{} is {}: the row was not written by dtune",
                          table_, row_.name(column), what));
}

}  // namespace dtune
