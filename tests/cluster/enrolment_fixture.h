// What tests of joining come to.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>

#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/cluster/join.h"
#include "dtune/comm/keys.h"

namespace dtune {

// An enrolment server on loopback and machines that come to it.
struct EnrolmentFixture {
  EnrolmentFixture() { open(); }
  // Other processes may leave tokens in `folder` / `beside`.
  explicit EnrolmentFixture(const char* beside)
      : enrolment(folder.path() / beside) {
    open();
  }

  void open() {
    access.reset();
    access = std::make_unique<EnrolmentServer>(
        EnrolmentOptions{.keys = keys,
                         .allowed_file = folder.path() / "agents",
                         .endpoint = "tcp://127.0.0.1:0",
                         .study_id = "s",
                         .enrolment = enrolment},
        clock);
    if (!enrolment.empty()) access->open_enrolment("tcp://127.0.0.1:5555");
  }

  // What the machine is told; "": it may join.
  std::string join(const std::string& machine, const std::string& token) {
    JoinOptions options;
    options.endpoint = "tcp://127.0.0.1:5555";
    options.token = token;
    options.node = machine;
    options.state = folder.path() / machine;
    options.patience = std::chrono::seconds(20);
    try {
      last = join_cluster(options, stop);
      return "";
    } catch (const Error& e) {
      kind = e.kind();
      return e.what();
    }
  }

  bool says(const std::string& text) {
    for (const std::string& notice : access->take_notices()) said += notice;
    return said.find(text) != std::string::npos;
  }

  TemporaryDirectory folder;
  const std::filesystem::path enrolment;  // "": none
  ManualClock clock;
  std::atomic<int> stop{0};
  const CurveKeys keys = generate_curve_keys();
  std::unique_ptr<EnrolmentServer> access;
  CurveClient last;
  ErrorKind kind = ErrorKind::internal;
  std::string said;
};

inline bool has(const std::string& text, const char* part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

}  // namespace dtune
