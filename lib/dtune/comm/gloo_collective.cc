#include <algorithm>
#include <chrono>

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/context.h>
#include <gloo/math.h>
#include <gloo/transport/unbound_buffer.h>

#include "dtune/comm/collective.h"
#include "dtune/comm/gloo_mesh.h"
#include "dtune/comm/gloo_small.h"
#include "dtune/comm/gloo_watch.h"
#include "dtune/comm/rank_sockets.h"

namespace dtune {
namespace {

using Buffer = gloo::transport::UnboundBuffer;

// Of transfers; Gloo's own operations have the prefixes 1 to 8.
constexpr uint64_t kTransferSlot = uint64_t{0x20} << 56;
// For Gloo's own waits. The watch has the deadlines: where Gloo's are over, it
// closes the connections before it can be asked which ranks are missing. They
// are a last resort: Gloo forgets a message whose connection is closed while it
// is written, as it is to a rank that was stopped there, and no closing wakes
// what waits for that.
std::chrono::milliseconds last_resort(Duration timeout) {
  constexpr Duration kMost = std::chrono::hours(24 * 365);
  return std::chrono::ceil<std::chrono::milliseconds>(std::min(timeout, kMost) +
                                                      2 * GlooWatch::kGrace);
}

struct Link {
  Link(const GroupOptions& options, RendezvousStore& store)
      : Link(connect_meshes(options, store), group_text(options.name)) {}
  Link(const Meshes& meshes, const std::string& group)
      : mesh(meshes.data), small(mesh), watch(meshes, group) {}
  std::shared_ptr<gloo::Context> mesh;
  GlooSmallSums small;
  GlooWatch watch;  // goes first
};

// Runs `operate`, which waits in Gloo, with a deadline.
template <typename Operation>
void within(Link& link, std::optional<int> peer, Duration timeout,
            const Operation& operate) {
  link.watch.begin(peer, timeout);
  try {
    operate();
  } catch (const std::exception& e) {
    link.watch.fail(e.what());
  }
  link.watch.end();
}

class GlooTransfer final : public Transfer {
 public:
  enum class Way { send, receive };

  // Gloo takes no pointers to constant memory; a send only reads.
  GlooTransfer(std::shared_ptr<Link> link, Way way, int peer, uint32_t tag,
               void* data, size_t size)
      : link_(std::move(link)),
        way_(way),
        peer_(peer),
        buffer_(link_->mesh->createUnboundBuffer(data, size)) {
    link_->watch.throw_if_given_up();
    try {
      const uint64_t slot = kTransferSlot | tag;
      if (way_ == Way::send) {
        buffer_->send(peer, slot, 0, size);
      } else {
        buffer_->recv(peer, slot, 0, size);
      }
    } catch (const std::exception& e) {
      link_->watch.fail(e.what());
    }
  }
  ~GlooTransfer() override {
    if (!waited_) link_->watch.give_up();
  }
  GlooTransfer(const GlooTransfer&) = delete;
  GlooTransfer& operator=(const GlooTransfer&) = delete;

  void wait(Duration timeout) override {
    waited_ = true;  // done or given up, whatever comes
    within(*link_, peer_, timeout, [&] {
      if (way_ == Way::send) {
        buffer_->waitSend(nullptr, last_resort(timeout));
      } else {
        buffer_->waitRecv(nullptr, last_resort(timeout));
      }
    });
  }

 private:
  std::shared_ptr<Link> link_;
  Way way_;
  int peer_;
  std::unique_ptr<Buffer> buffer_;
  bool waited_ = false;
};

class GlooCollective final : public Collective {
 public:
  explicit GlooCollective(std::shared_ptr<Link> link)
      : link_(std::move(link)) {}

  int rank() const override { return link_->mesh->rank; }
  int size() const override { return link_->mesh->size; }

  // Large arrays by Gloo's ring: 2 (n - 1) messages and 2 (n - 1) / n times the
  // array's bytes sent by each rank. Each piece is added up along the ring and
  // the sum copied to all, so all have the same bits.
  void all_reduce(std::span<float> data, Duration timeout) override {
    if (size() == 1 || data.empty()) return;
    within(*link_, std::nullopt, timeout, [&] {
      if (link_->small.takes(data.size())) {
        return link_->small.sum(data, last_resort(timeout));
      }
      gloo::AllreduceOptions options(link_->mesh);
      options.setOutput(data.data(), data.size());
      options.setReduceFunction(
          [](void* sum, const void* a, const void* b, size_t count) {
            gloo::sum<float>(sum, a, b, count);
          });
      options.setTimeout(last_resort(timeout));
      gloo::allreduce(options);
    });
  }

  void broadcast(std::span<float> data, int root, Duration timeout) override {
    DTUNE_CHECK(root >= 0 && root < size());
    if (size() == 1 || data.empty()) return;
    within(*link_, std::nullopt, timeout, [&] {
      gloo::BroadcastOptions options(link_->mesh);
      options.setOutput(data.data(), data.size());
      options.setRoot(root);
      options.setTimeout(last_resort(timeout));
      gloo::broadcast(options);
    });
  }

  void barrier(Duration timeout) override {
    if (size() == 1) return;
    within(*link_, std::nullopt, timeout, [&] {
      gloo::BarrierOptions options(link_->mesh);
      options.setTimeout(last_resort(timeout));
      gloo::barrier(options);
    });
  }

  void give_up_on(int rank) override { link_->watch.give_up_on(rank); }

  std::unique_ptr<Transfer> start_send(
      int to, uint32_t tag, std::span<const std::byte> data) override {
    DTUNE_CHECK(is_peer(to));
    return std::make_unique<GlooTransfer>(
        link_, GlooTransfer::Way::send, to, tag,
        const_cast<std::byte*>(data.data()), data.size());
  }
  std::unique_ptr<Transfer> start_receive(int from, uint32_t tag,
                                          std::span<std::byte> data) override {
    DTUNE_CHECK(is_peer(from));
    return std::make_unique<GlooTransfer>(link_, GlooTransfer::Way::receive,
                                          from, tag, data.data(), data.size());
  }

 private:
  bool is_peer(int other) const {
    return other >= 0 && other < size() && other != rank();
  }

  std::shared_ptr<Link> link_;
};

}  // namespace

std::unique_ptr<Collective> make_gloo_group(const GroupOptions& options,
                                            RendezvousStore& store) {
  return std::make_unique<GlooCollective>(
      std::make_shared<Link>(options, store));
}

}  // namespace dtune
