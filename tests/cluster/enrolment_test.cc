// Tokens that another process makes for a coordinator.
#include "dtune/cluster/enrolment.h"

#include "cluster/enrolment_fixture.h"
#include <doctest/doctest.h>
#include <sys/stat.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/cluster/join.h"
#include "dtune/comm/keys.h"

using namespace dtune;  // NOLINT: a test

namespace {

namespace fs = std::filesystem;

struct LocalTokens : EnrolmentFixture {
  LocalTokens() : EnrolmentFixture("door") {}

  // As another process would make it.
  std::string token() const {
    return make_token_beside(enrolment, find_enrolment(enrolment).value(),
                             kTokenLifetime, clock);
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
  CHECK(files_in(tokens.enrolment) == 1);  // "open": both secrets were taken
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
  CHECK(files_in(tokens.enrolment) == 1);
}

TEST_CASE("secrets count once, and only those that nobody else can have read") {
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
