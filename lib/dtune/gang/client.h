// A member's connection to its gang's server.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "dtune/comm/collective.h"
#include "dtune/gang/messages.h"
#include "dtune/gang/trace.h"
#include "dtune/study/rank_info.h"

namespace dtune {

// The server is gone, or has closed the gang.
class GangLost : public Error {
 public:
  explicit GangLost(const std::string& what)
      : Error(ErrorKind::temporary, what) {}
};

// Thread-safe. A thread of its own sends heartbeats with the phase, so the
// server can distinguish a member that computes from one that is gone.
class GangClient {
 public:
  // Called with each order of this kind, on the client's thread: it neither
  // blocks nor uses the client.
  using GiveUp = std::function<void(const gang::GiveUp&)>;

  // Connects and joins; does not wait for others.
  explicit GangClient(const RankInfo& rank, GiveUp give_up = {});
  ~GangClient();  // leaves
  GangClient(const GangClient&) = delete;
  GangClient& operator=(const GangClient&) = delete;

  const RankInfo& rank() const;
  // Where others can reach this member: the rank's address, or that of the
  // interface towards the server.
  const std::string& address() const;
  // Values by name, shared by the gang; rides on the connection to the server.
  RendezvousStore& store();

  void begin(const gang::Begin& begin);
  void ready(const gang::Ready& ready);
  void failed(const gang::Failed& failed);
  // The step is broken off (pause, cut): what is under way is void.
  void leave_step();

  // The next order; waits for it. Throws StepStopped when `stop` is set,
  // GangLost where the server has been silent for longer than a lease. Closed
  // and Evicted are returned as orders, GiveUp is not.
  gang::Order wait(const std::atomic<bool>& stop);
  // The next order if it is here or comes within `patience`.
  std::optional<gang::Order> poll(Duration patience);

  // How long this process has stood still (was not scheduled) so far, in spikes
  // of more than a tenth of a second.
  Duration stood_still() const;

  // What this member does just now ("forward", "backward micro 3", ...): sent
  // with heartbeats and shown when it hangs. `text` must live forever; cheap.
  void set_phase(const char* text, int64_t number = -1);
  // Figures for the live table and the trace ("staleness", "discarded", ...).
  void gauge(const std::string& name, double value);
  // Spans and counters of this member; sent when the step is done.
  TraceRecorder& trace();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace dtune
