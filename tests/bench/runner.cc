// Runs the benchmark programs beside it, shows their rows as a table and
// writes them to a file as [{name, ours, baseline, ratio, goal, ok, ...}].
//
//   bench_runner [--json FILE] [--only TEXT]
//
// A benchmark is a program `bench_*` in the runner's folder that prints one
// JSON object a line: name, ours, baseline, ratio (good when large), goal, ok,
// unit and, optionally, detail. Each ratio is taken within one run of one
// program.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/file.h"

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Arguments {
  fs::path json_file;
  std::string only;
};

std::vector<fs::path> find_programs() {
  std::vector<fs::path> programs;
  for (const auto& entry :
       fs::directory_iterator(dtune::executable_directory())) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("bench_") && name != "bench_runner") {
      programs.push_back(entry.path());
    }
  }
  std::sort(programs.begin(), programs.end());
  return programs;
}

// The rows that a program printed; a program that fails gives a row that is
// not ok, so that a crash cannot pass for a missing benchmark.
std::vector<json> run_program(const fs::path& program) {
  std::vector<json> rows;
  const std::string command = fmt::format("'{}'", program.string());
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string line;
  for (int c = pipe == nullptr ? EOF : std::fgetc(pipe); c != EOF;
       c = std::fgetc(pipe)) {
    if (c != '\n') {
      line.push_back(static_cast<char>(c));
      continue;
    }
    const json row = json::parse(line, nullptr, false);
    if (row.is_object() && row.contains("name")) {
      rows.push_back(row);
    } else {
      fmt::print(stderr, "  {}\n", line);
    }
    line.clear();
  }
  const int status = pipe == nullptr ? -1 : ::pclose(pipe);
  if (status != 0 || rows.empty()) {
    rows.push_back(json{{"name", program.filename().string() + " ran"},
                        {"ours", 0},
                        {"baseline", 0},
                        {"ratio", 0},
                        {"goal", 1},
                        {"ok", false},
                        {"detail", fmt::format("exit status {}", status)}});
  }
  return rows;
}

double number(const json& row, const char* key) {
  const auto found = row.find(key);
  return found != row.end() && found->is_number() ? found->get<double>() : 0;
}

void print_row(const json& row) {
  fmt::print("{:<58} {:>10.4g} {:>10.4g} {:>7.2f} {:>6.2f} {:<4} {}\n",
             row["name"].get<std::string>(), number(row, "ours"),
             number(row, "baseline"), number(row, "ratio"), number(row, "goal"),
             row.value("ok", false) ? "ok" : "MISS", row.value("unit", ""));
  if (row.contains("detail")) {
    fmt::print("    {}\n", row["detail"].is_string()
                               ? row["detail"].get<std::string>()
                               : row["detail"].dump());
  }
  std::fflush(stdout);
}

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--json") arguments.json_file = argv[i + 1];
    if (option == "--only") arguments.only = argv[i + 1];
  }
  return arguments;
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  fmt::print("{:<58} {:>10} {:>10} {:>7} {:>6} {}\n", "name", "ours",
             "baseline", "ratio", "goal", "");
  json all = json::array();
  for (const fs::path& program : find_programs()) {
    if (program.string().find(arguments.only) == std::string::npos) continue;
    for (const json& row : run_program(program)) {
      print_row(row);
      all.push_back(row);
    }
  }
  if (!arguments.json_file.empty()) {
    dtune::write_file_atomic(arguments.json_file, all.dump(2) + "\n", false);
    fmt::print("written to {}\n", arguments.json_file.string());
  }
  return 0;
}
