// Servers 1, 2, ...: a slice, and orders.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "dtune/parameter_server/ps_endpoint.h"
#include "dtune/parameter_server/ps_server.h"

namespace dtune {

class PsFollower final : public PsServer {
 public:
  PsFollower(const SocketContext& context, const PsServerOptions& options);

  std::string endpoint() const override { return endpoint_.endpoint(); }
  void begin(const PsStep& step) override;
  void poll(Duration timeout) override;
  void remove(int /*member*/) override {}
  bool trained() const override { return result_.has_value(); }
  const ps::Final& result() const override { return *result_; }
  std::span<const float> buffers() const override { return {}; }
  int64_t state_requests_done() const override { return states_; }
  double fraction() const override { return trained() ? 1 : 0; }
  PsFigures take_figures() override { return {}; }
  int awaited() const override { return -1; }
  PsShard& shard() override { return *shard_; }

 private:
  void handle_worker(const PsRequest& request);
  void receive_orders();
  void handle_lead(const ps::Message& message);
  void hear(const PsRequest& request, const ps::Hello& hello);
  void present(int member, uint64_t nonce);
  template <class Order>
  void obey(const Order& order);
  void execute(const ps::Combine& order);
  void execute(const ps::Apply& order) { shard_->apply(order); }
  void execute(const ps::Drop& order) { shard_->drop(order); }
  void execute(const ps::Serve& order);
  void execute(const ps::Forget& order) { shard_->forget(order); }
  void report_to_leader(const ps::Message& message);
  void send_states();
  void follow();
  void connect();

  const SocketContext& context_;
  PsServerOptions options_;
  PsEndpoint endpoint_;
  std::optional<Socket> leader_;
  int step_ = 0;
  int64_t parameters_ = 0;
  uint64_t session_ = 0;  // 0: not led yet
  int64_t sequence_ = 0;  // of the last order
  std::optional<PsShard> shard_;
  std::map<int, uint64_t> workers_;  // nonces
  std::optional<ps::Final> result_;
  std::vector<int> wants_state_;  // members
  int64_t states_ = 0;
  MonoTime heard_;     // of server 0
  MonoTime followed_;  // sent last
};

}  // namespace dtune
