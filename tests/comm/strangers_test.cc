#include "dtune/comm/strangers.h"

#include <vector>

#include <doctest/doctest.h>

#include "dtune/comm/gateway_connection.h"

using namespace dtune;           // NOLINT: a test
using namespace dtune::gateway;  // NOLINT: a test

namespace {

using std::chrono::milliseconds;

void come(Strangers& strangers, uint64_t id, const std::string& network) {
  strangers.add(id, network);
  strangers.wait(id, network);
}

std::vector<uint64_t> opened(Strangers& strangers, MonoTime now) {
  std::vector<uint64_t> ids;
  while (const uint64_t id = strangers.next(now)) ids.push_back(id);
  return ids;
}

}  // namespace

TEST_CASE("networks take turns, each with its oldest connection") {
  Strangers strangers({.per_second = 1, .at_once = 100});
  for (uint64_t id = 1; id <= 4; ++id) come(strangers, id, "flood");
  come(strangers, 5, "a");
  come(strangers, 6, "z");
  come(strangers, 7, "z");
  CHECK(opened(strangers, MonoTime{}) ==
        std::vector<uint64_t>{5, 1, 6, 2, 7, 3, 4});
}

TEST_CASE("first messages are opened at a bounded rate") {
  ManualClock clock;
  Strangers strangers({.per_second = 10, .at_once = 3});
  for (uint64_t id = 1; id <= 50; ++id) come(strangers, id, "flood");
  clock.advance(milliseconds(1));
  CHECK(opened(strangers, clock.now()).size() == 3);
  CHECK(strangers.pause(milliseconds(1000)) == milliseconds(100));
  clock.advance(milliseconds(250));
  CHECK(opened(strangers, clock.now()).size() == 2);
  clock.advance(std::chrono::hours(1));  // nothing is saved beyond `at_once`
  CHECK(opened(strangers, clock.now()).size() == 3);
  for (uint64_t id = 1; id <= 50; ++id) strangers.remove(id, "flood");
  CHECK(strangers.pause(milliseconds(1000)) == milliseconds(1000));
  CHECK(strangers.count() == 0);
}

TEST_CASE("the network with most connections has one too many") {
  Strangers strangers({});
  CHECK(strangers.one_too_many() == 0);
  strangers.add(1, "a");
  strangers.add(2, "b");
  CHECK(strangers.one_too_many() == 1);  // the oldest
  strangers.trust("a");
  CHECK(strangers.one_too_many() == 2);
  strangers.add(3, "a");
  CHECK(strangers.count_of("a") == 2);
  CHECK(strangers.one_too_many() == 1);
  strangers.remove(1, "a");
  strangers.remove(1, "a");
  CHECK(strangers.count() == 2);
}

TEST_CASE("one host's addresses of IPv6 are one network") {
  CHECK(network_of("2001:db8:1:2:3:4:5:6") == "2001:db8:1:2::/64");
  CHECK(network_of("2001:db8:1:2::9") == "2001:db8:1:2::/64");
  CHECK(network_of("2001:db8:1:3::9") != "2001:db8:1:2::/64");
  CHECK(network_of("fe80::1%eth0") == "fe80::/64");
  CHECK(network_of("::ffff:10.0.0.1") == "::ffff:10.0.0.1");
  CHECK(network_of("10.0.0.1") == "10.0.0.1");
}
