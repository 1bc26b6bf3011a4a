// Server 0: the clock, its own slice, and the orders to the followers.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "dtune/gang/pace.h"
#include "dtune/parameter_server/ps_endpoint.h"
#include "dtune/parameter_server/ps_server.h"

namespace dtune {

class PsLeader final : public PsServer {
 public:
  PsLeader(const SocketContext& context, const PsServerOptions& options);

  std::string endpoint() const override { return endpoint_.endpoint(); }
  void begin(const PsStep& step) override;
  void poll(Duration timeout) override;
  void remove(int member) override;
  bool trained() const override { return result_.has_value(); }
  const ps::Final& result() const override { return *result_; }
  std::span<const float> buffers() const override { return buffers_; }
  int64_t state_requests_done() const override { return states_; }
  double fraction() const override;
  PsFigures take_figures() override {
    return clock_ ? clock_->take_figures() : PsFigures{};
  }
  int awaited() const override;
  PsShard& shard() override { return *shard_; }

 private:
  struct Worker {
    uint64_t nonce = 0;             // 0: no hello yet
    std::map<int, uint64_t> known;  // by follower: the nonce it has heard
    std::vector<float> buffers{};
    size_t buffer_pieces = 0;
  };
  // A gradient on its way to all servers.
  struct Pending {
    std::optional<ps::Push> push;  // complete here
    std::set<int> arrived;         // followers
    MonoTime since;
  };
  using Key = std::pair<int, int64_t>;  // member, ticket
  // What a worker owes, and since when.
  struct Debt {
    int64_t what = 0;
    MonoTime since;
  };

  void handle(const PsRequest& request);
  void on(const PsRequest& request, const ps::Hello& hello);
  void on(const PsRequest& request, const ps::Follow& follow);
  void on(const PsRequest& request, const ps::Present& present);
  void on(const PsRequest& request, const ps::Piece& piece);
  void on(const PsRequest& request, const ps::Push& push);
  void on(const PsRequest& request, const ps::Arrived& arrived);
  void on(const PsRequest& request, const ps::Combined& combined);
  void on(const PsRequest& request, const ps::Buffers& buffers);
  void on(const PsRequest& request, const ps::WantState& want);
  template <class M>
  void on(const PsRequest& /*request*/, const M& /*message*/) {}  // not for us

  bool follows(const PsRequest& request, int* server) const;
  void check_known(int member);
  void check_arrived(const Key& key);
  void take_buffers(Worker& worker, const ps::Piece& piece);
  void run_actions();
  void execute(const ps::Order& order);
  void check_combined();
  void send_followers(const ps::Message& message);
  void check_finished();
  void mean_buffers();
  void send_final(int member);
  void notice();
  void watch_workers();
  void note_debts(MonoTime now);
  bool overdue(const Debt& debt, MonoTime now) const;
  void leave_out(int member);
  void check_patience();
  [[noreturn]] void break_off(bool diverged, const std::string& why);

  PsServerOptions options_;
  PsEndpoint endpoint_;
  int step_ = 0;
  PsPlan plan_;
  int64_t parameters_ = 0;
  std::optional<PsClock> clock_;
  std::optional<PsShard> shard_;
  std::map<int, Worker> workers_;
  std::map<int, std::string> followers_;  // peers by server
  std::map<Key, Pending> pending_;
  std::optional<ps::Combine> combining_;  // whose squares are awaited
  std::map<int, double> squares_;         // by server
  std::vector<float> buffers_;
  std::vector<ps::Range> buffer_pieces_;
  std::optional<ps::Final> result_;
  int64_t states_ = 0;
  MonoTime began_;
  MonoTime noticed_;
  gang::Pace pace_;           // of gradients, over all steps
  std::map<int, Debt> owed_;  // by member
  MonoTime half_since_{};     // so long has half of them owed nothing
};

}  // namespace dtune
