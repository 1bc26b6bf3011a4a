// What an engine is handed so that it runs a study: a script, manifests or a
// request. Pure functions; nothing here starts anything.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "dtune/cluster/job_key.h"
#include "dtune/study/engine_address.h"
#include "dtune/submit/template.h"

namespace dtune {

// Where a coordinator in a container listens.
inline constexpr int kSubmitPort = 5555;

struct SubmitJob {
  EngineAddress to;
  std::string name;                // study_name_for_engines()
  std::filesystem::path recipe;    // absolute, as are the others
  std::filesystem::path database;  // where the disk is shared
  std::filesystem::path folder;    // for log and script
  std::string recipe_text;         // the whole recipe, for where it is not
  std::vector<std::string> set;    // "train.epochs=4"
  std::string program;             // dtune's file, where the disk is shared
  // Lets the agents in; none in what people see. Is in no argument, environment
  // or log: in Secrets or in a file alone.
  std::optional<JobKey> key;
  std::vector<std::string> raw;         // --raw
  std::optional<Template> replacement;  // --template
};

// An engine that a study can be given to.
struct SubmitEngine {
  std::string name;   // of its addresses
  std::string title;  // "Slurm"
  std::string place;  // what stands after "://": "partition"
  std::vector<std::string> keys;
  // How the request is handed over by hand; "": dtune does it.
  std::string by_hand;
  std::string file;  // name of the template, and of the request's file
  TemplateValues (*values)(const SubmitJob& job);
};

const std::vector<SubmitEngine>& submit_engines();
// Checks engine and keys, with "did you mean". Throws Error(config).
const SubmitEngine& submit_engine(const EngineAddress& address);

// A name that every engine takes: a DNS label of 40 characters at most, made of
// the study's name and four hexadecimal digits of `unique`.
std::string study_name_for_engines(const std::string& study, uint64_t unique);

// The whole request, with comments. Throws Error(config) where a value is
// missing or has another form.
std::string render_request(const SubmitJob& job);

// JSON has no comments: without the lines that begin with '#'.
std::string without_comments(const std::string& request);

}  // namespace dtune
