// Sums of small arrays, for which a ring's many messages cost more than its few
// bytes save: all send to all, and add up in the order of ranks,
// so that all have the same bits. n - 1 messages from each rank and one way's
// latency, against 2 (n - 1) ways of the ring. Receives are posted before the
// sum is asked for: a message is then sent at once instead of being announced
// first.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <vector>

namespace gloo {
class Context;
namespace transport {
class UnboundBuffer;
}
}  // namespace gloo

namespace dtune {

// Not thread-safe; throws what Gloo throws.
class GlooSmallSums {
 public:
  static constexpr size_t kMost = 1024;  // floats
  static constexpr int kMostRanks = 8;

  explicit GlooSmallSums(std::shared_ptr<gloo::Context> mesh);
  ~GlooSmallSums();
  GlooSmallSums(const GlooSmallSums&) = delete;
  GlooSmallSums& operator=(const GlooSmallSums&) = delete;

  // The same answer on all ranks that sum the same array.
  bool takes(size_t count) const;
  // REQUIRES: takes(data.size()).
  // Waits for `timeout` at most for each rank.
  void sum(std::span<float> data, std::chrono::milliseconds timeout);

 private:
  using Buffer = gloo::transport::UnboundBuffer;

  void post(size_t rank);

  std::shared_ptr<gloo::Context> mesh_;
  std::vector<std::vector<float>> arrays_;  // by rank; our own is sent
  std::vector<std::unique_ptr<Buffer>> inbox_;
  std::vector<std::unique_ptr<Buffer>> outbox_;
};

}  // namespace dtune
