// Tokens that another process makes for a coordinator.
#include "dtune/cluster/enrolment.h"

#include <fstream>
#include <iterator>

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
    return leave_revocation(enrolment, node, std::chrono::seconds(90));
  }
  std::vector<std::string> joined() const {
    std::vector<std::string> nodes;
    for (const AllowedKey& one : read_allowed_keys(folder.path() / "agents")) {
      nodes.push_back(one.node);
    }
    return nodes;
  }
};

size_t count_files(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

}  // namespace

TEST_CASE("a token made beside the coordinator lets one machine join") {
  LocalTokens tokens;
  CHECK(find_enrolment(tokens.enrolment)->endpoint == tokens.endpoint);
  const std::string first = tokens.token();
  const std::string second = tokens.token();
  CHECK(first != second);
  CHECK(tokens.join("gpu1", first) == "");
  // "open" and "tokens": both tokens were taken.
  CHECK(eventually([&] { return count_files(tokens.enrolment) == 2; }));
  CHECK(tokens.join("gpu2", second) == "");
  CHECK(has(tokens.join("gpu3", first), "does not accept this token"));
  CHECK(tokens.join("gpu3", tokens.access->make_token()) == "");
}

TEST_CASE("a token made beside the coordinator ends with it") {
  LocalTokens tokens;
  const std::string token = tokens.token();
  tokens.close();
  CHECK_FALSE(fs::exists(tokens.enrolment));
  CHECK_FALSE(find_enrolment(tokens.enrolment).has_value());
  leave_token(tokens.enrolment,
              {generate_curve_keys().public_key, INT64_MAX, ""});
  tokens.open();  // what was left before counts no more
  CHECK(count_files(tokens.enrolment) == 2);
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

TEST_CASE("a revocation that cannot be written down is made later") {
  LocalTokens tokens;
  REQUIRE(tokens.join("gpu1", tokens.token()) == "");
  const auto allowed = tokens.access->security().allowed;
  const fs::path agents = tokens.folder.path() / "agents";
  fs::remove(agents);
  fs::create_directories(agents / "in the way");
  write_private_file(tokens.enrolment / "early.revoke", "gpu1\n", true);
  CHECK(eventually([&] { return tokens.says("a machine is not revoked"); }));
  CHECK(allowed->size() == 1);
  fs::remove_all(agents);
  CHECK(tokens.revoke("gpu1"));
  CHECK(allowed->size() == 0);
}

TEST_CASE("tokens that cannot be listed let machines join") {
  LocalTokens tokens;
  const fs::path list = tokens.enrolment / "tokens";
  fs::remove(list);
  fs::create_directories(list / "in the way");
  CHECK(tokens.join("gpu1", tokens.access->make_token()) == "");
  CHECK(tokens.says("tokens cannot be listed"));
}

TEST_CASE("a stolen token can be revoked before it is used") {
  LocalTokens tokens;
  const std::string stolen = tokens.token();
  const std::string bound = tokens.token("gpu9");
  const auto usable = [&] { return published_tokens(tokens.enrolment); };
  CHECK(eventually([&] { return usable().size() == 2; }));
  REQUIRE(tokens.revoke(""));
  CHECK(usable().empty());
  CHECK(has(tokens.join("thief", stolen), "does not accept this token"));
  CHECK(has(tokens.join("gpu9", bound), "does not accept this token"));
}

TEST_CASE("a token for one machine lets no other in") {
  LocalTokens tokens;
  const std::string token = tokens.token("gpu1");
  CHECK(has(tokens.join("gpu2", token), "the token is for gpu1 alone"));
  CHECK(tokens.join("gpu1", token) == "");
  const std::string next = tokens.token("gpu3");
  REQUIRE(tokens.revoke("gpu3"));
  CHECK(has(tokens.join("gpu3", next), "does not accept this token"));
}

TEST_CASE("tokens count once, and only those that no other can have written") {
  const TemporaryDirectory folder;
  const IssuedToken token{generate_curve_keys().public_key, 7, "gpu1"};
  leave_token(folder.path(), token);
  const fs::path file = fs::directory_iterator(folder.path())->path();
  chmod(file.c_str(), 0644);
  CHECK(take_tokens(folder.path()).empty());
  chmod(file.c_str(), 0600);
  const auto taken = take_tokens(folder.path());
  REQUIRE(taken.size() == 1);
  CHECK(taken[0].public_key == token.public_key);
  CHECK(taken[0].expires_ms == 7);
  CHECK(taken[0].node == "gpu1");
  CHECK(take_tokens(folder.path()).empty());
  write_private_file(folder.path() / "x.token", "no key 7\n", true);
  fs::create_symlink("/dev/zero", folder.path() / "y.token");
  CHECK(take_tokens(folder.path()).empty());
  CHECK(take_tokens(folder.path() / "nowhere").empty());
}

TEST_CASE("no file beside the coordinator holds a token's secret half") {
  LocalTokens tokens;
  const JoinToken token = parse_join_token(tokens.token());
  for (const auto& entry : fs::directory_iterator(tokens.enrolment)) {
    // The coordinator may take the file away at this moment.
    std::ifstream file(entry.path());
    const std::string text(std::istreambuf_iterator<char>(file), {});
    CHECK(text.find(token.secret_key) == std::string::npos);
  }
}

TEST_CASE("an enrolment point that others may have written is refused") {
  const TemporaryDirectory folder;
  open_enrolment(folder.path(),
                 {"tcp://10.0.0.1:5555", generate_curve_keys().public_key});
  CHECK(find_enrolment(folder.path())->endpoint == "tcp://10.0.0.1:5555");
  chmod((folder.path() / "open").c_str(), 0666);
  CHECK_THROWS_WITH_AS(find_enrolment(folder.path()),
                       doctest::Contains("not written by a coordinator"),
                       Error);
  write_private_file(folder.path() / "open", "tcp://10.0.0.1:5555 key\n", true);
  CHECK_THROWS_AS(find_enrolment(folder.path()), Error);
}
