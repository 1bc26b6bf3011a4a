// Tokens, enrolment and the keys that are kept.
#include "dtune/cluster/join.h"

#include "cluster/enrolment_fixture.h"
#include "eventually.h"
#include <doctest/doctest.h>
#include <sys/stat.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/cluster/protocol.h"
#include "dtune/comm/keys.h"
#include "dtune/comm/monitor.h"

using namespace dtune;  // NOLINT: a test

TEST_CASE("a token holds the key of its coordinator and one of its own") {
  const JoinToken token{generate_curve_keys().public_key,
                        generate_curve_keys().secret_key};
  const JoinToken read = parse_join_token("  " + token.text() + "\n");
  CHECK(read.server_key == token.server_key);
  CHECK(read.secret_key == token.secret_key);
  const std::string text = token.text();
  for (const std::string& wrong :
       {std::string(), std::string("dtune2"), text.substr(1), text + "0",
        "dtune1-5555" + text.substr(6), "dtune2-x" + text.substr(8),
        text.substr(0, 20) + "g" + text.substr(21), text + "-"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_join_token(wrong), Error);
  }
  CHECK_THROWS_WITH_AS(parse_join_token("x", "my.token"),
                       doctest::Contains("my.token: is not a join token ("),
                       Error);
}

TEST_CASE("a machine with a token is allowed and remembered") {
  EnrolmentFixture fixture;
  CHECK(fixture.join("gpu1", fixture.access->make_token()) == "");
  const auto allowed = fixture.access->security().allowed;
  CHECK(allowed->contains(fixture.last.keys.public_key));
  CHECK(fixture.last.server_key == fixture.keys.public_key);
  CHECK(fixture.says("gpu1 has joined"));
  struct stat info {};
  REQUIRE(stat((fixture.folder.path() / "agents").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  const CurveClient before = fixture.last;
  fixture.open();  // the coordinator's next run
  CHECK(fixture.access->security().allowed->contains(before.keys.public_key));
  CHECK(fixture.join("gpu1", "") == "");  // needs no token now
  CHECK(fixture.last.keys.public_key == before.keys.public_key);
}

TEST_CASE("a token lets one machine in, which may use it again") {
  EnrolmentFixture fixture;
  const std::string token = fixture.access->make_token();
  CHECK(fixture.join("gpu1", token) == "");
  const CurveClient first = fixture.last;
  CHECK(fixture.join("gpu1", token) == "");
  CHECK(fixture.last.keys.public_key == first.keys.public_key);
  CHECK_FALSE(fixture.says("may not join"));
  CHECK(fixture.access->security().allowed->take_refusals().empty());
  const std::string why = fixture.join("gpu2", token);
  CHECK(has(why, "does not accept this token: it was used"));
  CHECK(has(why, "needs a fresh token"));
  CHECK(fixture.kind == ErrorKind::config);
  CHECK(fixture.access->security().allowed->size() == 1);
  CHECK(fixture.says("a machine may not join: the token was used by gpu1"));
}

TEST_CASE("a token that is old or of another run is refused") {
  EnrolmentFixture fixture;
  const std::string token = fixture.access->make_token(std::chrono::hours(1));
  fixture.clock.advance(std::chrono::hours(2));
  CHECK(has(fixture.join("gpu1", token), "does not accept this token"));
  CHECK(fixture.says("a machine may not join: the token expired at"));
  JoinToken other = parse_join_token(token);
  other.secret_key = generate_curve_keys().secret_key;
  CHECK(has(fixture.join("gpu1", other.text()), "does not accept this token"));
  CHECK(fixture.access->security().allowed->size() == 0);
}

// The handshake fails, so that nothing can be sent at all.
TEST_CASE("only tokens that are good get past the handshake") {
  EnrolmentFixture fixture("door");
  const auto opens = [&](const std::string& text) {
    const JoinToken token = parse_join_token(text);
    SocketOptions options;
    options.client = CurveClient{
        token.server_key, {public_key_of(token.secret_key), token.secret_key}};
    const SocketContext context;
    Socket socket(context, Socket::Kind::dealer, options);
    ConnectionMonitor monitor(context, socket);
    socket.connect(fixture.endpoint);
    std::vector<ConnectionEvent> events;
    CHECK(eventually([&] {
      for (const ConnectionEvent event : monitor.take()) {
        events.push_back(event);
      }
      return !events.empty();
    }));
    REQUIRE(!events.empty());
    CHECK((events[0] == ConnectionEvent::established ||
           events[0] == ConnectionEvent::denied));
    return events[0] == ConnectionEvent::established;
  };
  const std::string used = fixture.access->make_token();
  CHECK(opens(used));
  REQUIRE(fixture.join("gpu1", used) == "");
  CHECK_FALSE(opens(used));
  const std::string revoked = fixture.access->make_token();
  CHECK(opens(revoked));
  REQUIRE(leave_revocation(fixture.enrolment, "", std::chrono::seconds(90)));
  CHECK_FALSE(opens(revoked));
  const std::string expired = fixture.access->make_token(std::chrono::hours(1));
  const std::string good = fixture.access->make_token(std::chrono::hours(3));
  fixture.clock.advance(std::chrono::hours(2));
  CHECK_FALSE(opens(expired));
  CHECK(opens(good));
  const JoinToken foreign{fixture.keys.public_key,
                          generate_curve_keys().secret_key};
  CHECK_FALSE(opens(foreign.text()));
}

// What it says beside `enrol` is neither heard nor answered.
TEST_CASE("a token may enrol and do nothing else") {
  EnrolmentFixture fixture;
  const JoinToken token = parse_join_token(fixture.access->make_token());
  SocketOptions options;
  options.client = CurveClient{
      token.server_key, {public_key_of(token.secret_key), token.secret_key}};
  Socket guest(fixture.context, Socket::Kind::dealer, options);
  guest.connect(fixture.endpoint);
  for (const std::string& bytes :
       {std::string(), std::string(1, '\xff'), std::string(900, 'x'),
        std::string(5000, '\0'), encode(control::Hello{.node = "x"}),
        encode(control::Heartbeat{})}) {
    CHECK(eventually([&] { return guest.send(Frames{bytes}); }));
  }
  REQUIRE(fixture.join("gpu1", fixture.access->make_token()) == "");
  CHECK(fixture.heard == 0);
  CHECK(fixture.access->security().allowed->size() == 1);
}

TEST_CASE("a token of another coordinator's key is noticed by the machine") {
  EnrolmentFixture fixture;
  JoinToken token = parse_join_token(fixture.access->make_token());
  token.server_key = generate_curve_keys().public_key;
  CHECK(has(fixture.join("gpu1", token.text()),
            "is not the coordinator that made the token"));
}

TEST_CASE("a machine that has never joined needs a token") {
  EnrolmentFixture fixture;
  const std::string why = fixture.join("gpu1", "");
  CHECK(has(why, "has not joined there before"));
  CHECK(has(why, "--token-file"));
  CHECK(fixture.kind == ErrorKind::config);
}

TEST_CASE("no coordinator at the other end is reported as such") {
  EnrolmentFixture fixture;
  JoinToken token = parse_join_token(fixture.access->make_token());
  fixture.close();
  JoinOptions options;
  options.endpoint = fixture.endpoint;
  options.token = token.text();
  options.state = fixture.folder.path() / "x";
  options.patience = std::chrono::milliseconds(700);
  try {
    join_cluster(options, fixture.stop);
    FAIL("joined without a coordinator");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::temporary);
    CHECK(has(e.what(), "there is no answer at this address"));
  }
}

TEST_CASE("keys that others can read are refused") {
  const TemporaryDirectory folder;
  const auto path = folder.path() / "sub" / "dtune.key";
  const CurveKeys keys = generate_curve_keys();
  write_secret_key(path, keys);
  CHECK(read_secret_key(path).public_key == keys.public_key);
  CHECK(load_cluster_keys(path.parent_path()).secret_key == keys.secret_key);
  CHECK_THROWS_WITH_AS(write_secret_key(path, keys),
                       doctest::Contains("exists already"), Error);
  REQUIRE(chmod(path.c_str(), 0640) == 0);
  CHECK_THROWS_WITH_AS(read_secret_key(path), doctest::Contains("chmod 600"),
                       Error);
  CHECK_THROWS_WITH_AS(read_secret_key(folder.path() / "none"),
                       doctest::Contains("dtune keygen"), Error);
}
