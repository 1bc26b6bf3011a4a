// Tokens that another process makes for a coordinator.
#include "dtune/cluster/enrolment.h"

#include "cluster/enrolment_fixture.h"
#include "eventually.h"
#include <doctest/doctest.h>
#include <sys/stat.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/cluster/allowed_keys.h"
#include "dtune/cluster/join.h"
#include "dtune/comm/keys.h"

using namespace dtune;  // NOLINT: a test

namespace {

namespace fs = std::filesystem;

struct LocalTokens : EnrolmentFixture {
  LocalTokens() : EnrolmentFixture("door") {}

  // As another process would make it.
  std::string token(const std::string& node = "") const {
    return make_token_beside(enrolment, find_enrolment(enrolment).value(), node,
                             kTokenLifetime, clock);
  }
  bool revoke(const std::string& node) const {
    return leave_revocation(enrolment, node, std::chrono::seconds(20));
  }
  std::vector<std::string> joined() const {
    std::vector<std::string> nodes;
    for (const AllowedKey& one : read_allowed_keys(folder.path() / "agents")) {
      nodes.push_back(one.node);
    }
    return nodes;
  }
};

size_t files_in(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

}  // namespace

TEST_CASE("a token made beside the coordinator lets one machine join") {
  LocalTokens tokens;
  CHECK(find_enrolment(tokens.enrolment)->endpoint == "tcp://127.0.0.1:5555");
  const std::string first = tokens.token();
  const std::string second = tokens.token();
  CHECK(first != second);
  CHECK(tokens.join("gpu1", first) == "");
  // "open" and "tokens": both secrets were taken.
  CHECK(eventually([&] { return files_in(tokens.enrolment) == 2; }));
  CHECK(tokens.join("gpu2", second) == "");
  CHECK(has(tokens.join("gpu3", first), "the token was used by gpu1"));
  CHECK(tokens.join("gpu3", tokens.access->make_token()) == "");
}

TEST_CASE("a token made beside the coordinator ends with it") {
  LocalTokens tokens;
  const std::string token = tokens.token();
  tokens.access.reset();
  CHECK_FALSE(fs::exists(tokens.enrolment));
  CHECK_FALSE(find_enrolment(tokens.enrolment).has_value());
  leave_secret(tokens.enrolment, make_join_secret(INT64_MAX));
  tokens.open();  // what was left before counts no more
  CHECK(files_in(tokens.enrolment) == 2);
}

TEST_CASE("a machine that was revoked is out at once, and stays out") {
  LocalTokens tokens;
  REQUIRE(tokens.join("gpu1", tokens.token()) == "");
  REQUIRE(tokens.join("gpu2", tokens.token()) == "");
  const auto allowed = tokens.access->security().allowed;
  CHECK(allowed->size() == 2);
  const std::string key =
      read_allowed_keys(tokens.folder.path() / "agents").front().key;
  REQUIRE(tokens.revoke("gpu1"));
  CHECK_FALSE(allowed->contains(key));
  CHECK(tokens.joined() == std::vector<std::string>{"gpu2"});
  CHECK(eventually([&] { return tokens.says("gpu1 is revoked"); }));
  // A machine that joins later does not bring it back; nor does the next run.
  REQUIRE(tokens.join("gpu3", tokens.token()) == "");
  tokens.open();
  CHECK_FALSE(tokens.access->security().allowed->contains(key));
  CHECK(tokens.joined() == std::vector<std::string>{"gpu2", "gpu3"});
}

TEST_CASE("a stolen token can be revoked before it is used") {
  LocalTokens tokens;
  const std::string stolen = tokens.token();
  const std::string bound = tokens.token("gpu9");
  const auto usable = [&] { return published_tokens(tokens.enrolment); };
  CHECK(eventually([&] { return usable().size() == 2; }));
  REQUIRE(tokens.revoke(""));
  CHECK(usable().empty());
  CHECK(has(tokens.join("thief", stolen), "the token is unknown here"));
  CHECK(has(tokens.join("gpu9", bound), "the token is unknown here"));
}

TEST_CASE("a token for one machine lets no other in") {
  LocalTokens tokens;
  const std::string token = tokens.token("gpu1");
  CHECK(has(tokens.join("gpu2", token), "the token is for gpu1 alone"));
  CHECK(tokens.join("gpu1", token) == "");
  const std::string next = tokens.token("gpu3");
  REQUIRE(tokens.revoke("gpu3"));
  CHECK(has(tokens.join("gpu3", next), "the token is unknown here"));
}

TEST_CASE("secrets count once, and only those that no other can have read") {
  const TemporaryDirectory folder;
  const JoinSecret secret = make_join_secret(7);
  CHECK(secret.text.size() == 32);
  leave_secret(folder.path(), secret);
  const fs::path file = fs::directory_iterator(folder.path())->path();
  CHECK(file.string().find(secret.text) == std::string::npos);
  chmod(file.c_str(), 0644);
  CHECK(take_secrets(folder.path()).empty());
  chmod(file.c_str(), 0600);
  const auto taken = take_secrets(folder.path());
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].text == secret.text);
  CHECK(taken[0].expires_ms == 7);
  CHECK(take_secrets(folder.path()).empty());
  write_private_file(folder.path() / "x.token", "no secret\n", true);
  fs::create_symlink("/dev/zero", folder.path() / "y.token");
  CHECK(take_secrets(folder.path()).empty());
  CHECK(take_secrets(folder.path() / "nowhere").empty());
}

TEST_CASE("an enrolment point that others may have written is refused") {
  const TemporaryDirectory folder;
  open_enrolment(folder.path(), {"tcp://10.0.0.1:5555", 4711,
                                 generate_curve_keys().public_key});
  CHECK(find_enrolment(folder.path())->port == 4711);
  chmod((folder.path() / "open").c_str(), 0666);
  CHECK_THROWS_WITH_AS(find_enrolment(folder.path()),
                       doctest::Contains("not written by a coordinator"),
                       Error);
  write_private_file(folder.path() / "open", "tcp://10.0.0.1:5555 1 key\n",
                     true);
  CHECK_THROWS_AS(find_enrolment(folder.path()), Error);
}
