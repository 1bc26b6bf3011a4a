// NCCL by its C functions alone: non-blocking communicators, whose state is
// polled, so that a peer that does not come costs a time-out and not a hang. A
// communicator that failed is aborted, which frees what waits on the device.
//
// NCCL does not say who is missing: the ranks of RanksMissing are known only
// for transfers (the peer).
#include <cstring>
#include <optional>
#include <thread>

#include <cuda_runtime_api.h>
#include <fmt/core.h>
#include <nccl.h>

#include "dtune/comm/collective.h"

namespace dtune {
namespace {

// A look at the device costs about a microsecond; kernels take at least ten.
constexpr Duration kNcclLook = std::chrono::microseconds(5);
// A non-blocking communicator is set up by a thread of NCCL's.
constexpr Duration kSlowLook = std::chrono::milliseconds(1);

// Closing must not wait for peers that are gone, but those that are still there
// may need what has not left this process yet.
constexpr Duration kFarewell = std::chrono::seconds(1);

class Stream {
 public:
  Stream() = default;
  ~Stream() {
    if (handle_ != nullptr) cudaStreamDestroy(handle_);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaError_t create() {
    return cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking);
  }
  cudaStream_t handle() const { return handle_; }

 private:
  cudaStream_t handle_ = nullptr;
};

// Lets one stream wait for another; may be used again at once.
class StreamEvent {
 public:
  StreamEvent() = default;
  ~StreamEvent() {
    if (handle_ != nullptr) cudaEventDestroy(handle_);
  }
  StreamEvent(const StreamEvent&) = delete;
  StreamEvent& operator=(const StreamEvent&) = delete;

  cudaError_t create() {
    return cudaEventCreateWithFlags(&handle_, cudaEventDisableTiming);
  }
  // What `later` is given from now on begins after what `earlier` has now.
  cudaError_t order(cudaStream_t earlier, cudaStream_t later) {
    const cudaError_t result = cudaEventRecord(handle_, earlier);
    return result == cudaSuccess ? cudaStreamWaitEvent(later, handle_, 0)
                                 : result;
  }

 private:
  cudaEvent_t handle_ = nullptr;
};

// A transfer that was started and not yet given to NCCL.
struct Pending {
  int peer = 0;
  const std::byte* from = nullptr;  // a send's
  std::byte* to = nullptr;          // a receive's
  size_t size = 0;
};

class NcclGroup {
 public:
  NcclGroup(const GroupOptions& options, int device, RendezvousStore& store)
      : name_(fmt::format("group '{}'", options.name)),
        rank_(options.rank),
        size_(options.size) {
    check_cuda(cudaSetDevice(device), "device");
    check_cuda(stream_.create(), "stream");
    check_cuda(event_.create(), "event");
    try {
      connect(options, store);
    } catch (...) {
      abort();
      throw;
    }
  }
  ~NcclGroup() {
    if (comm_ != nullptr) close();
  }
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  ncclComm_t comm() const { return comm_; }
  cudaStream_t stream() const { return stream_.handle(); }

  void check_cuda(cudaError_t result, const char* what) const {
    if (result == cudaSuccess) return;
    throw Error(ErrorKind::comm, fmt::format("{}: CUDA {}: {}", name_, what,
                                             cudaGetErrorString(result)));
  }

  void throw_if_broken() const {
    if (broken_) throw *broken_;
  }

  void post(const Pending& transfer) {
    throw_if_broken();
    pending_.push_back(transfer);
  }

  // Gives NCCL all that was started, as one, so that none of them waits for
  // another.
  void flush() {
    throw_if_broken();
    if (pending_.empty()) return;
    std::vector<int> peers;
    for (const Pending& transfer : pending_) peers.push_back(transfer.peer);
    check_started(ncclGroupStart(), peers);
    for (const Pending& transfer : pending_) {
      check_started(transfer.to == nullptr
                        ? ncclSend(transfer.from, transfer.size, ncclUint8,
                                   transfer.peer, comm_, stream())
                        : ncclRecv(transfer.to, transfer.size, ncclUint8,
                                   transfer.peer, comm_, stream()),
                    peers);
    }
    check_started(ncclGroupEnd(), peers);
    pending_.clear();
    // Nothing else may be called before NCCL has taken them.
    while (state(peers) == ncclInProgress)
      std::this_thread::sleep_for(kNcclLook);
  }

  // Of a call that put something on the stream.
  void check_started(ncclResult_t result, const std::vector<int>& peers) {
    if (result != ncclSuccess && result != ncclInProgress) {
      fail(peers, ncclGetErrorString(result));
    }
  }

  // Until NCCL has started it and the device is done.
  void finish(const std::vector<int>& peers, Duration timeout) {
    wait_while(peers, timeout, [&] {
      return state(peers) == ncclInProgress ||
             cudaStreamQuery(stream()) == cudaErrorNotReady;
    });
    check_cuda(cudaStreamSynchronize(stream()), "operation");
  }

  // After what the caller's stream has now.
  void begin_after(cudaStream_t other) {
    throw_if_broken();
    check_cuda(event_.order(other, stream()), "order");
  }

  // Until NCCL has put it on the stream; what the caller's is given then comes
  // after it.
  void begin_before(cudaStream_t other, Duration timeout) {
    wait_while({}, timeout, [&] { return state({}) == ncclInProgress; });
    check_cuda(event_.order(stream(), other), "order");
  }

  // Frees what waits on the device; the group is of no use afterwards.
  [[noreturn]] void fail(const std::vector<int>& peers,
                         const std::string& what) {
    const std::string who = peers.empty() ? "" : rank_names(peers) + " ";
    broken_ = RanksMissing(peers, fmt::format("{}: {}{}", name_, who, what));
    abort();
    throw *broken_;
  }

  void abort() {
    if (comm_ == nullptr) return;
    ncclCommAbort(comm_);
    comm_ = nullptr;
    if (!broken_) broken_ = RanksMissing({}, name_ + ": given up");
  }

 private:
  void connect(const GroupOptions& options, RendezvousStore& store) {
    const std::string key = options.name + "/nccl";
    ncclUniqueId id{};
    if (rank_ == 0) {
      const ncclResult_t result = ncclGetUniqueId(&id);
      if (result != ncclSuccess) fail({}, ncclGetErrorString(result));
      store.set(key, std::string(id.internal, sizeof(id.internal)));
    } else {
      const std::string bytes = store.get(key, options.connect_timeout);
      if (bytes.size() != sizeof(id.internal)) fail({0}, "sent no NCCL id");
      std::memcpy(id.internal, bytes.data(), bytes.size());
    }
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    check_started(ncclCommInitRankConfig(&comm_, size_, id, rank_, &config),
                  {});
    const MonoTime deadline = system_clock().now() + options.connect_timeout;
    while (state({}) == ncclInProgress) {
      if (system_clock().now() >= deadline) {
        fail({}, fmt::format("not all ranks came within {:g} s",
                             to_seconds(options.connect_timeout)));
      }
      std::this_thread::sleep_for(kSlowLook);
    }
  }

  void close() {
    const MonoTime end = system_clock().now() + kFarewell;
    ncclResult_t now = ncclCommFinalize(comm_);
    while (now == ncclInProgress && system_clock().now() < end) {
      std::this_thread::sleep_for(kSlowLook);
      if (ncclCommGetAsyncError(comm_, &now) != ncclSuccess) break;
    }
    if (now == ncclSuccess) {
      ncclCommDestroy(comm_);
    } else {
      ncclCommAbort(comm_);
    }
  }

  template <typename Condition>
  void wait_while(const std::vector<int>& peers, Duration timeout,
                  const Condition& condition) {
    const MonoTime now = system_clock().now();
    const MonoTime deadline =
        timeout > MonoTime::max() - now ? MonoTime::max() : now + timeout;
    while (condition()) {
      if (system_clock().now() >= deadline) {
        fail(peers,
             fmt::format("did not come within {:g} s", to_seconds(timeout)));
      }
      std::this_thread::sleep_for(kNcclLook);
    }
  }

  // ncclSuccess or ncclInProgress.
  ncclResult_t state(const std::vector<int>& peers) {
    ncclResult_t now = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(comm_, &now);
    const ncclResult_t result = asked == ncclSuccess ? now : asked;
    if (result != ncclSuccess && result != ncclInProgress) {
      fail(peers, ncclGetErrorString(result));
    }
    return result;
  }

  std::string name_;
  int rank_;
  int size_;
  Stream stream_;
  StreamEvent event_;
  ncclComm_t comm_ = nullptr;
  std::vector<Pending> pending_;
  std::optional<RanksMissing> broken_;
};

class NcclTransfer final : public Transfer {
 public:
  NcclTransfer(std::shared_ptr<NcclGroup> group, int peer)
      : group_(std::move(group)), peer_(peer) {}
  ~NcclTransfer() override {
    if (!waited_) group_->abort();
  }
  NcclTransfer(const NcclTransfer&) = delete;
  NcclTransfer& operator=(const NcclTransfer&) = delete;

  void wait(Duration timeout) override {
    waited_ = true;
    group_->flush();
    group_->finish({peer_}, timeout);
  }

 private:
  std::shared_ptr<NcclGroup> group_;
  int peer_;
  bool waited_ = false;
};

class NcclCollective final : public Collective {
 public:
  explicit NcclCollective(std::shared_ptr<NcclGroup> group)
      : group_(std::move(group)) {}

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }

  void all_reduce(std::span<float> data, Duration timeout) override {
    start_all_reduce(data);
    group_->finish({}, timeout);
  }

  bool queues() const override { return true; }

  void queue_all_reduce(std::span<float> data, void* stream,
                        Duration timeout) override {
    const auto other = static_cast<cudaStream_t>(stream);
    group_->begin_after(other);
    start_all_reduce(data);
    group_->begin_before(other, timeout);
  }

  void settle(Duration timeout) override {
    group_->throw_if_broken();
    group_->finish({}, timeout);
  }

  void broadcast(std::span<float> data, int root, Duration timeout) override {
    DTUNE_CHECK(root >= 0 && root < size());
    group_->flush();
    group_->check_started(
        ncclBroadcast(data.data(), data.data(), data.size(), ncclFloat32, root,
                      group_->comm(), group_->stream()),
        {});
    group_->finish({}, timeout);
  }

  // A sum of one number, since NCCL has no barrier.
  void barrier(Duration timeout) override {
    group_->flush();
    float* number = nullptr;
    group_->check_cuda(
        cudaMallocAsync(&number, sizeof(float), group_->stream()), "memory");
    group_->check_started(ncclAllReduce(number, number, 1, ncclFloat32, ncclSum,
                                        group_->comm(), group_->stream()),
                          {});
    group_->finish({}, timeout);
    group_->check_cuda(cudaFreeAsync(number, group_->stream()), "memory");
  }

  std::unique_ptr<Transfer> start_send(
      int to, uint32_t /*tag*/, std::span<const std::byte> data) override {
    DTUNE_CHECK(is_peer(to));
    group_->post({to, data.data(), nullptr, data.size()});
    return std::make_unique<NcclTransfer>(group_, to);
  }

  std::unique_ptr<Transfer> start_receive(int from, uint32_t /*tag*/,
                                          std::span<std::byte> data) override {
    DTUNE_CHECK(is_peer(from));
    group_->post({from, nullptr, data.data(), data.size()});
    return std::make_unique<NcclTransfer>(group_, from);
  }

 private:
  void start_all_reduce(std::span<float> data) {
    group_->flush();
    group_->check_started(
        ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32,
                      ncclSum, group_->comm(), group_->stream()),
        {});
  }

  bool is_peer(int other) const {
    return other >= 0 && other < size() && other != rank();
  }

  std::shared_ptr<NcclGroup> group_;
};

}  // namespace

bool has_nccl() { return true; }

std::unique_ptr<Collective> make_nccl_group(const GroupOptions& options,
                                            int device,
                                            RendezvousStore& store) {
  return std::make_unique<NcclCollective>(
      std::make_shared<NcclGroup>(options, device, store));
}

}  // namespace dtune
