// dtune bench comm: what ranks and nodes talk over.

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "app/comm_bench.h"
#include "app/command_bench.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "dtune/base/json.h"
#include "dtune/base/private_library.h"
#include "dtune/base/suggest.h"

namespace dtune {
namespace {

constexpr uint64_t kLargest = uint64_t{1} << 30;

[[noreturn]] void fail(const std::string& text) {
  throw Error(ErrorKind::config,
              "dtune bench comm: " + text + " (see dtune bench --help)");
}

const CommBench& load_bench() {
  const PrivateLibrary library{
      .name = "libdtune_comm.so",
      .installed = DTUNE_PRIVATE_LIBRARIES,
      .without = "nothing can be measured",
      .remedy = "build or install dtune again",
      .needs = "libgloo",
  };
  const std::filesystem::path file = find_private_library(library);
  const auto entry = reinterpret_cast<CommBenchEntry*>(
      load_private_entry(library, file, kCommBenchEntryName));
  const CommBench* bench = entry(DTUNE_VERSION);
  if (bench == nullptr) {
    throw Error(ErrorKind::study,
                fmt::format("{}: belongs to another build of dtune (build or "
                            "install dtune again)",
                            file.string()));
  }
  return *bench;
}

// "8", "4K", "128M".
uint64_t parse_size(const char* option, const std::string& text,
                    uint64_t otherwise) {
  if (text.empty()) return otherwise;
  char* end = nullptr;
  const unsigned long long number = std::strtoull(text.c_str(), &end, 10);
  std::string unit = end;
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) {
    return static_cast<char>(std::toupper(c));
  });
  const int shift = unit.empty()  ? 0
                    : unit == "K" ? 10
                    : unit == "M" ? 20
                    : unit == "G" ? 30
                                  : -1;
  const bool number_first = text.front() >= '0' && text.front() <= '9';
  if (!number_first || shift < 0 || number == 0 ||
      number > (kLargest >> shift)) {
    fail(fmt::format("{}: '{}' is not a size from 1 to 1G (use 8, 4K or 128M)",
                     option, text));
  }
  return uint64_t{number} << shift;
}

CommBenchOptions read_options(const BenchOptions& options) {
  CommBenchOptions read;
  read.from = parse_size("--from", options.from, read.from);
  read.to = parse_size("--to", options.to, read.to);
  if (read.from > read.to) fail("--from is larger than --to");
  read.iterations = options.iterations.value_or(read.iterations);
  read.ranks = static_cast<int>(options.ranks.value_or(2));
  if (read.ranks < 2) fail("--ranks: a sum takes 2 or more");
  read.exact = options.exact;
  return read;
}

std::vector<std::string> wanted(const BenchOptions& options,
                                const std::vector<std::string>& known) {
  for (const std::string& name : options.transports) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fail(fmt::format("--transport: there is no '{}' here{}", name,
                       did_you_mean(name, known)));
    }
  }
  return options.transports.empty() ? known : options.transports;
}

nlohmann::ordered_json to_json(const CommBenchRow& row) {
  return {{"transport", row.transport},
          {"op", row.operation},
          {"size", row.bytes},
          {"count", row.count},
          {"type", row.type},
          {"iterations", row.iterations},
          {"time_us", row.microseconds},
          {"algbw_gbs", row.algorithm_gbs},
          {"busbw_gbs", row.bus_gbs},
          {"wrong", row.wrong}};
}

void print_head(const Console& console) {
  console.line(
      fmt::format("# {:<12} {:>12} {:>12} {:>6} {:>11} {:>11} {:>8} "
                  "{:>8} {:>7}",
                  "transport", "size", "count", "type", "op", "time", "algbw",
                  "busbw", "#wrong"));
  console.line(
      fmt::format("# {:<12} {:>12} {:>12} {:>6} {:>11} {:>11} {:>8} "
                  "{:>8}",
                  "", "(B)", "(elements)", "", "", "(us)", "(GB/s)", "(GB/s)"));
}

void print_row(const Console& console, const CommBenchRow& row) {
  console.line(fmt::format(
      "  {:<12} {:>12} {:>12} {:>6} {:>11} {:>11.2f} {:>8.3f} {:>8.3f} {:>7}",
      row.transport, row.bytes, row.count, row.type, row.operation,
      row.microseconds, row.algorithm_gbs, row.bus_gbs, row.wrong));
}

}  // namespace

// {"ranks": 2, "rows": [{"transport", "op", "size", "count", "type",
// "iterations", "time_us", "algbw_gbs", "busbw_gbs", "wrong"}]}
int bench_comm(const Console& console, const BenchOptions& options) {
  CommBenchOptions used = read_options(options);
  const CommBench& bench = load_bench();
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  uint64_t wrong = 0;
  if (!console.json) print_head(console);
  for (const std::string& transport : wanted(options, bench.transports())) {
    used.transport = transport;
    bench.run(used, [&](const CommBenchRow& row) {
      wrong += row.wrong;
      if (console.json) {
        rows.push_back(to_json(row));
      } else {
        print_row(console, row);
      }
    });
  }
  if (console.json) {
    const nlohmann::ordered_json all = {{"ranks", used.ranks}, {"rows", rows}};
    console.line(json_text(all, 2));
  }
  if (wrong > 0) {
    throw Error(ErrorKind::comm,
                fmt::format("bench comm: {} elements arrived wrong", wrong));
  }
  return kExitOk;
}

}  // namespace dtune
