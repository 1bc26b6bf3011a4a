// A worker's end of the parameter server, for one fidelity step. No LibTorch.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dtune/comm/socket.h"
#include "dtune/gang/messages.h"
#include "dtune/parameter_server/ps_cache.h"
#include "dtune/parameter_server/ps_protocol.h"
#include "dtune/parameter_server/ps_server.h"

namespace dtune {

struct PsWorkerOptions {
  int member = 0;
  int step = 1;
  TrainSpec train;
  ParameterServerSpec spec;
  int64_t parameters = 0;
  std::vector<DecayRun> runs;
  std::vector<PsAddress> servers;
  Duration patience = std::chrono::seconds(30);
  // Called at least every 50 ms while it waits; may throw to break off.
  std::function<void()> while_waiting;
};

struct PsReads {
  int64_t all = 0;     // gradients' weights
  int64_t cached = 0;  // of them, without waiting for the network
  double waited = 0;   // seconds, for work and weights
};

// Not thread-safe. Every wait ends with an Error(comm) that names the server
// that has been silent for longer than the patience, or with what the server
// says went wrong (TrialFailure where the trial has diverged).
class PsWorker {
 public:
  // Says hello; does not wait.
  PsWorker(const SocketContext& context, PsWorkerOptions options);

  // The next samples, with the weights to use; empty: the step is trained,
  // finish() is next.
  std::optional<ps::Grant> next(std::span<float> weights);
  // The gradient for what next() gave last: the mean by the samples' weight.
  // `seconds`: that it took, by which shares go.
  void push(std::span<const float> gradient, const LossTotals& totals,
            double seconds);
  // `buffers`: in: own; out: the workers' mean. Weights: the final ones.
  ps::Final finish(std::span<float> weights, std::span<float> buffers);
  // The optimizer's state after finish(); `second` empty for sgd.
  void fetch_state(std::span<float> first, std::span<float> second);

  const PsReads& reads() const { return reads_; }
  uint64_t resident_bytes() const { return cache_.resident_bytes(); }

 private:
  struct Server {
    std::unique_ptr<Socket> socket;
    MonoTime heard;
    bool has_state = false;
  };

  void connect(const SocketContext& context);
  void say_hello();
  void send(int server, const ps::Message& message);
  // Until `done`, which is asked after each message.
  void wait_until(const std::function<bool()>& done,
                  const std::function<std::vector<int>()>& awaited);
  void receive_all();
  void handle(int server, const ps::Message& message);
  void take_piece(int server, const ps::Piece& piece);
  void remember(const ps::Grant& work, const ps::Push& push,
                std::span<const float> gradient);
  bool ahead() const;
  bool usable(const ps::Grant& grant, MonoTime since) const;
  std::vector<int> awaited_for(int64_t version) const;
  void check_silence(MonoTime since, const std::vector<int>& awaited) const;

  PsWorkerOptions options_;
  ps::Layout layout_;
  PsCache cache_;
  std::vector<Server> servers_;
  uint64_t nonce_;
  uint64_t session_ = 0;  // 0: not known yet
  MonoTime greeted_;
  std::deque<ps::Grant> grants_;
  std::optional<ps::Grant> working_;
  int64_t used_version_ = 0;  // for working_
  int64_t pushed_ = 0;        // ticket
  double compute_seconds_ = 0;
  bool finishing_ = false;
  std::optional<ps::Final> final_;
  std::span<float> buffers_;  // to be filled, during finish()
  std::span<float> first_;    // during fetch_state()
  std::span<float> second_;
  PsReads reads_;
};

}  // namespace dtune
