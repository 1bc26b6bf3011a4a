// dtune token: lets one more machine join a study that runs.

#include <memory>

#include "app/command.h"
#include "app/study_files.h"
#include "app/study_loader.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/cluster/join.h"

namespace dtune {
namespace {

struct TokenOptions {
  std::string study;
  bool json = false;
};

// Of the study's run. Throws Error(config) where there is none, or it lets no
// other machine in.
EnrolmentPoint enrolment_of(const StudyFiles& files) {
  const std::string name = short_path(files.database);
  const std::string resume = fmt::format(
      "dtune resume {} --listen tcp://ADDRESS:PORT", shell_quoted(name));
  if (!writer_of(files.database)) {
    throw Error(ErrorKind::config,
                fmt::format("{}: no process runs this study now, and a token "
                            "is valid for one run only ({})",
                            name, resume));
  }
  const auto enrolment = find_enrolment(files.enrolment());
  if (enrolment) return *enrolment;
  throw Error(
      ErrorKind::config,
      fmt::format("{}: this run does not accept other machines (stop it with "
                  "Ctrl-C, then: {})",
                  name, resume));
}

int make_token(const Console& console, const TokenOptions& options) {
  const StudyFiles files = files_of(find_database(options.study));
  const EnrolmentPoint enrolment = enrolment_of(files);
  const std::string token = make_token_beside(files.enrolment(), enrolment);
  if (options.json) {
    console.print(nlohmann::ordered_json{{"token", token},
                                         {"connect", enrolment.endpoint}}
                      .dump(2) +
                  '\n');
    return kExitOk;
  }
  console.line(token);
  console.notice(fmt::format(
      "good for one machine and one day, while this run goes on; there, with "
      "the line in FILE:\n"
      "  dtune agent --connect {} --token-file FILE",
      enrolment.endpoint));
  return kExitOk;
}

}  // namespace

Action declare_token(Arguments& arguments) {
  auto options = std::make_shared<TokenOptions>();
  arguments.describe(
      "Prints a token for one more machine to join a study that 'dtune run' or "
      "'dtune resume' works on now, on this machine and as the same user. The "
      "token is a secret: the first machine that uses it may join. It is good "
      "for one "
      "machine and one day, and ends with the run; a machine that has joined "
      "needs none again.");
  arguments.positional("STUDY", options->study, "The database, or its recipe.",
                       Complete::study, true);
  arguments.flag("--json", options->json,
                 "As JSON: the token and where to connect.");
  arguments.example("dtune token recipe.yaml | ssh gpu2 'cat > token'",
                    "carry one to the machine that is to join");
  return [options](const Console& console) {
    return make_token(console, *options);
  };
}

}  // namespace dtune
