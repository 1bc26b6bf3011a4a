#include "dtune/parameter_server/ps_endpoint.h"

#include <algorithm>
#include <utility>

#include "dtune/study/trial_runner.h"

namespace dtune {
namespace {

// More than a gang has members.
constexpr size_t kMostKept = 1024;

// Messages for one worker. The few versions that it is sent before it says
// something are all there is, but a version may have hundreds of pieces.
constexpr int kQueue = 100'000;

ListenOptions with_queue(ListenOptions listen) {
  listen.remote_queue = kQueue;
  return listen;
}

}  // namespace

PsEndpoint::PsEndpoint(const SocketContext& context, ListenOptions listen)
    : listener_(context, with_queue(std::move(listen))) {}

std::string PsEndpoint::endpoint() const {
  const std::string remote = listener_.remote_endpoint();
  return remote.empty() ? listener_.local_endpoint() : remote;
}

bool PsEndpoint::receive_all(
    const std::function<void(const PsRequest&)>& handle) {
  return listener_.receive_all([&](Frames frames) {
    PsRequest request;
    request.peer = std::move(frames.front());
    frames.erase(frames.begin());
    request.frames = std::move(frames);
    auto message = ps::try_decode(request.frames);
    if (!message) return;
    request.message = std::move(*message);
    handle(request);
  });
}

bool PsEndpoint::send(const std::string& peer, const ps::Message& message) {
  return listener_.send(ps::encode(message, {peer}));
}

bool PsEndpoint::send_values(const std::string& peer, ps::Piece head,
                             std::span<const float> values,
                             std::span<const ps::Range> pieces) {
  if (pieces.empty()) return true;
  const int64_t begin = pieces.front().begin;
  for (const ps::Range& range : pieces) {
    head.offset = range.begin;
    head.floats =
        ps::bytes_of(values.subspan(static_cast<size_t>(range.begin - begin),
                                    static_cast<size_t>(range.size())));
    if (!send(peer, head)) return false;
  }
  return true;
}

void PsEndpoint::know(int member, const std::string& peer) {
  const auto before = peers_.find(member);
  if (before != peers_.end()) members_.erase(before->second);
  peers_[member] = peer;
  members_[peer] = member;
}

int PsEndpoint::member_of(const std::string& peer) const {
  const auto found = members_.find(peer);
  return found == members_.end() ? -1 : found->second;
}

bool PsEndpoint::send_to(int member, const ps::Message& message) {
  const auto found = peers_.find(member);
  return found != peers_.end() && send(found->second, message);
}

void PsEndpoint::send_to_all(const ps::Message& message) {
  for (const auto& [member, peer] : peers_) send(peer, message);
}

void PsEndpoint::serve(PsShard& shard, const ps::Serve& order) {
  const auto found = peers_.find(order.member);
  if (found == peers_.end()) return;
  const bool all =
      send_values(found->second,
                  {.session = order.session,
                   .content = ps::Content::weights,
                   .key = shard.version()},
                  shard.values(ps::Content::weights), shard.pieces());
  if (!all) return;
  send(found->second, ps::Served{.session = order.session,
                                 .version = shard.version(),
                                 .ticket = order.ticket,
                                 .min_clock = order.min_clock});
}

void PsEndpoint::send_state(int member, PsShard& shard, uint64_t session) {
  const auto found = peers_.find(member);
  if (found == peers_.end()) return;
  for (const auto content : {ps::Content::first, ps::Content::second}) {
    if (shard.values(content).empty()) continue;
    const ps::Piece head{
        .session = session, .content = content, .key = shard.version()};
    if (!send_values(found->second, head, shard.values(content),
                     shard.pieces())) {
      return;
    }
  }
  send(found->second, ps::State{session});
}

void PsEndpoint::forget_all() {
  members_.clear();
  peers_.clear();
}

void PsEndpoint::keep(const PsRequest& greeting) {
  if (kept_.size() >= kMostKept) kept_.erase(kept_.begin());
  kept_.push_back({greeting.peer, {}, greeting.message});
}

void throw_broken(const ps::Broken& broken) {
  if (broken.diverged) throw TrialFailure(Reason::diverged, broken.why);
  throw Error(ErrorKind::comm, broken.why);
}

}  // namespace dtune
