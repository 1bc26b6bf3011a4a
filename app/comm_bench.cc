#include "app/comm_bench.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <set>

#include "app/comm_work.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dtune/base/file.h"
#include "dtune/base/json.h"
#include "dtune/comm/folder_store.h"

namespace dtune {
namespace {

using nlohmann::json;

std::unique_ptr<CommWork> make_work(const std::string& transport,
                                    const CommRank& rank,
                                    RendezvousStore& store) {
  if (transport == "zeromq") return make_zeromq_work(rank, false, store);
  if (transport == "zeromq+curve") return make_zeromq_work(rank, true, store);
  if (transport == "gloo") return make_gloo_work(rank, store);
  if (transport == "gloo-sum") return make_gloo_sum_work(rank, store);
#ifdef DTUNE_WITH_NCCL
  if (transport == "nccl-sum") return make_nccl_sum_work(rank, store);
#endif
  throw Error(ErrorKind::config,
              fmt::format("--transport: '{}' is not in this build", transport));
}

bool sums(const std::string& transport) { return transport.ends_with("-sum"); }

double seconds_of(CommWork& work, uint64_t iterations) {
  const MonoTime start = system_clock().now();
  for (uint64_t i = 0; i < iterations; ++i) work.once();
  return to_seconds(system_clock().now() - start);
}

CommBenchRow measure(const CommBenchOptions& options, CommWork& work,
                     uint64_t bytes) {
  work.prepare(bytes);
  const double first = seconds_of(work, 1);
  const double affordable = options.seconds / std::max(first, 1e-9);
  const uint64_t iterations = work.agree(static_cast<uint64_t>(
      std::clamp(affordable, 1.0, static_cast<double>(options.iterations))));
  const double total = seconds_of(work, iterations);
  CommBenchRow row;
  row.transport = options.transport;
  row.operation = work.is_sum() ? "all_reduce" : "sendrecv";
  row.type = work.is_sum() ? "float" : "byte";
  row.bytes = bytes;
  row.count = work.is_sum() ? bytes / sizeof(float) : bytes;
  row.iterations = iterations;
  // A ping-pong is two transfers.
  const double seconds =
      total / static_cast<double>(iterations) / (work.is_sum() ? 1 : 2);
  row.microseconds = seconds * 1e6;
  row.algorithm_gbs = static_cast<double>(bytes) / seconds * 1e-9;
  const double n = options.ranks;
  row.bus_gbs = row.algorithm_gbs * (work.is_sum() ? 2 * (n - 1) / n : 1);
  row.wrong = work.check();
  return row;
}

json to_line(const CommBenchRow& row) {
  return {{"transport", row.transport},
          {"op", row.operation},
          {"size", row.bytes},
          {"count", row.count},
          {"type", row.type},
          {"iterations", row.iterations},
          {"time_us", row.microseconds},
          {"algbw", row.algorithm_gbs},
          {"busbw", row.bus_gbs},
          {"wrong", row.wrong}};
}

CommBenchRow from_line(const json& line) {
  return {line["transport"], line["op"],         line["size"],    line["count"],
          line["type"],      line["iterations"], line["time_us"], line["algbw"],
          line["busbw"],     line["wrong"]};
}

void write_line(int descriptor, const json& line) {
  const std::string text = json_text(line) + "\n";
  if (::write(descriptor, text.data(), text.size()) < 0) ::_exit(1);
}

// One rank's process.
[[noreturn]] void serve_rank(const CommBenchOptions& options, int rank,
                             const std::filesystem::path& folder, int output) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  int code = 0;
  try {
    FolderStore store(folder);
    const auto work = make_work(options.transport,
                                {rank, options.ranks, options.address}, store);
    const uint64_t unit = work->is_sum() ? sizeof(float) : 1;
    for (const uint64_t bytes : comm_sizes(options, unit)) {
      const CommBenchRow row = measure(options, *work, bytes);
      if (rank == 0) write_line(output, to_line(row));
    }
  } catch (const std::exception& e) {
    write_line(output, {{"error", fmt::format("rank {}: {}", rank, e.what())}});
    code = 1;
  }
  ::_exit(code);
}

// The ranks, killed and reaped when this is destroyed.
class RankProcesses {
 public:
  RankProcesses() {
    if (::pipe(pipe_.data()) != 0) {
      throw Error(ErrorKind::temporary,
                  fmt::format("pipe: {}", errno_text(errno)));
    }
  }
  ~RankProcesses() {
    for (const pid_t pid : pids_) ::kill(pid, SIGKILL);
    for (const pid_t pid : pids_) ::waitpid(pid, nullptr, 0);
    if (lines_ != nullptr) {
      std::fclose(lines_);
    } else {
      ::close(pipe_[0]);
    }
    if (pipe_[1] >= 0) ::close(pipe_[1]);
  }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  void start(const CommBenchOptions& options,
             const std::filesystem::path& folder) {
    for (int rank = 0; rank < options.ranks; ++rank) {
      const pid_t pid = ::fork();
      if (pid == 0) serve_rank(options, rank, folder, pipe_[1]);
      if (pid < 0) {
        throw Error(ErrorKind::temporary,
                    fmt::format("fork: {}", errno_text(errno)));
      }
      pids_.push_back(pid);
    }
    ::close(pipe_[1]);
    pipe_[1] = -1;
    lines_ = ::fdopen(pipe_[0], "r");
  }

  // The next line of any rank; null where all have ended.
  json next() {
    std::string line;
    for (int c = std::fgetc(lines_); c != EOF && c != '\n';
         c = std::fgetc(lines_)) {
      line.push_back(static_cast<char>(c));
    }
    return line.empty() ? json() : try_parse_json(line);
  }

 private:
  std::array<int, 2> pipe_{-1, -1};
  std::FILE* lines_ = nullptr;
  std::vector<pid_t> pids_;
};

}  // namespace

std::vector<std::string> comm_transports() {
  std::vector<std::string> names = {"zeromq", "zeromq+curve", "gloo",
                                    "gloo-sum"};
  if (has_nccl()) names.emplace_back("nccl-sum");
  return names;
}

std::vector<uint64_t> comm_sizes(const CommBenchOptions& options,
                                 uint64_t unit) {
  const uint64_t step = unit == 1 ? 3 : unit;
  std::set<uint64_t> sizes;
  for (uint64_t size = std::max(options.from, unit); size <= options.to;
       size *= 2) {
    const uint64_t whole = size / unit * unit;
    sizes.insert(whole);
    if (options.exact) continue;
    if (whole > step) sizes.insert(whole - step);
    sizes.insert(whole + step);
  }
  return {sizes.begin(), sizes.end()};
}

void run_comm_bench(const CommBenchOptions& options,
                    const std::function<void(const CommBenchRow&)>& row) {
  CommBenchOptions used = options;
  if (!sums(options.transport)) used.ranks = 2;
  const TemporaryDirectory folder("dtune-bench");
  RankProcesses ranks;
  ranks.start(used, folder.path());
  size_t rows = 0;
  for (json line = ranks.next(); !line.is_null(); line = ranks.next()) {
    if (!line.is_object() || line.contains("error")) {
      throw Error(ErrorKind::comm,
                  "bench comm: " + line.value("error", "a rank died"));
    }
    row(from_line(line));
    ++rows;
  }
  if (rows < comm_sizes(used, sums(used.transport) ? 4 : 1).size()) {
    throw Error(ErrorKind::comm, "bench comm: a rank died");
  }
}

}  // namespace dtune

extern "C" const dtune::CommBench* dtune_comm_bench(const char* version) {
  static const dtune::CommBench bench = {dtune::comm_transports,
                                         dtune::run_comm_bench};
  return std::string(version) == DTUNE_VERSION ? &bench : nullptr;
}
