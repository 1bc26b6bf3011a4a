// Reads what a study has left (its database and the log of --events) and says
// what contradicts the promises of a study. By SQLite and JSON alone: it knows
// nothing of the code that wrote them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace dtune {

// Empty: all holds.
//
// - Each report in the log is in the database, with the same metrics.
// - The steps of a trial are 1, 2, ..., n; none after the study's horizon.
// - Places in the order of arrival are given once.
// - Attempts of a trial only grow, and each has one beginning.
// - Nothing happens to a trial after it has ended, but a final one is tested.
// - Decisions are numbered without gaps; sessions likewise.
// - No more search trials, and no more steps, than the study was granted.
std::vector<std::string> contradictions(const std::filesystem::path& database,
                                        const std::filesystem::path& events);

// Runs SQL as a person with the sqlite3 program would.
void edit_database(const std::filesystem::path& database,
                   const std::string& sql);

}  // namespace dtune
