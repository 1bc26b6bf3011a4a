// The arguments of one command: declared once, then read by CLI11, shown by
// --help and offered by the shell's completion.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dtune {

// What the shell offers for a value.
enum class Complete { nothing, file, folder, recipe, study, model, words };

// A declared argument, for --help and completion.
struct ArgumentInfo {
  std::string name;   // "--json", or "RECIPE" where positional
  std::string value;  // "FILE"; "" for flags and positional arguments
  std::string help;
  Complete complete = Complete::nothing;
  std::vector<std::string> words;  // Complete::words
  bool positional = false;
  bool required = false;
};

// The whole numbers that an option takes; those of an int by default.
struct NumberRange {
  uint64_t least = 0;
  uint64_t most = std::numeric_limits<int>::max();
};
inline constexpr NumberRange kAnySeed{0, UINT64_MAX};
inline constexpr NumberRange kManyThreads{1, 1024};

struct Example {
  std::string line;  // "dtune run recipe.yaml"
  std::string what;  // what it does, a few words
};

// Not thread-safe. The variables given to flag(), option() and positional()
// must live until parse() returned.
class Arguments {
 public:
  // `command` as typed: "dtune run".
  Arguments(std::string command, std::string summary);
  ~Arguments();
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // Paragraphs that --help shows under the summary.
  void describe(std::string text) { description_ = std::move(text); }
  void example(std::string line, std::string what) {
    examples_.push_back({std::move(line), std::move(what)});
  }

  void flag(const std::string& name, bool& into, const std::string& help);
  // Declares --json; Console::json says whether it was given.
  void json(const std::string& help = "As JSON.");
  // The study that a command looks at, by its database or its recipe.
  void study(std::string& into);
  // Values are checked here: numbers must be numbers of the range, the error
  // names the option.
  void option(const std::string& name, std::string& into,
              const std::string& value, const std::string& help,
              Complete complete = Complete::nothing,
              std::vector<std::string> words = {});
  void option(const std::string& name, std::optional<uint64_t>& into,
              const std::string& value, const std::string& help,
              NumberRange range = {});
  // May be given several times.
  void option(const std::string& name, std::vector<std::string>& into,
              const std::string& value, const std::string& help);
  void positional(const std::string& name, std::string& into,
                  const std::string& help, Complete complete, bool required,
                  std::vector<std::string> words = {});
  // The rest of the positional arguments, one or more; declared last.
  void positionals(const std::string& name, std::vector<std::string>& into,
                   const std::string& help, Complete complete);

  // Of an option that this command does not have and that is like none of its
  // own: what to write in its place, for the error; "" where that is not known.
  void hint_unknown(std::function<std::string(const std::string&)> hint) {
    hint_unknown_ = std::move(hint);
  }

  // Reads the words after the command's name. Returns false if they asked for
  // help (nothing is to be run then). Throws Error(config) with "did you
  // mean" for unknown options.
  bool parse(std::span<const std::string> words);

  std::string help() const;
  const std::string& command() const { return command_; }
  const std::string& summary() const { return summary_; }
  const std::vector<ArgumentInfo>& infos() const { return infos_; }
  // Whether an option, with its minus signs, or an argument is declared.
  bool has(const std::string& name) const;

 private:
  struct Reader;  // CLI11's side
  struct Required {
    std::string name;
    const std::string* value;
  };

  std::string hint_for(const std::string& option) const;
  void check_rest(const std::vector<std::string>& rest) const;
  // An option without its value, or a flag with one.
  std::string describe_mismatch(const std::string& library_text) const;
  std::string usage() const;

  std::string command_;
  std::string summary_;
  std::string description_;
  std::vector<Example> examples_;
  std::vector<ArgumentInfo> infos_;
  std::vector<Required> required_;
  std::string rest_name_;  // of positionals(), "" without
  const std::vector<std::string>* rest_ = nullptr;
  std::unique_ptr<Reader> reader_;
  std::function<std::string(const std::string&)> hint_unknown_;
  bool json_ = false;
};

}  // namespace dtune
