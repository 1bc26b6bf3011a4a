// What ranks bring and what stragglers cost, by `dtune bench train`.
//
// The rows named "straggler ..." give the share of the summed speeds at which
// the ranks computed: 1 is what nothing but computing would give.
#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace {

using nlohmann::json;

constexpr const char* kNetwork = "--model cnn-small --image 28 --exact";

json bench(const std::string& arguments) {
  const std::string command = fmt::format("{} bench train {} {} --json",
                                          DTUNE_BINARY, kNetwork, arguments);
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start " + command);
  std::string text;
  std::array<char, 4096> buffer{};
  while (const size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
    text.append(buffer.data(), n);
  }
  if (::pclose(pipe) != 0) throw std::runtime_error(command + " failed");
  return json::parse(text)["rows"].back();
}

void print(const char* name, double ours, double baseline, double goal,
           const char* detail) {
  const double ratio = ours / baseline;
  fmt::print(R"({{"name": "{}", "ours": {:.1f}, "baseline": {:.1f}, )"
             R"("ratio": {:.3f}, "goal": {}, "ok": {}, "unit": "images/s", )"
             R"("detail": "{}"}})"
             "\n",
             name, ours, baseline, ratio, goal, ratio >= goal, detail);
  std::fflush(stdout);
}

double rate_of(const json& row) {
  return row["images_per_second"].get<double>();
}

void overlap() {
  const std::string ranks = "--batch 128 --ranks 2 --batches 200 --strategy ";
  const double on = rate_of(bench(ranks + "allreduce"));
  const double off = rate_of(bench(ranks + "allreduce-later"));
  print("overlap of reduction and backward, 2 ranks", on, off, 1.15,
        "cnn-small, batch 128 a rank; baseline reduces after backward");
}

void straggler(const char* name, const std::string& what, double goal) {
  const json row = bench("--batch 1024 --ranks 4 --batches 80 " + what);
  print(name, rate_of(row), row["speeds"].get<double>(), goal,
        "cnn-small, batch 1024 a rank, 4 ranks; baseline is the sum of the "
        "ranks' speeds");
}

}  // namespace

int main() try {
  overlap();
  const std::string sums = "--strategy allreduce ";
  straggler("straggler none, all-reduce", sums, 0.85);
  straggler("straggler 4x slower, all-reduce", sums + "--slow 3:4", 0.85);
  // What it would be without dtune's ladder; no goal.
  straggler("straggler 4x slower, plain synchronous",
            sums + "--slow 3:4 --unwatched", 0);
  straggler("straggler with spikes, all-reduce", sums + "--spike 3:5:1", 0.85);
  straggler("straggler 4x slower, parameter server",
            "--slow 3:4 --strategy ps-async", 0.85);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
