#include "dtune/cluster/job_key.h"

#include <string>

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"

using namespace dtune;  // NOLINT: a test

namespace {

std::string job_key_error(const std::string& text) {
  try {
    parse_job_key(text, "x");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::config);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a job's key is read as it was written, privately") {
  const TemporaryDirectory folder;
  const auto file = folder.path() / "new" / "job.key";
  JobKey key = make_job_key();
  key.endpoint = "tcp://10.0.0.1:5555";
  key.port = 5555;
  write_job_key(file, key);
  struct stat info {};
  REQUIRE(stat(file.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  const JobKey read = read_job_key(file.string());
  CHECK(read.server.secret_key == key.server.secret_key);
  CHECK(read.agents.public_key == key.agents.public_key);
  CHECK(read.agents.secret_key == key.agents.secret_key);
  CHECK(read.endpoint == key.endpoint);
  CHECK(read.port == 5555);
  CHECK(read.client().server_key == key.server.public_key);
}

TEST_CASE("agents do not get the coordinator's secret") {
  const JobKey key = make_job_key();
  const std::string text = key.for_agents().text();
  CHECK(text.find(key.server.secret_key) == std::string::npos);
  const JobKey read = parse_job_key(text, "x");
  CHECK(read.server.secret_key.empty());
  CHECK(read.server.public_key == key.server.public_key);
  CHECK(read.agents.secret_key == key.agents.secret_key);
}

TEST_CASE("a file that is no job key, or that others read, is refused") {
  const JobKey key = make_job_key();
  CHECK(job_key_error("").find("holds no job key") != std::string::npos);
  const std::string broken = "dtune-job-server abc def\n" + key.text();
  CHECK(job_key_error(broken).find("holds no job key") != std::string::npos);
  // What was read is never said.
  CHECK(job_key_error(broken).find("abc") == std::string::npos);
  const TemporaryDirectory folder;
  const auto file = folder.path() / "open";
  write_file_atomic(file, key.text(), false);
  chmod(file.c_str(), 0644);
  CHECK_THROWS_WITH_AS(
      read_job_key(file.string()),
      doctest::Contains("holds a secret but other users can read it"), Error);
  CHECK_THROWS_WITH_AS(read_job_key((folder.path() / "none").string()),
                       doctest::Contains("there is no such job key"), Error);
}
