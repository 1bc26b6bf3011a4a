// Tokens that another process makes for a coordinator.
#include "dtune/cluster/doorway.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/cluster/join.h"
#include "dtune/comm/keys.h"

using namespace dtune;  // NOLINT: a test

namespace {

namespace fs = std::filesystem;

struct House {
  House() { open(); }

  void open() {
    access.reset();
    access = std::make_unique<ClusterAccess>(
        AccessOptions{.keys = keys,
                      .allowed_file = folder.path() / "agents",
                      .endpoint = "tcp://127.0.0.1:0",
                      .study_id = "s",
                      .doorway = door});
    access->open_doorway("tcp://127.0.0.1:5555");
  }

  // As another process would; what the machine is told, "": it may join.
  std::string join(const std::string& machine, const std::string& token) {
    JoinOptions options;
    options.endpoint = "tcp://127.0.0.1:5555";
    options.token = token;
    options.node = machine;
    options.state = folder.path() / machine;
    options.patience = std::chrono::seconds(20);
    try {
      join_cluster(options, stop);
      return "";
    } catch (const Error& e) {
      return e.what();
    }
  }

  std::string token() const {
    return make_token_beside(door, find_doorway(door).value());
  }

  TemporaryDirectory folder;
  const fs::path door = folder.path() / "door";
  std::atomic<int> stop{0};
  const CurveKeys keys = generate_curve_keys();
  std::unique_ptr<ClusterAccess> access;
};

bool has(const std::string& text, const char* part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

size_t files_in(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

}  // namespace

TEST_CASE("a token made beside the coordinator lets one machine join") {
  House house;
  CHECK(find_doorway(house.door)->endpoint == "tcp://127.0.0.1:5555");
  const std::string first = house.token();
  const std::string second = house.token();
  CHECK(first != second);
  CHECK(house.join("gpu1", first) == "");
  CHECK(files_in(house.door) == 1);  // "open": both secrets were taken
  CHECK(house.join("gpu2", second) == "");
  CHECK(has(house.join("gpu3", first), "the token was used by gpu1"));
  CHECK(house.join("gpu3", house.access->make_token()) == "");
}

TEST_CASE("a token made beside the coordinator ends with it") {
  House house;
  const std::string token = house.token();
  house.access.reset();
  CHECK_FALSE(fs::exists(house.door));
  CHECK_FALSE(find_doorway(house.door).has_value());
  leave_secret(house.door, make_join_secret(INT64_MAX));
  house.open();  // what was left before counts no more
  CHECK(files_in(house.door) == 1);
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

TEST_CASE("a doorway that others may have written is refused") {
  const TemporaryDirectory folder;
  open_doorway(folder.path(),
               {"tcp://10.0.0.1:5555", 4711, generate_curve_keys().public_key});
  CHECK(find_doorway(folder.path())->port == 4711);
  chmod((folder.path() / "open").c_str(), 0666);
  CHECK_THROWS_WITH_AS(find_doorway(folder.path()),
                       doctest::Contains("not written by a coordinator"),
                       Error);
  write_private_file(folder.path() / "open", "tcp://10.0.0.1:5555 1 key\n",
                     true);
  CHECK_THROWS_AS(find_doorway(folder.path()), Error);
}
