// What tests of joining come to.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include "dtune/base/error.h"
#include "dtune/base/file.h"
#include "dtune/cluster/join.h"
#include "dtune/comm/keys.h"
#include "dtune/comm/listener.h"

namespace dtune {

// A coordinator's port on loopback and machines that come to it.
struct EnrolmentFixture {
  EnrolmentFixture() { open(); }
  // Other processes may leave tokens in `folder` / `beside`.
  explicit EnrolmentFixture(const char* beside)
      : enrolment(folder.path() / beside) {
    open();
  }

  ~EnrolmentFixture() { close(); }

  void close() {
    closing = true;
    if (thread.joinable()) thread.join();
    listener.reset();
    access.reset();
  }

  // Again: at the same port.
  void open() {
    close();
    access = std::make_unique<EnrolmentServer>(
        EnrolmentOptions{.keys = keys,
                         .allowed_file = folder.path() / "agents",
                         .study_id = "s",
                         .enrolment = enrolment},
        clock);
    listener = std::make_unique<Listener>(
        context,
        ListenOptions{.remote = endpoint, .security = access->security()});
    endpoint = listener->remote_endpoint();
    if (!enrolment.empty()) access->open_enrolment(endpoint);
    closing = false;
    thread = std::thread([this] { listen(); });
  }

  // As the coordinator does.
  void listen() {
    while (!closing) {
      PollSet polls;
      listener->add_to(polls);
      polls.wait(std::chrono::milliseconds(20));
      listener->receive_all([this](const Frames&) { ++heard; });
    }
  }

  // The error that the machine gets; "": it may join.
  std::string join(const std::string& machine, const std::string& token) {
    JoinOptions options;
    options.endpoint = endpoint;
    options.token = token;
    options.node = machine;
    options.state = folder.path() / machine;
    options.patience = std::chrono::seconds(90);
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
  const SocketContext context;
  std::string endpoint = "tcp://127.0.0.1:0";
  std::unique_ptr<Listener> listener;
  std::atomic<bool> closing{false};
  std::atomic<int> heard{0};  // messages of machines that are allowed
  std::thread thread;
  CurveClient last;
  ErrorKind kind = ErrorKind::internal;
  std::string said;
};

inline bool has(const std::string& text, const char* part) {
  CAPTURE(text);
  return text.find(part) != std::string::npos;
}

}  // namespace dtune
