#include "dtune/study/node_address.h"

#include <doctest/doctest.h>

#include "dtune/base/error.h"

using namespace dtune;  // NOLINT: a test

TEST_CASE("addresses of nodes are read, and what ssh would misread is not") {
  const SshAddress all = parse_ssh_address("ssh://me@gpu1.lab:2222");
  CHECK(all.user == "me");
  CHECK(all.host == "gpu1.lab");
  CHECK(all.port == 2222);
  CHECK(parse_ssh_address("ssh://gpu1").host == "gpu1");
  CHECK(parse_ssh_address("ssh://me@[fe80::1%eth0]:22").host == "fe80::1%eth0");
  for (const char* bad :
       {"gpu1", "ssh://", "ssh://@h", "ssh://-oProxyCommand=x",
        "ssh://h:", "ssh://h:0", "ssh://h:65536", "ssh://h:22x", "ssh://a b",
        "ssh://h;id", "ssh://-lroot@h", "ssh://[::1", "ssh://[::1]x"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_ssh_address(bad), Error);
  }
}
