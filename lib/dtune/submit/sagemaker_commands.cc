#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/base/json.h"
#include "dtune/submit/engine_commands.h"
#include "dtune/submit/tool.h"

namespace dtune {
namespace {

// A file of the input channel; its content goes through stdin.
void upload(const SubmitJob& job, const std::string& folder,
            const std::string& name, const std::string& content) {
  std::vector<std::string> words = {"s3",    "cp",     "-", folder + "/" + name,
                                    "--sse", "aws:kms"};
  if (!job.to.value("kms").empty()) {
    words.insert(words.end(), {"--sse-kms-key-id", job.to.value("kms")});
  }
  tool_output(aws(job.to, words), content);
}

std::string create_training_job(const SubmitJob& job,
                                const std::filesystem::path& file) {
  const std::string request = without_comments(render_request(job));
  const auto json = try_parse_json(request);
  if (json.is_discarded()) {
    throw Error(ErrorKind::config,
                fmt::format("{}: is not JSON (check --raw and --template)",
                            file.string()));
  }
  const std::string input = submit_engine(job.to).values(job).texts.at("input");
  upload(job, input, "recipe.yaml", job.recipe_text);
  if (job.key) upload(job, input, "job.key", job.key->text());
  const std::filesystem::path plain = file.string() + ".request";
  write_file_atomic(plain, json_text(json), false);
  tool_output(aws(job.to, {"sagemaker", "create-training-job",
                           "--cli-input-json", "file://" + plain.string()}));
  std::error_code error;
  std::filesystem::remove(plain, error);
  return job.name;
}

EngineState sagemaker_state(const Submission& submission) {
  const std::string said = tool_output(
      aws(parse_engine_address(submission.to),
          {"sagemaker", "describe-training-job", "--training-job-name",
           submission.id, "--output", "json"}));
  const auto json = try_parse_json(said);
  if (!json.is_object()) {
    throw Error(ErrorKind::temporary,
                "aws: its answer is not a description (try again later)");
  }
  const std::string state = json.value("TrainingJobStatus", std::string("?"));
  std::string text = state;
  for (const char* key : {"SecondaryStatus", "FailureReason"}) {
    const std::string more = json.value(key, std::string());
    if (!more.empty() && more != state) text += ": " + more;
  }
  return {state == "InProgress" || state == "Stopping", text};
}

void sagemaker_cancel(const Submission& submission, const std::string&) {
  tool_output(aws(parse_engine_address(submission.to),
                  {"sagemaker", "stop-training-job", "--training-job-name",
                   submission.id}));
}

std::vector<std::string> sagemaker_log(const Submission& submission) {
  return aws(parse_engine_address(submission.to),
             {"logs", "tail", "/aws/sagemaker/TrainingJobs",
              "--log-stream-name-prefix", submission.id, "--follow"});
}

}  // namespace

std::vector<std::string> aws(const EngineAddress& to,
                             std::vector<std::string> words) {
  std::vector<std::string> argv = {"aws"};
  if (!to.value("region").empty()) {
    argv.insert(argv.end(), {"--region", to.value("region")});
  }
  argv.insert(argv.end(), words.begin(), words.end());
  return argv;
}

EngineCommands sagemaker_commands() {
  return {"sagemaker",
          create_training_job,
          sagemaker_state,
          sagemaker_cancel,
          sagemaker_log,
          [](const Submission&) { return std::vector<std::string>(); }};
}

}  // namespace dtune
