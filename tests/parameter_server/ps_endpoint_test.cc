#include "dtune/parameter_server/ps_endpoint.h"

#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "dtune/base/clock.h"
#include "dtune/comm/zap.h"

using namespace dtune;

// A large network has more pieces than a remote peer's queue usually is long,
// and no network takes them as fast as they are made.
TEST_CASE("no piece of the weights is lost however many there are") {
  const CurveKeys keys = generate_curve_keys();
  const CurveKeys own = generate_curve_keys();
  auto allowed = std::make_shared<AllowList>();
  allowed->add(own.public_key);
  ListenOptions listen;
  listen.remote = "tcp://127.0.0.1:0";
  listen.security = ListenSecurity{keys, std::move(allowed)};
  const SocketContext context;
  PsEndpoint endpoint(context, listen);

  Socket worker(context, Socket::Kind::dealer,
                SocketOptions{.client = CurveClient{keys.public_key, own}});
  worker.connect(endpoint.endpoint());
  const MonoTime end = system_clock().now() + std::chrono::seconds(90);
  std::optional<PsRequest> hello;
  while (!hello && system_clock().now() < end) {
    worker.send(ps::encode(ps::Hello{.nonce = 1}));  // until it is connected
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    endpoint.receive_all([&](const PsRequest& request) { hello = request; });
  }
  REQUIRE(hello);

  constexpr int64_t kPieces = 20'000;
  constexpr int64_t kFloats = 100;
  const std::vector<float> values(kPieces * kFloats);
  std::vector<ps::Range> pieces;
  for (int64_t i = 0; i < kPieces; ++i) {
    pieces.push_back({i * kFloats, (i + 1) * kFloats});
  }
  CHECK(endpoint.send_values(hello->peer,
                             {.session = 1, .content = ps::Content::weights},
                             values, pieces));
  int64_t received = 0;
  while (received < kPieces && system_clock().now() < end) {
    const auto frames = worker.receive();
    if (!frames) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      continue;
    }
    const auto message = ps::decode(*frames);
    CHECK(std::get<ps::Piece>(message).offset == received * kFloats);
    ++received;
  }
  CHECK(received == kPieces);
}
