// What other tools open: their own tests of these files are in tests/interop.
#include <bit>
#include <cstring>
#include <map>
#include <sstream>

#include "report/sample_study.h"
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "dtune/base/file.h"
#include "dtune/report/mlflow.h"
#include "dtune/report/optuna.h"
#include "dtune/report/protobuf.h"
#include "dtune/report/tensorboard.h"
#include "dtune/store/sqlite_database.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

Study study_of_all_states() {
  Study study = test::sample_study();
  study.trials[5].state = TrialState::paused;
  study.trials[0].point["lr"] = 0.25;
  return study;
}

uint32_t word_at(const std::string& bytes, size_t at) {
  uint32_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

// The messages of an event file, each checked against its sums.
std::vector<std::string> records_of(const std::string& file) {
  std::vector<std::string> records;
  for (size_t at = 0; at < file.size();) {
    uint64_t length = 0;
    std::memcpy(&length, file.data() + at, sizeof length);
    CHECK(word_at(file, at + 8) == masked_crc32c(file.substr(at, 8)));
    records.push_back(file.substr(at + 12, length));
    CHECK(word_at(file, at + 12 + length) == masked_crc32c(records.back()));
    at += 16 + length;
  }
  return records;
}

}  // namespace

TEST_CASE("fields of messages have the bytes of the wire format") {
  // https://protobuf.dev/programming-guides/encoding: 150 is 96 01.
  CHECK(ProtoMessage().integer(1, 150).bytes() == "\x08\x96\x01");
  CHECK(ProtoMessage().text(2, "testing").bytes() == "\x12\x07testing");
  CHECK(ProtoMessage().message(3, ProtoMessage().integer(1, 150)).bytes() ==
        "\x1a\x03\x08\x96\x01");
  CHECK(ProtoMessage().integer(1, -1).bytes().size() == 11);
  CHECK(ProtoMessage().real(1, 1).bytes() ==
        std::string("\x09\0\0\0\0\0\0\xf0\x3f", 9));
  CHECK(ProtoMessage().real32(1, 1).bytes() ==
        std::string("\x0d\0\0\x80\x3f", 5));
}

TEST_CASE("checksums are those of TensorFlow's records") {
  // CRC-32C of "123456789" is e3069283; masked as record_writer.h says.
  const uint32_t crc = 0xe3069283;
  CHECK(masked_crc32c("123456789") ==
        (std::rotr(crc, 15) + uint32_t{0xa282ead8}));
}

TEST_CASE("a folder for TensorBoard has a file for each trial") {
  const TemporaryDirectory folder;
  const Study study = study_of_all_states();
  write_tensorboard(study, folder.path() / "tb");
  write_tensorboard(study, folder.path() / "tb");  // again: replaced
  size_t files = 0;
  for (const auto& entry :
       fs::recursive_directory_iterator(folder.path() / "tb")) {
    files += entry.is_regular_file() ? 1 : 0;
  }
  CHECK(files == 8);  // the experiment and seven trials
  const std::string name = "events.out.tfevents.1700000000.dtune.1.0";
  const auto records =
      records_of(read_file(folder.path() / "tb/trial-0002" / name));
  // The version, the session's start, two metrics at four steps, its end.
  REQUIRE(records.size() == 11);
  CHECK(records[0].find("brain.Event:2") != std::string::npos);
  CHECK(records[1].find("_hparams_/session_start_info") != std::string::npos);
  CHECK(records[2].find("val_accuracy") != std::string::npos);
  const float value = 0.7F;
  CHECK(records[2].find(std::string(reinterpret_cast<const char*>(&value),
                                    4)) != std::string::npos);
}

TEST_CASE("a storage of Optuna says what became of each trial") {
  const TemporaryDirectory folder;
  const fs::path path = folder.path() / "optuna.db";
  const Study study = study_of_all_states();
  write_optuna_database(study, test::sample_facts(), path);
  write_optuna_database(study, test::sample_facts(), path);  // again
  Database database(path, DatabaseAccess::read);
  const auto text = [&](const std::string& sql) {
    return database.query_text(sql);
  };
  CHECK(text("SELECT schema_version FROM version_info") == "12");
  CHECK(text("SELECT version_num FROM alembic_version") == "v3.2.0.a");
  CHECK(text("SELECT direction FROM study_directions") == "MAXIMIZE");
  CHECK(text("SELECT group_concat(state, ' ') FROM (SELECT state FROM trials "
             "ORDER BY number)") ==
        "PRUNED COMPLETE FAIL COMPLETE FAIL PRUNED COMPLETE");
  CHECK(text("SELECT value FROM trial_values WHERE trial_id = 4") == "0.9125");
  CHECK(text("SELECT value FROM trial_values WHERE trial_id = 1") == "0.6");
  CHECK(text("SELECT count(*) FROM trial_values WHERE trial_id = 3") == "0");
  CHECK(text("SELECT intermediate_value_type FROM trial_intermediate_values "
             "WHERE trial_id = 3 AND step = 2") == "NAN");
  CHECK(text("SELECT value_json FROM trial_user_attributes WHERE trial_id = 6 "
             "AND key = 'dtune:state'") == "\"paused\"");
  CHECK(text("SELECT value_json FROM study_user_attributes WHERE key = "
             "'dtune:best_trial'") == "3");
  CHECK(text("SELECT param_value FROM trial_params WHERE trial_id = 1 AND "
             "param_name = 'lr'") == "0.25");
  const Json lr = Json::parse(
      text("SELECT distribution_json FROM trial_params WHERE trial_id = 1 AND "
           "param_name = 'lr'"));
  CHECK(lr["name"] == "FloatDistribution");
  CHECK(lr["attributes"]["log"] == true);
  CHECK(lr["attributes"]["low"] == 1e-4);
}

TEST_CASE("a journal of Optuna has an object a line, NaN as Python has it") {
  const std::string journal =
      optuna_journal(study_of_all_states(), test::sample_facts());
  std::istringstream lines(journal);
  std::map<int, int> operations;
  bool nan = false;
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find("\"intermediate_value\":NaN");
    if (at != std::string::npos) {
      nan = true;
      line.replace(at + 21, 3, "null");
    }
    ++operations[Json::parse(line)["op_code"].get<int>()];
  }
  CHECK(nan);
  CHECK(operations[0] == 1);
  CHECK(operations[4] == 7);
  CHECK(operations[5] == 21);
  CHECK(operations[6] == 7);
  CHECK(operations[7] == 16);
}

TEST_CASE("choices are kept by their place, as Optuna does") {
  Parameter kind;
  kind.name = "kind";
  kind.kind = ParameterKind::categorical;
  kind.choices = {std::string("plain"), std::string("deep")};
  Study study = test::sample_study();
  study.recipe.space = SearchSpace({kind});
  study.trials.resize(1);
  study.trials[0].point = {{"kind", std::string("deep")}};
  const std::string journal = optuna_journal(study, {});
  CHECK(journal.find("\"param_value_internal\":1.0") != std::string::npos);
  CHECK(journal.find("CategoricalDistribution") != std::string::npos);
}

TEST_CASE("a folder for MLflow quotes ids and keeps names inside") {
  const TemporaryDirectory folder;
  Study study = study_of_all_states();
  study.trials[1].curve[0].metrics["../up"] = 1;
  write_mlflow(study, test::sample_facts(), folder.path() / "runs");
  size_t runs = 0, metrics = 0;
  for (const auto& entry :
       fs::recursive_directory_iterator(folder.path() / "runs")) {
    const std::string name = entry.path().filename();
    metrics += name == "val_accuracy" ? 1 : 0;
    if (name != "meta.yaml") continue;
    const std::string text = read_file(entry.path());
    if (text.find("run_id: \"") != std::string::npos) ++runs;
    CHECK(text.find("experiment_id: \"") != std::string::npos);
  }
  CHECK(runs == 7);
  CHECK(metrics == 6);  // trial 5 has reported nothing
  CHECK_FALSE(fs::exists(folder.path() / "runs/up"));
}

}  // namespace dtune
