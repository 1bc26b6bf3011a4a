#include "dtune/submit/submission.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/base/json.h"
#include "dtune/comm/keys.h"
#include "dtune/submit/engine_commands.h"

namespace dtune {
namespace {

namespace fs = std::filesystem;

fs::path index_folder() { return state_directory() / "submitted"; }

std::string submission_text(const Submission& s) {
  return json_text(nlohmann::ordered_json{{"name", s.name},
                                          {"to", s.to},
                                          {"id", s.id},
                                          {"database", s.database},
                                          {"log", s.log},
                                          {"job_file", s.job_file}},
                   2) +
         '\n';
}

Submission read_submission(const fs::path& file) {
  constexpr uint64_t kMostBytes = 1 << 20;
  try {
    const auto json = parse_json(read_file(file, kMostBytes));
    return {json.at("name"),     json.at("to"),  json.at("id"),
            json.at("database"), json.at("log"), json.at("job_file")};
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorKind::config,
                fmt::format("{}: is not a record of a submission (remove it)",
                            file.string()));
  }
}

std::optional<Submission> read_if_there(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return {};
  return read_submission(file);
}

bool is_name(const std::string& text) {
  return !text.empty() && text.find('/') == std::string::npos && text[0] != '.';
}

const EngineCommands& commands_of(const Submission& submission) {
  return engine_commands(parse_engine_address(submission.to).engine);
}

}  // namespace

void store_submission(const Submission& submission, const fs::path& folder) {
  const std::string text = submission_text(submission);
  write_file_atomic(folder / "submission.json", text, false);
  write_private_file(index_folder() / (submission.name + ".json"), text, true);
}

std::optional<Submission> find_submission(const std::string& name) {
  if (!is_name(name)) return {};
  fs::path folder;
  try {
    folder = index_folder();
  } catch (const Error&) {
    return {};  // without a home folder nothing was submitted
  }
  return read_if_there(folder / (name + ".json"));
}

std::optional<Submission> submission_of(const fs::path& folder) {
  return read_if_there(folder / "submission.json");
}

Submission submit_study(const SubmitJob& job) {
  const EngineCommands& commands = engine_commands(job.to.engine);
  fs::create_directories(job.folder);
  // What is kept is what people may see.
  SubmitJob shown = job;
  shown.key.reset();
  const SubmitEngine& engine = submit_engine(job.to);
  const fs::path file =
      job.folder / (job.name + fs::path(engine.file).extension().string());
  write_file_atomic(file, render_request(shown), false);
  Submission submission;
  submission.name = submission.id = job.name;
  submission.to = job.to.text;
  submission.database = job.database.string();
  submission.log = (job.folder / (job.name + ".log")).string();
  submission.job_file = (job.folder / (job.name + ".job")).string();
  submission.id = commands.hand_over(job, file);
  store_submission(submission, job.folder);
  return submission;
}

EngineState engine_state(const Submission& submission) {
  return commands_of(submission).state(submission);
}

void cancel_submission(const Submission& submission, const std::string& study) {
  commands_of(submission).cancel(submission, study);
}

std::vector<std::string> log_command(const Submission& submission) {
  return commands_of(submission).log(submission);
}

std::vector<std::string> status_command(const Submission& submission) {
  return commands_of(submission).status(submission);
}

}  // namespace dtune
