#include "dtune/comm/unknown_connections.h"

#include <vector>

#include <doctest/doctest.h>

#include "dtune/comm/gateway_connection.h"

using namespace dtune;           // NOLINT: a test
using namespace dtune::gateway;  // NOLINT: a test

namespace {

using std::chrono::milliseconds;

void come(UnknownConnections& unknown, uint64_t id,
          const std::string& network) {
  unknown.add(id, network);
  unknown.wait(id, network);
}

std::vector<uint64_t> opened(UnknownConnections& unknown, MonoTime now) {
  std::vector<uint64_t> ids;
  while (const uint64_t id = unknown.next(now)) ids.push_back(id);
  return ids;
}

}  // namespace

TEST_CASE("networks take turns, each with its oldest connection") {
  UnknownConnections unknown({.per_second = 1, .at_once = 100});
  for (uint64_t id = 1; id <= 4; ++id) come(unknown, id, "flood");
  come(unknown, 5, "a");
  come(unknown, 6, "z");
  come(unknown, 7, "z");
  CHECK(opened(unknown, MonoTime{}) ==
        std::vector<uint64_t>{5, 1, 6, 2, 7, 3, 4});
}

TEST_CASE("first messages are opened at a bounded rate") {
  ManualClock clock;
  UnknownConnections unknown({.per_second = 10, .at_once = 3});
  for (uint64_t id = 1; id <= 50; ++id) come(unknown, id, "flood");
  clock.advance(milliseconds(1));
  CHECK(opened(unknown, clock.now()).size() == 3);
  CHECK(unknown.pause(milliseconds(1000)) == milliseconds(100));
  clock.advance(milliseconds(250));
  CHECK(opened(unknown, clock.now()).size() == 2);
  clock.advance(std::chrono::hours(1));  // nothing is saved beyond `at_once`
  CHECK(opened(unknown, clock.now()).size() == 3);
  for (uint64_t id = 1; id <= 50; ++id) unknown.remove(id, "flood");
  CHECK(unknown.pause(milliseconds(1000)) == milliseconds(1000));
  CHECK(unknown.count() == 0);
}

TEST_CASE("the network with most connections has one too many") {
  UnknownConnections unknown({});
  CHECK(unknown.one_too_many() == 0);
  unknown.add(1, "a");
  unknown.add(2, "b");
  CHECK(unknown.one_too_many() == 1);  // the oldest
  unknown.trust("a");
  CHECK(unknown.one_too_many() == 2);
  unknown.add(3, "a");
  CHECK(unknown.count_of("a") == 2);
  CHECK(unknown.one_too_many() == 1);
  unknown.remove(1, "a");
  unknown.remove(1, "a");
  CHECK(unknown.count() == 2);
}

TEST_CASE("one host's addresses of IPv6 are one network") {
  CHECK(network_of("2001:db8:1:2:3:4:5:6") == "2001:db8:1:2::/64");
  CHECK(network_of("2001:db8:1:2::9") == "2001:db8:1:2::/64");
  CHECK(network_of("2001:db8:1:3::9") != "2001:db8:1:2::/64");
  CHECK(network_of("fe80::1%eth0") == "fe80::/64");
  CHECK(network_of("::ffff:10.0.0.1") == "::ffff:10.0.0.1");
  CHECK(network_of("10.0.0.1") == "10.0.0.1");
}
