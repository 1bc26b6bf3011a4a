// Tokens, enrolment and the keys that are kept.
#include "dtune/cluster/join.h"

#include "cluster/enrolment_fixture.h"
#include <doctest/doctest.h>
#include <sys/stat.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/comm/endpoint.h"
#include "dtune/comm/keys.h"

using namespace dtune;  // NOLINT: a test

TEST_CASE("a token says the port and the key of its coordinator") {
  const JoinToken token{5556, generate_curve_keys().public_key,
                        std::string(32, 'a')};
  const JoinToken read = parse_join_token("  " + token.text() + "\n");
  CHECK(read.port == 5556);
  CHECK(read.server_key == token.server_key);
  CHECK(read.secret == token.secret);
  const std::string text = token.text();
  for (const std::string& wrong :
       {std::string(), std::string("dtune1"), text.substr(1), text + "0",
        "dtune1-0" + text.substr(11), "dtune1-x" + text.substr(11),
        text.substr(0, 20) + "g" + text.substr(21), text + "-"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(parse_join_token(wrong), Error);
  }
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
  CHECK(fixture.join("gpu1", token) == "");
  const std::string why = fixture.join("gpu2", token);
  CHECK(has(why, "the token was used by gpu1"));
  CHECK(has(why, "needs a fresh token"));
  CHECK(fixture.kind == ErrorKind::config);
  CHECK(fixture.access->security().allowed->size() == 1);
  CHECK(fixture.says("gpu2 may not join: the token was used by gpu1"));
}

TEST_CASE("a token that is old or of another run is refused") {
  EnrolmentFixture fixture;
  const std::string token = fixture.access->make_token(std::chrono::hours(1));
  fixture.clock.advance(std::chrono::hours(2));
  CHECK(has(fixture.join("gpu1", token), "the token expired at"));
  JoinToken other = parse_join_token(token);
  other.secret = std::string(32, '0');
  CHECK(has(fixture.join("gpu1", other.text()), "the token is unknown here"));
  CHECK(fixture.access->security().allowed->size() == 0);
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
  fixture.access.reset();
  JoinOptions options;
  options.endpoint = "tcp://127.0.0.1:5555";
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

TEST_CASE("the enrolment server survives what is no request") {
  EnrolmentFixture fixture;
  const CurveKeys mine = generate_curve_keys();
  const SocketContext context;
  SocketOptions socket;
  socket.client = CurveClient{fixture.keys.public_key, mine};
  Socket stranger(context, Socket::Kind::dealer, socket);
  stranger.connect(fixture.access->endpoint());
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{900}, size_t{5000}}) {
    const MonoTime end = system_clock().now() + std::chrono::seconds(20);
    while (!stranger.send(Frames{std::string(bytes, '\xff')}) &&
           system_clock().now() < end) {
    }
  }
  CHECK(fixture.join("gpu1", fixture.access->make_token()) == "");
  CHECK(fixture.access->security().allowed->size() == 1);
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
