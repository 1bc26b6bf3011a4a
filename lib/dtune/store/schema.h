// The tables of a study's database, and how an older database becomes a new
// one. One SQLite file holds one study.
//
// study     one row (one = 1): the study's name and recipe, how far it is, the
//           budgets granted so far and the seconds of them that were used.
//           metric, goal: the objective; they say what trial.best_* mean.
// trial     one row per trial: its point (JSON object: parameter -> value), its
//           place in the unit cube (JSON array), state, reason and a sentence.
//           Derived from `report`, so that summaries need not read it:
//           last_step; best_step and best_value (0 and NULL where there is
//           none; best_value is negated where the goal is to minimize).
//           repeats: 1 where it trains a candidate again with another seed.
// report    what a trial reported after a step. metrics: JSON object; numbers
//           that JSON has no words for are the texts "nan", "inf" and "-inf".
//           Keyed by (trial, step, attempt): a repeat changes nothing; the
//           largest attempt of a step counts. last: the trial ended with it.
//           sequence: order of arrival in the study, 1, 2, ...
// event     every change of a trial's state, in order, never changed.
//           after_report, after_decision: reports taken in and decisions taken
//           before it (-1: not known), which order the three tables. node,
//           slot: where the trial was ("", -1: nowhere, or not known).
// decision  every choice of the scheduler, in order, never changed. maker: what
//           took it; target_step: of the trial, once it was taken. weights:
//           JSON object, how much each predictor counted; forecast_*: what was
//           expected of the trial (NULL: the tuner predicts nothing).
// rank_round what a rank of a trial did up to a round: sums over all rounds so
//           far, but for share and present. Rounds are sampled.
// session   every run and resume of the coordinator: what may differ between
//           them.
// schema_history  which dtune brought the schema to which version, and when.
//
// Times: *_ms are milliseconds since 1970-01-01 UTC. trial.seed is unsigned,
// kept as the signed number with the same 64 bits.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "dtune/store/sqlite_database.h"

namespace dtune {

// PRAGMA application_id of a study: "dtun".
inline constexpr int64_t kApplicationId = 0x6474756e;

// One step of the schema, run in one transaction.
struct Migration {
  int64_t version = 0;  // PRAGMA user_version after it
  const char* sql = "";
};

// Version 1, 2, ... without gaps; the last is the current one. Released steps
// are never edited: a new version is a new step.
std::span<const Migration> schema_migrations();

enum class DatabaseOwner { none, dtune, other_program };

// Whose database it is; `none`: no tables yet.
DatabaseOwner owner_of(Database& database);

// Brings the database to the version of the last migration, each step in a
// transaction of its own; does nothing where it is there already. Throws
// Error(store) where the database is newer, saying which dtune wrote it.
void migrate(Database& database, std::span<const Migration> migrations);

// The tables are those that the migrations up to the database's version make,
// column by column, and nothing runs by itself when they are written to. Throws
// Error(data) otherwise. Views, indices and tables beside them are let be.
// Does nothing where the version is above that of the last migration.
void check_tables(Database& database, std::span<const Migration> migrations);

// The version is below that of the last migration.
bool is_older(Database& database, std::span<const Migration> migrations);

// For readers, which cannot migrate: throws Error(store) unless the version is
// that of the last migration.
void check_version(Database& database, std::span<const Migration> migrations);

}  // namespace dtune
