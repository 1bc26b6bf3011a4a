// Latency and bandwidth of what ranks and nodes talk over, between processes of
// this machine: `dtune bench comm`.
//
// Methods: columns, warm-up and bus bandwidth as nccl-tests has them
// (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md); beside each power of two
// the sizes 3 bytes (sums: one element) smaller and larger, as NetPIPE does
// (Snell, Mikler, Gustafson 1996), since buffers and page borders make round
// sizes special. sendrecv is NetPIPE's ping-pong: half of there and back.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dtune {

struct CommBenchOptions {
  uint64_t from = 8;  // bytes
  uint64_t to = uint64_t{128} << 20;
  uint64_t iterations = 20;  // after one to warm up
  bool exact = false;        // no sizes beside the powers of two
  double seconds = 0.5;      // for one size: fewer iterations, at least one
  std::string transport;     // of comm_transports()
  int ranks = 2;             // of sums; transfers are between two
  std::string address = "127.0.0.1";
};

struct CommBenchRow {
  std::string transport;
  std::string operation;  // "sendrecv", "all_reduce"
  uint64_t bytes = 0;
  uint64_t count = 0;  // elements
  std::string type;    // "byte", "float"
  uint64_t iterations = 0;
  double microseconds = 0;   // of one operation, on average
  double algorithm_gbs = 0;  // bytes / time, in 1e9 bytes a second
  double bus_gbs = 0;  // all_reduce: algorithm_gbs times 2 (ranks - 1) / ranks
  uint64_t wrong = 0;  // elements that one more operation got wrong
};

// "zeromq", "zeromq+curve", "gloo", "gloo-sum", and "nccl-sum" where this build
// has NCCL (it then needs a GPU for each rank).
std::vector<std::string> comm_transports();
// The sizes to measure, ascending; `unit` is 4 for floats and 1 for bytes.
std::vector<uint64_t> comm_sizes(const CommBenchOptions& options,
                                 uint64_t unit);

// Forks the ranks, and calls `row` for each size in turn. REQUIRES: no threads
// yet. Throws Error(comm) where a rank fails, Error(config) for a transport
// that is not there.
void run_comm_bench(const CommBenchOptions& options,
                    const std::function<void(const CommBenchRow&)>& row);

// What libdtune_comm.so, apart since it brings Gloo to a program that seldom
// needs it, says to the program. Entry point: dtune_comm_bench.
struct CommBench {
  std::vector<std::string> (*transports)();
  void (*run)(const CommBenchOptions& options,
              const std::function<void(const CommBenchRow&)>& row);
};
using CommBenchEntry = const CommBench*(const char* version);
inline constexpr const char* kCommBenchEntryName = "dtune_comm_bench";

}  // namespace dtune
