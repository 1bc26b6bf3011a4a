// One process of a trial's parameter server: sockets around PsClock (server 0)
// and PsShard (all). No LibTorch.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtune/comm/curve.h"
#include "dtune/comm/listener.h"
#include "dtune/parameter_server/ps_clock.h"
#include "dtune/parameter_server/ps_shard.h"

namespace dtune {

// Where a server can be reached.
struct PsAddress {
  std::string endpoint;
  std::optional<CurveClient> security;
};

struct PsServerOptions {
  int server = 0;
  int servers = 1;
  ListenOptions listen;              // port 0; remote_queue is set here
  std::optional<PsAddress> server0;  // followers
  // For one answer of another process: a peer that takes longer is
  // named in an Error(comm).
  Duration patience = std::chrono::seconds(30);
};

// What a step begins with; equal on all servers.
struct PsStep {
  int step = 1;
  PsPlan plan;  // the session is made by server 0
  PsArrays arrays;
  std::span<const float> buffers;  // batch norm's; of server 0
};

// Not thread-safe.
class PsServer {
 public:
  virtual ~PsServer() = default;

  // Where workers and followers reach this one.
  virtual std::string endpoint() const = 0;

  // Ends the step before, if there is one, whatever its state.
  virtual void begin(const PsStep& step) = 0;
  // Handles what comes within `timeout`. Throws Error(comm) where others are
  // missing and TrialFailure(diverged); workers and followers get a message.
  virtual void poll(Duration timeout) = 0;
  // A worker's process is gone: it is not waited for. Concerns server 0; it
  // finds out by itself where the connection has ended.
  virtual void remove(int member) = 0;

  // All samples of the step are accepted; from then on poll() answers those
  // that want the state.
  virtual bool trained() const = 0;
  // Valid then.
  virtual const ps::Final& result() const = 0;
  // Batch norm's: the workers' mean, once the step is trained; of server 0.
  virtual std::span<const float> buffers() const = 0;
  // Times that the state was sent.
  virtual int64_t state_requests_done() const = 0;
  virtual double fraction() const = 0;   // of the step, 0..1; server 0
  virtual PsFigures take_figures() = 0;  // server 0
  // The member that the step waits for just now; -1: none.
  virtual int awaited() const = 0;
  virtual PsShard& shard() = 0;
};

// Binds at once: throws as Listener. The context must outlive it.
std::unique_ptr<PsServer> make_ps_server(const SocketContext& context,
                                         const PsServerOptions& options);

}  // namespace dtune
