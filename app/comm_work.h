// What `dtune bench comm` times: one operation of one transport, as one of the
// ranks sees it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "app/comm_bench.h"

#include "dtune/comm/collective.h"

namespace dtune {

class CommWork {
 public:
  virtual ~CommWork() = default;
  virtual bool is_sum() const = 0;  // of floats, by all ranks
  // New arrays of so many bytes.
  virtual void prepare(uint64_t bytes) = 0;
  // A sum, or there and back.
  virtual void once() = 0;
  // Once more with arrays whose result is known: elements that are wrong.
  virtual uint64_t check() = 0;
  // Rank 0's value on all ranks.
  virtual uint64_t agree(uint64_t value) = 0;
};

struct CommRank {
  int rank = 0;
  int ranks = 2;
  std::string address;
};

// Blocks until the others have come.
std::unique_ptr<CommWork> make_zeromq_work(const CommRank& rank, bool curve,
                                           RendezvousStore& store);
std::unique_ptr<CommWork> make_gloo_work(const CommRank& rank,
                                         RendezvousStore& store);
std::unique_ptr<CommWork> make_gloo_sum_work(const CommRank& rank,
                                             RendezvousStore& store);
// On GPU number `rank`. Only in builds with NCCL (DTUNE_WITH_NCCL).
std::unique_ptr<CommWork> make_nccl_sum_work(const CommRank& rank,
                                             RendezvousStore& store);

// Bytes that differ by place and by `salt`.
void fill_pattern(std::vector<std::byte>& data, unsigned salt);
uint64_t count_wrong(const std::vector<std::byte>& data, unsigned salt);

// A ping-pong over anything that sends and receives whole messages.
class PingPong : public CommWork {
 public:
  explicit PingPong(int rank) : rank_(rank) {}
  bool is_sum() const final { return false; }
  void prepare(uint64_t bytes) final { data_.resize(bytes); }
  void once() final;
  uint64_t check() final;
  uint64_t agree(uint64_t value) final;

 protected:
  virtual void send(std::span<const std::byte> data) = 0;
  virtual void receive(std::span<std::byte> data) = 0;

 private:
  int rank_;
  std::vector<std::byte> data_;
};

inline constexpr Duration kCommPatience = std::chrono::seconds(60);

}  // namespace dtune
