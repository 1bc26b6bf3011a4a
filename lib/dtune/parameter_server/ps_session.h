// What the two roles of parameter_server_session.h have in common.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dtune/comm/socket.h"
#include "dtune/distributed/gang_session.h"
#include "dtune/parameter_server/ps_server.h"

namespace dtune {

// Tensors of the host, or copies of a device's. Views stay valid while it
// lives; put() brings what was written into them back.
class HostTensor {
 public:
  explicit HostTensor(const at::Tensor& tensor);
  std::span<float> values();
  void put();

 private:
  at::Tensor tensor_;
  at::Tensor host_;
};

class PsSession : public GangSession {
 public:
  uint64_t resident_bytes() const override {
    return GangSession::resident_bytes() + trainer_.resident_bytes();
  }

 protected:
  PsSession(const TrialAssignment& given,
            std::shared_ptr<const PreparedData> prepared);

  TrainingState state() override { return state_of(trainer_); }
  void set_progress(int64_t position, int64_t updates) override;
  gang::Begin begin_of(int step) override;
  gang::Order train(const gang::Work& work,
                    const std::atomic<bool>& stop) override;
  void abandon() override;

  // --- The role's part of train().
  // Until the step is trained; false where another order came first.
  virtual bool train_step(const std::atomic<bool>& stop) = 0;
  // Before the order that answers a ready is waited for.
  virtual void serve_until_order(const std::atomic<bool>& /*stop*/) {}
  virtual gang::Ready report() = 0;
  virtual void drop_connections() = 0;

  const ParallelSpec& parallel() const { return assignment().recipe.parallel; }
  // Members of other machines may be in the gang.
  bool guarded() const {
    const RankInfo& rank = assignment().rank.value();
    return !rank.server_key.empty() || !rank.address.empty();
  }
  // In the gang's store.
  std::string endpoint_name(int server);
  // The address of a server, once it is published. Throws OrderCame.
  PsAddress address_of(int server);
  // The public key of a member. Throws OrderCame.
  std::string key_of(int member);
  std::vector<DecayRun> runs();
  // The optimizer's tensors: first, and second where there is one.
  std::vector<at::Tensor> moments() const;
  Trainer& trainer() { return trainer_; }
  const SocketContext& context() const { return context_; }
  bool trained() const { return trained_; }

 private:
  std::string value_of(const std::string& key);

  SocketContext context_;
  mutable Trainer trainer_;
  bool in_training_ = false;  // the state is in the middle of a step
  bool trained_ = false;      // this step
};

// Thrown where another order makes void what is under way.
struct OrderCame {};

std::unique_ptr<TrialSession> make_ps_worker_session(
    const TrialAssignment& assignment,
    std::shared_ptr<const PreparedData> data);
std::unique_ptr<TrialSession> make_ps_server_session(
    const TrialAssignment& assignment,
    std::shared_ptr<const PreparedData> data);

}  // namespace dtune
