// dtune token: which machines may join a running study.

#include <algorithm>
#include <chrono>
#include <memory>
#include <ranges>

#include "app/command.h"
#include "app/study_files.h"
#include "app/study_loader.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"
#include "dtune/cluster/allowed_keys.h"
#include "dtune/cluster/join.h"
#include "dtune/comm/keys.h"
#include "dtune/report/text.h"

namespace dtune {
namespace {

struct TokenOptions {
  std::string study;
  std::string node;
  std::string revoke;
  bool revoke_unused = false;
  bool list = false;
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

int make_token(const Console& console, const TokenOptions& options,
               const StudyFiles& files) {
  const EnrolmentPoint enrolment = enrolment_of(files);
  const std::string token =
      make_token_beside(files.enrolment(), enrolment, options.node);
  if (console.json) {
    console.print(
        json_text(nlohmann::ordered_json{{"token", token},
                                         {"connect", enrolment.endpoint}},
                  2) +
        '\n');
    return kExitOk;
  }
  console.line(token);
  console.notice(fmt::format(
      "good for one machine and one day, while this run goes on; there, with "
      "the line in FILE:\n"
      "  dtune agent --connect {} --token-file FILE{}",
      enrolment.endpoint,
      options.node.empty() ? "" : " --node " + shell_quoted(options.node)));
  return kExitOk;
}

std::string expiry(const IssuedToken& token) {
  const int64_t left = token.expires_ms - system_clock().wall_ms();
  return format_duration(
      std::chrono::minutes(std::max<int64_t>(left / 60'000, 0)));
}

int list_access(const Console& console, const StudyFiles& files) {
  const auto joined = read_allowed_keys(files.allowed_keys());
  const auto tokens = published_tokens(files.enrolment());
  if (console.json) {
    nlohmann::ordered_json document = {{"joined", nlohmann::json::array()},
                                       {"unused", nlohmann::json::array()}};
    for (const AllowedKey& one : joined) {
      document["joined"].push_back(
          {{"node", one.node}, {"key", one.key}, {"since", one.since}});
    }
    for (const IssuedToken& token : tokens) {
      document["unused"].push_back(
          {{"node", token.node}, {"expires_ms", token.expires_ms}});
    }
    console.print(json_text(document, 2) + '\n');
    return kExitOk;
  }
  for (const AllowedKey& one : joined) {
    console.line(fmt::format("joined  {}  since {}  key {}",
                             printable(one.node), printable(one.since),
                             short_key(one.key)));
  }
  for (const IssuedToken& token : tokens) {
    console.line(
        fmt::format("unused  {}  good for {} more",
                    token.node.empty() ? "any machine" : printable(token.node),
                    expiry(token)));
  }
  if (joined.empty() && tokens.empty()) {
    console.line("no machine has joined, and there is no token");
  }
  return kExitOk;
}

// Of a study that does not run.
void forget_key(const StudyFiles& files, const std::string& node) {
  auto keys = read_allowed_keys(files.allowed_keys());
  std::erase_if(keys, [&](const AllowedKey& one) { return one.node == node; });
  write_allowed_keys(files.allowed_keys(), keys);
}

int revoke(const Console& console, const TokenOptions& options,
           const StudyFiles& files) {
  const auto joined = read_allowed_keys(files.allowed_keys());
  const auto tokens = published_tokens(files.enrolment());
  const bool known =
      options.revoke_unused ||
      std::ranges::any_of(
          joined, [&](const auto& k) { return k.node == options.revoke; }) ||
      std::ranges::any_of(tokens, [&](const auto& token) {
        return token.node == options.revoke;
      });
  if (!known) {
    throw Error(
        ErrorKind::config,
        fmt::format("--revoke: no machine '{}' has joined, and no "
                    "token is for it (dtune token {} --list)",
                    options.revoke, shell_quoted(short_path(files.database))));
  }
  constexpr Duration kAnswer = std::chrono::seconds(10);
  if (writer_of(files.database) && find_enrolment(files.enrolment())) {
    const std::string node = options.revoke_unused ? "" : options.revoke;
    if (!leave_revocation(files.enrolment(), node, kAnswer)) {
      throw Error(ErrorKind::temporary,
                  "the study's process does not answer (is it stopped?)");
    }
  } else if (!options.revoke_unused) {
    forget_key(files, options.revoke);
  }
  console.notice(options.revoke_unused
                     ? "the tokens that were not used are revoked"
                     : fmt::format("{} is revoked, and so is any token for it",
                                   printable(options.revoke)));
  return kExitOk;
}

int run_token(const Console& console, const TokenOptions& options) {
  const StudyFiles files = files_of(find_database(options.study));
  if (options.list) return list_access(console, files);
  if (options.revoke_unused || !options.revoke.empty()) {
    return revoke(console, options, files);
  }
  return make_token(console, options, files);
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
  arguments.study(options->study);
  arguments.option("--node", options->node, "NAME",
                   "The token is for the machine of this name alone.");
  arguments.flag("--list", options->list,
                 "List the machines that have joined and the tokens that were "
                 "not used.");
  arguments.option("--revoke", options->revoke, "NAME",
                   "Machine NAME is out at once, and so is any token for it.");
  arguments.flag("--revoke-unused", options->revoke_unused,
                 "No token that was not used is good any more.");
  arguments.json("As JSON: the token and where to connect, or the list.");
  arguments.example("dtune token recipe.yaml | ssh gpu2 'cat > token'",
                    "carry one to the machine that is to join");
  arguments.example("dtune token recipe.yaml --revoke gpu2",
                    "gpu2 leaves the study and may not come back");
  return [options](const Console& console) {
    return run_token(console, *options);
  };
}

}  // namespace dtune
