// The data plane of a gang: what its ranks do together with arrays. Engines:
// Gloo (CPU, TCP) and NCCL (CUDA).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dtune/base/clock.h"
#include "dtune/base/error.h"
#include "dtune/base/port_range.h"

namespace dtune {

// What a group's operations throw, of kind comm:
//   group 'g': ranks 1 and 3 did not come in time
class RanksMissing : public Error {
 public:
  RanksMissing(std::vector<int> ranks, const std::string& text)
      : Error(ErrorKind::comm, text), ranks_(std::move(ranks)) {}
  // Ascending; those known to be missing. Empty where nothing is known.
  const std::vector<int>& ranks() const { return ranks_; }

 private:
  std::vector<int> ranks_;
};
// "rank 2", "ranks 1, 2 and 5".
std::string rank_names(const std::vector<int>& ranks);

// Where the members of a group find each other's addresses: small values by
// name, each set once. The gang's rides on the control plane. Thread-safe.
class RendezvousStore {
 public:
  virtual ~RendezvousStore() = default;
  virtual void set(const std::string& key, const std::string& value) = 0;
  // Waits for the value. Throws Error(comm) that names the key after `timeout`.
  virtual std::string get(const std::string& key, Duration timeout) = 0;
};

// A transfer under way. Destroying it before it is done waits for it or breaks
// the connection: its memory is never touched afterwards.
class Transfer {
 public:
  virtual ~Transfer() = default;
  // Throws as Collective's operations. Call once.
  virtual void wait(Duration timeout) = 0;
};

// One process's place in a group of processes that run the same operations in
// the same order.
//
// An operation that cannot be finished, since a peer is gone or has not come
// within `timeout`, throws RanksMissing with the ranks that it knows to be
// missing; the group is of no use afterwards (make another) and can be
// destroyed at once: nothing waits. All operations block but start_*; used by
// one thread at a time. float32 sums are taken in the same order on all ranks,
// so all get the same bits.
class Collective {
 public:
  virtual ~Collective() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;

  // data becomes the sum over all ranks.
  virtual void all_reduce(std::span<float> data, Duration timeout) = 0;
  virtual void broadcast(std::span<float> data, int root, Duration timeout) = 0;
  virtual void barrier(Duration timeout) = 0;

  // Sums of a device's memory that the host does not wait for: whether there are
  // any. `stream`: a cudaStream_t. The sum begins after what the stream has
  // been given, and what it is given later begins after the sum; it is there,
  // or failed, when settle() returns. `timeout`: of the peers' first meeting.
  virtual bool queues() const { return false; }
  virtual void queue_all_reduce(std::span<float> data, void* stream,
                                Duration timeout);
  virtual void settle(Duration timeout);

  // `rank` stands still: an operation under way that needs it fails as if its
  // `timeout` were over; without one, nothing happens. From any thread; does not
  // block. NCCL's groups do nothing here.
  virtual void give_up_on(int /*rank*/) {}

  // Point to point, with another rank. Matched by (peer, tag) and, for equal
  // ones, by order; sizes must agree. The memory must stay as it is until
  // wait() has returned.
  virtual std::unique_ptr<Transfer> start_send(
      int to, uint32_t tag, std::span<const std::byte> data) = 0;
  virtual std::unique_ptr<Transfer> start_receive(
      int from, uint32_t tag, std::span<std::byte> data) = 0;

  void send(int to, uint32_t tag, std::span<const std::byte> data,
            Duration timeout) {
    start_send(to, tag, data)->wait(timeout);
  }
  void receive(int from, uint32_t tag, std::span<std::byte> data,
               Duration timeout) {
    start_receive(from, tag, data)->wait(timeout);
  }
};

struct GroupOptions {
  int rank = 0;
  int size = 1;
  std::string name;     // unique for each group in the store
  std::string address;  // numeric address of the interface to use
  Duration connect_timeout = std::chrono::seconds(30);
  PortRange ports{};  // Gloo's; a rank takes one of them while ranks meet
};

// Blocks until all ranks have come; throws RanksMissing with those that have
// not. The store is used only here. Over TCP; each rank has proved to the other
// that it met it in the store (rank_sockets.h), but what they exchange is in
// the clear: for networks where no other party reads or changes the traffic.
// Ignores SIGPIPE where it has no handler yet.
std::unique_ptr<Collective> make_gloo_group(const GroupOptions& options,
                                            RendezvousStore& store);

// A group of this process alone.
std::unique_ptr<Collective> make_solo_group();

// Spans are device memory of CUDA device `device`. Throws Error(config) where
// this build has no NCCL. NCCL has no tags: transfers between two ranks must be
// started in the same order at both ends, none is empty, and they begin at the
// next wait(), together. It does not know who is missing either, but for
// transfers.
bool has_nccl();
std::unique_ptr<Collective> make_nccl_group(const GroupOptions& options,
                                            int device, RendezvousStore& store);

}  // namespace dtune
